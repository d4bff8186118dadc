"""Calls and results that more than one message tells of.

`toolu_` ids are unique, so a call is one row whoever repeats it. Most repeats are copies, which do
not count; but a fork made by the SDK has entries of its own with the calls of the old ones. The
first telling stays: by time, then session, then uuid. The others are kept aside (`_tellings`), for
an entry can change hands, and then another telling may be the first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from ctxdb.settle.calls import ToolJoin, located
from ctxdb.settle.snapshots import project_of
from ctxdb.store.chunk import Placed, Touched

Reread = Callable[[int, int, int], Placed | None]

_HALVES = {"call": "message_id", "result": "result_message_id"}


def retell_tools(
    conn: sqlite3.Connection, join: ToolJoin, reread: Reread, touched: Touched
) -> None:
    """Choose the first telling of every call and result that the batch has touched."""
    for tool_use_id in sorted(touched.tellings):
        for half, column in _HALVES.items():
            _choose(conn, join, reread, tool_use_id, half, column)
        _follow_message(conn, tool_use_id, touched)
    touched.tellings.clear()


def _choose(
    conn: sqlite3.Connection,
    join: ToolJoin,
    reread: Reread,
    tool_use_id: str,
    half: str,
    column: str,
) -> None:
    told = conn.execute(
        "SELECT m.id, m.source_file_id, m.byte_start, m.byte_length, m.turn_id, t.id IS NOT NULL"
        f" FROM messages m LEFT JOIN tool_uses t ON t.{column} = m.id AND t.tool_use_id = ?1"
        " WHERE m.id IN (SELECT message_id FROM _tellings WHERE tool_use_id = ?1 AND half = ?2"
        f"  UNION SELECT {column} FROM tool_uses WHERE tool_use_id = ?1)"
        " ORDER BY m.timestamp IS NULL, m.timestamp, m.session_id, m.uuid",
        (tool_use_id, half),
    ).fetchall()
    for message_id, file_id, start, length, turn_id, is_chosen in told:
        if is_chosen:
            return
        placed = reread(file_id, start, length) if length > 0 else None
        if placed is None:
            continue  # it cannot be read any more: the next one must do
        placed.id, placed.turn_id = message_id, turn_id
        join.load({tool_use_id})
        if _fill(join, placed, tool_use_id, half):
            conn.execute(
                f"INSERT OR IGNORE INTO _tellings SELECT tool_use_id, '{half}', {column}"
                f" FROM tool_uses WHERE tool_use_id = ? AND {column} IS NOT NULL",
                (tool_use_id,),
            )
            conn.execute(
                "DELETE FROM _tellings WHERE tool_use_id = ? AND half = ? AND message_id = ?",
                (tool_use_id, half, message_id),
            )
            join.write()
            return


def _fill(join: ToolJoin, placed: Placed, tool_use_id: str, half: str) -> bool:
    told: list[Any] = (placed.rec.calls if half == "call" else placed.rec.results) or []
    for one in told:
        if one.tool_use_id == tool_use_id:
            tool = join.by_id[tool_use_id][0]
            if half == "call":
                join.fill_call(tool, one, placed)
            else:
                join.fill_result(tool, one, placed)
            return True
    return False


def _follow_message(conn: sqlite3.Connection, tool_use_id: str, touched: Touched) -> None:
    """A row is of the session, agent and turn of its call, or of its result if it has no call."""
    for row in conn.execute(
        "SELECT m.session_id, m.agent_id, m.turn_id, t.id, t.session_id FROM tool_uses t"
        " JOIN messages m"
        " ON m.id = coalesce(t.message_id, t.result_message_id) WHERE t.tool_use_id = ?"
        "  AND (m.session_id, m.agent_id, m.turn_id)"
        "   IS NOT (t.session_id, t.agent_id, t.turn_id)",
        (tool_use_id,),
    ).fetchall():
        touched.calls.add(tool_use_id)
        touched.pulls.update(s for s in (row[0], row[4]) if s is not None)
        conn.execute(
            "UPDATE tool_uses SET session_id = ?, agent_id = ?, turn_id = ? WHERE id = ?", row[:4]
        )
        project = project_of(conn, row[0])
        for file_id, path in conn.execute(
            "SELECT id, path FROM files_touched WHERE tool_id = ?", (row[3],)
        ).fetchall():
            conn.execute(
                "UPDATE files_touched SET session_id = ?, agent_id = ?, turn_id = ?,"
                " project_id = ?, relative_path = ? WHERE id = ?",
                (*row[:3], *located(path, project), file_id),
            )
        conn.execute(
            "UPDATE git_operations SET session_id = ?, turn_id = ? WHERE tool_id = ?",
            (row[0], row[2], row[3]),
        )


def merge_tellings(conn: sqlite3.Connection, keep: int, drop: int, touched: Touched) -> None:
    """Two messages turn out to be one: they tell a thing once."""
    touched.tellings.update(
        tool_use_id
        for (tool_use_id,) in conn.execute(
            "SELECT tool_use_id FROM _tellings WHERE message_id IN (?1, ?2)"
            " UNION SELECT tool_use_id FROM tool_uses WHERE message_id IN (?1, ?2)"
            " UNION SELECT tool_use_id FROM tool_uses WHERE result_message_id IN (?1, ?2)",
            (keep, drop),
        )
    )
    conn.execute(
        "UPDATE OR REPLACE _tellings SET message_id = ? WHERE message_id = ?", (keep, drop)
    )
