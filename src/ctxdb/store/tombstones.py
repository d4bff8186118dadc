"""What is kept out of the database: forgotten sessions, and what belongs to ignored projects.

Only keyed hashes of names are stored. So a search of the file finds no name in it, and still
each name that comes up again is recognized.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple

from ctxdb.store.keys import key_of, other_keys

KEY = "forgotten"  # the name of the key
SESSION, SLUG, LINE, FILE, FOLDER = "session", "slug", "line", "file", "folder"  # kinds of names
HASH_BYTES = 16
# history.jsonl is read from its beginning: lines of it may have been left out.
HISTORY_AGAIN = "UPDATE _side_files SET stat = NULL, mark = NULL WHERE kind = 'history'"
TABLES = ("_forgotten", "_kept_out", "_shared_forgotten")
_KNOWN = (
    "SELECT hash, kind, NULL, 1 FROM _forgotten UNION ALL SELECT hash, kind, stat, 0 FROM _kept_out"
)


def hash_name(key: bytes, kind: str, name: str | bytes) -> bytes:
    """The hash of a name with a key. Ids of sessions are the same in capitals."""
    if isinstance(name, str):
        name = (name.lower() if kind == SESSION else name).encode("utf-8", "surrogatepass")
    return blake2b(kind.encode() + b"\0" + name, key=key, digest_size=HASH_BYTES).digest()


class Tombstones:
    """The hashes of one database, read once."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self.forgotten: set[bytes] = set()
        self.kept_out: dict[tuple[bytes, str], bytes | None] = {}
        self._key: bytes | None = None
        self._asked: dict[tuple[str, str], bytes] = {}
        self._other_keys = other_keys(conn, KEY)
        for hashed, kind, stat, is_forgotten in self._rows():
            if is_forgotten:
                self.forgotten.add(hashed)
            else:
                self.kept_out[hashed, kind] = stat

    def _rows(self) -> Iterable[tuple[bytes, str, bytes | None, int]]:
        try:
            return self.conn.execute(_KNOWN).fetchall()
        except sqlite3.OperationalError as e:
            if "no such table" in str(e):  # not migrated yet
                return ()
            raise

    @property
    def are_any(self) -> bool:
        """Whether anything at all is kept out."""
        return bool(self.forgotten or self.kept_out)

    def hash_of(self, kind: str, name: str | bytes) -> bytes:
        """The hash of a name. Ids of sessions are the same in capitals."""
        if self._key is None:
            self._key = key_of(self.conn, KEY)
        if isinstance(name, str):
            asked = self._asked.get((kind, name))
            if asked is not None:
                return asked
        hashed = hash_name(self._key, kind, name)
        if isinstance(name, str) and len(self._asked) < 10_000:
            self._asked[kind, name] = hashed
        return hashed

    def is_forgotten(self, session_id: str | None) -> bool:
        """Whether a session was forgotten, here or on a machine that was merged."""
        if not self.forgotten or session_id is None:
            return False
        return self._is_forgotten(SESSION, session_id)

    def _is_forgotten(self, kind: str, name: str | bytes) -> bool:
        if self.hash_of(kind, name) in self.forgotten:
            return True
        return any(hash_name(key, kind, name) in self.forgotten for key in self._other_keys)

    def keeps_out(self, kind: str, name: str | bytes | None) -> bool:
        """Whether a session, slug or line was forgotten or is of an ignored project."""
        if not self.are_any or name is None:
            return False
        return self._is_forgotten(kind, name) or (self.hash_of(kind, name), kind) in self.kept_out

    def stat_of(self, path: str) -> bytes | None:
        """How a transcript looked that is kept out; None if it is not, as far as is known."""
        return self.kept_out.get((self.hash_of(FILE, path), FILE)) if self.kept_out else None

    def keep_out(self, kind: str, name: str, stat: bytes | None = None) -> None:
        """Note that something is of an ignored project, or a file of a forgotten session."""
        hashed = self.hash_of(kind, name)
        if (hashed, kind) in self.kept_out and self.kept_out[hashed, kind] == stat:
            return
        self.kept_out[hashed, kind] = stat
        self._write("INSERT OR REPLACE INTO _kept_out VALUES (?, ?, ?)", (hashed, kind, stat))

    def let_in(self, kind: str, name: str) -> None:
        """What was ignored is no longer."""
        if not self.kept_out:
            return
        hashed = self.hash_of(kind, name)
        if self.kept_out.pop((hashed, kind), self) is not self:
            self._write("DELETE FROM _kept_out WHERE hash = ? AND kind = ?", (hashed, kind))
            if kind == FOLDER:
                self._write(HISTORY_AGAIN, ())

    def _write(self, sql: str, values: tuple[bytes | str | None, ...]) -> None:
        """Write, unless this connection can only read: then the next sync does it."""
        try:
            self.conn.execute(sql, values)
        except sqlite3.OperationalError as e:
            if e.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
                raise


class Kept(NamedTuple):
    """The tombstones of a database that another one takes the place of."""

    key: str | None  # as text; None if nothing was ever kept out
    rows: dict[str, list[tuple[Any, ...]]]  # by table

    @property
    def forgotten(self) -> int:
        """How many sessions were forgotten."""
        return sum(kind == SESSION for _, kind, *_ in self.rows.get("_forgotten", ()))


def read_kept(conn: sqlite3.Connection) -> Kept:
    """The tombstones of a database, of any version that has them."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for table in TABLES:
        with suppress(sqlite3.OperationalError):  # of an earlier version
            rows[table] = conn.execute(f"SELECT * FROM {table}").fetchall()
    key = conn.execute("SELECT value FROM _meta WHERE key = ?", (f"key {KEY}",)).fetchone()
    (found,) = key or (None,)
    return Kept(found, rows)


def give_kept(conn: sqlite3.Connection, kept: Kept) -> bool:
    """Add tombstones, in the caller's transaction; what they name is to be erased again.

    False if this database has tombstones with another key: hashes of both cannot be compared.
    """
    if kept.key is None:
        return True
    own = read_kept(conn)
    if own.key is not None and own.key != kept.key and any(own.rows.values()):
        return False
    conn.execute("INSERT OR REPLACE INTO _meta VALUES (?, ?)", (f"key {KEY}", kept.key))
    for table, rows in kept.rows.items():
        width = len(conn.execute(f"PRAGMA table_info({table})").fetchall())
        fitting = [row for row in rows if len(row) == width]
        places = ", ".join("?" * width)
        conn.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({places})", fitting)
    conn.execute("UPDATE _forgotten SET erased_at = NULL")
    return True


def copy_tombstones(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Give a database what another one keeps out. Both must have the same keys."""
    for table in TABLES:
        rows = source.execute(f"SELECT * FROM {table}").fetchall()
        places = ", ".join("?" * len(next(iter(rows), ())))
        if rows:
            target.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({places})", rows)
