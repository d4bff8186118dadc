"""Calls and results of ids that repeat, paired anew over all of a session's lines.

Other providers than Anthropic count their tool calls from 0 in every reply, so an id alone does not
say which result belongs to which call, and neither does the order of arrival: calls and results can
come from several files, and change hands. Whenever one of them has come or moved, all of its
session and id are paired again, in the order a person reads them: a result belongs to the last call
before it that has none yet; one that stands before every open call, to the first of these.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from typing import Any

from ctxdb.settle.calls import COLUMNS, STARTS_AGENTS, Tool, ToolJoin
from ctxdb.store.chunk import Touched

Place = tuple[str, int]  # path, byte

_ROWS = (
    f"SELECT {', '.join('t.' + c.strip() for c in COLUMNS.split(','))},"
    " c.session_id, c.agent_id, c.turn_id, cf.path, c.byte_start,"
    " r.session_id, r.agent_id, r.turn_id, rf.path, r.byte_start FROM tool_uses t"
    " LEFT JOIN messages c ON c.id = t.message_id"
    " LEFT JOIN source_files cf ON cf.id = c.source_file_id"
    " LEFT JOIN messages r ON r.id = t.result_message_id"
    " LEFT JOIN source_files rf ON rf.id = r.source_file_id"
    " WHERE t.tool_use_id = ? ORDER BY t.id"
)
_CALL = ("message_id", "name", "raw_name", "mcp_server", "input", "target", "started_at")
_RESULT = (
    "result_message_id",
    "finished_at",
    "status",
    "is_error",
    "exit_code",
    "ended_cleanly",
    "result_text",
    "result_bytes",
    "result_path",
    "tool_ms",
    "result_file",
)


@dataclass(slots=True)
class _Half:
    """A call or a result, with the row it is in and whose it is."""

    row: int
    message_id: int
    place: Place
    owner: tuple[Any, ...]  # session, agent, turn
    values: dict[str, Any]


def pair_again(conn: sqlite3.Connection, next_id: int, touched: Touched) -> None:
    """Pair what the batch has touched of ids that repeat."""
    for session_id, tool_use_id in sorted(touched.pairs, key=repr):
        next_id = _Group(conn, next_id, session_id, tool_use_id, touched).settle()
    touched.pairs.clear()


class _Group:
    """All rows of an id that hold a call or a result of one session."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        next_id: int,
        session_id: str | None,
        tool_use_id: str,
        touched: Touched,
    ) -> None:
        self.conn = conn
        self.tool_use_id = tool_use_id
        self.join = ToolJoin(conn, next_id, touched)
        self.rows: dict[int, Tool] = {}
        self.calls: dict[int, _Half] = {}  # by message: a merged entry may have left two rows
        self.results: dict[int, _Half] = {}
        # What each row should hold: halves of other sessions stay where they are.
        self.call_of: dict[int, _Half | None] = {}
        self.result_of: dict[int, _Half | None] = {}
        for values in conn.execute(_ROWS, (tool_use_id,)):
            tool = Tool(*values[:24])
            tool.new = False
            call = _half(tool, tool.message_id, values[24:29], _CALL)
            result = _half(tool, tool.result_message_id, values[29:34], _RESULT)
            own_call = call is not None and call.owner[0] == session_id
            own_result = result is not None and result.owner[0] == session_id
            if not own_call and not own_result:
                continue
            self.rows[tool.id] = tool
            self.call_of[tool.id] = None if own_call else call
            self.result_of[tool.id] = None if own_result else result
            if own_call and call is not None:
                self.calls.setdefault(call.message_id, call)
            if own_result and result is not None:
                self.results.setdefault(result.message_id, result)

    def settle(self) -> int:
        """Bring the rows to what they should hold; the next free id."""
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
                self.result_of[waiting[0].row] = result
                continue
            row = result.row
            if self.call_of[row] is not None or self.result_of[row] is not None:
                row = self.join.next_id
                self.join.next_id += 1
                self.call_of[row] = None
            self.result_of[row] = result
        for row in self.result_of:
            self._write(row)
        self.join.write()
        return self.join.next_id

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
            for table in ("files_touched", "git_operations"):
                self.conn.execute(f"DELETE FROM {table} WHERE tool_id = ?", (row,))
            self.conn.execute("DELETE FROM tool_uses WHERE id = ?", (row,))
            return
        half = call or result
        if half is None:
            return
        session_id, agent_id, turn_id = half.owner
        tool = Tool(row, None, None, turn_id, self.tool_use_id, session_id, agent_id)
        tool.new = old is None
        for one in (call, result):
            for name, value in one.values.items() if one is not None else ():
                setattr(tool, name, value)
        if tool.status == "ok" and tool.ended_cleanly:
            tool.exit_code = None  # 0 where the call is of a shell: worked out when it is written
        if result is not None and (old is None or result.row != row):
            tool.git = list(
                self.conn.execute(
                    "SELECT kind, sha, branch, pr_number, pr_url FROM git_operations"
                    " WHERE tool_id = ?",
                    (result.row,),
                )
            )
        if old is None or replace(tool, exit_code=old.exit_code, duration_ms=old.duration_ms) != (
            replace(old, git=tool.git)
        ):
            self.join.changed[row] = tool
            if tool.name in STARTS_AGENTS:
                self.join.touched.calls.add(self.tool_use_id)


def _half(
    tool: Tool, message_id: int | None, at: tuple[Any, ...], names: tuple[str, ...]
) -> _Half | None:
    if message_id is None:
        return None
    session_id, agent_id, turn_id, path, start = at
    values = {name: getattr(tool, name) for name in names}
    return _Half(
        tool.id, message_id, (path or "", start or 0), (session_id, agent_id, turn_id), values
    )
