"""What other threads and signal handlers tell the loop, and how they wake it.

They use a pipe and not a threading.Event: a signal handler may run while its own thread holds the
lock inside the Event, and would then wait for itself without end.
"""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple


class Wakeup:
    """Wakes the one waiting thread; safe from any thread and any signal handler."""

    def __init__(self) -> None:
        self._out, self._in = os.pipe()
        os.set_blocking(self._out, False)
        os.set_blocking(self._in, False)
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)

    @property
    def fd(self) -> int:
        """The end of the pipe to write to, for signal.set_wakeup_fd."""
        return self._in

    def set(self) -> None:
        """Wake the waiting thread, now or the next time it waits."""
        with suppress(BlockingIOError):  # the pipe is full of wake-ups already
            os.write(self._in, b"\0")

    def wait(self, seconds: float | None) -> bool:
        """Wait until woken or until the time is up; True when woken."""
        timeout = None if seconds is None else max(int(seconds * 1000 + 0.999), 0)
        if not self._poll.poll(timeout):
            return False
        with suppress(BlockingIOError):
            os.read(self._out, 65536)
        return True

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._in)
        os.close(self._out)


class Taken(NamedTuple):
    """All hints since the last look."""

    files: dict[str, float]  # path -> when it was first named, by time.monotonic
    folders: set[str]
    gone: set[str]  # files or folders that were deleted or moved away
    events: int
    overflowed: bool
    failure: str | None  # what ended a thread of the watcher


@dataclass(slots=True)
class Hints:
    """Paths at which something has happened, collected by watchdog's threads."""

    wakeup: Wakeup
    lock: threading.Lock = field(default_factory=threading.Lock)
    files: dict[str, float] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    events: int = 0
    overflowed: bool = False
    failure: str | None = None
    woken: bool = False  # the loop was woken and has not taken the hints yet

    def add_file(self, path: str) -> None:
        """Add a transcript that was made or has changed."""
        with self.lock:
            self.events += 1
            if path not in self.files:
                self.files[path] = time.monotonic()
            self._wake()

    def add_folder(self, path: str) -> None:
        """Add a folder that was made or moved here."""
        with self.lock:
            self.events += 1
            self.folders.add(path)
            self._wake()

    def add_gone(self, path: str) -> None:
        """Add a file or folder that was deleted or moved away."""
        with self.lock:
            self.events += 1
            self.gone.add(path)
            self._wake()

    def overflow(self) -> None:
        """Note that events were lost."""
        with self.lock:
            self.overflowed = True
            self._wake()

    def fail(self, reason: str) -> None:
        """Note that a thread of the watcher has ended."""
        with self.lock:
            self.failure = reason
            self._wake()

    def forget_failure(self) -> None:
        """Drop what the watcher's threads said: it was stopped on purpose."""
        with self.lock:
            self.failure = None

    def _wake(self) -> None:
        if not self.woken:
            self.woken = True
            self.wakeup.set()

    def take(self) -> Taken:
        """Take out all that was collected."""
        with self.lock:
            taken = Taken(
                self.files, self.folders, self.gone, self.events, self.overflowed, self.failure
            )
            self.files, self.folders, self.gone = {}, set(), set()
            self.events, self.overflowed, self.failure, self.woken = 0, False, None, False
        return taken
