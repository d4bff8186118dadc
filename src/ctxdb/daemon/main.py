"""The daemon's life from start to end: lock, signals, health, and the loop between them."""

from __future__ import annotations

import gc
import json
import os
import signal
import sqlite3
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb import __version__
from ctxdb import daemon_health as beats
from ctxdb.daemon.archiver import Archiver
from ctxdb.daemon.beside import Beside
from ctxdb.daemon.database import Database, Outdated, trouble_of
from ctxdb.daemon.heartbeat import Heartbeat
from ctxdb.daemon.hints import Hints, Wakeup
from ctxdb.daemon.intake import Intake
from ctxdb.daemon.loop import Loop
from ctxdb.daemon.notify import Notifier
from ctxdb.daemon.rescan import Rescan
from ctxdb.daemon.watch import Watcher
from ctxdb.daemon_health import Health
from ctxdb.errors import CtxdbError, LockHeld, NewerSchema, OldDatabase
from ctxdb.ingest.first_sync import remove_unfinished
from ctxdb.ingest.plan import utc_now
from ctxdb.ingest.sync import replace_old_database
from ctxdb.lock import WriterLock
from ctxdb.memory import give_back
from ctxdb.store.version import fingerprint

if TYPE_CHECKING:
    from types import FrameType

    from ctxdb.config import Config
    from ctxdb.daemon.logs import Log

LOCK_SECONDS = 0.25  # between two tries for the lock
MOST_SECONDS = 60.0  # between two rounds
MAX_FAILURES = 20  # in a row
INTERRUPTED = 130


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
        )
        self.lock = WriterLock(config.db_path, role="daemon")
        self.database = Database(config.db_path)
        self.hints = Hints(self.wakeup)
        self.rescan = Rescan(config.roots)
        self.intake = Intake(self.database, self.rescan, self.health, log)
        self.intake.beside = Beside(config.claude_dirs)
        self.intake.archiver = Archiver(config.db_path if config.archive else None)
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

    def _on_rescan(self, _number: int, _frame: FrameType | None) -> None:
        self.rescan_asked = True
        self.wakeup.set()

    def _take_signals(self) -> None:
        signal.signal(signal.SIGTERM, self._on_stop)
        signal.signal(signal.SIGINT, self._on_stop)
        # If SIGHUP is ignored (nohup), the daemon must outlive its terminal.
        stays = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN or not self.on_terminal
        signal.signal(signal.SIGHUP, self._on_rescan if stays else self._on_stop)
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
            self.health.why = ""  # it was told to end; what it waited for is not the reason
        except BaseException as e:
            self.health.why = str(e) if isinstance(e, CtxdbError) else type(e).__name__
            raise
        finally:
            self._end()
        return self._exit_code()

    def _exit_code(self) -> int:
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

    def _open(self) -> bool:
        """Open the database. Wait while it is locked; raise anything that the user must repair."""
        while not self.stop_signal:
            try:
                replace_old_database(self.config, _SignsOfLife(self))
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
            self._note_state()
            self.heartbeat.beat()

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
        self.loop.watcher.disarm()
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
