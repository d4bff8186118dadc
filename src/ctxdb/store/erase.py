"""Erase from the file what was removed or masked in its rows: no old text stays in any page.

SQLite leaves old text in pages that it no longer uses, the full text keeps the words of removed
rows until its segments are merged, and the log keeps what is not checkpointed. `note_unerased`
belongs into the transaction that removes something; `erase` follows it. If the process is killed
between the two, or another program reads the database all the time, the next sync finishes.
"""

from __future__ import annotations

import sqlite3

from ctxdb.store.connection import write_transaction

INDEXES = (
    "messages_fts", "tool_uses_fts", "turns_fts", "sessions_fts",
    "todos_fts", "plans_fts", "history_fts",
)  # fmt: skip
WAIT_SECONDS = 5.0  # for programs that read at this moment
_KEY = "unerased"
_MOST_BYTES = 64 << 20  # of zeros, written at once


def overwrite_removed(conn: sqlite3.Connection) -> None:
    """From now on, this connection writes zeros over what it removes. Not within a transaction."""
    conn.execute("PRAGMA secure_delete = ON").fetchall()


def note_unerased(conn: sqlite3.Connection) -> None:
    """Old text is left in the file; in the transaction that has removed it."""
    conn.execute("INSERT OR REPLACE INTO _meta VALUES (?, '1')", (_KEY,))


def is_unerased(conn: sqlite3.Connection) -> bool:
    """Whether old text may be left in the file."""
    return conn.execute("SELECT 1 FROM _meta WHERE key = ?", (_KEY,)).fetchone() is not None


def erase(conn: sqlite3.Connection, wait: float = WAIT_SECONDS) -> bool:
    """Erase old text; False if another program keeps the database open and reads it.

    The caller holds the writer lock. The next sync tries again.
    """
    overwrite_removed(conn)
    with write_transaction(conn):
        for index in INDEXES:
            conn.execute(f"INSERT INTO {index} ({index}) VALUES ('optimize')")
        _forget_samples(conn)
    with write_transaction(conn):
        _overwrite_free_pages(conn)
    if not _checkpoint(conn, wait):
        return False
    with write_transaction(conn):
        conn.execute("DELETE FROM _meta WHERE key = ?", (_KEY,))
    return _checkpoint(conn, wait)


def _forget_samples(conn: sqlite3.Connection) -> None:
    """The planner's statistics hold samples of texts, in some builds of SQLite."""
    if conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_stat4'").fetchone():
        conn.execute("DELETE FROM sqlite_stat4")


def _overwrite_free_pages(conn: sqlite3.Connection) -> None:
    """Use every free page once: what an earlier version, or another program, has left there."""
    (pages,) = conn.execute("PRAGMA freelist_count").fetchone()
    (size,) = conn.execute("PRAGMA page_size").fetchone()
    left = pages * size
    if not left:
        return
    conn.execute("CREATE TABLE _zeros (data BLOB)")
    while left > 0:
        conn.execute("INSERT INTO _zeros VALUES (zeroblob(?))", (min(left, _MOST_BYTES),))
        left -= _MOST_BYTES
    conn.execute("DROP TABLE _zeros")


def _checkpoint(conn: sqlite3.Connection, wait: float) -> bool:
    """Move all of the log into the database, and cut the log off; False if a reader needs it."""
    (before,) = conn.execute("PRAGMA busy_timeout").fetchone()
    conn.execute(f"PRAGMA busy_timeout = {int(wait * 1000)}").fetchall()
    try:
        busy, _, _ = conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError as e:
        if e.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
        return False
    finally:
        conn.execute(f"PRAGMA busy_timeout = {before}").fetchall()
    return not busy
