"""How the full-text indexes are kept while much comes in.

FTS5 writes each transaction's words as a segment and merges segments as it goes, which rewrites
every word several times: a quarter of its work in a first sync. So during one it gathers 4 MB of
words before it writes a segment, and no segments are merged until there are 16, FTS5's own limit:
then it merges them at once, and what that changes is kept in memory until the statement ends
(75 MB for 64 segments of a first sync, so no more than 16).
Afterwards it merges bit by bit with what comes in later. The setting is part of the database, so a
pass that was killed leaves it behind for the next one to take back.
"""

from __future__ import annotations

import sqlite3

TABLES = ("messages_fts", "tool_uses_fts", "turns_fts", "sessions_fts")
_USUAL = {"automerge": 4, "hashsize": 1 << 20}  # FTS5's own values
_MUCH = {"automerge": 0, "hashsize": 4 << 20}


def merge_later(conn: sqlite3.Connection) -> None:
    """Write large segments, and leave them as they are for now."""
    _set(conn, _MUCH)


def merge_again(conn: sqlite3.Connection) -> None:
    """Merge segments as FTS5 usually does."""
    _set(conn, _USUAL)


def _set(conn: sqlite3.Connection, wanted: dict[str, int]) -> None:
    for table in TABLES:
        found = dict(conn.execute(f"SELECT k, v FROM {table}_config"))
        for key, value in wanted.items():
            if found.get(key, _USUAL[key]) != value:
                conn.execute(f"INSERT INTO {table} ({table}, rank) VALUES (?, ?)", (key, value))
