"""Make the database again from the sources and the archive, compare, and put it in place.

The new file is made beside the old one, which is not touched before the new one is whole. What no
bytes are left of is carried over: sessions with everything that is linked to them, lines of
history.jsonl, files beside the transcripts. Which these are is found by trying: a file that has
been read less far than before counts as gone, and then everything is made once more.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb.elsewhere import is_elsewhere
from ctxdb.errors import CtxdbError, DamagedDatabase, NoDatabase
from ctxdb.files.walk import store_path
from ctxdb.ingest.first_sync import remove_unfinished, salvaged, unfinished
from ctxdb.ingest.plan import utc_now
from ctxdb.ingest.sync import read_new_lines
from ctxdb.lock import WriterLock, refuse_unsafe
from ctxdb.rebuild.carry import carry_sessions
from ctxdb.rebuild.carry_beside import carry_history, carry_side_files
from ctxdb.rebuild.changes import find_changes
from ctxdb.rebuild.chosen_before import ChosenBefore, keep_chosen_rows
from ctxdb.rebuild.lost import files_gone, not_derived
from ctxdb.rebuild.report import RebuildReport
from ctxdb.rebuild.salvage import salvage
from ctxdb.rebuild.swap import (
    has_same_pages,
    keep_old,
    refuse_without_space,
    swap_content,
    swap_files,
)
from ctxdb.store.connection import (
    BUSY_SECONDS,
    open_old,
    open_writer,
    refuse_foreign,
    write_transaction,
)
from ctxdb.store.erase_pages import erase_pages
from ctxdb.store.integrity import find_damage
from ctxdb.store.kept import keep_own_tables, keep_rows
from ctxdb.store.schema import is_outdated, prepare, refuse_newer
from ctxdb.store.version import MEANINGS, meanings_of
from ctxdb.verify.reach import Node, all_but
from ctxdb.verify.side import settle_side_files

if TYPE_CHECKING:
    from ctxdb.config import Config
    from ctxdb.progress import Progress

_FILE_COLUMNS = "PRAGMA main.table_info(source_files)"
MOST_TRIES = 4  # each of them carries over what the one before could not derive


def rebuild(config: Config, progress: Progress, *, check_only: bool = False) -> RebuildReport:
    """Derive all rows again, under the writer lock. With `check_only` the new file is deleted."""
    if not config.db_path.exists():
        raise NoDatabase(config.db_path)
    with WriterLock(config.db_path):
        return rebuild_locked(config, progress, check_only=check_only)


def rebuild_if_outdated(
    config: Config, progress: Progress, say: Callable[[str], None]
) -> RebuildReport | None:
    """Derive all rows again if an earlier version gave them other meanings; None if it did not.

    The caller holds the writer lock.
    """
    if not is_outdated(config.db_path):
        return None
    why = "its rows were derived by an earlier version of ctxdb; deriving them again, this once"
    say(f"{config.db_path}: {why}.")
    return rebuild_locked(config, progress)


def rebuild_locked(
    config: Config, progress: Progress, *, check_only: bool = False
) -> RebuildReport:
    """As `rebuild`; the caller holds the writer lock."""
    began = time.monotonic()
    path = config.db_path
    refuse_unsafe(path)
    remove_unfinished(path)
    refuse_without_space(path, copies=1 if check_only else 3)
    report = RebuildReport(str(path), meanings_after=MEANINGS)
    report.damage = find_damage(path, everything=True)
    if report.damage is not None:
        refuse_foreign(path)
    new = unfinished(path)
    try:
        with _old(path, report) as old:
            refuse_newer(old, path)
            version = _data_version(old)
            report.meanings_before = meanings_of(old)
            _derive(config, old, new, report, progress)
            report.changes = find_changes(old, new)
            if _data_version(old) != version:
                raise CtxdbError(f"{path}: another program changed it meanwhile; try again")
        if not check_only:
            _put_in_place(path, new, report, progress)
    finally:
        remove_unfinished(path)
    report.seconds = round(time.monotonic() - began, 3)
    return report


def _data_version(conn: sqlite3.Connection) -> int:
    (found,) = conn.execute("PRAGMA data_version").fetchone()
    return int(found)


@contextmanager
def _old(path: Path, report: RebuildReport) -> Iterator[sqlite3.Connection]:
    """The old database, or of a damaged one what can be read."""
    source = path
    if report.damage is not None:
        source = salvaged(path)
        try:
            found = salvage(path, source)
            report.salvaged_rows, has_tombstones = found.rows, found.has_all_tombstones
        except sqlite3.DatabaseError:  # not even its list of tables
            report.salvaged_rows, has_tombstones = 0, False
        report.lost_tombstones = not has_tombstones
    with closing(open_old(source)) as conn:
        if "machine" not in {name for _, name, *_ in conn.execute(_FILE_COLUMNS)}:
            # Of an earlier version, in which all files are of this machine.
            conn.execute(
                "CREATE TEMP VIEW source_files AS SELECT *, '' AS machine FROM main.source_files"
            )
        yield conn


def _derive(
    config: Config, old: sqlite3.Connection, new: Path, report: RebuildReport, progress: Progress
) -> None:
    lost: set[Node] = files_gone(old, config.db_path)
    for _ in range(MOST_TRIES):
        carried = _fill(config, old, new, lost, report, progress)
        with closing(open_writer(new)) as conn:
            more = not_derived(old, conn, carried)
            if not more:
                _finish(old, conn, report)
                return
        lost |= more
        _remove_new(new)
    raise CtxdbError(
        f"{config.db_path}: its transcripts change while they are read; nothing was changed:"
        " try again"
    )


def _remove_new(new: Path) -> None:
    """Remove a file that was made, to make it once more."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        new.with_name(new.name + suffix).unlink(missing_ok=True)


def _fill(
    config: Config,
    old: sqlite3.Connection,
    new: Path,
    lost: set[Node],
    report: RebuildReport,
    progress: Progress,
) -> set[int]:
    """Fill the new file; returns the files that were carried over."""
    left = all_but(old, lost)
    sessions = {found for (found,) in old.execute("SELECT id FROM sessions")} - left.sessions
    files = {found for (found,) in old.execute("SELECT id FROM source_files")} - left.files
    with closing(open_writer(new)) as conn:
        prepare(conn, new)
        with write_transaction(conn):
            keep_rows(old, conn)
        report.carried_sessions = carry_sessions(sessions, old, conn, files=files).sessions
        with write_transaction(conn):
            conn.executemany(
                "INSERT INTO _carried_sessions VALUES (?, ?, ?)",
                [(one, utc_now(), meanings_of(old)) for one in sorted(sessions)],
            )
            carry_side_files(old, conn, config.db_path)
    roots, before = _all_roots(old, config), ChosenBefore(old)
    done = read_new_lines(config, new, progress, roots=roots, before=before)
    report.lines_read = done.lines_read
    report.from_archive = done.from_archive
    report.problems = done.problems
    return files


def _all_roots(old: sqlite3.Connection, config: Config) -> list[str]:
    """The folders to read: the present ones, and those that the old database was made from."""
    named = {store_path(root)[0] for root in config.roots}
    found = old.execute("SELECT DISTINCT root FROM _file_marks WHERE root IS NOT NULL")
    others = {
        root
        for (root,) in found
        if isinstance(root, str) and root.startswith("/") and not is_elsewhere(root)
    }
    return [*config.roots, *sorted(others - named)]


def _finish(old: sqlite3.Connection, new: sqlite3.Connection, report: RebuildReport) -> None:
    """Add what only the old database knows: when files came and went, and what the user made."""
    with write_transaction(new):
        new.executemany(
            "UPDATE source_files SET first_seen_at = coalesce(?1, first_seen_at),"
            ' last_read_at = iif("offset" = ?3, coalesce(?2, last_read_at), last_read_at),'
            " missing_since = iif(missing_since IS NULL, NULL, coalesce(?4, missing_since))"
            " WHERE path = ?5 AND machine = ?6",
            old.execute(
                'SELECT first_seen_at, last_read_at, "offset", missing_since, path, machine'
                " FROM source_files"
            ),
        )
        new.executemany(
            "UPDATE sessions SET source_deleted_at = ? WHERE id = ?"
            " AND source_deleted_at IS NOT NULL",
            old.execute(
                "SELECT source_deleted_at, id FROM sessions WHERE source_deleted_at IS NOT NULL"
            ),
        )
        report.carried_history = carry_history(old, new)
        chosen = keep_chosen_rows(old, new)
        keep_own_tables(old, new)
    settle_side_files(new)
    if chosen:  # for a moment they were in the new file as they are
        erase_pages(new)
    (report.transcripts,) = new.execute(
        'SELECT count(*) FROM source_files WHERE "offset" > 0'
    ).fetchone()


def _put_in_place(path: Path, new: Path, report: RebuildReport, progress: Progress) -> None:
    if report.damage is None and has_same_pages(new, path):
        try:
            report.kept = str(keep_old(path, progress))
            swap_content(new, path, progress)
        except DamagedDatabase as e:  # found while it was copied
            report.damage = e.why
            report.kept = str(swap_files(new, path, BUSY_SECONDS))
    else:
        report.kept = str(swap_files(new, path, BUSY_SECONDS))
    report.is_swapped = True
