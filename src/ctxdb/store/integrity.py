"""Whether SQLite can read all of a database, and what would be lost with it.

`find_damage` looks at every page. `check_if_due` is bounded: it runs after a writer was killed, and
once a week, for at most two seconds; it then goes on where it stopped the last time.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from ctxdb.archive.archive_file import open_archive_to_read
from ctxdb.errors import ArchiveError, DamagedDatabase
from ctxdb.formatting import counted
from ctxdb.store.connection import open_writer, refuse_foreign, write_transaction
from ctxdb.store.version import is_old

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

CHECK_SECONDS = 2.0  # for all that a sync checks
DUE_DAYS = 7
SMALL_BYTES = 32 << 20  # checked at once, in this process: a tenth of a second
CHECKED, CHECK_NEXT = "checked", "check next"  # keys of `_meta`
# What a check says of values, which people can edit: those are not damage.
_EDITED = ("NULL value in", "CHECK constraint failed", "NUMERIC value in", "TEXT value in")
_TABLES = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
    " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
)


def open_to_check(path: Path) -> sqlite3.Connection:
    """Open whatever is there, without looking at it."""
    uri = f"file:{quote(os.fsencode(path))}?mode=ro"
    conn = sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None)
    conn.text_factory = lambda data: data.decode("utf-8", "replace")
    return conn


def find_damage(path: Path, *, everything: bool = False) -> str | None:
    """What is wrong with the file, in a few words; None when nothing is.

    With `everything`, indexes are compared with their tables too.
    """
    kind = "integrity_check" if everything else "quick_check"
    try:
        with closing(open_to_check(path)) as conn:
            found = _first_damage(conn.execute(f"PRAGMA {kind}(20)"))
        return found or _damage_of_free_pages(path)
    except sqlite3.DatabaseError as e:
        if _is_of_the_moment(e):
            raise
        return str(e)


def _damage_of_free_pages(path: Path) -> str | None:
    """Follow the list of free pages; not every SQLite does so in its check.

    Pages that a log still holds are not looked at. It reads the file itself, which ends the locks
    of this process (`header.py` says why): no connection may be open to it.
    """
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        return None
    with path.open("rb") as file:
        head = file.read(100)
        number = int.from_bytes
        size = number(head[16:18], "big")
        size = 65536 if size == 1 else size
        pages = path.stat().st_size // max(size, 1)
        trunk, expected = number(head[32:36], "big"), number(head[36:40], "big")
        found = 0
        while trunk and found < expected:
            if trunk > pages:
                return "a free page that is not in the file"
            file.seek((trunk - 1) * size)
            page = file.read(size)
            trunk, leaves = number(page[:4], "big"), number(page[4:8], "big")
            if leaves > size // 4 - 2:
                return "the list of free pages is broken"
            listed = [number(page[at : at + 4], "big") for at in range(8, 8 + 4 * leaves, 4)]
            if any(not 1 < one <= pages for one in listed):
                return "a free page that is not in the file"
            found += 1 + leaves
    return None if found == expected and not trunk else "the list of free pages is broken"


_OF_THE_MOMENT = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_FULL,
)


def _is_of_the_moment(error: sqlite3.DatabaseError) -> bool:
    """Whether the error says nothing about the file: it is locked, or may not be opened."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in _OF_THE_MOMENT


def _first_damage(rows: sqlite3.Cursor) -> str | None:
    for (text,) in rows:
        if text != "ok" and not text.startswith(_EDITED):
            # In one line. SQLite names pages and trees, and no contents.
            return " ".join(text.split()).removeprefix("*** in database main *** ")[:120]
    return None


def damaged_database(path: Path, what: str) -> DamagedDatabase:
    """The error that says that a file is damaged, what would be lost, and how to repair it."""
    only_here = sessions_only_here(path)
    if only_here is None:
        lost = "how many sessions are only in it cannot be told"
    elif only_here:
        are = "is" if only_here == 1 else "are"
        lost = f"{counted(only_here, 'session')} {are} only in it"
    else:
        lost = "no session is only in it"
    return DamagedDatabase(path, f"is damaged ({what}), and {lost}; `ctxdb rebuild` repairs it")


def sessions_only_here(path: Path) -> int | None:
    """How many sessions have no transcript and no archived bytes; None if that cannot be told."""
    try:
        with closing(open_to_check(path)) as conn:
            return len(sessions_without_bytes(conn, path))
    except sqlite3.Error:
        return None


# Sessions that `merge` has copied as rows: all their files are on another machine.
_COPIED_FROM_ELSEWHERE = (
    "SELECT c.session_id FROM _carried_sessions c JOIN sessions s ON s.id = c.session_id"
    " AND s.source_deleted_at IS NULL WHERE NOT EXISTS (SELECT 1 FROM source_files f"
    "  WHERE f.session_id = c.session_id AND f.machine = '')"
)


def sessions_without_bytes(conn: sqlite3.Connection, path: Path) -> list[str]:
    """Sessions whose transcripts are gone, and that the archive does not have either."""
    archived: set[str] = set()
    try:
        archive = open_archive_to_read(path)
        if archive is not None:
            with closing(archive):
                sql = "SELECT DISTINCT session_id FROM files WHERE kind = 'transcript'"
                archived = {found for (found,) in archive.execute(sql)}
    except (ArchiveError, sqlite3.Error):
        pass  # what cannot be read is not there
    deleted = conn.execute("SELECT id FROM sessions WHERE source_deleted_at IS NOT NULL").fetchall()
    with suppress(sqlite3.OperationalError):  # of an earlier version
        deleted += conn.execute(_COPIED_FROM_ELSEWHERE).fetchall()
    return [session for (session,) in deleted if session not in archived]


def check_if_due(path: Path, *, after_crash: bool) -> None:
    """Look for damage if it is time to; raises DamagedDatabase. The caller holds the lock."""
    try:
        with closing(open_to_check(path)) as conn:
            if not conn.execute("SELECT 1 FROM sqlite_master WHERE name = '_meta'").fetchone():
                return
            if is_old(conn):
                return  # it is made again
            meta = _read_meta(conn)
        if after_crash or _is_long_ago(meta.get(CHECKED)):
            _check_bounded(path, meta)
    except sqlite3.DatabaseError as e:
        if _is_of_the_moment(e):
            return
        refuse_foreign(path)
        raise damaged_database(path, str(e)) from e


def check_weekly(conn: sqlite3.Connection, path: Path) -> None:
    """The same for a writer that is open, and was not killed before.

    A connection of its own would parse the whole schema once more: 6 ms in every sync.
    """
    meta = _read_meta(conn)
    if _is_long_ago(meta.get(CHECKED)):
        _check_bounded(path, meta)


def _read_meta(conn: sqlite3.Connection) -> dict[str, object]:
    return dict(conn.execute("SELECT key, value FROM _meta WHERE key LIKE 'check%'"))


def _check_bounded(path: Path, meta: dict[str, object]) -> None:
    found, following = _bounded(path, str(meta.get(CHECK_NEXT) or ""))
    if found is not None:
        raise damaged_database(path, found)
    if not _is_long_ago(meta.get(CHECKED)):
        return  # after a crash: nothing is written, so that one crash after another loses no step
    with suppress(sqlite3.Error), closing(open_writer(path, wait=0.5)) as conn:
        note_checked(conn, following)


def note_checked(conn: sqlite3.Connection, following: str = "") -> None:
    """Note that a database is as it should be: it was looked at, or has just been made."""
    with write_transaction(conn):
        now = datetime.now(UTC).isoformat(timespec="seconds")
        conn.executemany(
            "INSERT OR REPLACE INTO _meta VALUES (?, ?)",
            [(CHECKED, now), (CHECK_NEXT, following)],
        )


def _is_long_ago(when: object) -> bool:
    try:
        checked = datetime.fromisoformat(str(when))
    except ValueError:
        return True
    if checked.tzinfo is None:
        return True
    return not timedelta() <= datetime.now(UTC) - checked < timedelta(days=DUE_DAYS)


def _bounded(path: Path, start: str) -> tuple[str | None, str]:
    """What is wrong, and the table to begin with the next time."""
    if path.stat().st_size <= SMALL_BYTES:
        return find_damage(path), ""
    import multiprocessing  # most runs start no process

    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_check_tables, args=(path, start, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        return _listen(ours, start)
    finally:
        process.kill()  # it only reads
        process.join()
        ours.close()


def _listen(ours: Connection, start: str) -> tuple[str | None, str]:
    end = time.monotonic() + CHECK_SECONDS
    following = start
    while ours.poll(max(end - time.monotonic(), 0)):
        try:
            table, damage = ours.recv()
        except EOFError:
            break
        if damage is not None:
            return damage, table
        following = table
    return None, following


def _check_tables(path: Path, start: str, pipe: Connection) -> None:
    """Check table by table, beginning at one, and say after each what is wrong with it."""
    with suppress(OSError), closing(open_to_check(path)) as conn:
        names = [name for (name,) in conn.execute(_TABLES)]
        for name in [*(n for n in names if n > start), *(n for n in names if n <= start)]:
            quoted = name.replace("'", "''")
            try:
                damage = _first_damage(conn.execute(f"PRAGMA quick_check('{quoted}')"))
            except sqlite3.DatabaseError as e:
                damage = str(e)
            pipe.send((name, damage))
