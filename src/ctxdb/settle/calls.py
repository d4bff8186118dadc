"""Joining tool calls to their results, wherever and in whatever order the two are found.

`toolu_` ids are unique, so a call and its result find each other over all files. Other providers
repeat their ids: there the key is message and id, and a result goes to the last call of that id in
its session that has none yet. A result whose call is missing makes a row that waits for it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from ctxdb.claude import Call, Result
from ctxdb.claude.file_changes import call_file
from ctxdb.claude.git_output import GitOp, git_from_text
from ctxdb.store.chunk import Placed, Touched
from ctxdb.store.lookup import look_up

TOOL_COLUMNS = (  # after id, message_id, result_message_id and turn_id: see Tool.values
    "tool_use_id",
    "session_id",
    "agent_id",
    "name",
    "raw_name",
    "mcp_server",
    "input",
    "target",
    "started_at",
    "finished_at",
    "duration_ms",
    "tool_ms",
    "status",
    "is_error",
    "exit_code",
    "result_text",
    "result_bytes",
    "result_path",
    "ended_cleanly",
    "result_file",
)
_ALL = ("id", "message_id", "result_message_id", "turn_id", *TOOL_COLUMNS)
COLUMNS = ", ".join(_ALL)
_INSERT = f"INSERT INTO tool_uses ({COLUMNS}) VALUES ({', '.join('?' * len(_ALL))})"
_UPDATE = f"UPDATE tool_uses SET {', '.join(f'{name} = ?' for name in _ALL[1:])} WHERE id = ?"
INSERT_FILE = (
    "INSERT INTO files_touched (tool_id, turn_id, tool_use_id, session_id, agent_id, path,"
    " operation, succeeded, lines_added, lines_removed, timestamp, project_id, relative_path)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
INSERT_GIT = (
    "INSERT INTO git_operations (tool_id, turn_id, session_id, kind, sha, branch, pr_number,"
    " pr_url, timestamp) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
STARTS_AGENTS = ("Agent", "Workflow")


@dataclass(slots=True)
class Tool:
    """A row of tool_uses while it is put together."""

    id: int
    message_id: int | None = None
    result_message_id: int | None = None
    turn_id: int | None = None
    tool_use_id: str = ""
    session_id: str | None = None
    agent_id: str | None = None
    name: str | None = None
    raw_name: str | None = None
    mcp_server: str | None = None
    input: str | None = None
    target: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    duration_ms: int | None = None
    tool_ms: int | None = None
    status: str = "pending"
    is_error: int | None = None
    exit_code: int | None = None
    result_text: str | None = None
    result_bytes: int | None = None
    result_path: str | None = None
    ended_cleanly: int | None = None
    result_file: str | None = None
    # Not columns:
    call: Call | None = None
    git: list[GitOp] | None = None
    new: bool = True

    def values(self) -> tuple[Any, ...]:
        """The columns after id."""
        return (
            self.message_id,
            self.result_message_id,
            self.turn_id,
            self.tool_use_id,
            self.session_id,
            self.agent_id,
            self.name,
            self.raw_name,
            self.mcp_server,
            self.input,
            self.target,
            self.started_at,
            self.finished_at,
            self.duration_ms,
            self.tool_ms,
            self.status,
            self.is_error,
            self.exit_code,
            self.result_text,
            self.result_bytes,
            self.result_path,
            self.ended_cleanly,
            self.result_file,
        )


def is_unique_id(tool_use_id: str) -> bool:
    """Anthropic's own ids never repeat."""
    return tool_use_id.startswith(("toolu_", "srvtoolu_"))


def milliseconds(start: str | None, end: str | None) -> int | None:
    """Time between two timestamps; None when one is missing or no timestamp at all."""
    if start is None or end is None:
        return None
    try:
        return round(
            (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() * 1000
        )
    except (ValueError, TypeError, OverflowError):
        return None


class ToolJoin:
    """Joins the calls and results of one batch with each other and with what is stored."""

    def __init__(self, conn: sqlite3.Connection | None, next_id: int, touched: Touched) -> None:
        self._conn = conn  # None where only the lines at hand are joined
        self.next_id = next_id
        self.first_new = next_id
        self.touched = touched
        self.rows: dict[int, Tool] = {}
        self.by_id: dict[str, list[Tool]] = {}
        self.changed: dict[int, Tool] = {}

    @property
    def conn(self) -> sqlite3.Connection:
        """The database."""
        if self._conn is None:
            raise LookupError("no database")
        return self._conn

    def load(self, ids: set[str]) -> None:
        """Read what is stored under these ids."""
        wanted = [i for i in ids if i not in self.by_id]
        for tool_use_id in wanted:
            self.by_id[tool_use_id] = []
        for row in look_up(
            self.conn,
            wanted,
            f"SELECT {', '.join('t.' + c.strip() for c in COLUMNS.split(','))}"
            " FROM j CROSS JOIN tool_uses t ON t.tool_use_id = j.value ORDER BY t.id",
        ):
            tool = Tool(*row)
            tool.new = False
            self.rows[tool.id] = tool
            self.by_id[tool.tool_use_id].append(tool)

    def _new(self, tool_use_id: str) -> Tool:
        tool = Tool(self.next_id, tool_use_id=tool_use_id)
        self.next_id += 1
        self.rows[tool.id] = tool
        self.by_id.setdefault(tool_use_id, []).append(tool)
        return tool

    def add_call(self, call: Call, placed: Placed) -> None:
        """A call: a new row, or the missing half of a result that came first."""
        found = self.by_id.get(call.tool_use_id, ())
        tool: Tool | None = None
        for row in found:
            if row.message_id == placed.id:
                tool = row
                break
        if tool is None and is_unique_id(call.tool_use_id) and found:
            tool = found[0]
            if tool.message_id is not None:
                self._tell(call.tool_use_id, "call", placed)
                return
        if tool is None:
            waiting = [
                row
                for row in found
                if row.message_id is None and row.session_id == placed.session_id
            ]
            tool = waiting[0] if waiting else self._new(call.tool_use_id)
        self._pair(tool, placed)
        self.fill_call(tool, call, placed)

    def fill_call(self, tool: Tool, call: Call, placed: Placed) -> None:
        """The row's call is the one that this message makes."""
        if tool.session_id is not None and tool.session_id != placed.session_id:
            self.touched.pulls.add(tool.session_id)  # what it made there was linked, at most
        tool.message_id = placed.id
        tool.session_id = placed.session_id
        tool.agent_id = placed.agent_id
        tool.turn_id = placed.turn_id
        tool.name, tool.raw_name, tool.mcp_server = call.name, call.raw_name, call.mcp_server
        tool.input, tool.target = call.input, call.target
        tool.started_at = placed.rec.timestamp
        tool.call = call
        if call.name in STARTS_AGENTS:
            self.touched.calls.add(call.tool_use_id)
        self.changed[tool.id] = tool

    def _tell(self, tool_use_id: str, half: str, placed: Placed) -> None:
        """Another message tells the same: which of them is the first is found out at the end."""
        self.conn.execute(
            "INSERT OR IGNORE INTO _tellings VALUES (?, ?, ?)", (tool_use_id, half, placed.id)
        )
        self.touched.tellings.add(tool_use_id)

    def _pair(self, tool: Tool, placed: Placed) -> None:
        """Ids that repeat are paired again at the end, where more than one call could be meant."""
        if not is_unique_id(tool.tool_use_id):
            self.touched.pairs.add((placed.session_id, tool.tool_use_id))
            if not tool.new:
                self.touched.pairs.add((tool.session_id, tool.tool_use_id))

    def add_result(self, result: Result, placed: Placed) -> None:
        """A result: the other half of a call, or a row that waits for its call."""
        found = self.by_id.get(result.tool_use_id, ())
        tool: Tool | None = None
        for row in found:
            if row.result_message_id == placed.id:
                tool = row
                break
        if tool is None and is_unique_id(result.tool_use_id) and found:
            tool = found[0]
            if tool.result_message_id is not None:
                self._tell(result.tool_use_id, "result", placed)
                return
        if tool is None:
            open_calls = [
                row
                for row in found
                if row.result_message_id is None and row.session_id == placed.session_id
            ]
            tool = open_calls[-1] if open_calls else self._new(result.tool_use_id)
        self._pair(tool, placed)
        self.fill_result(tool, result, placed)

    def fill_result(self, tool: Tool, result: Result, placed: Placed) -> None:
        """The row's result is the one that this message holds."""
        if tool.message_id is None:
            tool.session_id = placed.session_id
            tool.agent_id = placed.agent_id
            tool.turn_id = placed.turn_id
        tool.result_message_id = placed.id
        tool.finished_at = placed.rec.timestamp
        tool.status, tool.is_error = result.status, result.is_error
        tool.exit_code, tool.ended_cleanly = result.exit_code, result.ended_cleanly
        tool.result_text, tool.result_bytes = result.text, result.size
        tool.result_path, tool.tool_ms = result.path, result.tool_ms
        tool.result_file = result.file
        tool.git = result.git
        if tool.name in STARTS_AGENTS:
            self.touched.calls.add(tool.tool_use_id)
        self.changed[tool.id] = tool

    def write(self) -> None:
        """Store what has changed, with the files it touched and the git operations it shows."""
        new: list[tuple[Any, ...]] = []
        old: list[tuple[Any, ...]] = []
        for tool in self.changed.values():
            finish(tool)
            if tool.new:
                new.append((tool.id, *tool.values()))
            else:
                old.append((*tool.values(), tool.id))
        self.conn.executemany(_INSERT, new)
        if self.next_id > self.first_new:
            self.conn.execute(
                "INSERT INTO tool_uses_fts (rowid, target, input, result_text)"
                " SELECT id, target, input, result_text FROM tool_uses WHERE id >= ?",
                (self.first_new,),
            )
        self.conn.executemany(_UPDATE, old)
        self._write_files()
        self._write_git()
        self.first_new = self.next_id
        self.changed.clear()
        self.rows.clear()
        self.by_id.clear()

    def _write_files(self) -> None:
        rows = []
        stale = []
        for tool in self.changed.values():
            if not tool.new:
                stale.append((tool.id,))
            if (row := file_row(tool)) is not None:
                rows.append(row)
        self.conn.executemany("DELETE FROM files_touched WHERE tool_id = ?", stale)
        if not rows:
            return
        projects = projects_of(self.conn, {row[3] for row in rows})
        self.conn.executemany(
            INSERT_FILE, [(*row, *located(row[5], projects.get(row[3]))) for row in rows]
        )

    def _write_git(self) -> None:
        rows = []
        stale = []
        for tool in self.changed.values():
            ops: list[GitOp] = tool.git or []
            if not tool.new:
                stale.append((tool.id,))
                if not ops and tool.git is None:
                    stored = self.conn.execute(
                        "SELECT kind, sha, branch, pr_number, pr_url FROM git_operations"
                        " WHERE tool_id = ?",
                        (tool.id,),
                    ).fetchall()
                    ops = list(stored)
            rows += self.git_rows(tool, ops)
        self.conn.executemany("DELETE FROM git_operations WHERE tool_id = ?", stale)
        self.conn.executemany(INSERT_GIT, rows)

    def git_rows(self, tool: Tool, ops: list[GitOp]) -> list[tuple[Any, ...]]:
        """The git_operations rows of a call: what its result reports, else what was printed."""
        if not ops and tool.name in ("Bash", "PowerShell"):
            failed = tool.status != "ok"
            ops = git_from_text(tool.target, tool.result_text, failed=failed)
        if not ops:
            return []
        if tool.session_id and any(op[0] == "pr" for op in ops):
            self.touched.pulls.add(tool.session_id)
        at = tool.finished_at or tool.started_at
        return [(tool.id, tool.turn_id, tool.session_id, *op, at) for op in ops]


def finish(tool: Tool) -> None:
    """Work out what needs both halves."""
    tool.duration_ms = milliseconds(tool.started_at, tool.finished_at)
    clean = tool.name == "Bash" and tool.status == "ok" and tool.ended_cleanly
    if clean and tool.exit_code is None:
        tool.exit_code = 0


def file_row(tool: Tool) -> tuple[Any, ...] | None:
    """The files_touched row of a call, or None when it touches no file."""
    if tool.call is not None:
        path, operation = tool.call.path, tool.call.operation
        added, removed = tool.call.lines_added, tool.call.lines_removed
    elif tool.input is not None and tool.name is not None:
        fields = orjson.loads(tool.input)
        path, operation, added, removed = call_file(
            tool.name, fields if type(fields) is dict else {}
        )
    else:
        return None
    if operation is None:
        return None
    said = orjson.loads(tool.result_file) if tool.result_file else [None, None, None, None]
    path = path or said[0]
    if not path:
        return None
    if operation == "write" and said[1] == "create":
        operation = "create"
    succeeded: int | None = None
    if tool.status == "pending" or operation == "read":
        added = removed = None
    elif tool.status != "ok":
        added = removed = 0
    elif said[2] is not None:
        added, removed = said[2], said[3]
    elif operation == "write":
        added = removed = None
    if tool.status != "pending":
        succeeded = 1 if tool.status == "ok" else 0
    return (
        tool.id,
        tool.turn_id,
        tool.tool_use_id,
        tool.session_id,
        tool.agent_id,
        path,
        operation,
        succeeded,
        added,
        removed,
        tool.started_at or tool.finished_at,
    )


def projects_of(
    conn: sqlite3.Connection, sessions: set[str | None]
) -> dict[str | None, tuple[int, str]]:
    """The projects of sessions, as far as they are known."""
    return {
        session: (project_id, path)
        for session, project_id, path in conn.execute(
            "SELECT s.id, p.id, p.path FROM json_each(?) j CROSS JOIN sessions s ON s.id = j.value"
            " JOIN projects p ON p.id = s.project_id",
            (orjson.dumps([s for s in sessions if s is not None]).decode(),),
        )
    }


def located(path: str, project: tuple[int, str] | None) -> tuple[int | None, str | None]:
    """(project_id, relative_path) of a path in a project."""
    if project is None:
        return None, None
    project_id, base = project
    base = base.rstrip("/\\")
    above, separator, below = path[: len(base)], path[len(base) : len(base) + 1], len(base) + 1
    if separator in ("/", "\\") and (above == base or _is_same_on_windows(above, base)):
        return project_id, path[below:]
    return project_id, path if is_relative(path) else None


def _is_same_on_windows(one: str, other: str) -> bool:
    r"""Whether two names are of one folder there: c:/Users is C:\\Users."""
    if one[1:2] != ":" or other[1:2] != ":":
        return False
    return one.replace("/", "\\").lower() == other.replace("/", "\\").lower()


def is_relative(path: str) -> bool:
    r"""Neither /unix nor C:\\windows nor ~/home."""
    return not path.startswith(("/", "~", "\\")) and path[1:2] != ":"


def joined(base: str, path: str) -> str:
    """A relative path below a folder, written as the folder is."""
    separator = "\\" if "\\" in base and "/" not in base else "/"
    return f"{base.rstrip(separator)}{separator}{path}"
