"""Calls and results that an entry no longer has.

An entry has the calls and results of the line that owns it. Lines with one uuid but other calls are
not written by Claude Code; if there are some, what the others say must not depend on which of them
was read first.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from ctxdb.claude.names import STARTS_AGENTS, is_unique_id
from ctxdb.rows import Message, ToolUse
from ctxdb.rules.calls import join, split
from ctxdb.store.insert import load
from ctxdb.store.lookup import json_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctxdb.settle.calls import StoredCalls
    from ctxdb.settle.touched import Touched

_OF_MESSAGE = "WHERE t.message_id = ?1 OR t.result_message_id = ?1 ORDER BY t.id"
_KEYS = (
    "SELECT 'u' || tool_use_id FROM tool_uses WHERE message_id = ?1"
    " UNION SELECT 'r' || tool_use_id FROM tool_uses WHERE result_message_id = ?1"
    " UNION SELECT iif(half = 'call', 'u', 'r') || tool_use_id FROM _repeated_calls"
    "  WHERE message_id = ?1"
)


def drop_left(
    conn: sqlite3.Connection,
    stored: StoredCalls,
    rows: Iterable[int],
    reread: Callable[[int, int, int], Message | None],
    touched: Touched,
) -> None:
    """Drop the calls and results of these entries that their owners' lines do not have."""
    for message_id in sorted(rows):
        for owner in list(load(conn, Message, "WHERE t.id = ?", (message_id,))):
            keys = set((owner.block_keys or "").split(" "))
            if all(key in keys for (key,) in conn.execute(_KEYS, (message_id,))):
                continue
            line = reread(owner.source_file_id, owner.byte_start, owner.byte_length)
            if line is not None and line.uuid == owner.uuid:
                _drop_others(conn, stored, message_id, line, touched)


def _drop_others(
    conn: sqlite3.Connection, stored: StoredCalls, message_id: int, line: Message, touched: Touched
) -> None:
    calls = {call.tool_use_id for call in line.calls or ()}
    results = {result.tool_use_id for result in line.results or ()}
    for half, names in (("call", calls), ("result", results)):
        conn.execute(
            "DELETE FROM _repeated_calls WHERE message_id = ? AND half = ?"
            " AND tool_use_id NOT IN (SELECT value FROM json_each(?))",
            (message_id, half, json_list(names)),
        )
    for tool in list(load(conn, ToolUse, _OF_MESSAGE, (message_id,))):
        loses_call = tool.message_id == message_id and tool.tool_use_id not in calls
        loses_result = tool.result_message_id == message_id and tool.tool_use_id not in results
        if loses_call or loses_result:
            _part(conn, stored, tool, touched, call=not loses_call, result=not loses_result)
    stored.write()


def _part(
    conn: sqlite3.Connection,
    stored: StoredCalls,
    tool: ToolUse,
    touched: Touched,
    *,
    call: bool,
    result: bool,
) -> None:
    """Keep of a row its call, its result or neither."""
    stored.note_lists([tool])
    touched.changed.add(tool.session_id)
    if tool.session_id is not None:
        touched.pull_requests.add(tool.session_id)
    if tool.name in STARTS_AGENTS:
        touched.calls.add(tool.tool_use_id)
    if is_unique_id(tool.tool_use_id):
        touched.repeated_calls.add(tool.tool_use_id)
    else:
        touched.pairs.add((tool.session_id, tool.tool_use_id))
    made, answered = split(tool)
    made, answered = made if call else None, answered if result else None
    if made is None and answered is None:
        for table in ("files_touched", "git_operations"):
            conn.execute(f"DELETE FROM {table} WHERE tool_id = ?", (tool.id,))
        conn.execute("DELETE FROM tool_uses WHERE id = ?", (tool.id,))
        return
    if answered is not None:
        answered.session_id, answered.agent_id, answered.turn_id = conn.execute(
            "SELECT session_id, agent_id, turn_id FROM messages WHERE id = ?",
            (tool.result_message_id,),
        ).fetchone()
    if made is not None:
        made.session_id, made.agent_id, made.turn_id = tool.session_id, tool.agent_id, tool.turn_id
    left = join(tool.tool_use_id, made, answered)
    left.id, left.is_stored = tool.id, True
    if answered is None:
        left.git = []
    stored.change(left)
    touched.changed.add(left.session_id)
    if not is_unique_id(tool.tool_use_id):
        touched.pairs.add((left.session_id, tool.tool_use_id))
