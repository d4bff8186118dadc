"""Joining tool calls to their results, wherever and in whatever order the two are found.

`toolu_` ids are unique, so a call and its result find each other over all files. Other providers
repeat their ids: there the key is message and id, and a result goes to the last call of that id in
its session that has none yet. A result whose call is missing makes a row that waits for it.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from ctxdb.claude.names import LIST_TOOLS, STARTS_AGENTS, is_unique_id
from ctxdb.columns import from_sql, loader, select_sql
from ctxdb.rows import FileTouch, GitOperation, ToolUse
from ctxdb.rules.calls import (
    file_touch,
    fill_call,
    fill_result,
    finish,
    git_operations,
    needs_bookkeeping,
)
from ctxdb.rules.paths import Project, located
from ctxdb.store.fulltext import add_rows
from ctxdb.store.insert import insert, last_id, update
from ctxdb.store.lookup import look_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctxdb.claude.git_output import GitOp
    from ctxdb.settle.touched import Touched

_BY_ID = (
    f"SELECT {select_sql(ToolUse)} FROM j CROSS JOIN {from_sql(ToolUse)}"
    " WHERE t.tool_use_id = j.value ORDER BY t.id"
)
# Ids of other providers are in almost every session, so only what can be meant is read.
_OF_SESSION = (
    f"SELECT {select_sql(ToolUse)} FROM {from_sql(ToolUse)}"
    " WHERE t.tool_use_id = ? AND t.session_id IS ? ORDER BY t.id"
)
_OF_MESSAGE = (
    f"SELECT {select_sql(ToolUse)} FROM {from_sql(ToolUse)}"
    " WHERE +t.tool_use_id = ?1 AND (t.message_id = ?2 OR t.result_message_id = ?2)"
)
GIT_REPORTED = (
    "SELECT kind, sha, branch, pr_number, pr_url, NULL, source FROM git_operations"
    " WHERE tool_id = ? AND source = 'result'"
)


class StoredCalls:
    """Joins calls and results with each other and with what is stored."""

    def __init__(self, conn: sqlite3.Connection, touched: Touched) -> None:
        self.conn = conn
        self.next_id = last_id(conn, ToolUse) + 1
        self.touched = touched
        self.by_id: dict[str, list[ToolUse]] = {}
        self.loaded: set[tuple[str, str | None]] = set()  # ids that repeat, and sessions
        self.changed: dict[int, ToolUse] = {}

    # -- rows that are whole -------------------------------------------------------------------

    def known(self, tool_use_ids: Iterable[str]) -> set[str]:
        """Which of these ids have a row."""
        sql = "SELECT t.tool_use_id FROM j CROSS JOIN tool_uses t ON t.tool_use_id = j.value"
        return {tool_use_id for (tool_use_id,) in look_up(self.conn, tool_use_ids, sql)}

    def add_whole(
        self, tools: Sequence[ToolUse], files: list[FileTouch], git: list[GitOperation]
    ) -> None:
        """Insert calls with their results, and the files and git operations that follow."""
        self._insert(tools)
        self.add_files(files)
        self._add_git(git)

    def _insert(self, tools: Sequence[ToolUse]) -> None:
        if not tools:
            return
        insert(self.conn, ToolUse, tools, beside=needs_bookkeeping)
        self.note_lists(tools)
        ids = [tool.id for tool in tools]
        add_rows(self.conn, ToolUse.table, min(ids), max(ids))

    def add_files(self, files: list[FileTouch]) -> None:
        """Insert touched files, each where it is in its session's project."""
        if not files:
            return
        projects = projects_of(self.conn, {touch.session_id for touch in files})
        for touch in files:
            touch.project_id, touch.relative_path = located(
                touch.path, projects.get(touch.session_id)
            )
        insert(self.conn, FileTouch, files)

    def _add_git(self, git: list[GitOperation]) -> None:
        self.touched.pull_requests.update(
            row.session_id for row in git if row.kind == "pr" and row.session_id
        )
        insert(self.conn, GitOperation, git)

    # -- halves --------------------------------------------------------------------------------

    def load(self, tool_use_ids: Iterable[str]) -> None:
        """Read what is stored under these ids."""
        wanted = [tool_use_id for tool_use_id in tool_use_ids if tool_use_id not in self.by_id]
        for tool_use_id in wanted:
            self.by_id[tool_use_id] = []
        for tool in map(loader(ToolUse), look_up(self.conn, wanted, _BY_ID)):
            tool.is_stored = True
            self.by_id[tool.tool_use_id].append(tool)

    def join(self, halves: Sequence[ToolUse]) -> None:
        """Join halves with each other and with what is stored, in reading order."""
        self.load({half.tool_use_id for half in halves if is_unique_id(half.tool_use_id)})
        for half in halves:
            if not is_unique_id(half.tool_use_id):
                self._load_repeated(half)
        for half in halves:
            if half.message_id is not None:
                self._add_call(half)
            else:
                self._add_result(half)
        self.write()

    def _load_repeated(self, half: ToolUse) -> None:
        """Read what is stored under an id that repeats: in the half's session and message."""
        found = self.by_id.setdefault(half.tool_use_id, [])
        message_id = half.message_id or half.result_message_id
        rows = self.conn.execute(_OF_MESSAGE, (half.tool_use_id, message_id)).fetchall()
        place = (half.tool_use_id, half.session_id)
        if place not in self.loaded:
            self.loaded.add(place)
            rows += self.conn.execute(_OF_SESSION, place).fetchall()
        known = {tool.id for tool in found} if rows else set()
        for tool in map(loader(ToolUse), rows):
            if tool.id not in known:
                known.add(tool.id)
                tool.is_stored = True
                found.append(tool)
        if rows:
            found.sort(key=lambda tool: tool.id)

    def new_row(self, tool_use_id: str) -> ToolUse:
        """A row that is not stored yet."""
        tool = ToolUse(id=self.next_id, tool_use_id=tool_use_id)
        self.next_id += 1
        self.by_id.setdefault(tool_use_id, []).append(tool)
        return tool

    def _add_call(self, call: ToolUse) -> None:
        """A call: a new row, or the missing half of a result that came first."""
        found = self.by_id[call.tool_use_id]
        tool = next((row for row in found if row.message_id == call.message_id), None)
        if tool is None and found and is_unique_id(call.tool_use_id):
            tool = next(iter(found))
            if tool.message_id is not None:
                self._repeat(call.tool_use_id, "call", call.message_id)
                return
        if tool is None:
            waiting = (
                row for row in found if row.message_id is None and row.session_id == call.session_id
            )
            tool = next(waiting, None) or self.new_row(call.tool_use_id)
        self._pair(tool, call)
        self.fill_call(tool, call)

    def _add_result(self, result: ToolUse) -> None:
        """A result: the other half of a call, or a row that waits for its call."""
        found = self.by_id[result.tool_use_id]
        own = result.result_message_id
        tool = next((row for row in found if row.result_message_id == own), None)
        if tool is None and found and is_unique_id(result.tool_use_id):
            tool = next(iter(found))
            if tool.result_message_id is not None:
                self._repeat(result.tool_use_id, "result", own)
                return
        if tool is None:
            waiting = (
                row
                for row in reversed(found)
                if row.result_message_id is None and row.session_id == result.session_id
            )
            tool = next(waiting, None) or self.new_row(result.tool_use_id)
        self._pair(tool, result)
        self.fill_result(tool, result)

    def _repeat(self, tool_use_id: str, half: str, message_id: int | None) -> None:
        """Another message has the same: which of them is the first is found out at the end."""
        self.conn.execute(
            "INSERT OR IGNORE INTO _repeated_calls VALUES (?, ?, ?)",
            (tool_use_id, half, message_id),
        )
        self.touched.repeated_calls.add(tool_use_id)

    def _pair(self, tool: ToolUse, half: ToolUse) -> None:
        """Ids that repeat are paired again at the end, where more than one call could be meant."""
        if not is_unique_id(tool.tool_use_id):
            self.touched.pairs.add((half.session_id, tool.tool_use_id))
            if tool.is_stored:
                self.touched.pairs.add((tool.session_id, tool.tool_use_id))

    def fill_call(self, tool: ToolUse, call: ToolUse) -> None:
        """The row's call is this one."""
        if tool.session_id is not None and tool.session_id != call.session_id:
            # What it made there is at most linked now.
            self.touched.pull_requests.add(tool.session_id)
        self.touched.changed.add(tool.session_id)
        self.note_lists([tool])
        fill_call(tool, call)
        self.change(tool)

    def fill_result(self, tool: ToolUse, result: ToolUse) -> None:
        """The row's result is this one."""
        self.touched.changed.add(tool.session_id)
        self.note_lists([tool])
        fill_result(tool, result)
        self.change(tool)

    def change(self, tool: ToolUse) -> None:
        """A row must be written."""
        self.changed[tool.id] = tool
        self.touched.changed.add(tool.session_id)
        if tool.name in STARTS_AGENTS:
            self.touched.calls.add(tool.tool_use_id)

    def note_lists(self, tools: Iterable[ToolUse]) -> None:
        """Note whose to-dos and plans follow from these calls."""
        self.touched.lists.update(
            tool.session_id
            for tool in tools
            if tool.name in LIST_TOOLS and tool.session_id is not None
        )

    def write(self) -> None:
        """Store what has changed, with the files it touched and the git operations it shows."""
        self.by_id.clear()
        self.loaded.clear()
        if not self.changed:
            return
        tools = list(self.changed.values())
        old = [tool for tool in tools if tool.is_stored]
        for tool in tools:
            finish(tool)
        git = [row for tool in tools for row in git_operations(tool, self._reported(tool))]
        self._insert([tool for tool in tools if not tool.is_stored])
        update(self.conn, ToolUse, old, beside=needs_bookkeeping)
        self.note_lists(old)
        for table in ("files_touched", "git_operations"):
            self.conn.executemany(
                f"DELETE FROM {table} WHERE tool_id = ?", [(tool.id,) for tool in old]
            )
        self.add_files([touch for tool in tools if (touch := file_touch(tool)) is not None])
        self._add_git(git)
        self.changed.clear()

    def _reported(self, tool: ToolUse) -> list[GitOp] | None:
        """What the result reports of git; of a stored result, what was reported then."""
        if tool.git is not None or not tool.is_stored:
            return tool.git
        return self.conn.execute(GIT_REPORTED, (tool.id,)).fetchall()


def projects_of(
    conn: sqlite3.Connection, sessions: Iterable[str | None]
) -> dict[str | None, Project]:
    """The projects of sessions, as far as they are known."""
    return {
        session_id: Project(project_id, path)
        for session_id, project_id, path in look_up(
            conn,
            [session_id for session_id in sessions if session_id is not None],
            "SELECT s.id, p.id, p.path FROM j CROSS JOIN sessions s ON s.id = j.value"
            " JOIN projects p ON p.id = s.project_id",
        )
    }
