"""Caveats get the turn of the command that they precede, from stored rows."""

from __future__ import annotations

import sqlite3

from ctxdb.claude.human_text import is_caveat
from ctxdb.rules.caveats import Child, turns_of_caveats
from ctxdb.settle.touched import Touched
from ctxdb.settle.turns import file_order, move_message
from ctxdb.store.lookup import json_list, look_up

# A line that is gone from its file keeps the turn that it had.
_META = (
    "SELECT m.session_id, m.id, m.uuid, m.turn_id, m.kind, m.text FROM j CROSS JOIN messages m"
    " ON m.session_id = j.value AND m.kind = 'meta'"
    " WHERE m.agent_id IS NULL AND m.byte_length > 0 AND m.uuid IS NOT NULL"
)
_CHILDREN = (
    "SELECT m.source_file_id, m.byte_start, m.id, m.parent_uuid, m.uuid, m.turn_id"
    " FROM messages m WHERE m.session_id = ? AND m.agent_id IS NULL AND m.byte_length > 0"
    "  AND m.parent_uuid IN (SELECT value FROM json_each(?))"
)


def settle_caveats(conn: sqlite3.Connection, touched: Touched) -> None:
    """Give caveats their turns: those that have none, and all where turns were found again."""
    found: dict[str, dict[str, tuple[int, int | None]]] = {}
    again = sorted(touched.renumber)
    waiting = sorted(touched.sessions - touched.renumber)
    rows = [
        *look_up(conn, again, _META),
        *look_up(conn, waiting, f"{_META} AND m.turn_id IS NULL"),
    ]
    for session_id, message_id, uuid, turn_id, kind, text in rows:
        if is_caveat(kind, text):
            found.setdefault(session_id, {})[uuid] = message_id, turn_id
    for session_id, caveats in found.items():
        _settle(conn, session_id, caveats, touched)


def _settle(
    conn: sqlite3.Connection,
    session_id: str,
    caveats: dict[str, tuple[int, int | None]],
    touched: Touched,
) -> None:
    rank = {file_id: n for n, file_id in enumerate(file_order(conn, session_id))}
    children = [
        Child(rank.get(file_id, len(rank)), *rest)
        for file_id, *rest in conn.execute(_CHILDREN, (session_id, json_list(caveats)))
    ]
    turns = turns_of_caveats(caveats, children)
    for uuid, (message_id, before) in caveats.items():
        if turns[uuid] != before:
            move_message(conn, message_id, turns[uuid], before, touched)
