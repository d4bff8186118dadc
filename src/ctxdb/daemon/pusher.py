"""When the daemon pushes to the team's server: every so many minutes, in a process of its own.

The daemon never waits for it. A push that fails is tried again, later each time. The process reads
the URL from config.toml itself, so no list of processes shows a password.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctxdb.config import Config
    from ctxdb.daemon.logs import Log

FIRST_SECONDS = 15.0  # after the start: new lines come first
RETRY_SECONDS = 60.0  # after the first failure; doubled after each further one
MOST_RETRY_SECONDS = 3600.0
MOST_SECONDS = 3600.0  # of one push; a first push of very much goes on with the next
END_SECONDS = 5.0  # for a push to end when the daemon ends
NICENESS = 10  # indexing comes first
MOST_MESSAGE = 500  # characters of an error that are logged


@dataclass(slots=True)
class Pusher:
    """Starts `ctxdb push` now and then."""

    db_path: Path | None = None  # None: there is nothing to push to
    every_seconds: float = 0.0
    not_before: float | None = None
    began: float = 0.0
    failures: int = 0
    process: subprocess.Popen[bytes] | None = None

    def look(self, now: float, log: Log) -> None:
        """Start a push if it is time, or see how the last one ended."""
        if self.db_path is None:
            return
        if self.process is not None:
            self._see(now, log)
        elif self.not_before is None:
            self.not_before = now + min(FIRST_SECONDS, self.every_seconds)
        elif now >= self.not_before:
            self._start(now, log)

    def _start(self, now: float, log: Log) -> None:
        words = [sys.executable, "-m", "ctxdb", "--db", str(self.db_path), "push"]
        try:
            self.process = subprocess.Popen(
                [*words, "--quiet", "--no-sync"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        except OSError as e:
            self._failed(now, log, e.strerror or "cannot start a process")
            return
        with suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, self.process.pid, NICENESS)
        self.began = now

    def _see(self, now: float, log: Log) -> None:
        process = self.process
        if process is None:
            return
        code = process.poll()
        if code is None:
            if now - self.began > MOST_SECONDS:
                process.kill()
            return
        self.process = None
        message = b""
        if process.stderr is not None:
            with process.stderr as stream:
                message = stream.read(MOST_MESSAGE)
        if code == 0:
            if self.failures:
                log.over("push", "pushed again")
            self.failures = 0
            self.not_before = now + self.every_seconds
            return
        lines = message.decode("utf-8", "replace").splitlines()
        self._failed(now, log, lines[-1] if lines else f"exit code {code}")

    def _failed(self, now: float, log: Log, why: str) -> None:
        wait = min(RETRY_SECONDS * 2**self.failures, MOST_RETRY_SECONDS)
        self.failures = min(self.failures + 1, 20)
        self.not_before = now + wait
        log.trouble("push", f"push failed: {why.removeprefix('Error: ')}; trying again")

    def end(self) -> None:
        """End a push that runs: what it had sent is there to stay, and the next goes on."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()
        self.process = None


def pusher_for(config: Config) -> Pusher:
    """A pusher as config.toml wants it."""
    minutes = config.settings["push.every_minutes"]
    if not minutes or not config.settings["push.url"]:
        return Pusher()
    return Pusher(config.db_path, minutes * 60.0)
