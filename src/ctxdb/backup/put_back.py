"""Putting a backup in the place of the database; what is there now is moved aside, not deleted.

What was forgotten since the backup was made stays forgotten: the present database tells it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb.archive.archive_file import archive_path
from ctxdb.archive.opening import newest_opener
from ctxdb.backup.check import check_backup
from ctxdb.backup.folder import ARCHIVE_NAME, private_file, sync_folder
from ctxdb.errors import BackupError, CtxdbError
from ctxdb.forget.remove import remove_sessions
from ctxdb.formatting import counted
from ctxdb.ingest.erase_forgotten import erase_forgotten
from ctxdb.ingest.from_archive import look_at_archive_again
from ctxdb.ingest.plan import utc_now
from ctxdb.lock import WriterLock, refuse_unsafe
from ctxdb.progress import NullProgress, human_bytes
from ctxdb.store.connection import (
    SIDE_FILES,
    open_old,
    open_writer,
    remove_log,
    write_transaction,
)
from ctxdb.store.known_backups import BEFORE, DATABASE_NAME
from ctxdb.store.schema import prepare
from ctxdb.store.tombstones import Kept, Tombstones, give_kept, read_kept

if TYPE_CHECKING:
    from ctxdb.progress import Progress

RESTORING = ".restoring"  # added to the name of a file that is not complete yet
_COPY_BYTES = 1 << 20
_WAIT_SECONDS = 5.0


@dataclass(slots=True)
class PutBack:
    """What was done."""

    database: str
    made_at: str  # of the backup
    sessions: int
    moved_to: str | None = None  # folder with what was there before
    moved: list[str] = field(default_factory=list)
    still_forgotten: int = 0  # sessions of the backup that were forgotten later
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """Stable names for programs."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """The same for people."""
        yield f"Restored     {self.database}, as of {self.made_at}: {self.sessions:,} sessions"
        if self.moved_to:
            yield f"Moved aside  {', '.join(self.moved)} to {self.moved_to}"
        if self.still_forgotten:
            sessions = counted(self.still_forgotten, "session")
            yield f"Forgotten    {sessions} of the backup, as you had it in the database before"
        yield from (f"Note         {problem}" for problem in self.problems)
        yield "Next         `ctxdb sync` reads what has come since"


def put_back(folder: Path, db_path: Path, stamp: str, progress: Progress) -> PutBack:
    """Check the backup and put it in place; nothing is changed unless all of it is intact."""
    checked = check_backup(folder, progress)
    if not checked.ok:
        first, *_ = checked.damage
        raise BackupError(f"{folder}: the backup is damaged, nothing was restored: {first}")
    if folder.resolve() == db_path.parent.resolve():
        raise BackupError(f"{folder}: the backup is in the place of the database already")
    done = PutBack(str(db_path), checked.made_at, checked.sessions)
    names = {DATABASE_NAME: db_path}
    if (folder / ARCHIVE_NAME).exists():
        names[ARCHIVE_NAME] = archive_path(db_path)
    with WriterLock(db_path):
        kept = _kept_of(db_path, done)
        _need_space(folder, names, db_path.parent)
        for target in names.values():
            refuse_unsafe(target)
        try:
            for name, target in names.items():
                _copy(folder / name, _aside(target), progress)
            _compare_again(_aside(db_path))
            if kept is not None and kept.key is not None:
                _forget_again(_aside(db_path), folder, kept, done)
            _move_away([*names.values()], db_path, stamp, done)
            # The archive first: a database without it would look as if nothing was archived.
            for target in reversed(names.values()):
                _aside(target).replace(target)
            sync_folder(db_path.parent)
            if done.still_forgotten:
                _erase(db_path, done)
        except OSError as e:
            raise BackupError(_why(e, done)) from e
        finally:
            for target in names.values():
                with suppress(OSError):
                    _aside(target).unlink()
    return done


def _why(error: OSError, done: PutBack) -> str:
    text = f"{error.filename or done.database}: {error.strerror or error}"
    if not done.moved:
        return f"{text}; nothing was restored"
    return f"{text}; what was there before is in {done.moved_to}"


def _aside(target: Path) -> Path:
    return target.with_name(target.name + RESTORING)


def _need_space(folder: Path, names: dict[str, Path], target: Path) -> None:
    size = sum((folder / name).stat().st_size for name in names)
    if shutil.disk_usage(target).free < size:
        raise BackupError(f"{target}: no space left for {human_bytes(size)}")


def _copy(source: Path, target: Path, progress: Progress) -> None:
    progress.start(source.stat().st_size, f"Copying {source.name}")
    with source.open("rb") as file, private_file(target) as fd:
        while data := file.read(_COPY_BYTES):
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            progress.advance(len(data))
        os.fsync(fd)


def _compare_again(path: Path) -> None:
    """Let the next sync read what the archive has and this database lacks.

    The archive of a backup is copied after the database, so it may know more.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        look_at_archive_again(conn)


def _kept_of(db_path: Path, done: PutBack) -> Kept | None:
    """What the present database keeps out; None if that is not known."""
    if not db_path.exists():
        why = "there was no database to tell what was forgotten after the backup was made"
        done.problems.append(f"{why}: all {counted(done.sessions, 'session')} of it are back")
        return None
    try:
        with closing(open_old(db_path)) as conn:
            return read_kept(conn)
    except (sqlite3.Error, CtxdbError):
        why = "the database that was there cannot be read"
        done.problems.append(f"{why}: sessions that you forgot since the backup are back")
        return None


def _forget_again(path: Path, folder: Path, kept: Kept, done: PutBack) -> None:
    """Remove from the copy what was forgotten later, before it gets its name."""
    with closing(open_writer(path)) as conn:
        prepare(conn, path)
        with write_transaction(conn):
            is_given = give_kept(conn, kept)
        if not is_given:
            why = "the backup is of another database, with its own list of forgotten sessions"
            done.problems.append(f"{why}: check `ctxdb forget --list`")
            return
        known = Tombstones(conn)
        ids = [one for (one,) in conn.execute("SELECT id FROM sessions")]
        doomed = [one for one in ids if known.is_forgotten(one)]
        if doomed:
            # Transcripts that linked sessions are read again from may be in the backup only.
            with closing(newest_opener(folder / DATABASE_NAME)) as opener:
                remove_sessions(conn, doomed, utc_now(), NullProgress(), opener)
        done.still_forgotten = len(doomed)
        done.sessions -= len(doomed)
        conn.execute("PRAGMA journal_mode = DELETE").fetchone()  # a log would be left behind


def _erase(db_path: Path, done: PutBack) -> None:
    """Erase the bytes of forgotten sessions; a sync does it if this cannot."""
    with closing(open_writer(db_path)) as conn:
        erased = erase_forgotten(db_path, conn, utc_now())
    done.problems += (f"not yet erased, the next sync does it: {one}" for one in erased.waits_for)


def _move_away(targets: list[Path], db_path: Path, stamp: str, done: PutBack) -> None:
    """Move what is there, with the files that SQLite keeps beside it, into a folder of its own."""
    with suppress(sqlite3.Error, CtxdbError):  # a damaged one is moved with its log
        for target in targets:
            if target.exists():
                remove_log(target, _WAIT_SECONDS)
    present = [
        path
        for target in targets
        for suffix in SIDE_FILES
        if (path := target.with_name(target.name + suffix)).exists()
    ]
    if not present:
        return
    folder = db_path.with_name(f"{db_path.name}{BEFORE}{stamp}")
    folder.mkdir(mode=0o700, exist_ok=True)
    done.moved_to = str(folder)
    for path in present:
        path.rename(folder / path.name)
        done.moved.append(path.name)
