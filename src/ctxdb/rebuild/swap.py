"""Puts the new database in place of the old one, and keeps the old one beside it.

The content is copied into the old file by SQLite, in one transaction: programs that have it open
see the new rows, and a kill leaves the old ones. Only a file that is damaged, or whose pages have
another size, is replaced by a rename.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb.errors import CtxdbError
from ctxdb.ingest.first_sync import beside, put_in_place, sync_to_disk
from ctxdb.store.connection import SIDE_FILES, open_writer, remove_log

if TYPE_CHECKING:
    from ctxdb.progress import Progress

PAGES_AT_ONCE = 4096  # 32 MB
_MARGIN = 1.1


def kept_path(db_path: Path) -> Path:
    """Where the database is kept as it was before the last rebuild."""
    return beside(db_path, ".before-rebuild")


def size_of(path: Path) -> int:
    """The bytes of a database with its log."""
    total = 0
    for suffix in ("", "-wal"):
        with suppress(OSError):
            total += beside(path, suffix).stat().st_size
    return total


def refuse_without_space(db_path: Path, *, copies: int) -> None:
    """Raise unless so many copies of the database fit beside it."""
    need = int(size_of(db_path) * copies * _MARGIN)
    free = shutil.disk_usage(db_path.parent).free
    if free < need:
        raise CtxdbError(
            f"{db_path.parent}: {need >> 20:,} MB are needed to make the database again, and"
            f" {free >> 20:,} MB are free; nothing was changed: free some space, then try again"
        )


def keep_old(db_path: Path, progress: Progress) -> Path:
    """Copy the database to where it is kept; one that was kept before is replaced at the end."""
    kept, aside = kept_path(db_path), beside(kept_path(db_path), "-building")
    _remove(aside)
    try:
        os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        with (
            closing(open_writer(db_path)) as old,
            closing(sqlite3.connect(aside, isolation_level=None)) as copy,
        ):
            _copy(old, copy, progress, "Keeping the old database")
            copy.execute("PRAGMA journal_mode = DELETE")  # all in one file
        sync_to_disk(aside)
        _remove(kept)
        aside.rename(kept)
    finally:
        _remove(aside)
    return kept


def swap_content(new: Path, db_path: Path, progress: Progress) -> None:
    """Write the content of the new file into the old one: all of it or nothing."""
    uri = f"{new.absolute().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as source,
        closing(open_writer(db_path)) as target,
    ):
        _copy(source, target, progress, "Putting the new rows in place")
        target.execute("PRAGMA busy_timeout = 0")
        with suppress(sqlite3.OperationalError):  # a reader needs the log: later, then
            target.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def has_same_pages(new: Path, db_path: Path) -> bool:
    """Whether SQLite can copy one file into the other: a log cannot change the size of pages."""
    sizes = []
    for path in (new, db_path):
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as conn:
            sizes += conn.execute("PRAGMA page_size").fetchone()
    return len(set(sizes)) == 1


def swap_files(new: Path, db_path: Path, wait: float) -> Path:
    """Put the new file in the place of a damaged one, which is kept with its log."""
    kept = kept_path(db_path)
    if not remove_log(new, wait):
        raise CtxdbError(f"{new}: another program has it open; close it there, then try again")
    _remove(kept)
    for suffix in ("-wal", ""):
        with suppress(FileNotFoundError):
            _copy_file(beside(db_path, suffix), beside(kept, suffix))
    # From here on everything of the old file is in the kept one. Its log must not be read into the
    # new file.
    for suffix in ("-wal", "-shm", "-journal"):
        beside(db_path, suffix).unlink(missing_ok=True)
    put_in_place(new, db_path, replace=True)
    return kept


def drop_old(db_path: Path) -> int:
    """Delete the kept database; returns how many bytes that were, 0 when there is none."""
    kept = kept_path(db_path)
    size = size_of(kept)
    _remove(kept)
    return size


def _copy(
    source: sqlite3.Connection, target: sqlite3.Connection, progress: Progress, what: str
) -> None:
    (pages,) = source.execute("PRAGMA page_count").fetchone()
    (page_size,) = source.execute("PRAGMA page_size").fetchone()
    progress.start(pages * page_size, what)
    done = 0

    def tell(_status: int, remaining: int, total: int) -> None:
        nonlocal done
        progress.advance((total - remaining - done) * page_size)
        done = total - remaining

    source.backup(target, pages=PAGES_AT_ONCE, progress=tell, sleep=0.05)


def _copy_file(source: Path, target: Path) -> None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with source.open("rb") as data, os.fdopen(os.open(target, flags, 0o600), "wb") as out:
        shutil.copyfileobj(data, out, 1 << 20)
        out.flush()
        os.fsync(out.fileno())


def _remove(path: Path) -> None:
    for suffix in SIDE_FILES:
        beside(path, suffix).unlink(missing_ok=True)
