"""Draw a progress bar on standard error.

::

    Reading transcripts ━━━━━━━━━━╌╌╌╌╌╌╌╌╌╌  50%  125 of 250 MB  41 MB/s  0:03 left

It is one line that is redrawn in place, and erased at the end. It counts bytes, not files, because
transcripts differ in size by a factor of ten thousand. There is no bar in a pipe, in a log, or on a
terminal that cannot redraw a line.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Protocol, TextIO

from ctxdb.output import terminal_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FIRST_DRAW_SECONDS = 0.3  # a sync with nothing new has ended by then, so it shows no bar
REDRAW_SECONDS = 0.1
RATE_HALF_LIFE_SECONDS = 3.0  # recent speed counts most, because files differ in speed
BAR_COLUMNS = 24
ERASE_TO_END = "\x1b[K"
GREEN, PLAIN = "\x1b[32m", "\x1b[0m"


class Progress(Protocol):
    """What a long job reports to. A job may call start() again for its next stage."""

    def start(self, total_bytes: int, what: str) -> None:
        """Begin a stage of so many bytes; `what` is shown before the bar."""

    def advance(self, n: int) -> None:
        """Count `n` more bytes as done. This is cheap enough to call for every batch."""

    def finish(self) -> None:
        """Erase the bar. Safe to call at any time, any number of times."""


class NullProgress:
    """Progress that is not shown."""

    def start(self, total_bytes: int, what: str) -> None:
        """Do nothing."""

    def advance(self, n: int) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""


class TerminalProgress:
    """Progress drawn on a terminal."""

    def __init__(
        self,
        stream: TextIO,
        *,
        color: bool = True,
        clock: Callable[[], float] = time.monotonic,
        columns: Callable[[], int] = terminal_columns,
    ) -> None:
        self._stream = stream
        self._color = color
        self._clock = clock
        self._columns = columns
        self._done_mark, self._left_mark = _marks(stream)
        self._drawn = False
        self.start(0, "")
        self._running = False

    def start(self, total_bytes: int, what: str) -> None:
        """Begin a stage of so many bytes; `what` is shown before the bar."""
        self._what = what
        self._total = total_bytes
        self._done = 0
        self._rate = 0.0  # bytes per second, smoothed
        now = self._clock()
        self._measured_at, self._measured_done = now, 0
        self._next_draw = now + FIRST_DRAW_SECONDS
        self._running = True

    def advance(self, n: int) -> None:
        """Count `n` more bytes as done."""
        self._done += n
        now = self._clock()
        if self._running and now >= self._next_draw:
            self._next_draw = now + REDRAW_SECONDS
            self._measure(now)
            self._drawn = True  # before it is drawn: Ctrl-C may come in between
            self._write("\r" + self._line() + ERASE_TO_END)

    def finish(self) -> None:
        """Erase the bar."""
        if self._drawn:
            self._write("\r" + ERASE_TO_END)
        self._drawn = False
        self._running = False

    def _measure(self, now: float) -> None:
        seconds = now - self._measured_at
        if seconds <= 0:
            return
        rate = (self._done - self._measured_done) / seconds
        keep = 0.5 ** (seconds / RATE_HALF_LIFE_SECONDS) if self._rate else 0.0
        self._rate = keep * self._rate + (1 - keep) * rate
        self._measured_at, self._measured_done = now, self._done

    def _line(self) -> str:
        # Claude Code may write while its files are read, so there can be more than at the start.
        total = max(self._total, self._done)
        part = self._done / total if total else 1.0
        unit, size = _unit(total)
        numbers = [f"{part:4.0%}", f"{_amount(self._done, size)} of {_amount(total, size)} {unit}"]
        if self._rate >= 1:
            rate_unit, rate_size = _unit(int(self._rate))
            numbers.append(f"{_amount(int(self._rate), rate_size)} {rate_unit}/s")
            numbers.append(f"{clock_time((total - self._done) / self._rate)} left")
        text = "  ".join(numbers)
        # The last column stays free: some terminals wrap as soon as it is written.
        room = self._columns() - 1
        bar_columns = min(BAR_COLUMNS, room - len(self._what) - len(text) - 2)
        if bar_columns < 4:
            return f"{self._what} {text}"[:room]
        filled = int(part * bar_columns)
        bar = self._done_mark * filled
        if self._color:
            bar = f"{GREEN}{bar}{PLAIN}"
        return f"{self._what} {bar}{self._left_mark * (bar_columns - filled)} {text}"

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._running = False  # the terminal is gone; the job goes on


def progress_on(
    stream: TextIO, *, quiet: bool = False, environ: Mapping[str, str] = os.environ
) -> Progress:
    """Return a bar if `stream` is a terminal that can show one, else a NullProgress."""
    if quiet or not stream.isatty() or environ.get("TERM", "dumb") == "dumb":
        return NullProgress()
    color = not environ.get("NO_COLOR")
    return TerminalProgress(stream, color=color, columns=lambda: _columns_of(stream))


def _columns_of(stream: TextIO) -> int:
    # Ask this stream: shutil asks standard output, which may be a pipe.
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return columns or terminal_columns()


def human_bytes(n: int) -> str:
    """Return a size for people: 512 B, 3.1 kB, 250 MB."""
    unit, size = _unit(n)
    return f"{_amount(n, size)} {unit}"


def clock_time(seconds: float) -> str:
    """Return a duration as a clock shows it: 0:03, 12:40, 1:02:03."""
    minutes, s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{s:02}" if hours else f"{minutes}:{s:02}"


def _unit(n: int) -> tuple[str, int]:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= size:
            return unit, size
    return "B", 1


def _amount(n: int, size: int) -> str:
    value = n / size
    return f"{value:.1f}" if size > 1 and value < 10 else f"{value:.0f}"


def _marks(stream: TextIO) -> tuple[str, str]:
    try:
        "━╌".encode(stream.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return "#", "-"
    return "━", "╌"
