"""Bringing the database up to date with all transcripts, as the only writer."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ctxdb.claude.layout import is_transcript
from ctxdb.errors import ArchiveError, CtxdbError, LockHeld
from ctxdb.files.walk import scan
from ctxdb.ingest.erase_forgotten import erase_forgotten, is_unfinished
from ctxdb.ingest.first_sync import build, remove_unfinished
from ctxdb.ingest.gate import set_patterns
from ctxdb.ingest.huge_line import read_announced
from ctxdb.ingest.masked_line import PlacesBefore, Reading, reading_of, stars_beside
from ctxdb.ingest.old_database import replace_old
from ctxdb.ingest.plan import utc_now
from ctxdb.ingest.run import Policy, read_found_files, start_readers
from ctxdb.ingest.side_files import read_side_files
from ctxdb.lock import WriterLock, current_writer
from ctxdb.memory import give_back
from ctxdb.privacy.rule_settings import archive_masker_of, masker_of
from ctxdb.store.connection import BUSY_SECONDS, naming_damage, open_writer
from ctxdb.store.erase_pages import erase_pages, is_unerased
from ctxdb.store.file_stats import load_stats
from ctxdb.store.integrity import check_if_due, check_weekly, note_checked
from ctxdb.store.schema import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ctxdb.config import Config
    from ctxdb.ingest.report import SyncReport
    from ctxdb.progress import Progress

OPTIMIZE_LINES = 20_000  # read at once before SQLite looks whether its statistics are out of date
TURN_SECONDS = 0.1  # between two looks whether another writer is done
UNHEARD_SECONDS = 10.0  # then a daemon that does not say how it is cannot

POLICY = Policy(start_readers=start_readers, read_huge_line=read_announced)


def sync(
    config: Config,
    *,
    wait: bool = False,
    busy: float = BUSY_SECONDS,
    progress: Progress,
    say: Callable[[str], None] = lambda _: None,
) -> SyncReport:
    """One pass over all roots, under the writer lock.

    With `wait` another writer is waited for, which is said once. A daemon that reads these roots is
    none to wait for, it does not end: LockHeld is raised when it has caught up. Programs that hold
    SQLite's own lock, as an editor may, are waited for `busy` seconds.
    """
    with _writing(config, say if wait else None) as lock, naming_damage(config.db_path):
        remove_unfinished(config.db_path)
        if lock.is_after_crash and config.db_path.exists():
            check_if_due(config.db_path, after_crash=True)
        report = replace_old_database(config, progress, busy=busy)
        if report is None:
            return read_new_lines(
                config, config.db_path, progress, busy=busy, is_archived=config.archive
            )
        if config.archive:
            with closing(open_writer(config.db_path, wait=busy)) as conn:
                _archive(conn, config, report)
        return report


def replace_old_database(
    config: Config, progress: Progress, *, busy: float = BUSY_SECONDS
) -> SyncReport | None:
    """Make a database of an earlier version again; None when it is of this one, or not there.

    The caller holds the writer lock.
    """
    done: list[SyncReport] = []

    def fill(path: Path, roots: Sequence[str]) -> None:
        done.append(read_new_lines(config, path, progress, roots=roots, busy=busy))

    if not replace_old(config.db_path, config.roots, fill, busy):
        return None
    (report,) = done
    report.rebuilt = True
    return report


def read_new_lines(
    config: Config,
    path: Path,
    progress: Progress,
    *,
    roots: Sequence[str] | None = None,
    busy: float = BUSY_SECONDS,
    before: PlacesBefore | None = None,
    is_archived: bool = False,
) -> SyncReport:
    """Bring one database up to date; it is made if it is not there.

    `path` is the database of the configuration, or a file that will take its place. Whatever it
    lacks is read from the archive of the configured database. What was masked `before` is masked
    again. If `is_archived`, the bytes of what was read go to the archive.
    """
    began = time.monotonic()
    is_new = not path.exists()
    roots = config.roots if roots is None else roots
    ignore = config.settings["ignore"]
    masker = masker_of(config.settings)
    built = build(path, roots, progress, masker, ignore, stars_beside(config.db_path))
    if built is not None:
        give_back()
    with closing(open_writer(path, wait=busy)) as conn:
        prepare(conn, path)
        if is_new:
            note_checked(conn)
        else:
            check_weekly(conn, path)
        if is_unerased(conn):
            erase_pages(conn, wait=0.0)
        set_patterns(conn, ignore)
        waits_for: list[str] = []
        if path == config.db_path and is_unfinished(conn):
            waits_for = erase_forgotten(path, conn, utc_now()).waits_for
        found = scan(roots, is_transcript, load_stats(conn))
        reading = reading_of(conn, masker, stars_beside(config.db_path))._replace(before=before)
        report = read_found_files(conn, found, POLICY, progress, reading)
        beside = read_side_files(conn, config.claude_dirs, utc_now(), reading)
        report.side_files = beside.read
        report.problems += beside.problems
        report.problems += (f"not yet erased: {one}" for one in waits_for)
        if config.archive or path != config.db_path:
            _read_archive(conn, config.db_path, report, progress, reading)
        if built is not None:
            report = _together(built, report)
            report.seconds = round(time.monotonic() - began, 3)
        if report.lines_read > OPTIMIZE_LINES:
            _optimize(conn)
        if is_archived:
            _archive(conn, config, report)
    return report


def _read_archive(
    conn: sqlite3.Connection,
    db_path: Path,
    report: SyncReport,
    progress: Progress,
    reading: Reading,
) -> None:
    """Read what only the archive has; if the archive cannot be used, the rest goes on."""
    from ctxdb.ingest.from_archive import read_lacking  # 10 ms, if there is an archive

    try:
        read_lacking(conn, db_path, report, progress, reading)
    except ArchiveError as e:
        report.problems.append(f"for the archive: {e}")


def _archive(conn: sqlite3.Connection, config: Config, report: SyncReport) -> None:
    """Keep the bytes of what was read; if that fails, the rows are stored all the same."""
    from ctxdb.ingest.archiving import archive_new, is_behind
    from ctxdb.ingest.from_archive import note_archive

    path, masker = config.db_path, archive_masker_of(config.settings)
    try:
        if not (report.lines_read or report.side_files or is_behind(path, conn)):
            return
        added = archive_new(path, conn, utc_now(), masker)
        note_archive(conn, path)
        report.archived_bytes = added.bytes
        report.problems += (f"for the archive: {problem}" for problem in added.problems)
    except (CtxdbError, OSError) as e:
        problem = f"for the archive: {e}"
        if problem not in report.problems:  # it could not be read either
            report.problems.append(problem)


@contextmanager
def _writing(config: Config, say: Callable[[str], None] | None) -> Iterator[WriterLock]:
    """Hold the writer lock. Without `say` it does not wait."""
    lock = WriterLock(config.db_path)
    is_said = False
    while True:
        try:
            lock.acquire()
            break
        except LockHeld as held:
            if say is None:
                if held.is_daemon:
                    from ctxdb.daemon_health import refuse_frozen

                    refuse_frozen(config.db_path)
                raise
            is_kept = _is_kept(config) if held.is_daemon else False
            if is_kept:
                raise
            if is_kept is False and not is_said:
                say(_waiting(held, config.db_path))
                is_said = True
        time.sleep(TURN_SECONDS)
    try:
        yield lock
    finally:
        lock.release()


def _is_kept(config: Config) -> bool | None:
    """Whether the daemon reads these roots; returns when it has caught up with them.

    None when it has ended.
    """
    from ctxdb.daemon_health import running

    give_up = time.monotonic() + UNHEARD_SECONDS
    while current_writer(config.db_path) is not None:
        daemon = running(config.db_path)
        if daemon is None:  # it has said nothing yet, or that it ends
            if time.monotonic() > give_up:
                return True
        elif not set(config.roots) <= set(daemon.roots) or daemon.is_frozen:
            return False
        elif daemon.state not in ("starting", "catching_up"):
            return True
        time.sleep(TURN_SECONDS)
    return None


def _waiting(held: LockHeld, db_path: Path) -> str:
    who = "another process" if held.pid is None else f"process {held.pid}"
    if held.is_daemon:
        from ctxdb.daemon_health import running

        daemon = running(db_path)
        if daemon is not None and daemon.is_frozen:
            return f"Waiting for a daemon that is frozen: {daemon.frozen_text}."
        return (
            f"Waiting for {who}, a daemon that reads other folders; `ctxdb daemon stop` stops it."
        )
    return f"Waiting for {who}, which is writing to {held.db_path}."


def _together(built: SyncReport, after: SyncReport) -> SyncReport:
    """What both did. To whoever asked there was nothing before, so no file has grown."""
    return replace(
        after,
        new_files=built.new_files + after.new_files,
        grown_files=0,
        lines_read=built.lines_read + after.lines_read,
        bad_lines=built.bad_lines + after.bad_lines,
        bytes_read=built.bytes_read + after.bytes_read,
    )


def _optimize(conn: sqlite3.Connection) -> None:
    with suppress(sqlite3.OperationalError):  # only advice for the planner: next time, then
        conn.execute("PRAGMA analysis_limit = 400")  # rows per index
        conn.execute("PRAGMA optimize")
