"""Say that the daemon is alive: to systemd, and in the health file that `ctxdb status` reads."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb import daemon_health as beats
from ctxdb.daemon_health import Health
from ctxdb.ingest.plan import utc_now

if TYPE_CHECKING:
    from ctxdb.daemon.logs import Log
    from ctxdb.daemon.notify import Notifier

WRITE_SECONDS = 1.0  # between two writes of the health file, unless the state changes


class Heartbeat:
    """Writes the health file when something in it has changed, and at intervals."""

    def __init__(self, health: Health, db_path: Path, notifier: Notifier, log: Log) -> None:
        self.health = health
        self.db_path = db_path
        self.notifier = notifier
        self.log = log
        self._wrote: Health | None = None
        self._wrote_at = self._pinged_at = float("-inf")

    def seconds_left(self) -> float:
        """The time until the next beat is due."""
        now = time.monotonic()
        most = math.inf
        if self.health.differs(self._wrote):
            most = min(most, self._wrote_at + WRITE_SECONDS - now)
        if self.health.beat_seconds:
            most = min(most, self._wrote_at + self.health.beat_seconds - now)
        if self.notifier.watchdog_seconds:
            most = min(most, self._pinged_at + self.notifier.watchdog_seconds - now)
        return max(most, 0.0)

    def ping(self) -> None:
        """Tell systemd, as often as its watchdog asks for."""
        now = time.monotonic()
        every = self.notifier.watchdog_seconds
        if every and now - self._pinged_at >= every:
            self._pinged_at = now
            self.notifier.send("WATCHDOG=1")

    def beat(self, *, force: bool = False) -> None:
        """Tell systemd, and write the health file if it is time or `force` is given."""
        self.ping()
        now = time.monotonic()
        old = self._wrote
        if not force:
            waited = now - self._wrote_at
            moved = old is None or (old.state, old.mode) != (self.health.state, self.health.mode)
            due = waited >= self.health.beat_seconds > 0
            is_known = not self.health.differs(old)
            path = beats.health_path(self.db_path)
            if not moved and due and is_known and beats.touch(path):
                self._wrote_at = now
                return
            if not moved and not due and (is_known or waited < WRITE_SECONDS):
                return
        self._wrote_at = now
        self.health.written, self.health.written_at = time.time(), utc_now()
        # Asked each time: the runtime folder goes when the user logs out, and comes back.
        self.health.is_on_disk = beats.runtime_dir() is None
        self.health.beat_seconds = beats.BEAT_SECONDS
        self._wrote = self._copy()
        path = beats.health_path(self.db_path)
        try:
            beats.write(path, self.health)
        except OSError as e:
            self.log.trouble("health", f"{path}: {e.strerror}")

    def _copy(self) -> Health:
        health = self.health
        return replace(health, roots=list(health.roots), missing_roots=list(health.missing_roots))
