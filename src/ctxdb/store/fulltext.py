"""Tell FTS5 when to merge its segments: late in a first sync, as usual afterwards.

FTS5 writes each transaction's words as a segment and merges segments as it goes, which rewrites
every word several times: a quarter of its work in a first sync. So in a first sync
it gathers 4 MB of words before it writes a segment, and merges only when there are 16 segments,
FTS5's own limit. It then merges all of them at once and keeps the changes in memory until the
statement ends (75 MB for 64 segments of a first sync, so the limit stays at 16). After the first
sync it merges a little with each write. The setting is stored in the database. If a first sync is
killed, the next sync sets it back.
"""

from __future__ import annotations

import sqlite3

TABLES = ("messages_fts", "tool_uses_fts", "turns_fts", "sessions_fts")
_USUAL = {"automerge": 4, "hashsize": 1 << 20}  # FTS5's own values
_MUCH = {"automerge": 0, "hashsize": 4 << 20}


def merge_later(conn: sqlite3.Connection) -> None:
    """Write large segments, and do not merge them yet."""
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
