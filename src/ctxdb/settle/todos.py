"""To-dos of sessions, worked out again from the stored calls and files."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

import orjson

from ctxdb.claude.names import EXIT_PLAN_MODE, LIST_TOOLS
from ctxdb.claude.side_contents import TASK, TODOS, Item
from ctxdb.rules.todos import TodoCall, TodoFile, todos_of
from ctxdb.settle.differences import write_differences
from ctxdb.side_rows import Todo
from ctxdb.store.insert import load
from ctxdb.store.lookup import json_list, look_up

# These words are those of the index tool_uses_lists, else SQLite would not use it.
_NAMES = " OR ".join(f"t.name = '{name}'" for name in LIST_TOOLS)
LISTS = f"({_NAMES})"
_CALLS = (
    "SELECT t.session_id, t.name, t.agent_id, t.turn_id, t.started_at, f.path || f.machine,"
    " m.byte_start, t.input, t.result_text"
    f" FROM j CROSS JOIN tool_uses t ON t.session_id = j.value AND {LISTS}"
    " CROSS JOIN messages m ON m.id = t.message_id"
    " CROSS JOIN source_files f ON f.id = m.source_file_id"
    " WHERE t.status NOT IN ('error', 'rejected', 'interrupted')"
    f" AND t.name <> '{EXIT_PLAN_MODE}'"
)
_FILES = (
    "SELECT s.session_id, s.kind, s.agent_id, s.at, s.path, s.content FROM j"
    " CROSS JOIN _side_files s ON s.session_id = j.value"
    f" WHERE s.kind IN ('{TODOS}', '{TASK}') AND s.content IS NOT NULL"
)


def refresh_todos(conn: sqlite3.Connection, sessions: Collection[str]) -> None:
    """Work out the to-dos of these sessions again."""
    if not sessions:
        return
    names = sorted(sessions)
    calls: dict[str, list[TodoCall]] = {}
    files: dict[str, list[TodoFile]] = {}
    for session_id, *values in look_up(conn, names, _CALLS):
        calls.setdefault(session_id, []).append(TodoCall(*values))
    for session_id, kind, agent_id, at, path, content in look_up(conn, names, _FILES):
        items = [Item(*item) for item in orjson.loads(content)]
        files.setdefault(session_id, []).append(TodoFile(kind, agent_id, at, path, items))
    where = "WHERE t.session_id IN (SELECT value FROM json_each(?))"
    stored = {
        (todo.session_id, todo.agent_id, todo.item_id, _text(todo)): todo
        for todo in load(conn, Todo, where, (json_list(names),))
    }
    wanted = {
        (session_id, *key): todo
        for session_id in sorted({*calls, *files})
        for key, todo in todos_of(
            session_id, calls.get(session_id, ()), files.get(session_id, ())
        ).items()
    }
    if stored or wanted:
        write_differences(conn, Todo, stored, wanted)


def _text(todo: Todo) -> str | None:
    return todo.subject if todo.item_id is None else None
