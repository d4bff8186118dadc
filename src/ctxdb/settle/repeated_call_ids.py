"""Calls and results of ids that repeat, paired again over all of a session's lines.

Other providers than Anthropic count their tool calls from 0 in every reply, so an id alone does not
say which result belongs to which call, and neither does the order of arrival: calls and results can
come from several files, and change hands. Whenever one of them has come or moved, all of its
session and id are paired again, in the order a person reads them (`pair` in rules/calls.py).
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.columns import all_columns
from ctxdb.rows import ToolUse
from ctxdb.rules.calls import Half, Place, join, pair, split
from ctxdb.settle.calls import GIT_REPORTED
from ctxdb.store.insert import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxdb.settle.calls import StoredCalls
    from ctxdb.settle.touched import Touched

_PLACE = (
    "SELECT m.session_id, m.agent_id, m.turn_id, f.path || f.machine, m.byte_start FROM messages m"
    " LEFT JOIN source_files f ON f.id = m.source_file_id WHERE m.id = ?"
)
_COMPARED = tuple(name for name in all_columns(ToolUse) if name != "id")


def pair_again(conn: sqlite3.Connection, calls: StoredCalls, touched: Touched) -> None:
    """Pair what the batch has touched of ids that repeat."""
    sessions: dict[str, set[str | None]] = {}
    for session_id, tool_use_id in touched.pairs:
        sessions.setdefault(tool_use_id, set()).add(session_id)
    for tool_use_id in sorted(sessions):
        _Group(conn, calls, sessions[tool_use_id], tool_use_id).settle()
    touched.pairs.clear()


def _sessions_of(*halves: Half | None) -> set[str | None]:
    return {half.tool.session_id for half in halves if half is not None}


def _add_sessions_beside(
    sessions: set[str | None], rows: list[tuple[Half | None, Half | None]]
) -> None:
    """Add the sessions whose halves are in a row with halves of these sessions."""
    together = [_sessions_of(*halves) for halves in rows if len(_sessions_of(*halves)) > 1]
    size = 0
    while size < len(sessions):
        size = len(sessions)
        for both in together:
            if both & sessions:
                sessions |= both


class _Row(NamedTuple):
    """A row with the call and the result in it."""

    tool: ToolUse
    call: Half | None
    result: Half | None


class _Group:
    """All rows of an id that hold a call or a result of some sessions.

    Where an entry has changed hands, a row may hold halves of two sessions until it is settled
    here: then both sessions are paired together.
    """

    def __init__(
        self,
        conn: sqlite3.Connection,
        stored: StoredCalls,
        sessions: set[str | None],
        tool_use_id: str,
    ) -> None:
        self.conn = conn
        self.stored = stored
        self.tool_use_id = tool_use_id
        self.rows: dict[int, ToolUse] = {}
        self.calls: dict[int, Half] = {}  # by message: a merged entry may have left two rows
        self.results: dict[int, Half] = {}
        # What each row should hold.
        self.call_of: dict[int, Half | None] = {}
        self.result_of: dict[int, Half | None] = {}
        found: list[_Row] = []
        loaded: set[str | None] = set()
        while more := sessions - loaded:
            for session_id in more:
                found += self._of_session(session_id)
            loaded |= more
            _add_sessions_beside(sessions, [(row.call, row.result) for row in found])
        for tool, call, result in sorted(found, key=lambda row: row.tool.id):
            if not _sessions_of(call, result) & sessions:
                continue
            self.rows[tool.id] = tool
            self.call_of[tool.id] = self.result_of[tool.id] = None
            if call is not None:
                self.calls.setdefault(call.message_id, call)
            if result is not None:
                self.results.setdefault(result.message_id, result)

    def _of_session(self, session_id: str | None) -> Iterator[_Row]:
        """The rows of a session. The id is in other sessions too: those are not read."""
        where = "WHERE t.tool_use_id = ? AND t.session_id IS ?"
        for tool in load(self.conn, ToolUse, where, (self.tool_use_id, session_id)):
            tool.is_stored = True
            made, answered = split(tool)
            call = self._half(tool.id, tool.message_id, made)
            result = self._half(tool.id, tool.result_message_id, answered)
            yield _Row(tool, call, result)

    def _half(self, row: int, message_id: int | None, half: ToolUse | None) -> Half | None:
        if message_id is None or half is None:
            return None
        found = self.conn.execute(_PLACE, (message_id,)).fetchone() or (None,) * 5
        half.session_id, half.agent_id, half.turn_id, path, start = found
        return Half(row, message_id, Place(path or "", start or 0), half)

    def settle(self) -> None:
        """Bring the rows to what they should hold."""
        for call in self.calls.values():
            self.call_of[call.row] = call
        halves = [*self.calls.values(), *self.results.values()]
        for session_id in sorted(_sessions_of(*halves), key=repr):
            own = [half for half in halves if half.tool.session_id == session_id]
            pairs, left = pair(own)
            for call, result in pairs:
                self.result_of[call.row] = result
            for result in left:
                self._keep_alone(result)
        # The empty ones last: what came of a result is still found at the row it leaves.
        for row in sorted(self.result_of, key=self._is_empty):
            self._write(row)
        self.stored.write()

    def _keep_alone(self, result: Half) -> None:
        """A result without a call stays in its row, if no call is there."""
        row = result.row
        if self.call_of[row] is not None or self.result_of[row] is not None:
            row = self.stored.new_row(self.tool_use_id).id
            self.call_of[row] = None
        self.result_of[row] = result

    def _is_empty(self, row: int) -> bool:
        return self.call_of[row] is None and self.result_of[row] is None

    def _write(self, row: int) -> None:
        call, result = self.call_of.get(row), self.result_of.get(row)
        old = self.rows.get(row)
        if old is not None:
            self.stored.note_lists([old])
            self.stored.touched.changed.add(old.session_id)
        if self._is_empty(row):
            for table in ("files_touched", "git_operations", "_tool_results"):
                self.conn.execute(f"DELETE FROM {table} WHERE tool_id = ?", (row,))
            self.conn.execute("DELETE FROM tool_uses WHERE id = ?", (row,))
            return
        tool = join(
            self.tool_use_id,
            None if call is None else call.tool,
            None if result is None else result.tool,
        )
        tool.id, tool.is_stored = row, old is not None
        if result is not None and (old is None or result.row != row):
            tool.git = self.conn.execute(GIT_REPORTED, (result.row,)).fetchall()
        if old is None or any(getattr(tool, n) != getattr(old, n) for n in _COMPARED):
            self.stored.change(tool)
