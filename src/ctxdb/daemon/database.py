"""The daemon's connection, which is opened again when the database file is another one.

SQLite goes on writing to a database whose file was deleted, and all of it is lost with the process.
So before every slice the file, and the -wal beside it, must still be the ones that were opened. If
they are not, the connection is dropped, and the file that is there now is opened.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ctxdb.errors import ConfigError, CtxdbError
from ctxdb.ingest.gate import set_patterns
from ctxdb.settings import read_settings
from ctxdb.store import fulltext
from ctxdb.store.connection import naming_damage, open_writer, write_transaction
from ctxdb.store.schema import prepare
from ctxdb.store.version import applied, is_upgraded, steps

MAX_WAIT_SECONDS = 15.0  # before another try
BUSY_SECONDS = 0.2  # then the loop goes on, and can be stopped
WAL_BYTES = 8 << 20  # a larger -wal is emptied as soon as possible
WAL_TRUNCATE_BYTES = 16 << 20
WAL_WARN_BYTES = 256 << 20
Identity = tuple[int, int]
LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Outdated(CtxdbError):
    """Another version of ctxdb has been installed; this process is still the old one."""

    def __init__(self, path: Path) -> None:
        why = "ctxdb was upgraded while this daemon ran; `ctxdb daemon restart` starts the new one"
        super().__init__(f"{path}: {why}")


class Trouble(NamedTuple):
    """Why a slice failed, and the longest wait before the next try."""

    kind: str  # locked, full, replaced, damaged, failing
    text: str
    wait: float


def trouble_of(error: BaseException) -> Trouble:
    """The cause of an error of the database."""
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

    def __init__(
        self, path: Path, ignore: Sequence[str] = (), settings_path: Path | None = None
    ) -> None:
        self.path = path
        self.ignore = ignore  # patterns of projects that are left out
        self.settings_path = settings_path  # may get other patterns while this runs
        self._settings = None if settings_path is None else _look(settings_path)
        self.wal = path.with_name(path.name + "-wal")
        self._conn: sqlite3.Connection | None = None
        self._file: Identity | None = None
        self._log: Identity | None = None
        self._look: tuple[int, int] | None = None
        self._schema: int | None = None  # SQLite's count of schema changes
        self._others: int | None = None  # SQLite's count of commits by other connections
        self.abandoned: list[sqlite3.Connection] = []  # that must not be closed: see drop

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
        """Open the database; make or upgrade it if needed. Raises Outdated after an upgrade."""
        if is_upgraded():
            raise Outdated(self.path)
        with naming_damage(self.path):
            conn = open_writer(self.path, wait=BUSY_SECONDS)
            try:
                prepare(conn, self.path)
                set_patterns(conn, self.ignore)
                fulltext.merge_again(conn)  # a killed sync may have left merging off
                self._schema = _counter(conn, "schema_version")
                self._others = _counter(conn, "data_version")
            except BaseException:
                conn.close()
                raise
        self._conn = conn
        self._file = _identity(self.path)
        self._log = None
        self.note()

    def follow_settings(self) -> None:
        """Take over the patterns of config.toml if the file has changed."""
        if self.settings_path is None or _look(self.settings_path) == self._settings:
            return
        self._settings = _look(self.settings_path)
        with suppress(ConfigError):  # what was there before holds until it is mended
            self.ignore = read_settings(self.settings_path).get("ignore", ())
            set_patterns(self.conn, self.ignore)
            self.note()

    def note(self) -> None:
        """Remember how the files look after this connection has written."""
        self._log = self._log or _identity(self.wal)  # it stays the same while this is open
        self._look = _look(self.path)

    def changed(self) -> str | None:
        """What another program did to the files; None when nothing."""
        found = _identity(self.path)
        if found is None:
            return "the database file was deleted"
        if found != self._file:
            return "the database file was replaced"
        if self._log is not None and _identity(self.wal) != self._log:
            return "the database's -wal file was removed"
        if self._look is not None and _look(self.path) != self._look:
            # A checkpoint by another program, or a copy over the file: the cache may be wrong.
            return "the database file was written to by another program"
        return None

    def has_other_steps(self) -> bool:
        """Whether another version has migrated it. Cheap while the schema does not change."""
        found = _counter(self.conn, "schema_version")
        if found == self._schema:
            return False
        if applied(self.conn) != steps():
            return True
        self._schema = found  # a user has added a table or a view
        return False

    def was_changed_by_others(self) -> bool:
        """Whether another program has committed something since the last call.

        It may have restored an older copy with SQLite: no file shows that before a checkpoint.
        """
        before, self._others = self._others, _counter(self.conn, "data_version")
        return self._others != before

    def drop(self) -> None:
        """Close the connection, without harm to a database that has taken this one's place."""
        conn, self._conn = self._conn, None
        if conn is None:
            return
        log = _identity(self.wal)
        is_other = _identity(self.path) != self._file
        if is_other and log is not None and log != self._log:
            # Closing would remove the -wal by its name, which now belongs to another database.
            self.abandoned.append(conn)
            return
        if is_other and log is not None:
            # SQLite leaves the -wal of a moved file as it is. The moved file would be without it.
            with suppress(sqlite3.Error):
                conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        with suppress(sqlite3.Error):
            conn.close()
        if is_other and log is not None and _identity(self.wal) == log:
            # SQLite leaves the -wal of the file that is gone. It would be read into the new file.
            for side in (self.wal, self.path.with_name(self.path.name + "-shm")):
                with suppress(OSError):
                    side.unlink()

    def checkpoint(self, *, truncate: bool = False) -> str:
        """Move the -wal into the database; return why not all of it, as far as SQLite says."""
        mode = "TRUNCATE" if truncate else "PASSIVE"
        why = ""
        try:
            busy, pages, moved = self.conn.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        except sqlite3.OperationalError as e:
            why = f"the checkpoint failed: {e}"
        else:
            if moved < pages:
                why = f"an open read transaction needs {pages - moved:,} of its {pages:,} pages"
            elif busy:  # SQLite does not say whether it reads or writes
                why = "another connection is using it"
        self.note()
        return why

    def wal_bytes(self) -> int:
        """The length of the -wal."""
        try:
            return os.stat(self.wal).st_size
        except OSError:
            return 0

    def keep(self, key: str, value: str) -> None:
        """Store a fact. If it cannot be stored now, it is dropped."""
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
