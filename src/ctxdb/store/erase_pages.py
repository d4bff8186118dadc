"""Erase from the database what was removed or masked in its rows: no old text stays in any page.

SQLite leaves old text in pages that it no longer uses, and in unused parts of others
(page_gaps.py). The full text keeps the words of removed rows until its segments are merged, and the
log keeps what is not checkpointed. `note_unerased` belongs into the transaction that removes
something; `erase_pages` follows it. If the process is killed between the two, or another program
reads the database all the time, the next sync finishes. What forgotten sessions leave in other
files is erased by ingest/erase_forgotten.py.
"""

from __future__ import annotations

import sqlite3

from ctxdb.page_gaps import clear_gaps
from ctxdb.store.connection import write_transaction
from ctxdb.store.schema import CLEAN

_FULL_TEXT = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND sql LIKE '%USING fts5%'"
WAIT_SECONDS = 5.0  # for programs that read at this moment
READ = "another program is reading it"
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


def erase_pages(conn: sqlite3.Connection, wait: float = WAIT_SECONDS) -> str | None:
    """Erase old text; returns why it could not be done. Then the next sync tries again.

    The caller holds the writer lock.
    """
    overwrite_removed(conn)
    for (index,) in conn.execute(_FULL_TEXT).fetchall():
        with write_transaction(conn):
            conn.execute(f"INSERT INTO {index} ({index}) VALUES ('optimize')")
    with write_transaction(conn):
        _forget_samples(conn)
    if conn.execute("SELECT 1 FROM _meta WHERE key = ?", (CLEAN,)).fetchone() is None:
        try:
            _write_all_pages_again(conn)
        except sqlite3.OperationalError as e:
            return f"freed pages cannot be overwritten: {e}"
    else:
        with write_transaction(conn):
            _overwrite_free_pages(conn)
    if not empty_log(conn, wait):
        return READ
    why = clear_gaps(conn)
    if why is not None:
        return why
    with write_transaction(conn):
        conn.execute("DELETE FROM _meta WHERE key = ?", (_KEY,))
    return None if empty_log(conn, wait) else READ


def _write_all_pages_again(conn: sqlite3.Connection) -> None:
    """What an earlier version has deleted may be left within pages that are in use."""
    conn.execute("VACUUM")
    conn.execute("INSERT INTO sessions_fts (sessions_fts) VALUES ('rebuild')")  # rows were moved
    conn.execute("INSERT OR REPLACE INTO _meta VALUES (?, '1')", (CLEAN,))


def _forget_samples(conn: sqlite3.Connection) -> None:
    """The planner's statistics hold samples of texts, in some builds of SQLite."""
    for table in ("sqlite_stat4", "sqlite_stat3"):
        if conn.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
            conn.execute(f"DELETE FROM {table}")


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


def empty_log(conn: sqlite3.Connection, wait: float = WAIT_SECONDS) -> bool:
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
