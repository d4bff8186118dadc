"""How the full-text indexes are kept while much comes in.

FTS5 writes each transaction's words as a segment and merges segments as it goes, which rewrites
every word several times: a quarter of its work in a first sync. So during one no segments are
merged until there are 16, FTS5's own limit: then it merges them at once, and what that changes is
kept in memory until the statement ends (75 MB for 64 segments of a first sync, so no more than 16).
Afterwards it merges bit by bit with what comes in later. The setting is part of the database, so a
pass that was killed leaves it behind for the next one to take back.
"""

from __future__ import annotations

import sqlite3

TABLES = ("messages_fts", "tool_uses_fts")
_AUTOMERGE = 4  # FTS5's own value


def merge_later(conn: sqlite3.Connection) -> None:
    """Leave segments as they are for now."""
    for table in TABLES:
        conn.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('automerge', 0)")


def merge_again(conn: sqlite3.Connection) -> None:
    """Merge segments as FTS5 usually does."""
    for table in TABLES:
        row = conn.execute(f"SELECT v FROM {table}_config WHERE k = 'automerge'").fetchone()
        if row is not None and row[0] != _AUTOMERGE:
            conn.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('automerge', {_AUTOMERGE})")
