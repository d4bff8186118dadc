"""Making a backup, while other processes may write."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb.backup.archive_copy import copy_archive
from ctxdb.backup.folder import (
    ARCHIVE_NAME,
    NEW,
    DatabaseCopy,
    Manifest,
    checksum_of,
    locked,
    prepare_folder,
    private_file,
    read_manifest,
    sync_folder,
    write_manifest,
)
from ctxdb.errors import BackupError, CtxdbError, DamagedDatabase
from ctxdb.formatting import counted
from ctxdb.progress import human_bytes
from ctxdb.store.connection import naming_damage, open_reader, open_writer, write_transaction
from ctxdb.store.known_backups import DATABASE_NAME, database_name, remember_backup

if TYPE_CHECKING:
    from ctxdb.progress import Progress

COPY_PAGES = 2000  # at a time, between two signs of progress
SPARE_BYTES = 1 << 20  # that must be left on the disk


@dataclass(slots=True)
class BackupReport:
    """What was done."""

    folder: str
    made_at: str
    database_bytes: int = 0
    archive_bytes: int | None = None  # of the copy; None if there is no archive
    pieces_copied: int = 0  # frames and blocks
    bytes_copied: int = 0  # of them
    pieces_dropped: int = 0
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """Stable names for programs."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """The same for people."""
        yield f"Database     {human_bytes(self.database_bytes)} in {self.folder}"
        if self.archive_bytes is None:
            yield "Archive      none"
        else:
            new = f"{counted(self.pieces_copied, 'piece')} new ({human_bytes(self.bytes_copied)})"
            yield f"Archive      {human_bytes(self.archive_bytes)}, {new}"
        for problem in self.problems:
            yield f"Problem      {problem}"


def make_backup(db_path: Path, folder: Path, now: str, progress: Progress) -> BackupReport:
    """Copy the database and its archive into the folder, or leave the last backup as it was."""
    report = BackupReport(str(folder), now)
    if not db_path.exists():
        open_reader(db_path)  # says what to do
    if folder.resolve() == db_path.parent.resolve():
        raise BackupError(f"{folder}: holds the database itself; name another folder")
    prepare_folder(folder)
    with locked(folder), naming_damage(db_path):
        manifest = _refuse_other(db_path, folder)
        name = _remember(db_path, folder, now)
        copy = _copy_database(db_path, folder, now, progress)
        report.database_bytes = copy.bytes
        _copy_archive(db_path, folder, report, progress)
        # From here to the end either of the two copies may be in the folder.
        before = [] if manifest is None else manifest.copies
        write_manifest(folder, Manifest(now, str(db_path), name, [copy, *before]))
        (folder / (DATABASE_NAME + NEW)).replace(folder / DATABASE_NAME)
        sync_folder(folder)
        write_manifest(folder, Manifest(now, str(db_path), name, [copy]))
    return report


def _refuse_other(db_path: Path, folder: Path) -> Manifest | None:
    """Raise if the folder holds the backup of another database."""
    manifest = read_manifest(folder)
    if manifest is None:
        if (folder / DATABASE_NAME).exists():
            raise BackupError(f"{folder}: holds a database that is no backup; name another folder")
        return None
    with closing(open_reader(db_path)) as conn:
        is_same = manifest.name == database_name(conn)
    if not is_same and manifest.source != str(db_path):
        why = f"holds a backup of {manifest.source}"
        raise BackupError(f"{folder}: {why}; name another folder")
    return manifest


def _remember(db_path: Path, folder: Path, now: str) -> str:
    """Note the folder in the database. A write-protected one is backed up all the same."""
    if not os.access(db_path, os.W_OK):
        with closing(open_reader(db_path)) as conn:
            return database_name(conn)
    with closing(open_writer(db_path)) as conn, write_transaction(conn):
        return remember_backup(conn, str(folder), now)


def _copy_database(db_path: Path, folder: Path, now: str, progress: Progress) -> DatabaseCopy:
    """Copy the database as of one moment into a file aside, and check the copy.

    The pages are copied as they are: that takes a tenth of the time of VACUUM INTO.
    """
    aside = folder / (DATABASE_NAME + NEW)
    size = db_path.stat().st_size
    if shutil.disk_usage(folder).free < size + SPARE_BYTES:
        raise BackupError(f"{folder}: no space left for a copy of {human_bytes(size)}")
    with private_file(aside):
        pass
    progress.start(size, "Copying the database")
    left = size

    def advance(_status: int, remaining: int, total: int) -> None:
        nonlocal left
        now_left = size * remaining // max(total, 1)
        progress.advance(max(left - now_left, 0))
        left = now_left

    try:
        with closing(open_reader(db_path)) as conn, closing(_open(aside)) as copy:
            conn.execute("BEGIN")  # so that a writer does not make the copy begin again
            conn.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
            conn.backup(copy, pages=COPY_PAGES, progress=advance, sleep=0)
            # The copy must be complete in one file: a log would be left behind by the new name.
            copy.execute("PRAGMA journal_mode = DELETE").fetchone()
            (found,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as e:
        with suppress(OSError):
            aside.unlink()
        if e.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise BackupError(f"{aside}: {e}; the last backup is left as it was") from e
        raise
    if found != "ok":
        with suppress(OSError):
            aside.unlink()
        why = "is damaged; the last backup is left as it was; `ctxdb rebuild` repairs it"
        raise DamagedDatabase(db_path, why)
    return DatabaseCopy(checksum_of(aside), aside.stat().st_size, now)


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def _copy_archive(db_path: Path, folder: Path, report: BackupReport, progress: Progress) -> None:
    """Bring the copy of the archive up to date; if that fails, the database is backed up still."""
    target = folder / ARCHIVE_NAME
    try:
        copied = copy_archive(db_path, target, progress)
    except CtxdbError as e:
        report.problems.append(f"the archive was not backed up: {e}")
        return
    if copied is None:
        return
    report.archive_bytes = target.stat().st_size
    report.pieces_copied, report.bytes_copied = copied.pieces, copied.bytes
    report.pieces_dropped = copied.dropped
    if copied.moved_aside is not None:
        why = "the database has another archive now"
        report.problems.append(f"{why}; the copy of the earlier one is {copied.moved_aside}")
