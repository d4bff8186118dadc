"""Calls and results of ids that repeat, paired again over all of a session's lines.

Other providers than Anthropic count their tool calls from 0 in every reply, so an id alone does not
say which result belongs to which call, and neither does the order of arrival: calls and results can
come from several files, and change hands. Whenever one of them has come or moved, all of its
session and id are paired again, in the order a person reads them: a result belongs to the last call
before it that has none yet; one that is before every open call, to the first of these.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.rows import ToolUse, all_columns
from ctxdb.rules.calls import join, split
from ctxdb.store.insert import load

if TYPE_CHECKING:
    from ctxdb.settle.calls import StoredCalls
    from ctxdb.settle.touched import Touched

_PLACE = (
    "SELECT m.session_id, m.agent_id, m.turn_id, f.path, m.byte_start FROM messages m"
    " LEFT JOIN source_files f ON f.id = m.source_file_id WHERE m.id = ?"
)
_COMPARED = tuple(name for name in all_columns(ToolUse) if name != "id")


class Place(NamedTuple):
    """Where a half is, in reading order."""

    path: str
    byte_start: int


@dataclass(slots=True)
class _Half:
    """A call or a result, with the row it is in and where it is."""

    row: int
    message_id: int
    place: Place
    tool: ToolUse


def pair_again(conn: sqlite3.Connection, calls: StoredCalls, touched: Touched) -> None:
    """Pair what the batch has touched of ids that repeat."""
    for session_id, tool_use_id in sorted(touched.pairs, key=repr):
        _Group(conn, calls, session_id, tool_use_id).settle()
    touched.pairs.clear()


class _Group:
    """All rows of an id that hold a call or a result of one session."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        stored: StoredCalls,
        session_id: str | None,
        tool_use_id: str,
    ) -> None:
        self.conn = conn
        self.stored = stored
        self.tool_use_id = tool_use_id
        self.rows: dict[int, ToolUse] = {}
        self.calls: dict[int, _Half] = {}  # by message: a merged entry may have left two rows
        self.results: dict[int, _Half] = {}
        # What each row should hold: halves of other sessions stay where they are.
        self.call_of: dict[int, _Half | None] = {}
        self.result_of: dict[int, _Half | None] = {}
        for tool in load(conn, ToolUse, "WHERE t.tool_use_id = ? ORDER BY t.id", (tool_use_id,)):
            tool.is_stored = True
            made, answered = split(tool)
            call = self._half(tool.id, tool.message_id, made)
            result = self._half(tool.id, tool.result_message_id, answered)
            own_call = call is not None and call.tool.session_id == session_id
            own_result = result is not None and result.tool.session_id == session_id
            if not own_call and not own_result:
                continue
            self.rows[tool.id] = tool
            self.call_of[tool.id] = None if own_call else call
            self.result_of[tool.id] = None if own_result else result
            if own_call and call is not None:
                self.calls.setdefault(call.message_id, call)
            if own_result and result is not None:
                self.results.setdefault(result.message_id, result)

    def _half(self, row: int, message_id: int | None, half: ToolUse | None) -> _Half | None:
        if message_id is None or half is None:
            return None
        found = self.conn.execute(_PLACE, (message_id,)).fetchone() or (None,) * 5
        half.session_id, half.agent_id, half.turn_id, path, start = found
        return _Half(row, message_id, Place(path or "", start or 0), half)

    def settle(self) -> None:
        """Bring the rows to what they should hold."""
        for call in self.calls.values():
            self.call_of[call.row] = call
        left: list[_Half] = []
        for result in sorted(self.results.values(), key=lambda half: half.place):
            meant = self._open_call(result)
            if meant is None:
                left.append(result)
            else:
                self.result_of[meant.row] = result
        for result in left:
            waiting = [call for call in self._in_order() if self.result_of[call.row] is None]
            if waiting:
                self.result_of[next(iter(waiting)).row] = result
                continue
            row = result.row
            if self.call_of[row] is not None or self.result_of[row] is not None:
                row = self.stored.new_row(self.tool_use_id).id
                self.call_of[row] = None
            self.result_of[row] = result
        for row in self.result_of:
            self._write(row)
        self.stored.write()

    def _in_order(self) -> list[_Half]:
        return sorted(self.calls.values(), key=lambda half: half.place)

    def _open_call(self, result: _Half) -> _Half | None:
        before = [
            call
            for call in self._in_order()
            if call.place < result.place and self.result_of[call.row] is None
        ]
        return before[-1] if before else None

    def _write(self, row: int) -> None:
        call, result = self.call_of.get(row), self.result_of.get(row)
        old = self.rows.get(row)
        if call is None and result is None:
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
            tool.git = self.conn.execute(
                "SELECT kind, sha, branch, pr_number, pr_url FROM git_operations WHERE tool_id = ?",
                (result.row,),
            ).fetchall()
        if old is None or any(getattr(tool, n) != getattr(old, n) for n in _COMPARED):
            self.stored.change(tool)
