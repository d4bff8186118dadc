"""Opens the database of another machine, and its archive, without changing anything beside them.

SQLite makes files beside a database that it reads. So a database without a log is opened as one
that cannot change, which makes no file. One with a log (it was not closed cleanly, or is in use) is
copied into a private folder beside this machine's database, with its log, and the copy is opened.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ctxdb.archive.archive_file import archive_path, open_untouched_archive
from ctxdb.errors import CtxdbError
from ctxdb.lock import current_writer, is_alive, refuse_unsafe
from ctxdb.store.connection import open_untouched, refuse_foreign, remove_log
from ctxdb.store.schema import unknown_steps
from ctxdb.store.version import MEANINGS, applied, meanings_of, steps

_FOLDER = ".merging-"  # and the process that does it


@dataclass(slots=True)
class Other:
    """Another machine's database and archive, to read."""

    path: Path
    conn: sqlite3.Connection
    archive: sqlite3.Connection | None


@contextmanager
def open_other(path: Path, ours: Path) -> Iterator[Other]:
    """Open both. Raises CtxdbError, in one line, for what cannot be merged."""
    _refuse(path, ours)
    before = _looks(path)
    with (
        _folder_beside(ours) as folder,
        closing(_open_database(path, folder)) as conn,
    ):
        _refuse_version(path, conn)
        _refuse_damaged(path, conn)
        archive = _open_archive(path, folder)
        try:
            yield Other(path, conn, archive)
        finally:
            if archive is not None:
                archive.close()
    if _looks(path) != before:
        why = "changed while it was read; close what writes to it, and merge again"
        raise CtxdbError(f"{path}: {why}")


def _refuse(path: Path, ours: Path) -> None:
    if not os.path.lexists(path):
        raise CtxdbError(f"{path}: there is no such file")
    refuse_unsafe(path)
    if ours.exists() and path.samefile(ours):
        raise CtxdbError(f"{path}: is this database itself; name that of the other machine")
    if not path.stat().st_size:
        raise CtxdbError(f"{path}: is empty, so there is nothing to merge")
    try:
        refuse_foreign(path)
    except OSError as e:
        raise CtxdbError(f"{path}: {e.strerror}") from e
    writer = current_writer(path)
    if writer is not None:
        raise CtxdbError(f"{path}: process {writer.pid} writes to it; stop that first")


def _looks(path: Path) -> list[tuple[int, int] | None]:
    """Size and time of the files that are read."""
    found: list[tuple[int, int] | None] = []
    for base in (path, archive_path(path)):
        for suffix in ("", "-wal"):
            try:
                info = base.with_name(base.name + suffix).stat()
                found.append((info.st_size, info.st_mtime_ns))
            except FileNotFoundError:
                found.append(None)
    return found


@contextmanager
def _folder_beside(ours: Path) -> Iterator[Path]:
    """A private folder for copies, which goes afterwards. Those of killed runs go first."""
    for old in ours.parent.glob(f"{_FOLDER}*"):
        pid = old.name.removeprefix(_FOLDER)
        if not (pid.isdecimal() and len(pid) < 10 and is_alive(int(pid))):
            shutil.rmtree(old, ignore_errors=True)
    folder = ours.parent / f"{_FOLDER}{os.getpid()}"
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _readable(path: Path, folder: Path) -> Path:
    """The file, or a copy of it that has what is in its log."""
    log = path.with_name(f"{path.name}-wal")
    try:
        if not log.exists() or not log.stat().st_size:
            return path
        refuse_unsafe(log)
        folder.mkdir(mode=0o700, exist_ok=True)
        copy = folder / path.name
        need = path.stat().st_size + log.stat().st_size
        if shutil.disk_usage(folder).free < 2 * need:
            why = f"no space for a copy of it beside this database ({2 * need >> 20:,} MB)"
            raise CtxdbError(f"{path}: {why}")
        for source in (path, log):
            target = folder / source.name
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600))
            shutil.copyfile(source, target)
    except OSError as e:
        raise CtxdbError(f"{path}: cannot be read: {e.strerror}") from e
    with suppress(sqlite3.Error):  # damaged: what opens it next says so
        remove_log(copy, 0.0)
    return copy


def _open_database(path: Path, folder: Path) -> sqlite3.Connection:
    return open_untouched(_readable(path, folder), named=path)


def _open_archive(path: Path, folder: Path) -> sqlite3.Connection | None:
    archive = archive_path(path)
    if not os.path.lexists(archive):
        return None
    return open_untouched_archive(_readable(archive, folder), named=archive)


def _refuse_version(path: Path, conn: sqlite3.Connection) -> None:
    fix = "bring both to the same version of ctxdb, and run `ctxdb sync` on both"
    if unknown_steps(conn):
        raise CtxdbError(f"{path}: was made by a newer ctxdb; {fix}")
    if applied(conn) != steps() or meanings_of(conn) != MEANINGS:
        raise CtxdbError(f"{path}: was made by an older ctxdb; {fix}")


def _refuse_damaged(path: Path, conn: sqlite3.Connection) -> None:
    try:
        (found,) = conn.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as e:
        found = str(e)
    if found != "ok":
        why = " ".join(str(found).split())
        raise CtxdbError(f"{path}: is damaged ({why}); run `ctxdb rebuild` on its machine first")
