"""The daemon's log: one line per event, never any text of a transcript.

Errors of one kind are logged once in half a minute, with their number: when the disk is full, the
log must not fill the rest of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from ctxdb.escape import printable

MAX_BYTES = 1 << 20
KEPT = 2  # older logs
QUIET_SECONDS = 30.0
FOLLOW_SECONDS = 0.3


def lines_of(path: Path, count: int, *, follow: bool) -> Iterator[str]:
    """The last lines of a log, and with `follow` all later ones, also after a rotation."""
    file = _open(path)
    try:
        yield from file.readlines()[-count:]
        while follow:
            # Checked before the rest is read: if it is rotated now, that rest is complete.
            is_rotated = not _is_at(path, file.fileno())
            yield from file.readlines()
            if is_rotated and path.exists():
                file.close()
                file = _open(path)
            else:
                time.sleep(FOLLOW_SECONDS)
    finally:
        file.close()


def _open(path: Path) -> TextIO:
    return path.open(encoding="utf-8", errors="backslashreplace")


def _is_at(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except OSError:
        return False


@dataclass(slots=True)
class _Told:
    at: float
    since: int = 0  # how often it has happened since


@dataclass(slots=True)
class Log:
    """Appends lines to a file, and to a stream if somebody watches."""

    path: Path | None
    stream: TextIO | None = None
    told: dict[str, _Told] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """Write a line. If that fails, the daemon goes on without it."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = f"{stamp} {printable(text)}\n"
        if self.stream is not None:
            with suppress(OSError, ValueError):
                self.stream.write(line)
                self.stream.flush()
        if self.path is not None:
            with suppress(OSError):
                self._append(line.encode(errors="backslashreplace"))

    def trouble(self, kind: str, text: str) -> None:
        """Write a line about something that may happen many times."""
        now = time.monotonic()
        told = self.told.get(kind)
        if told is not None and now - told.at < QUIET_SECONDS:
            told.since += 1
            return
        again = f" ({told.since} more since)" if told and told.since else ""
        self.told[kind] = _Told(now)
        self.say(text + again)

    def over(self, kind: str, text: str) -> None:
        """Write that a trouble is over, if it was logged."""
        if self.told.pop(kind, None) is not None:
            self.say(text)

    def _append(self, line: bytes) -> None:
        assert self.path is not None  # noqa: S101
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        if self._size() + len(line) > MAX_BYTES:
            self._rotate()
        fd = os.open(self.path, flags, 0o600)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)

    def _size(self) -> int:
        assert self.path is not None  # noqa: S101
        try:
            return os.stat(self.path, follow_symlinks=False).st_size
        except FileNotFoundError:
            return 0

    def _rotate(self) -> None:
        assert self.path is not None  # noqa: S101
        for n in range(KEPT, 0, -1):
            older = self.path if n == 1 else self.path.with_name(f"{self.path.name}.{n - 1}")
            with suppress(FileNotFoundError):
                older.replace(self.path.with_name(f"{self.path.name}.{n}"))
