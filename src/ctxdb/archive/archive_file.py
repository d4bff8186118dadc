"""Opening the archive: a private SQLite file beside the database."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from ctxdb.errors import ArchiveError, CtxdbError
from ctxdb.lock import refuse_unsafe

APPLICATION_ID = 0x43545841  # "CTXA"
VERSION = 3
_ID = "id"  # a key of `meta`: tells this archive from one that has taken its place
BUSY_SECONDS = 60.0
CACHE_KIB = 8 * 1024


def archive_path(db_path: Path) -> Path:
    """Where the archive of a database is."""
    return db_path.with_name(db_path.name + ".archive")


def open_archive(db_path: Path, *, wait: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Open the archive for writing, and make it if there is none."""
    path = archive_path(db_path)
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_RDWR | os.O_CLOEXEC
        os.close(os.open(path, flags, 0o600))
    except FileExistsError:
        _refuse_unsafe(path)
    except OSError as e:
        raise ArchiveError(f"{path}: cannot be created: {e.strerror}") from e
    conn = None
    try:
        conn = sqlite3.connect(path, timeout=wait, isolation_level=None)
        conn.execute("PRAGMA page_size = 2048")
        conn.execute("PRAGMA auto_vacuum = INCREMENTAL")  # sealing frees most of the pages
        conn.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        conn.execute("PRAGMA secure_delete = ON")  # as in the database
        _check_application(conn, path)
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("PRAGMA synchronous = NORMAL")
        _make_tables(conn)
    except BaseException as e:
        if conn is not None:
            conn.close()
        if isinstance(e, sqlite3.Error):
            raise as_archive_error(path, e) from e
        raise
    return conn


def open_archive_to_read(db_path: Path) -> sqlite3.Connection | None:
    """Open the archive for reading, as of this moment; None when there is none."""
    path = archive_path(db_path)
    if not os.path.lexists(path):  # a link is refused, wherever it leads
        return None
    _refuse_unsafe(path)
    try:
        conn = _connect(path, "ro")
        try:
            _check_application(conn, path)
        except sqlite3.OperationalError as e:
            conn.close()
            if e.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise
            _roll_back(path)
            conn = _connect(path, "ro")
            _check_application(conn, path)
        conn.execute("PRAGMA query_only = 1")
        if not conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'files'").fetchone():
            conn.close()
            return None
        conn.execute("BEGIN")  # else a frame could be sealed away between two reads
    except sqlite3.Error as e:
        raise as_archive_error(path, e) from e
    return conn


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"file:{quote(os.fsencode(path))}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None)


def _roll_back(path: Path) -> None:
    """Undo what a process that ended has half written to the copy of an archive in a backup."""
    try:
        with closing(_connect(path, "rw")) as conn:
            conn.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.OperationalError as e:
        if e.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise
        why = "a backup ended while it wrote here, and what it left cannot be undone without a"
        do = "right to write: copy the folder to where you can write"
        raise ArchiveError(f"{path}: {why} {do}") from e


def open_untouched_archive(path: Path, *, named: Path) -> sqlite3.Connection | None:
    """The same for an archive that nothing writes to. No file is made beside it, nothing locked.

    Messages name it `named`.
    """
    _refuse_unsafe(path)
    uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
    conn = None
    try:
        conn = sqlite3.connect(uri, uri=True, isolation_level=None)
        _check_application(conn, named)
        (version,) = conn.execute("PRAGMA user_version").fetchone()
        if not conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'files'").fetchone():
            conn.close()
            return None
    except sqlite3.Error as e:
        if conn is not None:
            conn.close()
        raise as_archive_error(named, e) from e
    if version < VERSION:
        conn.close()
        raise ArchiveError(f"{named}: was made by an older ctxdb; run `ctxdb sync` there")
    return conn


def _refuse_unsafe(path: Path) -> None:
    try:
        refuse_unsafe(path)
    except CtxdbError as e:
        raise ArchiveError(str(e)) from e


def as_archive_error(path: Path, error: sqlite3.Error) -> ArchiveError:
    """What SQLite says, in one line that says what to do."""
    text = str(error)
    if "malformed" in text or "not a database" in text or "corrupt" in text:
        return ArchiveError(f"{path}: is damaged ({text}); see: ctxdb doctor")
    return ArchiveError(f"{path}: {text}")


@contextmanager
def archive_transaction(conn: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing."""
    conn.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        raise
    conn.execute("COMMIT")


def _check_application(conn: sqlite3.Connection, path: Path) -> None:
    # In this order: another process may be making the archive at this moment.
    (tables,) = conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = conn.execute("PRAGMA application_id").fetchone()
    if tables and application != APPLICATION_ID:
        raise ArchiveError(f"{path}: is not an archive of ctxdb; it is left as it is")
    (version,) = conn.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise ArchiveError(f"{path}: was made by a newer ctxdb; update ctxdb")


def archive_id(conn: sqlite3.Connection) -> str | None:
    """What tells this archive from any other; None for one that was made without."""
    row = conn.execute("SELECT value FROM meta WHERE key = ?", (_ID,)).fetchone()
    (found,) = row or (None,)
    return found


def _make_tables(conn: sqlite3.Connection) -> None:
    if conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
        _upgrade(conn)
        if archive_id(conn) is None:
            _give_name(conn)
        return
    with archive_transaction(conn):
        if conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
            return
        for statement in _statements():
            conn.execute(statement)
        _give_name(conn)
        conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        conn.execute(f"PRAGMA user_version = {VERSION}")


def _statements() -> list[str]:
    script = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
    return [statement for statement in script.split(";\n") if statement.strip()]


def _give_name(conn: sqlite3.Connection) -> None:
    """Give the archive a random name, by which a backup knows it again."""
    conn.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (_ID, os.urandom(8).hex()))


def _upgrade(conn: sqlite3.Connection) -> None:
    """Bring an archive of an earlier version up to date."""
    (version,) = conn.execute("PRAGMA user_version").fetchone()
    if version >= VERSION:
        return
    with archive_transaction(conn):
        (version,) = conn.execute("PRAGMA user_version").fetchone()
        if version < 2:
            conn.execute("ALTER TABLE blocks ADD COLUMN checksum BLOB")
            conn.execute("CREATE INDEX files_by_inode ON files (substr(stat, 1, 16))")
            _give_name(conn)
        if version < 3:
            for statement in _statements():
                if "TABLE masked" in statement:
                    conn.execute(statement)
        conn.execute(f"PRAGMA user_version = {VERSION}")
