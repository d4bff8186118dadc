"""The daemon's life from start to end: lock, signals, health, and the loop between them."""

from __future__ import annotations

import gc
import json
import os
import signal
import sqlite3
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb import __version__
from ctxdb import daemon_health as beats
from ctxdb.archive.opening import NewestStars
from ctxdb.config import config_file
from ctxdb.daemon.archiver import Archiver
from ctxdb.daemon.beside import Beside
from ctxdb.daemon.database import Database, Outdated, trouble_of
from ctxdb.daemon.heartbeat import Heartbeat
from ctxdb.daemon.hints import Hints, Wakeup
from ctxdb.daemon.intake import Intake
from ctxdb.daemon.loop import Loop
from ctxdb.daemon.notify import Notifier
from ctxdb.daemon.pusher import pusher_for
from ctxdb.daemon.rescan import Rescan
from ctxdb.daemon.slice import Slice
from ctxdb.daemon.status_words import DaemonReport
from ctxdb.daemon.watch import Watcher
from ctxdb.daemon_health import Health
from ctxdb.errors import CtxdbError, LockHeld, NewerSchema, OldDatabase
from ctxdb.ingest.first_sync import remove_unfinished
from ctxdb.ingest.masked_line import stars_beside
from ctxdb.ingest.plan import utc_now
from ctxdb.ingest.sync import replace_old_database
from ctxdb.lock import WAKE_SIGNAL, WriterLock, wanted_by, wanted_path
from ctxdb.memory import give_back
from ctxdb.privacy.rule_settings import archive_masker_of, masker_of
from ctxdb.store.integrity import check_if_due
from ctxdb.store.schema import is_outdated
from ctxdb.store.version import fingerprint

if TYPE_CHECKING:
    from types import FrameType

    from ctxdb.config import Config
    from ctxdb.daemon.logs import Log

LOCK_SECONDS = 0.25  # between two tries for the lock
MOST_SECONDS = 60.0  # between two rounds
MAX_FAILURES = 20  # in a row
INTERRUPTED = 130
# Signals by which the system ends a service: it ends as after SIGTERM, but with exit code 1.
ENDING = ("SIGQUIT", "SIGXCPU", "SIGPWR")
# Timers and others that mean nothing here; without a handler they would kill the daemon.
IGNORED = ("SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGSTKFLT")


class _Stopped(BaseException):
    """The daemon is to end while a database is being made again; the old one stays."""


class _SignsOfLife:
    """Progress that shows nothing: it tells systemd that the daemon is alive, and ends it."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def start(self, total_bytes: int, _what: str) -> None:
        if total_bytes:
            self._daemon.log.say("the database is of an earlier version: making it again")

    def advance(self, _n: int) -> None:
        self._daemon.heartbeat.beat()
        if self._daemon.stop_signal:
            raise _Stopped

    def finish(self) -> None:
        pass


class Daemon:
    """One database, kept up to date until told to stop."""

    def __init__(
        self,
        config: Config,
        log: Log,
        *,
        wait: bool = False,
        on_terminal: bool = False,
        given_roots: list[str] | None = None,
    ) -> None:
        fingerprint()  # note the version of this process before an upgrade
        self.config = config
        self.log = log
        self.wait = wait
        self.on_terminal = on_terminal  # it then ends when its terminal is closed
        self.wakeup = Wakeup()
        self.stop_signal = 0
        self.rescan_asked = False
        self.report_asked = False
        self.failed = ""  # why it ends, if that is not as it was asked to
        self.notifier = Notifier()
        pid = os.getpid()
        self.health = Health(
            pid=pid,
            process_started=beats.process_started(pid),
            version=__version__,
            database=str(config.db_path),
            roots=list(config.roots),
            given_roots=given_roots,
            started_at=utc_now(),
            archive=config.archive,
        )
        self.lock = WriterLock(config.db_path, role="daemon")
        self.wanted = wanted_path(config.db_path)
        self.database = Database(config.db_path, config.settings["ignore"], config_file())
        self.hints = Hints(self.wakeup)
        self.rescan = Rescan(config.roots)
        self.intake = Intake(self.database, self.rescan, self.health, log)
        masker = masker_of(config.settings)
        searched = archive_masker_of(config.settings)  # in the archive
        # From then on a file can be restored that has stars in it.
        stars = stars_beside(config.db_path) if searched is None else NewestStars(config.db_path)
        self.intake.make_slice = partial(Slice, masker=masker, stars=stars)
        self.intake.beside = Beside(config.claude_dirs, masker, stars)
        self.intake.archiver = Archiver(config.db_path if config.archive else None, searched)
        self.pusher = pusher_for(config)
        self.loop = Loop(Watcher(config.roots, self.hints), self.hints, self.rescan, self.intake)
        self._kept_mode = ""
        self.heartbeat = Heartbeat(self.health, config.db_path, self.notifier, log)
        self._was_busy = True

    # -- from outside --------------------------------------------------------------------------

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End after this slice. Safe in a signal handler and from any thread."""
        self.stop_signal = number
        self.wakeup.set()

    def _on_stop(self, number: int, _frame: FrameType | None) -> None:
        if self.stop_signal and number == signal.SIGINT:
            os._exit(INTERRUPTED)  # asked twice: SQLite rolls a half-written slice back
        self.stop(number)

    def _on_limit(self, number: int, _frame: FrameType | None) -> None:
        self.failed = f"told to end by {signal.Signals(number).name}"
        self.stop(number)

    def _on_report(self, _number: int, _frame: FrameType | None) -> None:
        self.report_asked = True
        self.wakeup.set()

    def _on_nothing(self, _number: int, _frame: FrameType | None) -> None:
        """Do nothing. A handler, not SIG_IGN: a process that this one starts has the default."""

    def _on_rescan(self, _number: int, _frame: FrameType | None) -> None:
        self.rescan_asked = True
        self.wakeup.set()

    def _take_signals(self) -> None:
        signal.signal(signal.SIGTERM, self._on_stop)
        signal.signal(signal.SIGINT, self._on_stop)
        # If SIGHUP is ignored (nohup), the daemon must outlive its terminal.
        stays = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN or not self.on_terminal
        signal.signal(signal.SIGHUP, self._on_rescan if stays else self._on_stop)
        signal.signal(signal.SIGUSR1, self._on_report)
        for name in ENDING:
            if number := getattr(signal, name, None):
                signal.signal(number, self._on_limit)
        for name in IGNORED:
            if number := getattr(signal, name, None):
                signal.signal(number, self._on_nothing)
        signal.signal(WAKE_SIGNAL, lambda _number, _frame: self.wakeup.set())
        signal.set_wakeup_fd(self.wakeup.fd, warn_on_full_buffer=False)

    # -- from start to end ---------------------------------------------------------------------

    def run(self, ready: Callable[[], None] = lambda: None, *, signals: bool = True) -> int:
        """Keep the database up to date until a signal comes; return the exit code."""
        if signals:
            self._take_signals()
        if not self._acquire():
            return self._exit_code()
        try:
            self.heartbeat.beat(force=True)
            if self._open():
                self._watch(ready)
            self.health.why = self.failed  # what it waited for is not the reason
        except BaseException as e:
            self.health.why = str(e) if isinstance(e, CtxdbError) else type(e).__name__
            raise
        finally:
            self._end()
        return self._exit_code()

    def _exit_code(self) -> int:
        if self.failed:
            return 1
        return INTERRUPTED if self.stop_signal == signal.SIGINT else 0

    def _acquire(self) -> bool:
        while not self.stop_signal:
            try:
                self.lock.acquire()
            except LockHeld as e:
                if not self.wait:
                    raise
                self.log.trouble("lock", f"waiting: {e}")
                self.wakeup.wait(LOCK_SECONDS)
            else:
                remove_unfinished(self.config.db_path)
                return True
        return False

    def _regain_lock(self) -> None:
        """Take the lock again: its file was removed, and another process may hold a new one."""
        self.log.say(f"{self.lock.path} was removed; taking the lock again")
        self.lock.release()
        while not self.stop_signal:
            try:
                self.lock.acquire()
            except CtxdbError as e:
                self.log.trouble("lock", f"waiting: {e}")
                self.heartbeat.ping()
                self.wakeup.wait(LOCK_SECONDS)
            else:
                self.heartbeat.beat(force=True)
                return

    def _lend_lock(self) -> None:
        """Let another command of ctxdb write, such as `forget`, and go on when it is done."""
        self.log.say("another command needs the database; waiting for it")
        self._say_state("waiting", "another command of ctxdb is writing")
        self.database.drop()
        self.heartbeat.beat(force=True)
        self.lock.release()
        while not self.stop_signal and wanted_by(self.wanted) is not None:
            self.heartbeat.ping()
            self.wakeup.wait(LOCK_SECONDS)
        # What is known of errors may name a file that was forgotten.
        self.health.last_error = self.health.last_error_at = None
        self.log.told.clear()
        while not self.stop_signal:
            try:
                self.lock.acquire()
            except CtxdbError as e:
                self.log.trouble("lock", f"waiting: {e}")
                self.heartbeat.ping()
                self.wakeup.wait(LOCK_SECONDS)
            else:
                self.loop.rescan_now()
                self.heartbeat.beat(force=True)
                return

    def _open(self) -> bool:
        """Open the database. Wait while it is locked; raise anything that the user must repair."""
        while not self.stop_signal:
            try:
                self._check()
                replace_old_database(self.config, _SignsOfLife(self))
                self._rebuild_if_outdated()
                self.database.open()
            except _Stopped:
                return False
            except (CtxdbError, sqlite3.Error) as e:
                trouble = trouble_of(e)
                if trouble.kind != "locked":
                    raise
                self._say_state("blocked", trouble.text)
                self.log.trouble(trouble.kind, trouble.text)
                self.heartbeat.beat()
                self.wakeup.wait(LOCK_SECONDS)
            else:
                return True
        return False

    def _check(self) -> None:
        """Look for damage, if it is time to."""
        if self.config.db_path.exists():
            check_if_due(self.config.db_path, after_crash=self.lock.is_after_crash)

    def _rebuild_if_outdated(self) -> None:
        """After an upgrade that changed what rows mean, derive all of them again."""
        if is_outdated(self.config.db_path):
            from ctxdb.rebuild.rebuild import rebuild_if_outdated  # needed once, if ever

            rebuild_if_outdated(self.config, _SignsOfLife(self), self.log.say)

    def _watch(self, ready: Callable[[], None]) -> None:
        self.loop.start()
        self._say_state("catching_up")
        self._keep_state()
        gc.collect()
        gc.freeze()  # what is loaded now stays: the collector need not go through it again
        self.heartbeat.beat(force=True)
        self.log.say(f"watching {', '.join(self.config.roots)} for {self.config.db_path}")
        ready()
        self.notifier.send("READY=1")
        failures = 0
        while not self.stop_signal:
            if not self.lock.is_kept:
                self._regain_lock()
                continue
            if wanted_by(self.wanted) is not None:
                self._lend_lock()
                continue
            try:
                self.loop.once(min(MOST_SECONDS, self.heartbeat.seconds_left()))
                failures = 0
            except (Outdated, NewerSchema, OldDatabase):
                raise
            except Exception as e:
                failures += 1
                if failures > MAX_FAILURES:
                    raise
                self._survive(e, failures)
            if self.rescan_asked:
                self.rescan_asked = False
                self.log.say("told to look at everything")
                self.loop.rescan_now()
            self.pusher.look(time.monotonic(), self.log)
            self._note_state()
            self.heartbeat.beat(force=self.report_asked)
            if self.report_asked:
                self.report_asked = False
                self._report()

    def _report(self) -> None:
        """Write what `ctxdb daemon status` shows to the log."""
        for line in DaemonReport(self.health, running=True).lines():
            self.log.say(line.strip())

    def _survive(self, error: Exception, failures: int) -> None:
        """Go on after a bug in ctxdb: the next walk compares everything again."""
        # The place and the kind of the error, not its message: that may quote a transcript.
        frames = traceback.extract_tb(error.__traceback__)
        where = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames[-4:]))
        text = f"{type(error).__name__} at {where}"
        self.health.errors += 1
        self.health.last_error, self.health.last_error_at = text, utc_now()
        self.log.trouble("bug", f"{text}; going on")
        self.intake.is_doubtful = True
        self.loop.rescan_now()
        self.wakeup.wait(min(2.0**failures / 10, 30.0))

    def _end(self) -> None:
        """Close everything, and write that the daemon has stopped."""
        with suppress(OSError):
            self.notifier.send("STOPPING=1")
        self.intake.archiver.stop_sealing()
        self.loop.watcher.disarm()
        self.pusher.end()
        if self.lock.is_kept and self.database.is_open and self.database.changed() is None:
            self._say_state("stopped", self.health.why)
            self._keep_state()
        self.database.drop()
        self.health.state = "stopped"
        if self.lock.is_kept:  # else this could replace the health file of another daemon
            self.heartbeat.beat(force=True)
        self.log.say("stopped" + (f": {self.health.why}" if self.health.why else ""))
        self.lock.release()

    # -- health --------------------------------------------------------------------------------

    def _note_state(self) -> None:
        intake, health = self.intake, self.health
        health.pending = len(intake.queue)
        if intake.trouble is not None:
            state = "blocked" if intake.trouble.kind == "locked" else "waiting"
            self._say_state(state, intake.trouble.text)
        elif intake.found is not None or not intake.has_looked or intake.queue.backlog:
            self._say_state("catching_up")
        else:
            self._say_state("watching")
            if self._was_busy or health.mode != self._kept_mode:
                self._keep_state()
            if self._was_busy:
                self._was_busy = False
                self._give_memory_back()

    def _say_state(self, state: str, why: str = "") -> None:
        if state == "catching_up":
            self._was_busy = True
        if (self.health.state, self.health.why) != (state, why):
            self.health.state, self.health.why, self.health.since = state, why, utc_now()

    def _keep_state(self) -> None:
        """Store in the database what a reader of it should know about the daemon."""
        self._kept_mode = self.health.mode
        names = ("state", "since", "mode", "mode_reason", "version", "last_error")
        facts = {name: getattr(self.health, name) for name in names}
        if self.database.is_open:
            self.database.keep("daemon", json.dumps(facts))
            self.intake.wrote()

    def _give_memory_back(self) -> None:
        """Free memory after much reading: a waiting daemon needs little."""
        with suppress(sqlite3.Error):
            self.database.conn.execute("PRAGMA shrink_memory")
        give_back()
