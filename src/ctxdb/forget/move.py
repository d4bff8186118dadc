"""Keep the row of a removed entry if its only other copy is in a file that cannot be read any more.

The line of the copy cannot be read again, but the row has its content. So the row stays, and now
belongs to the copy: it gets the copy's place, uuid, time and session.
"""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import TYPE_CHECKING

from ctxdb.columns import CALL, RESULT, columns, said_by
from ctxdb.ingest.batch import Batch
from ctxdb.ingest.masked_line import SHIPPED, reading_of, stars_beside
from ctxdb.ingest.reread import reread
from ctxdb.rows import MessageCopy, ToolUse
from ctxdb.rules.owners import FOREIGN
from ctxdb.settle.copies import line_of
from ctxdb.settle.line_counts import shift_count
from ctxdb.settle.owner_order import OwnerRanks
from ctxdb.store.connection import path_of
from ctxdb.store.insert import load
from ctxdb.store.lookup import first_column, json_list, look_up

if TYPE_CHECKING:
    from collections.abc import Iterable

_COPIES = (
    "JOIN messages m ON m.id = t.message_id"
    " WHERE t.source_file_id IN (SELECT value FROM json_each(?))"
    " AND m.source_file_id IN (SELECT id FROM gone_files)"
)
_PLACE = (
    "UPDATE messages SET uuid = ?, session_id = ?, source_file_id = ?, byte_start = ?,"
    " byte_length = ?, timestamp = ? WHERE id = ?"
)
_LINE = (
    "UPDATE _message_lines SET owner_flags = ?, block_keys = ?, line_hash = ? WHERE message_id = ?"
)
# What depends on a message has its session.
_FOLLOWING = (
    "UPDATE tool_uses SET session_id = ?1 WHERE message_id = ?2",
    "UPDATE tool_uses SET session_id = ?1 WHERE message_id IS NULL AND result_message_id = ?2",
    (
        "UPDATE files_touched SET session_id = ?1 WHERE message_id = ?2 OR tool_id IN"
        " (SELECT id FROM tool_uses WHERE message_id = ?2)"
    ),
    (
        "UPDATE git_operations SET session_id = ?1 WHERE tool_id IN"
        " (SELECT id FROM tool_uses WHERE message_id = ?2)"
    ),
    "UPDATE OR REPLACE _agent_facts SET session_id = ?1 WHERE message_id = ?2",
    (
        "UPDATE turns SET session_id = ?1, source_file_id = m.source_file_id,"
        " byte_start = m.byte_start, started_at = m.timestamp"
        " FROM messages m WHERE m.id = ?2 AND turns.message_id = ?2"
    ),
)


# What a row of tool_uses says without one of its lines.
_EMPTY = {
    column: {
        name: "'pending'" if name == "status" else "NULL"
        for name in columns(ToolUse)
        if name in (*said_by(ToolUse, who), "duration_ms")
    }
    for column, who in (("message_id", CALL), ("result_message_id", RESULT))
}


def pass_on(conn: sqlite3.Connection, kept: Iterable[int], doomed: Iterable[str]) -> None:
    """Lines of kept files that name a removed session pass to the session of their file."""
    names = json_list(doomed)
    in_them = "session_id IN (SELECT value FROM json_each(?))"
    for file_id, session_id in conn.execute(
        "SELECT id, session_id FROM source_files WHERE id IN (SELECT value FROM json_each(?))",
        (json_list(kept),),
    ).fetchall():
        where = f"WHERE source_file_id = ? AND {in_them}"
        named = (file_id, names)
        messages = first_column(conn.execute(f"SELECT id FROM messages {where}", named))
        for bookkeeping, key, table in (
            ("_message_lines", "message_id", "messages"),
            ("_copy_lines", "copy_id", "message_copies"),
        ):
            conn.execute(
                f"UPDATE {bookkeeping} SET owner_flags = owner_flags & ~{FOREIGN}"
                f" WHERE {key} IN (SELECT id FROM {table} {where})",
                named,
            )
        for table in ("messages", "message_copies", "events"):
            conn.execute(f"UPDATE {table} SET session_id = ? {where}", (session_id, *named))
        for message_id in messages:
            for statement in _FOLLOWING:
                conn.execute(statement, (session_id, message_id))
        if session_id is not None:
            conn.execute(
                f"UPDATE OR IGNORE _session_files SET session_id = ? {where}", (session_id, *named)
            )
        conn.execute(f"DELETE FROM _session_files {where}", named)


def move_to_kept_files(conn: sqlite3.Connection, kept: Iterable[int]) -> None:
    """Let the best of their copies in files that keep their rows own the entries of other files.

    The temporary table gone_files names the files whose rows go.
    """
    ranks = OwnerRanks(conn)
    best: dict[int, MessageCopy] = {}
    for copy in load(conn, MessageCopy, _COPIES, (json_list(kept),)):
        before = best.get(copy.message_id)
        if before is None or ranks.order(copy) < ranks.order(before):
            best[copy.message_id] = copy
    for message_id, copy in best.items():
        conn.execute(
            _PLACE,
            (
                *(copy.uuid, copy.session_id, copy.source_file_id, copy.byte_start),
                *(copy.byte_length, copy.timestamp, message_id),
            ),
        )
        line = (copy.owner_flags, copy.block_keys, copy.line_hash, message_id)
        conn.execute(_LINE, line)
        conn.execute("DELETE FROM message_copies WHERE id = ?", (copy.id,))
        shift_count(conn, line_of(copy), "copy", "stored")
        for statement in _FOLLOWING:
            conn.execute(statement, (copy.session_id, message_id))
    _move_events(conn, kept)
    _part_calls(conn)


def _move_events(conn: sqlite3.Connection, kept: Iterable[int]) -> None:
    """Events whose row names a line of a file that goes, and that a kept file has too."""
    for event_id, file_id, start, length in conn.execute(
        "SELECT c.event_id, c.source_file_id, c.byte_start, c.byte_length FROM _event_copies c"
        " JOIN events e ON e.id = c.event_id JOIN source_files f ON f.id = c.source_file_id"
        " WHERE c.source_file_id IN (SELECT value FROM json_each(?))"
        "  AND e.source_file_id IN (SELECT id FROM gone_files)"
        " ORDER BY f.agent_id IS NOT NULL DESC, f.path DESC, f.machine DESC",
        (json_list(kept),),
    ).fetchall():
        conn.execute(
            "UPDATE events SET source_file_id = ?, byte_start = ?, byte_length = ? WHERE id = ?",
            (file_id, start, length, event_id),
        )
        conn.execute(
            "UPDATE turns SET source_file_id = ?, byte_start = ? WHERE event_id = ?",
            (file_id, start, event_id),
        )
        conn.execute(
            "DELETE FROM _event_copies WHERE source_file_id = ? AND byte_start = ?",
            (file_id, start),
        )


def _part_calls(conn: sqlite3.Connection) -> None:
    """Calls and results of lines that go, where a line that stays repeats them, or the other half.

    What a line that stays repeats is the same, so it goes to that line. Else the half goes.
    """
    gone = "IN (SELECT id FROM messages WHERE source_file_id IN (SELECT id FROM gone_files))"
    stays = "IN (SELECT id FROM messages WHERE source_file_id NOT IN (SELECT id FROM gone_files))"
    changed: set[int] = set()
    for column, half in (("message_id", "call"), ("result_message_id", "result")):
        for tool_id, tool_use_id, message_id in conn.execute(
            f"SELECT t.id, t.tool_use_id, r.message_id FROM tool_uses t JOIN _repeated_calls r"
            f" ON r.tool_use_id = t.tool_use_id AND r.half = '{half}' AND r.message_id {stays}"
            f" JOIN messages m ON m.id = r.message_id WHERE t.{column} {gone}"
            " ORDER BY m.timestamp DESC, m.session_id DESC, m.uuid DESC"
        ).fetchall():
            conn.execute(f"UPDATE tool_uses SET {column} = ? WHERE id = ?", (message_id, tool_id))
            conn.execute(
                "DELETE FROM _repeated_calls WHERE tool_use_id = ? AND half = ? AND message_id = ?",
                (tool_use_id, half, message_id),
            )
            changed.add(tool_id)
        other = "result_message_id" if column == "message_id" else "message_id"
        left = f"WHERE {column} {gone} AND {other} {stays}"
        changed.update(first_column(conn.execute(f"SELECT id FROM tool_uses {left}")))
        empty = ", ".join(f"{name} = {value}" for name, value in _EMPTY[column].items())
        conn.execute(f"UPDATE tool_uses SET {column} = NULL, {empty} {left}")
    for tool_id in sorted(changed):
        session_id, agent_id, turn_id = conn.execute(
            "SELECT m.session_id, m.agent_id, m.turn_id FROM tool_uses t JOIN messages m"
            " ON m.id = coalesce(t.message_id, t.result_message_id) WHERE t.id = ?",
            (tool_id,),
        ).fetchone()
        whose = (session_id, agent_id, turn_id, tool_id)
        set_whose = "SET session_id = ?, agent_id = ?, turn_id = ?"
        conn.execute(f"UPDATE tool_uses {set_whose} WHERE id = ?", whose)
        conn.execute(f"UPDATE files_touched {set_whose} WHERE tool_id = ?", whose)
        conn.execute(
            "UPDATE git_operations SET session_id = ?, turn_id = ? WHERE tool_id = ?",
            (session_id, turn_id, tool_id),
        )


def settle_kept_files(conn: sqlite3.Connection, kept: Iterable[int], now: str) -> None:
    """Derive again what follows from the rows of the kept files, after the others are gone."""
    files = sorted(kept)
    sessions = set(
        first_column(
            look_up(
                conn,
                files,
                "SELECT DISTINCT session_id FROM j CROSS JOIN messages m"
                " ON m.source_file_id = j.value WHERE session_id IS NOT NULL"
                " UNION SELECT session_id FROM j CROSS JOIN _session_files s"
                " ON s.source_file_id = j.value",
            )
        )
    )
    stars = stars_beside(path_of(conn))
    batch = Batch(conn, now, partial(reread, reading_of(conn, SHIPPED, stars)))
    touched = batch.touched
    touched.sessions |= sessions
    touched.turns_of_files.update(files)
    touched.renumber |= sessions
    touched.shared |= sessions
    touched.pull_requests |= sessions
    touched.lists |= sessions
    touched.placed |= sessions
    touched.agents.update(
        look_up(
            conn,
            sorted(sessions),
            "SELECT session_id, agent_id FROM j CROSS JOIN _agent_facts a"
            " ON a.session_id = j.value UNION SELECT session_id, agent_id FROM j"
            " CROSS JOIN agents a ON a.session_id = j.value UNION SELECT DISTINCT m.session_id,"
            " agent_id FROM j CROSS JOIN messages m ON m.session_id = j.value"
            " AND agent_id IS NOT NULL",
        )
    )
    touched.requests.update(
        first_column(
            look_up(
                conn,
                sorted(sessions),
                "SELECT DISTINCT l.request_key FROM j CROSS JOIN messages m"
                " ON m.session_id = j.value CROSS JOIN _usage_lines l ON l.message_id = m.id",
            )
        )
    )
    batch.copies.recount.update(
        look_up(
            conn,
            files,
            "SELECT DISTINCT session_id, source_file_id FROM j CROSS JOIN messages m"
            " ON m.source_file_id = j.value WHERE session_id IS NOT NULL",
        )
    )
    batch.settle_again()
    batch.let_go()
