"""Take in what is new before a question is answered, if nobody else does it already.

First a glance: every transcript's stat is compared with what the database remembers, which costs
some milliseconds for thousands of files. Only when something differs is there an ordinary sync,
under the writer lock, over before the question is asked. It is bounded: what it cannot read in a
few seconds it leaves for ``ctxdb sync``, and says so. Whatever goes wrong here is said in one line
and the question is answered from what is there.

A database that was made from other folders (the demo, a colleague's, a backup) is left as it is:
reading your transcripts into it would be wrong and could not be undone.
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
    from ctxdb.progress import Progress

BUDGET_SECONDS = 4.0  # of reading before an answer
BUSY_SECONDS = 0.5  # for another program that holds the database's write lock
MADE_SECONDS = 0.05  # between two looks whether another process has made the database
STALLED_SECONDS = 60.0  # a database that does not grow for so long is not being made
STALE_SECONDS = 10.0  # what another process has not taken in for so long is worth a word


def freshen(
    config: Config,
    *,
    named: bool = False,
    say: Callable[[str], None] = note,
    budget: float = BUDGET_SECONDS,
) -> None:
    """Bring the database up to date as far as that is quickly done; say what could not be.

    `named` is true when the command line names the database (--db): such a one is not made.
    """
    import sqlite3

    from ctxdb.errors import CtxdbError, LockHeld

    try:
        if not config.db_path.exists():
            _wait_until_made(config, say)
            if not named and not config.db_path.exists():
                _first_sync(config, say)
            return
        # It is said whoever keeps the database up to date: its meanings may be others.
        glance = look(config, may_be_newer=False)
        if glance is None or glance.nothing_new:
            return
        from ctxdb.lock import current_writer

        if current_writer(config.db_path) is not None:
            _say_if_stale(glance, say)
            return
        _sync(config, say, budget)
    except LockHeld:
        if glance := look(config):
            _say_if_stale(glance, say)
    except CtxdbError as e:
        say(f"Not brought up to date: {e}")
    except OSError as e:
        say(f"Not brought up to date: {e.filename or config.db_path}: {e.strerror}")
    except sqlite3.Error as e:  # somebody edits the database by hand, or the disk is full
        say(f"Not brought up to date: {config.db_path}: {e}")


# -- the glance ---------------------------------------------------------------------------------


class Glance:
    """What differs between the transcripts and what the database remembers of them."""

    __slots__ = ("behind", "nothing_new", "oldest_ns")

    def __init__(self) -> None:
        self.nothing_new = True
        self.behind = 0  # bytes not taken in
        self.oldest_ns = 0  # when the first of them was written; 0 for nothing


def look(config: Config, *, may_be_newer: bool = True) -> Glance | None:
    """Compare; None where this database is not made from these roots, or cannot be read.

    Unless it may be, a database that is newer than this code raises NewerSchema.
    """
    import sqlite3

    from ctxdb.errors import CtxdbError
    from ctxdb.store.connection import open_reader
    from ctxdb.store.version import applied, is_current

    try:
        conn = open_reader(config.db_path)
    except (CtxdbError, OSError):
        return None  # whoever asks next says what is wrong with it
    try:
        try:
            glance = Glance()
            glance.nothing_new = is_current(conn)
            if not glance.nothing_new:
                if not applied(conn):
                    return glance  # an empty file
                if not may_be_newer:
                    from ctxdb.store.schema import refuse_newer

                    refuse_newer(conn, config.db_path)
            if not _is_made_from(conn, config.roots):
                return None
            _compare(conn, config.roots, glance)
            return glance
        finally:
            conn.close()
    except sqlite3.Error:
        return None


def _is_made_from(conn: sqlite3.Connection, roots: tuple[str, ...]) -> bool:
    """Whether any file of the database was found under one of these roots, or there is none."""
    from ctxdb.files.walk import text_of

    (has_files,) = conn.execute("SELECT EXISTS (SELECT 1 FROM source_files)").fetchone()
    return not has_files or any(
        conn.execute(
            "SELECT 1 FROM source_files WHERE root = ? LIMIT 1", (text_of(root),)
        ).fetchone()
        for root in roots
    )


def _compare(conn: sqlite3.Connection, roots: tuple[str, ...], glance: Glance) -> None:
    from ctxdb.claude.layout import is_transcript
    from ctxdb.files.walk import scan, text_of
    from ctxdb.store.file_numbers import load_numbers

    found = scan(roots, is_transcript, load_numbers(conn))
    for file in found.files:
        row = conn.execute(
            'SELECT "offset", state FROM source_files WHERE path = ?', (text_of(file.path),)
        ).fetchone()
        offset, state = row or (0, "new")
        if state == "unreadable" and not os.access(file.path, os.R_OK):
            continue
        glance.nothing_new = False
        left = file.size - offset
        if left > 0:
            glance.behind += left
            if not glance.oldest_ns or file.mtime_ns < glance.oldest_ns:
                glance.oldest_ns = file.mtime_ns
    # Below a folder that cannot be listed, or outside of these roots, a file may well be there.
    if any(not os.path.lexists(path) for path in found.gone):
        glance.nothing_new = False


# -- the sync -----------------------------------------------------------------------------------


class _Enough(BaseException):
    """The time for reading is over. Not an Exception: nobody on the way shall handle it."""


class _Bounded:
    """Progress that ends the pass when its time is over; what is stored by then is kept.

    A pass is made to be interrupted between batches, by Ctrl-C or a kill. This uses the same way.
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
    """A first sync shows its database when it is whole: an answer is worth waiting for it."""
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
    """There is no database yet: an answer from a part of it would be worth nothing."""
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


def _say_if_stale(glance: Glance, say: Callable[[str], None]) -> None:
    if not glance.oldest_ns or time.time() - glance.oldest_ns / 1e9 < STALE_SECONDS:
        return
    from ctxdb.progress import human_bytes

    say(
        f"Another process is writing to the database, and {human_bytes(glance.behind)} of"
        " transcripts are not in it yet: this answer is without them."
    )
