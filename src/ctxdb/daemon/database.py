"""The daemon's connection: opened, watched over, and opened again when the file is not what it was.

SQLite goes on writing to a database whose file was deleted, and all of it is lost with the process.
So before every turn the file, and the log beside it, must still be the ones that were opened; if
they are not, the connection is dropped and what is now there is opened and brought up to date.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ctxdb.errors import CtxdbError
from ctxdb.store import fulltext
from ctxdb.store.connection import naming_damage, open_writer, write_transaction
from ctxdb.store.schema import prepare
from ctxdb.store.version import applied, is_upgraded, steps

MAX_WAIT_SECONDS = 15.0  # before another try
BUSY_SECONDS = 0.2  # then the loop goes round, and can be stopped
WAL_BYTES = 8 << 20  # then it is emptied as soon as there is nothing else to do
WAL_TRUNCATE_BYTES = 16 << 20
WAL_WARN_BYTES = 256 << 20
Identity = tuple[int, int]
LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Outdated(CtxdbError):
    """Another version of ctxdb has been installed, and this process is still the old one."""

    def __init__(self, path: Path) -> None:
        why = "ctxdb was upgraded while this daemon ran; `ctxdb daemon restart` starts the new one"
        super().__init__(f"{path}: {why}")


class Trouble(NamedTuple):
    """Why a turn could not be done, and for how long to wait at most before the next try."""

    kind: str  # locked, full, replaced, damaged, failing
    text: str
    wait: float


def trouble_of(error: BaseException) -> Trouble:
    """What stands behind an error of the database."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, sqlite3.Error | OSError):
        cause = cause.__cause__
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if code in LOCKED:
        return Trouble("locked", "another program holds the database's write lock", 1.0)
    full = code == sqlite3.SQLITE_FULL or getattr(cause, "errno", 0) in (errno.ENOSPC, errno.EDQUOT)
    if full:
        return Trouble("full", "the disk with the database is full", MAX_WAIT_SECONDS)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Trouble("damaged", str(error), MAX_WAIT_SECONDS)
    if code == sqlite3.SQLITE_READONLY and "moved" in str(cause):
        return Trouble("replaced", "the database file was replaced", 0.0)
    return Trouble("failing", str(error), MAX_WAIT_SECONDS)


class Database:
    """The one connection that writes, and the file it was opened on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.wal = path.with_name(path.name + "-wal")
        self._conn: sqlite3.Connection | None = None
        self._file: Identity | None = None
        self._log: Identity | None = None
        self._look: tuple[int, int] | None = None
        self._schema: int | None = None  # as SQLite counts changes of it
        self._others: int | None = None  # as SQLite counts what other connections have committed
        self.abandoned: list[sqlite3.Connection] = []  # closing them would do harm

    @property
    def conn(self) -> sqlite3.Connection:
        """The connection; open it first."""
        if self._conn is None:
            raise RuntimeError("the database is not open")
        return self._conn

    @property
    def is_open(self) -> bool:
        """True between open and drop."""
        return self._conn is not None

    def open(self) -> None:
        """Open and, if needed, make or upgrade the database. Old code does not take new steps."""
        if is_upgraded():
            raise Outdated(self.path)
        with naming_damage(self.path):
            conn = open_writer(self.path, wait=BUSY_SECONDS)
            try:
                prepare(conn, self.path)
                fulltext.merge_again(conn)  # a sync that was killed may have left it off
                self._schema = _counter(conn, "schema_version")
                self._others = _counter(conn, "data_version")
            except BaseException:
                conn.close()
                raise
        self._conn = conn
        self._file = _identity(self.path)
        self._log = None
        self.note()

    def note(self) -> None:
        """Remember how the files look after our own writing."""
        self._log = self._log or _identity(self.wal)  # the same one as long as this is open
        self._look = _look(self.path)

    def changed(self) -> str | None:
        """What happened to the files behind our back; None when nothing did."""
        found = _identity(self.path)
        if found is None:
            return "the database file was deleted"
        if found != self._file:
            return "the database file was replaced"
        if self._log is not None and _identity(self.wal) != self._log:
            return "the database's -wal file was removed"
        if self._look is not None and _look(self.path) != self._look:
            # A checkpoint by another program, or a copy over the file: what is cached may be wrong.
            return "the database file was written to by another program"
        return None

    def has_other_steps(self) -> bool:
        """Whether another version has migrated it: cheap to ask while no schema has changed."""
        found = _counter(self.conn, "schema_version")
        if found == self._schema:
            return False
        if applied(self.conn) != steps():
            return True
        self._schema = found  # somebody's own table or view
        return False

    def was_changed_by_others(self) -> bool:
        """Whether another program has committed something since the last time that this was asked.

        All of an older copy, perhaps, by way of SQLite: no file shows that before a checkpoint.
        """
        before, self._others = self._others, _counter(self.conn, "data_version")
        return self._others != before

    def drop(self) -> None:
        """Let go of the connection."""
        conn, self._conn = self._conn, None
        if conn is None:
            return
        log = _identity(self.wal)
        is_other = _identity(self.path) != self._file
        if is_other and log is not None and log != self._log:
            # Closing would remove the -wal by its name, and that is another database's by now.
            self.abandoned.append(conn)
            return
        if is_other and log is not None:
            # SQLite leaves the log of a file that was moved as it is. Where that file went to,
            # nobody will look for it.
            with suppress(sqlite3.Error):
                conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        with suppress(sqlite3.Error):
            conn.close()
        if is_other and log is not None and _identity(self.wal) == log:
            # The log of the file that is gone, which SQLite leaves: it would be read into this one.
            for side in (self.wal, self.path.with_name(self.path.name + "-shm")):
                with suppress(OSError):
                    side.unlink()

    def checkpoint(self, *, truncate: bool = False) -> bool:
        """Move what is in the log into the database; False when a reader keeps some of it there."""
        mode = "TRUNCATE" if truncate else "PASSIVE"
        busy, there, moved = 1, 0, 0
        with suppress(sqlite3.OperationalError):
            busy, there, moved = self.conn.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        self.note()
        return not busy and there == moved

    def wal_bytes(self) -> int:
        """How long the log is."""
        try:
            return os.stat(self.wal).st_size
        except OSError:
            return 0

    def keep(self, key: str, value: str) -> None:
        """Write down a fact; one that cannot be written now is let go."""
        with suppress(sqlite3.Error), write_transaction(self.conn):
            self.conn.execute("INSERT OR REPLACE INTO _meta VALUES (?, ?)", (key, value))
        self.note()


def _counter(conn: sqlite3.Connection, name: str) -> int:
    (found,) = conn.execute(f"PRAGMA {name}").fetchone()
    return int(found)


def _identity(path: Path) -> Identity | None:
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


def _look(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return (found.st_size, found.st_mtime_ns)
