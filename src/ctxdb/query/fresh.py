"""Bring the database up to date before a question is answered, unless another process does.

First a glance: the stat of every transcript is compared with what the database has of it, which
takes some milliseconds for thousands of files. Only if something differs, an ordinary sync runs,
under the writer lock, before the question is answered. It has a few seconds. What it cannot read in
that time is left for ``ctxdb sync``, and a line says so. If anything fails here, a line says what,
and the question is answered from the database as it is.

A database that was made from other folders (the demo, a colleague's, a backup) is not changed:
reading these transcripts into it would be wrong and could not be undone.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from ctxdb.output import note

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from ctxdb.config import Config
    from ctxdb.lock import Writer
    from ctxdb.progress import Progress

BUDGET_SECONDS = 4.0  # of reading before an answer
BUSY_SECONDS = 0.5  # to wait for another program that holds the database's write lock
MADE_SECONDS = 0.05  # between two checks whether another process has made the database
STALLED_SECONDS = 60.0  # a database that has not grown for so long is not being made
STALE_SECONDS = 10.0  # a line that another process has not read for so long is mentioned


def freshen(
    config: Config,
    *,
    named: bool = False,
    say: Callable[[str], None] = note,
    budget: float = BUDGET_SECONDS,
) -> None:
    """Bring the database up to date as far as there is time; `say` what was not done.

    `named` is true if the command line names the database (--db): then it is not created.
    """
    import sqlite3

    from ctxdb.errors import CtxdbError, LockHeld, OldDatabase

    try:
        if not config.db_path.exists():
            _wait_until_made(config, say)
            if not named and not config.db_path.exists():
                _first_sync(config, say)
            return
        # A newer database is reported even if a daemon keeps it up to date: its columns may have
        # other meanings.
        glance = look(config, may_be_newer=False)
        if glance is not None and glance.is_outdated:
            why = "the rows were derived by an earlier version of ctxdb"
            say(f"{config.db_path}: {why}; `ctxdb sync` derives them again.")
            return
        if glance is None:
            return
        from ctxdb.lock import current_writer

        writer = current_writer(config.db_path)
        if writer is not None:
            if not _say_if_frozen(config, writer, glance, say):
                _say_if_stale(glance, say)
            return
        if glance.nothing_new:
            return
        _sync(config, say, budget)
    except LockHeld:
        if glance := look(config):
            _say_if_stale(glance, say)
    except OldDatabase:
        _rebuild(config, say)
    except CtxdbError as e:
        say(f"Not brought up to date: {e}")
    except OSError as e:
        say(f"Not brought up to date: {e.filename or config.db_path}: {e.strerror}")
    except sqlite3.Error as e:  # the database is being edited by hand, or the disk is full
        say(f"Not brought up to date: {config.db_path}: {e}")


# -- the glance ---------------------------------------------------------------------------------


class Glance:
    """What differs between the transcripts and what the database has of them."""

    __slots__ = ("behind", "is_outdated", "nothing_new", "oldest_ns")

    def __init__(self) -> None:
        self.is_outdated = False  # its rows have the meanings of an earlier version
        self.nothing_new = True
        self.behind = 0  # bytes not read yet
        self.oldest_ns = 0  # when the first of them was written; 0 if there are none


def look(config: Config, *, may_be_newer: bool = True) -> Glance | None:
    """Compare; return None if the database is not made from these roots, or cannot be read.

    Raise NewerSchema if the database is newer than this code, unless `may_be_newer`.
    Raise OldDatabase if it is older than the present tables.
    """
    import sqlite3

    from ctxdb.errors import CtxdbError, OldDatabase
    from ctxdb.store.connection import open_reader
    from ctxdb.store.version import MEANINGS, applied, is_current, meanings_of, steps

    try:
        conn = open_reader(config.db_path)
    except OldDatabase:
        raise
    except (CtxdbError, OSError):
        return None  # the question itself will fail, and say why
    try:
        try:
            glance = Glance()
            glance.is_outdated = meanings_of(conn) < MEANINGS
            glance.nothing_new = is_current(conn)
            if not glance.nothing_new:
                if not applied(conn):
                    return glance  # an empty file
                if not may_be_newer:
                    from ctxdb.store.schema import refuse_newer

                    refuse_newer(conn, config.db_path)
            if not _is_made_from(conn, config.roots):
                return None
            if applied(conn) == steps():  # else the sync that is due compares
                _compare(conn, config, glance)
            return glance
        finally:
            conn.close()
    except sqlite3.Error:
        return None


def _is_made_from(conn: sqlite3.Connection, roots: tuple[str, ...]) -> bool:
    """Return whether a file of the database is under one of these roots, or it has no files."""
    from ctxdb.files.walk import text_of

    of_root = "SELECT 1 FROM _file_marks WHERE root = ? LIMIT 1"
    return conn.execute("SELECT 1 FROM source_files LIMIT 1").fetchone() is None or any(
        conn.execute(of_root, (text_of(root),)).fetchone() for root in roots
    )


def _compare(conn: sqlite3.Connection, config: Config, glance: Glance) -> None:
    from ctxdb.claude.layout import is_transcript
    from ctxdb.files.walk import scan, text_of
    from ctxdb.store.file_stats import load_stats
    from ctxdb.store.tombstones import Tombstones

    tombstones = Tombstones(conn)
    found = scan(config.roots, is_transcript, load_stats(conn))
    gate = None
    for file in found.files:
        row = conn.execute(
            "SELECT id, \"offset\", state FROM source_files WHERE path = ? AND machine = ''",
            (text_of(file.path),),
        ).fetchone()
        if row is None and tombstones.stat_of(file.path) == file.stat:
            continue  # of a forgotten session, or of an ignored project
        file_id, offset, state = row or (None, 0, "new")
        if state == "unreadable" and not os.access(file.path, os.R_OK):
            continue
        left = file.size - offset
        if left > 0:
            if gate is None:
                from ctxdb.ingest.gate import Gate

                gate = Gate(conn, config.settings["ignore"])
            if file_id is not None and gate.reads_no_more_of(file.path, file_id):
                continue
            if file_id is None and gate.passes_over(file):
                glance.nothing_new = False  # a sync notes how it looks, and reads nothing of it
                continue
        glance.nothing_new = False
        if left > 0:
            glance.behind += left
            if not glance.oldest_ns or file.mtime_ns < glance.oldest_ns:
                glance.oldest_ns = file.mtime_ns
    # Below a folder that cannot be listed, or outside of these roots, a file may well be there.
    if any(not os.path.lexists(path) for path in found.gone):
        glance.nothing_new = False


# -- the sync -----------------------------------------------------------------------------------


class _Enough(BaseException):
    """The time for reading is over. Not an Exception, so that no `except Exception` stops it."""


class _Bounded:
    """Progress that ends the sync when its time is over; rows that are stored by then are kept.

    A sync can be interrupted between batches, as by Ctrl-C. This interrupts it in the same way.
    """

    def __init__(self, shown: Progress, seconds: float) -> None:
        self._shown = shown
        self._until = time.monotonic() + seconds
        self.left = 0

    def start(self, total_bytes: int, what: str) -> None:
        self.left = total_bytes
        self._shown.start(total_bytes, what)

    def advance(self, n: int) -> None:
        self.left -= n
        self._shown.advance(n)
        if self.left > 0 and time.monotonic() > self._until:
            raise _Enough

    def finish(self) -> None:
        self._shown.finish()


def _sync(config: Config, say: Callable[[str], None], budget: float) -> None:
    from ctxdb.ingest.sync import sync
    from ctxdb.progress import human_bytes, progress_on

    progress = _Bounded(progress_on(sys.stderr), budget)
    try:
        sync(config, progress=progress, busy=BUSY_SECONDS)
    except _Enough:
        progress.finish()
        say(
            f"{human_bytes(progress.left)} of transcripts are not read yet:"
            " this answer is without them. `ctxdb sync` reads them."
        )
    finally:
        progress.finish()


def _wait_until_made(config: Config, say: Callable[[str], None]) -> None:
    """Wait for the first sync of another process: the database appears when it is complete."""
    from ctxdb.lock import current_writer

    aside = config.db_path.with_name(config.db_path.name + "-building")
    is_said = False
    while not config.db_path.exists() and (writer := current_writer(config.db_path)):
        try:
            if time.time() - aside.stat().st_mtime > STALLED_SECONDS:
                return
        except FileNotFoundError:
            return
        if not is_said:
            say(f"Process {writer.pid} is making {config.db_path}: waiting for it.")
            is_said = True
        time.sleep(MADE_SECONDS)


def _first_sync(config: Config, say: Callable[[str], None]) -> None:
    """Create the database, without a limit of time: an answer from a part would be wrong."""
    from ctxdb.claude.layout import is_transcript
    from ctxdb.files.walk import scan

    total = sum(file.size for file in scan(config.roots, is_transcript).files)
    if not total:
        return
    from ctxdb.ingest.sync import sync
    from ctxdb.progress import human_bytes, progress_on

    say(f"Reading {human_bytes(total)} of transcripts into {config.db_path}, this once.")
    progress = progress_on(sys.stderr)
    try:
        sync(config, progress=progress)
    finally:
        progress.finish()


def _rebuild(config: Config, say: Callable[[str], None]) -> None:
    """Make a database of an earlier version again: nothing can be answered before that."""
    from ctxdb.ingest.old_database import find_old, is_made_from
    from ctxdb.ingest.sync import sync
    from ctxdb.progress import progress_on

    sources = find_old(config.db_path)
    if sources is None or not is_made_from(sources, config.roots):
        return  # the question itself will fail, and say why
    say(f"{config.db_path} was made by an earlier version of ctxdb: making it again, this once.")
    progress = progress_on(sys.stderr)
    try:
        sync(config, progress=progress)
    finally:
        progress.finish()


def _say_if_frozen(
    config: Config, writer: Writer, glance: Glance, say: Callable[[str], None]
) -> bool:
    """Say that the daemon does nothing, if that is so; return whether it is."""
    if not writer.is_daemon:
        return False
    from ctxdb.daemon_health import running

    daemon = running(config.db_path)
    if daemon is None or not daemon.is_frozen:
        return False
    without = ""
    if glance.behind:
        from ctxdb.progress import human_bytes

        without = f" This answer is without {human_bytes(glance.behind)} of transcripts."
    say(f"The daemon is frozen: {daemon.frozen_text}.{without}")
    return True


def _say_if_stale(glance: Glance, say: Callable[[str], None]) -> None:
    if not glance.oldest_ns or time.time() - glance.oldest_ns / 1e9 < STALE_SECONDS:
        return
    from ctxdb.progress import human_bytes

    say(
        f"Another process is writing to the database, and {human_bytes(glance.behind)} of"
        " transcripts are not in it yet: this answer is without them."
    )
