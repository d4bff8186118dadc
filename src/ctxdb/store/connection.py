"""Open the database, for one writer and any number of readers.

The file holds everything a person typed and every secret a tool printed, so it is made private
(0600 in a 0700 folder) before SQLite first writes to it; -wal and -shm then inherit its mode.
WAL with synchronous=NORMAL can lose the last commits when the power fails, never tear them: rows
and offset go together, and the transcript is read again. Every write happens in `write_transaction`
(BEGIN IMMEDIATE: a deferred one would fail at once instead of waiting for its turn).
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from ctxdb.archive.archive_file import archive_path
from ctxdb.errors import (
    CtxdbError,
    NoDatabase,
    NotOurDatabase,
    OldDatabase,
    UnsafeDatabase,
)
from ctxdb.lock import refuse_unsafe
from ctxdb.output import note
from ctxdb.store.header import read_header
from ctxdb.store.version import applied, is_old, says_it_is_not_old

# sqlite3 looks for an adapter for every None it binds, and without one goes on to ask None itself
# to conform: 0.4 us each time, half of what storing a message costs. This one answers at once.
_NOTHING: dict[None, None] = {}
sqlite3.register_adapter(type(None), _NOTHING.get)

APPLICATION_ID = 0x43545844  # "CTXD", as migrations.py sets it
BUSY_SECONDS = 60.0  # someone editing in DB Browser may hold the write lock for a while
STATEMENTS = 512  # kept prepared: a batch uses more than the 128 that sqlite3 would keep
MIN_SQLITE = (3, 40, 0)  # the oldest version that the views are tested with; README says it too
CACHE_KIB = 32 * 1024  # page cache of the writer; 64 MB made a first sync no faster
READER_CACHE_KIB = 16 * 1024  # with SQLite's own 2 MB, a view reads many pages twice
WAL_PAGES = 8000  # checkpoint at 64 MB: hot index pages are then written back once, not many times
SIDE_FILES = ("", "-wal", "-shm", "-journal")


def _check_sqlite() -> None:
    if sqlite3.sqlite_version_info < MIN_SQLITE:
        need = ".".join(map(str, MIN_SQLITE))
        raise CtxdbError(f"SQLite {sqlite3.sqlite_version} is too old; ctxdb needs {need} or newer")


def _make_private(path: Path) -> None:
    """Create the file with mode 0600, or take group and other bits off an existing one."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_RDWR | os.O_CLOEXEC
        os.close(os.open(path, flags, 0o600))
    except FileExistsError:
        refuse_unsafe(path)
    except OSError as e:
        raise CtxdbError(f"{path}: cannot be created: {e.strerror}") from e
    for suffix in SIDE_FILES:
        side = path.with_name(path.name + suffix)
        try:
            mode = stat.S_IMODE(side.lstat().st_mode)
            # A write-protected database stays so. A file that SQLite made beside one has the mode
            # of the database at that time.
            private = mode & 0o700 if not suffix else 0o600
            if mode & 0o077 or mode != private:
                side.chmod(private)
        except FileNotFoundError:
            continue
        except OSError as e:
            raise UnsafeDatabase(side, f"others can read it and it stays so: {e.strerror}") from e


def _keep_private(path: Path) -> None:
    """Take group and other bits off an existing database; if that is not possible, say so."""
    for suffix in SIDE_FILES:
        side = path.with_name(path.name + suffix)
        try:
            mode = stat.S_IMODE(side.lstat().st_mode)
        except OSError:
            continue
        if mode & 0o077 and side not in _told:
            try:
                side.chmod(mode & 0o700)
            except OSError as e:
                _told.add(side)
                note(f"Note: other users can read {side}, and it stays so: {e.strerror}.")


_told: set[Path] = set()  # files that were reported


def _check_header(path: Path) -> None:
    """Refuse what is not SQLite before SQLite touches it; an empty file is a new database."""
    if not _is_sqlite(path):
        refuse_foreign(path)
        from ctxdb.store.integrity import damaged_database  # rarely needed

        raise damaged_database(path, "its first bytes are not those of a database")


def refuse_foreign(path: Path) -> None:
    """Raise NotOurDatabase for a file that is no SQLite file, unless an archive is beside it.

    With an archive it was a database of ctxdb once, and can be made again.
    """
    if not _is_sqlite(path) and not archive_path(path).exists():
        raise NotOurDatabase(path, "is not a SQLite database; it is left as it is")


def _is_sqlite(path: Path) -> bool:
    try:
        return read_header(path).is_sqlite
    except sqlite3.Error as e:
        raise _read_error(path, e) from e


def _check_application(conn: sqlite3.Connection, path: Path) -> bool:
    """Refuse a database of another program. False if it is one of ctxdb without its application id.

    The .dump command of the sqlite3 shell writes everything except the application id.
    """
    try:
        (found,) = conn.execute("PRAGMA application_id").fetchone()
        (tables,) = conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
        is_ours = found == APPLICATION_ID or not tables or (not found and bool(applied(conn)))
    except sqlite3.DatabaseError as e:
        raise _read_error(path, e) from e
    if not is_ours:
        raise NotOurDatabase(path, "is another program's database; it is left as it is")
    return bool(found == APPLICATION_ID)


def _read_error(path: Path, error: sqlite3.Error) -> CtxdbError:
    text = str(error)
    if "not a database" in text and not archive_path(path).exists():
        return NotOurDatabase(path, "is not a SQLite database; it is left as it is")
    if "malformed" in text or "corrupt" in text or "not a database" in text:
        from ctxdb.store.integrity import damaged_database  # rarely needed

        return damaged_database(path, text)
    if "readonly" in text:
        return CtxdbError(f"{path}: {text}; make it and its folder writable: chmod u+w")
    if "unable to open" in text and not os.access(path.parent, os.W_OK):
        why = "SQLite makes files beside a database to read it, and its folder cannot be written to"
        return CtxdbError(f"{path}: {why}; copy it to another folder")
    return CtxdbError(f"{path}: {text}")


def path_of(conn: sqlite3.Connection) -> Path:
    """The file of a connection; of a database in memory, a path without a name."""
    (file,) = conn.execute("SELECT file FROM pragma_database_list WHERE name = 'main'").fetchone()
    return Path(file or "")


@contextmanager
def naming_damage(path: Path) -> Iterator[None]:
    """Add the file's name, and what to do, to what SQLite says about a damaged file."""
    try:
        yield
    except sqlite3.DatabaseError as e:
        code = getattr(e, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_READONLY):
            raise _read_error(path, e) from e
        raise


def open_writer(path: Path, *, wait: float = BUSY_SECONDS) -> sqlite3.Connection:
    """The one connection that writes. The caller holds the writer lock.

    If another program holds the database, each statement waits so many seconds for it.
    """
    _check_sqlite()
    _make_private(path)
    _check_header(path)
    _refuse_old(path)
    with _closed_on_failure(path, lambda: _connect(path, wait)) as conn:
        says_so = _check_application(conn, path)
        _use_wal(conn, wait)
        if not says_so:
            conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        conn.execute("PRAGMA synchronous = NORMAL")
        conn.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
    return conn


@contextmanager
def _closed_on_failure(
    path: Path, connect: Callable[[], sqlite3.Connection]
) -> Iterator[sqlite3.Connection]:
    conn = None
    try:
        conn = connect()
        yield conn
    except BaseException as e:
        if conn is not None:
            conn.close()
        if isinstance(e, sqlite3.Error):
            raise _read_error(path, e) from e
        raise


def open_aside(path: Path) -> sqlite3.Connection:
    """A new database that no other program opens. It cannot be rolled back, only deleted."""
    _check_sqlite()
    _make_private(path)
    conn = _connect(path, BUSY_SECONDS)
    conn.execute("PRAGMA locking_mode = EXCLUSIVE")
    conn.execute("PRAGMA journal_mode = OFF")
    conn.execute("PRAGMA synchronous = OFF")
    return conn


def _connect(path: Path, wait: float) -> sqlite3.Connection:
    conn = sqlite3.connect(
        path,
        timeout=wait,
        isolation_level=None,
        cached_statements=STATEMENTS,
    )
    conn.execute("PRAGMA page_size = 8192")  # fewer overflow pages under long texts
    conn.execute("PRAGMA temp_store = MEMORY")
    conn.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    conn.execute("PRAGMA recursive_triggers = ON")
    # What is deleted is overwritten with zeros, so that no page keeps it. This is also the default
    # of the SQLite that most systems have.
    conn.execute("PRAGMA secure_delete = ON")
    return conn


def _use_wal(conn: sqlite3.Connection, wait: float) -> None:
    """Switch to WAL. Wait for other processes that do the same: SQLite itself does not wait."""
    give_up = time.monotonic() + wait
    while True:
        try:
            conn.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as e:
            if e.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
            time.sleep(0.02)
        else:
            return


def open_reader(path: Path, *, any_thread: bool = False) -> sqlite3.Connection:
    """A connection that cannot write. With `any_thread`, threads may use it in turn."""
    _check_sqlite()
    if not path.exists():
        raise NoDatabase(path)
    _keep_private(path)
    _check_header(path)
    uri = f"file:{quote(os.fsencode(path))}?mode=ro{_immutable(path)}"
    with _closed_on_failure(
        path,
        lambda: sqlite3.connect(
            uri, uri=True, timeout=5.0, isolation_level=None, check_same_thread=not any_thread
        ),
    ) as conn:
        conn.execute("PRAGMA query_only = 1")
        conn.execute("PRAGMA temp_store = MEMORY")
        conn.execute(f"PRAGMA cache_size = -{READER_CACHE_KIB}")
        _check_application(conn, path)
        if is_old(conn):
            raise OldDatabase(path)
    return conn


def open_old(path: Path) -> sqlite3.Connection:
    """A connection that cannot write, to a database of any version."""
    refuse_unsafe(path)
    _check_header(path)
    uri = f"file:{quote(os.fsencode(path))}?mode=ro{_immutable(path)}"
    return sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None)


def open_untouched(path: Path, *, named: Path) -> sqlite3.Connection:
    """A connection to a file that nothing writes to. No file is made beside it, nothing locked.

    Messages name it `named`.
    """
    _check_sqlite()
    uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
    with _closed_on_failure(
        named, lambda: sqlite3.connect(uri, uri=True, isolation_level=None)
    ) as conn:
        conn.execute("PRAGMA temp_store = MEMORY")
        conn.execute(f"PRAGMA cache_size = -{READER_CACHE_KIB}")
        _check_application(conn, named)
    return conn


def _refuse_old(path: Path) -> None:
    """Raise OldDatabase. A connection that can write might change the file when it is closed."""
    if says_it_is_not_old(path):
        return
    with suppress(sqlite3.Error), closing(open_old(path)) as conn:
        if is_old(conn):
            raise OldDatabase(path)


def remove_log(path: Path, wait: float) -> bool:
    """Move all of a database into its one file; False when another program has it open."""
    with closing(_connect(path, wait)) as conn:
        busy, _, _ = conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            return False
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return True


def _immutable(path: Path) -> str:
    """How to open a database that can be read as it is, without files beside it.

    On a read-only file system these files cannot be made, and the database cannot change.
    """
    is_read_only = os.statvfs(path.parent).f_flag & os.ST_RDONLY
    has_log = path.with_name(f"{path.name}-wal").exists()
    return "&immutable=1" if is_read_only and not has_log else ""


@contextmanager
def write_transaction(conn: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Everything inside is committed together, or not at all."""
    conn.execute("BEGIN IMMEDIATE")
    try:
        yield conn
        commit(conn)
    except BaseException:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        raise


def commit(conn: sqlite3.Connection) -> None:
    """End the transaction; a crash test may end the process just before or after."""
    _test_kill("before_commit")
    conn.execute("COMMIT")
    _test_kill("after_commit")


def _test_kill(point: str) -> None:
    """Die like a power cut where a crash test asks for it: CTXDB_TEST_KILL=before_commit:3."""
    wanted, _, nth = os.environ.get("CTXDB_TEST_KILL", "").partition(":")
    if wanted != point:
        return
    _kills[point] = _kills.get(point, 0) + 1
    if _kills[point] >= int(nth or 1):
        os.kill(os.getpid(), 9)


_kills: dict[str, int] = {}
