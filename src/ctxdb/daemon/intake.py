"""Read what is waiting into the database, slice after slice, and try again after any failure."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxdb.daemon.archiver import Archiver
from ctxdb.daemon.beside import Beside
from ctxdb.daemon.database import (
    WAL_BYTES,
    WAL_TRUNCATE_BYTES,
    WAL_WARN_BYTES,
    Database,
    Outdated,
    Trouble,
    trouble_of,
)
from ctxdb.daemon.logs import Log
from ctxdb.daemon.queue import Queue, Waiting
from ctxdb.daemon.rescan import Rescan
from ctxdb.daemon.slice import Limits, Slice
from ctxdb.daemon_health import Health
from ctxdb.errors import CtxdbError, NewerSchema, OldDatabase, is_of_the_machine
from ctxdb.files.walk import Scan
from ctxdb.ingest.erase_forgotten import erase_forgotten, is_unfinished
from ctxdb.ingest.plan import utc_now
from ctxdb.store.file_stats import load_stats
from ctxdb.store.source_files import has_unmarked_sessions

if TYPE_CHECKING:
    from ctxdb.archive.add import Added
    from ctxdb.files.walk import KnownStats

FIRST_WAIT_SECONDS = 0.05
LAG_MINUTES = 5
FIRST_RETRY_SECONDS = 1.0  # for a file that could not be read, for a reason that may pass
MOST_RETRY_SECONDS = 300.0


@dataclass(slots=True)
class Retry:
    """When to try a file again that could not be read."""

    wait: float
    at: float


@dataclass(slots=True)
class Intake:
    """Takes files from the queue and stores what is new in them."""

    database: Database
    rescan: Rescan
    health: Health
    log: Log
    make_slice: Callable[[sqlite3.Connection, Limits], Slice] = Slice
    beside: Beside = field(default_factory=Beside)
    archiver: Archiver = field(default_factory=Archiver)
    queue: Queue = field(default_factory=Queue)
    found: Scan | None = None  # a walk whose result is not stored yet
    wants_walk: bool = False  # the database may be another one: look at everything
    has_looked: bool = False  # the result of a walk was stored since the database was opened
    is_doubtful: bool = False  # another program has changed the database: compare all files again
    unsettled: bool = False  # not all files that a walk found are read yet
    trouble: Trouble | None = None
    retry_at: float = 0.0
    wait: float = 0.0
    one_by_one: int = 0  # number of slices that take a single file, to find one that makes it fail
    retries: dict[str, Retry] = field(default_factory=dict)
    wrote_at: float | None = None  # when something was last stored and not yet checkpointed
    unsaved_since: float | None = None  # and when first
    lags: dict[int, float] = field(default_factory=dict)  # minute -> the longest

    @property
    def has_work(self) -> bool:
        """True when a slice could do something."""
        return (
            self.found is not None
            or len(self.queue) > 0
            or self.unsettled
            or not self.database.is_open
        )

    def step(self) -> None:
        """Do one slice, or note why it failed and when to try again.

        Raises Outdated, NewerSchema or OldDatabase when this process cannot go on with it.
        """
        try:
            if not self._is_ready():
                pass  # a walk comes first
            elif self.found is not None:
                self._find(self.found)
            elif len(self.queue):
                self._take()
            elif self.unsettled:
                Slice(self.database.conn).settle()
                self.unsettled = False
                self.database.note()
            self.health.wal_bytes = self.database.wal_bytes()
            self._went_well()
        except (Outdated, NewerSchema, OldDatabase):
            raise  # waiting would not help
        except (sqlite3.Error, CtxdbError, OSError) as e:
            self._failed(e)

    @property
    def must_compare_all(self) -> bool:
        """True when a walk must be compared with the database, not with the last walk.

        The database has not seen the result of a walk yet, or another program has changed it.
        """
        return not self.has_looked or self.is_doubtful or self.found is not None

    def known_stats(self) -> KnownStats | None:
        """What the database knows of every file; None when it cannot be read now."""
        try:
            return load_stats(self.database.conn)
        except sqlite3.Error as e:
            self._failed(e)
            return None

    def read_beside(self) -> None:
        """Read what is new in the files beside the transcripts."""
        try:
            if not self._is_ready():
                return  # a walk comes first
            report = self.beside.read(self.database.conn)
            if report.read:
                self.wrote()
            self.database.note()
            for problem in report.problems:
                self.log.trouble(f"file {problem}", f"cannot read {problem}")
            self._went_well()
        except (Outdated, NewerSchema, OldDatabase):
            raise
        except (sqlite3.Error, CtxdbError, OSError) as e:
            self._failed(e)

    def add_to_archive(self) -> None:
        """Archive what was read. If that fails, lines are stored all the same."""
        self._archive(self.archiver.add)

    def tidy_archive(self) -> None:
        """Make the archive smaller: no line has come for a while."""
        self._archive(self.archiver.tidy)

    def _archive(self, do: Callable[[sqlite3.Connection], Added | None]) -> None:
        try:
            if why := self.archiver.failure_of_sealing():
                self.log.trouble("seal", f"cannot make the archive smaller: {why}")
            added = do(self.database.conn)
        except (sqlite3.Error, CtxdbError, OSError) as e:
            self.health.archive_problem = f"cannot write the archive: {e}"
            self.log.trouble("archive", self.health.archive_problem)
            return
        for problem in added.problems if added else ():
            self.log.trouble(f"archive {problem}", f"cannot archive {problem}")
        self.health.archive_problem = ""
        self.log.over("archive", "the archive can be written to again")

    def check(self) -> None:
        """Check that the database is still the one that was opened."""
        try:
            if not self._is_ready():
                self._went_well()
            elif self.database.was_changed_by_others():
                self.is_doubtful = True
        except (Outdated, NewerSchema, OldDatabase):
            raise
        except (sqlite3.Error, CtxdbError, OSError) as e:
            self._failed(e)

    # -- slices --------------------------------------------------------------------------------

    def _is_ready(self) -> bool:
        """False when the database had to be opened again: then a walk comes first."""
        if self.database.is_open:
            changed = self.database.changed()
            if changed is None and self.database.has_other_steps():
                changed = "another version of ctxdb has changed the database's schema"
            if changed is None:
                self.database.follow_settings()
                return True
            self.log.say(f"{changed}; opening what is there now")
            self._note_error(changed)
            self.database.drop()
        self.database.open()
        self.found = None
        self.has_looked = False
        self.wants_walk = True
        return False

    def _find(self, found: Scan) -> None:
        part = self.make_slice(self.database.conn, Limits())
        files = part.find(found)
        self.database.note()
        self.found = None
        self.has_looked = True
        self.unsettled = (
            self.unsettled or part.changes.are_any or has_unmarked_sessions(self.database.conn)
        )
        self.queue.add_backlog(files, time.monotonic())
        self._try_later(part)
        for path, why in found.unreadable:
            self.log.trouble(f"unreadable {path}", f"cannot read {path}: {why}")
        for problem in part.report.problems:
            self.log.trouble(f"file {problem}", f"cannot read {problem}")

    def _take(self) -> None:
        waiting = self.queue.take()
        if self.one_by_one > 0:
            self.one_by_one -= 1
            first, *others = waiting
            self.queue.put_back(others)
            waiting = [first]
        part = self.make_slice(self.database.conn, Limits())
        try:
            report = part.take([one.file for one in waiting])
        except Exception as e:
            if is_of_the_machine(e):
                self.queue.put_back(waiting)
                raise
            self._isolate(waiting, e)  # whatever is wrong with one file, the others are read
            return
        self.database.note()
        unfinished, unreached = set(part.unfinished), set(part.unreached)
        self.queue.put_off(one for one in waiting if one.file.path in unfinished)
        self.queue.put_back(one for one in waiting if one.file.path in unreached)
        for one in waiting:
            if one.file.path not in unreached and one.file.path not in part.failed:
                self.retries.pop(one.file.path, None)
        self._try_later(part)
        for problem in report.problems:
            self.log.trouble(f"file {problem}", f"cannot read {problem}")
        if report.lines_read:
            left = unfinished | unreached
            self._count(report.lines_read, report.bytes_read, waiting, left)

    def _isolate(self, waiting: list[Waiting], error: Exception) -> None:
        """A slice failed because of one of its files: find that file, and leave it for a while."""
        first, *others = waiting
        if others:
            self.queue.put_back(waiting)
            self.one_by_one = len(waiting)
            return
        path = first.file.path
        # The kind of error, not its message: that may quote the transcript.
        text = f"{path}: {type(error).__name__}; will try again later"
        self._retry(path)
        self._note_error(text)
        self.log.trouble(f"file {path}", text)

    def _count(self, lines: int, size: int, waiting: list[Waiting], left: set[str]) -> None:
        health = self.health
        now = time.monotonic()
        self.wrote()
        self.beside.is_wanted = True  # to-dos and saved outputs come with lines
        self.archiver.lines_came(now)
        health.lines += lines
        health.bytes += size
        health.slices += 1
        health.last_read_at = utc_now()
        done = [one.since for one in waiting if one.file.path not in left and one.is_fresh]
        if done:
            lag = (now - min(done)) * 1000
            health.lag_ms = round(lag, 1)
            minute = int(now // 60)
            self.lags = {m: most for m, most in self.lags.items() if minute - m < LAG_MINUTES}
            self.lags[minute] = max(lag, self.lags.get(minute, 0.0))
            health.max_lag_ms = round(max(self.lags.values()), 1)

    # -- files that could not be read ----------------------------------------------------------

    @property
    def retry_file_at(self) -> float:
        """When the next of them is due."""
        return min((one.at for one in self.retries.values()), default=math.inf)

    def retry_files(self, now: float) -> None:
        """Put the files that are due back into the queue."""
        due = [path for path, one in self.retries.items() if one.at <= now]
        files = self.rescan.look_again_at(due)
        self.queue.add(files, now)
        for path in due:
            self.retries[path].at = math.inf  # until a slice has tried it
        for path in set(due).difference(file.path for file in files):
            del self.retries[path]  # gone

    def retry_all_files(self) -> None:
        """Make all of them due."""
        for one in self.retries.values():
            one.at = 0.0

    def _try_later(self, part: Slice) -> None:
        """Note when to try the files again that failed: at longer and longer intervals."""
        for path, may_pass in part.failed.items():
            self._retry(path, may_pass=may_pass)

    def _retry(self, path: str, *, may_pass: bool = True) -> None:
        old = self.retries.get(path)
        wait = FIRST_RETRY_SECONDS if old is None else min(old.wait * 2, MOST_RETRY_SECONDS)
        at = time.monotonic() + wait if may_pass else math.inf
        self.retries[path] = Retry(wait, at)

    # -- trouble -------------------------------------------------------------------------------

    def _failed(self, error: BaseException) -> None:
        trouble = trouble_of(error)
        if self.trouble is None or self.trouble.kind != trouble.kind:
            self.wait = 0.0
            self._note_error(trouble.text)
        self.trouble = trouble
        self.wait = min(max(self.wait * 2, FIRST_WAIT_SECONDS), trouble.wait)
        self.retry_at = time.monotonic() + self.wait
        self.log.trouble(trouble.kind, f"{trouble.text}; will try again")
        if trouble.kind not in ("locked", "full"):
            self.database.drop()  # what is cached may be wrong

    def _went_well(self) -> None:
        if self.trouble is not None:
            self.log.over(self.trouble.kind, "the database can be written to again")
        self.trouble = None
        self.wait = self.retry_at = 0.0

    def _note_error(self, text: str) -> None:
        self.health.errors += 1
        self.health.last_error = text
        self.health.last_error_at = utc_now()

    # -- the log of SQLite ---------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Keep the -wal small. Where SQLite cannot do that now, try again later."""
        self.wrote_at = self.unsaved_since = None
        if not self.database.is_open or self.database.changed() is not None:
            self.check()
            return
        self._finish_erasing()
        size = self.database.wal_bytes()
        why = self.database.checkpoint(truncate=size >= WAL_TRUNCATE_BYTES) if size else ""
        left = self.health.wal_bytes = self.database.wal_bytes()
        self.health.wal_reason = why
        if left >= WAL_WARN_BYTES and why:
            text = f"the database's -wal is {left >> 20} MB: {why}"
            self.log.trouble("wal", text)
            self._note_error(text)
        if left >= WAL_BYTES and why:
            self.wrote()  # try again

    def _finish_erasing(self) -> None:
        """Erase what is left of forgotten sessions, if a reader has held that up."""
        try:
            if is_unfinished(self.database.conn):
                erase_forgotten(self.database.path, self.database.conn, utc_now(), wait=0.0)
                self.database.note()
        except (sqlite3.Error, CtxdbError, OSError) as e:
            self.log.trouble("erasing", f"what was forgotten is not erased yet: {e}")

    def wrote(self) -> None:
        """Note that something was stored: a checkpoint must move it from the -wal."""
        self.wrote_at = time.monotonic()
        self.unsaved_since = self.unsaved_since or self.wrote_at
