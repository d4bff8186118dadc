"""Calls and results that more than one message has.

`toolu_` ids are unique, so a call is one row however many messages repeat it. Most repeats are
copies, which do not count; but a fork made by the SDK has entries of its own with the calls of the
old ones. The first message stays: by time, then session, then uuid. The others are kept aside
(`_repeated_calls`): an entry can change hands, and then another message may be the first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING

from ctxdb.rules.calls import place_call, place_result
from ctxdb.rules.paths import located
from ctxdb.settle.session_facts import project_of

if TYPE_CHECKING:
    from ctxdb.rows import Message
    from ctxdb.settle.calls import StoredCalls
    from ctxdb.settle.touched import Touched

Reread = Callable[[int, int, int], "Message | None"]

_HALVES = {"call": "message_id", "result": "result_message_id"}


def choose_first(
    conn: sqlite3.Connection, calls: StoredCalls, reread: Reread, touched: Touched
) -> None:
    """Choose the first message of every call and result that the batch has touched."""
    for tool_use_id in sorted(touched.repeated_calls):
        for half, column in _HALVES.items():
            _choose(conn, calls, reread, tool_use_id, half, column)
        _follow_message(conn, tool_use_id, touched)
    touched.repeated_calls.clear()


def _choose(
    conn: sqlite3.Connection,
    calls: StoredCalls,
    reread: Reread,
    tool_use_id: str,
    half: str,
    column: str,
) -> None:
    having = conn.execute(
        "SELECT m.id, m.source_file_id, m.byte_start, m.byte_length, m.turn_id, t.id IS NOT NULL"
        f" FROM messages m LEFT JOIN tool_uses t ON t.{column} = m.id AND t.tool_use_id = ?1"
        " WHERE m.id IN (SELECT message_id FROM _repeated_calls"
        "   WHERE tool_use_id = ?1 AND half = ?2"
        f"  UNION SELECT {column} FROM tool_uses WHERE tool_use_id = ?1)"
        " ORDER BY m.timestamp IS NULL, m.timestamp, m.session_id, m.uuid",
        (tool_use_id, half),
    ).fetchall()
    for message_id, file_id, start, length, turn_id, is_chosen in having:
        if is_chosen:
            return
        message = reread(file_id, start, length) if length > 0 else None
        if message is None:
            continue  # it cannot be read any more: the next one must do
        message.id, message.turn_id = message_id, turn_id
        calls.load({tool_use_id})
        if _fill(calls, message, tool_use_id, half):
            conn.execute(
                f"INSERT OR IGNORE INTO _repeated_calls SELECT tool_use_id, '{half}', {column}"
                f" FROM tool_uses WHERE tool_use_id = ? AND {column} IS NOT NULL",
                (tool_use_id,),
            )
            conn.execute(
                "DELETE FROM _repeated_calls WHERE tool_use_id = ? AND half = ? AND message_id = ?",
                (tool_use_id, half, message_id),
            )
            calls.write()
            return


def _fill(calls: StoredCalls, message: Message, tool_use_id: str, half: str) -> bool:
    having = (message.calls if half == "call" else message.results) or []
    for one in having:
        if one.tool_use_id == tool_use_id:
            tool = next(iter(calls.by_id[tool_use_id]), None) or calls.new_row(tool_use_id)
            if half == "call":
                place_call(one, message)
                calls.fill_call(tool, one)
            else:
                place_result(one, message)
                calls.fill_result(tool, one)
            return True
    return False


def _follow_message(conn: sqlite3.Connection, tool_use_id: str, touched: Touched) -> None:
    """A row is of the session, agent and turn of its call, or of its result if it has no call."""
    for session_id, agent_id, turn_id, tool_id, before in conn.execute(
        "SELECT m.session_id, m.agent_id, m.turn_id, t.id, t.session_id FROM tool_uses t"
        " JOIN messages m"
        " ON m.id = coalesce(t.message_id, t.result_message_id) WHERE t.tool_use_id = ?"
        "  AND (m.session_id, m.agent_id, m.turn_id)"
        "   IS NOT (t.session_id, t.agent_id, t.turn_id)",
        (tool_use_id,),
    ).fetchall():
        whose = (session_id, agent_id, turn_id)
        touched.calls.add(tool_use_id)
        both = {s for s in (session_id, before) if s is not None}
        touched.pull_requests |= both
        touched.lists |= both
        touched.changed.update((session_id, before))
        conn.execute(
            "UPDATE tool_uses SET session_id = ?, agent_id = ?, turn_id = ? WHERE id = ?",
            (*whose, tool_id),
        )
        project = project_of(conn, session_id)
        for file_id, path in conn.execute(
            "SELECT id, path FROM files_touched WHERE tool_id = ?", (tool_id,)
        ).fetchall():
            conn.execute(
                "UPDATE files_touched SET session_id = ?, agent_id = ?, turn_id = ?,"
                " project_id = ?, relative_path = ? WHERE id = ?",
                (*whose, *located(path, project), file_id),
            )
        conn.execute(
            "UPDATE git_operations SET session_id = ?, turn_id = ? WHERE tool_id = ?",
            (session_id, turn_id, tool_id),
        )


def merge(conn: sqlite3.Connection, keep: int, drop: int, touched: Touched) -> None:
    """Two messages turn out to be one: they have a call once."""
    touched.repeated_calls.update(
        tool_use_id
        for (tool_use_id,) in conn.execute(
            "SELECT tool_use_id FROM _repeated_calls WHERE message_id IN (?1, ?2)"
            " UNION SELECT tool_use_id FROM tool_uses WHERE message_id IN (?1, ?2)"
            " UNION SELECT tool_use_id FROM tool_uses WHERE result_message_id IN (?1, ?2)",
            (keep, drop),
        )
    )
    conn.execute(
        "UPDATE OR REPLACE _repeated_calls SET message_id = ? WHERE message_id = ?", (keep, drop)
    )
