"""Random keys of this database, for digests that tell nothing about what was digested.

A key is made when it is first asked for, and stays: digests made with it are compared later. It is
in `_meta`, so it is known to anyone with the file. Without the database a digest says nothing.
"""

from __future__ import annotations

import sqlite3
from hashlib import blake2b
from os import urandom

KEY_BYTES = 32
LINES = "lines"  # of the digests by which lines and blocks are known again
_PREFIX = "key "


def new_key() -> bytes:
    """A key for a database that is not there yet."""
    return urandom(KEY_BYTES)


def key_of(conn: sqlite3.Connection, name: str) -> bytes:
    """The key of a name; it is made, in the caller's transaction if there is one, if need be.

    A connection that cannot write, to a database that has no such key yet, gets a key that is not
    kept: nothing was digested with another one.
    """
    found = _find(conn, name)
    if found is None:
        try:
            conn.execute(
                "INSERT OR REPLACE INTO _meta VALUES (?, ?)", (_PREFIX + name, new_key().hex())
            )
        except sqlite3.OperationalError as e:
            if e.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
                raise
        found = _find(conn, name) or new_key()
    return found


def give_key(conn: sqlite3.Connection, name: str, key: bytes) -> None:
    """Give a database this key, unless it has one of that name."""
    conn.execute("INSERT OR IGNORE INTO _meta VALUES (?, ?)", (_PREFIX + name, key.hex()))


def copy_keys(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Give a database all keys of another one, so that digests of both can be compared."""
    rows = source.execute(f"SELECT key, value FROM _meta WHERE key LIKE '{_PREFIX}%'").fetchall()
    target.executemany("INSERT OR REPLACE INTO _meta VALUES (?, ?)", rows)


def other_keys(conn: sqlite3.Connection, name: str) -> list[bytes]:
    """The keys of other databases that were merged into this one, of a name."""
    if not conn.execute("SELECT 1 FROM sqlite_master WHERE name = '_meta'").fetchone():
        return []
    rows = conn.execute(
        "SELECT value FROM _meta WHERE key > ?1 AND key < ?1 || 'g' ORDER BY key",
        (f"{_PREFIX}{name} ",),
    )
    return [key for (text,) in rows if (key := _as_key(text)) is not None]


def add_other_keys(source: sqlite3.Connection, target: sqlite3.Connection, name: str) -> None:
    """Give a database the keys of that name of another one, beside its own."""
    for key in (_find(source, name), *other_keys(source, name)):
        if key is not None:
            digest = blake2b(key, digest_size=8).hexdigest()
            give_key(target, f"{name} {digest}", key)


def _find(conn: sqlite3.Connection, name: str) -> bytes | None:
    row = conn.execute("SELECT value FROM _meta WHERE key = ?", (_PREFIX + name,)).fetchone()
    (text,) = row or ("",)
    return _as_key(text)


def _as_key(text: str | None) -> bytes | None:
    try:
        key = bytes.fromhex(text or "")
    except (TypeError, ValueError):  # any value can be in a database
        return None
    return key if len(key) == KEY_BYTES else None
