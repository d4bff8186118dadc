from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest

from ctxdb.progress import NullProgress, TerminalProgress, clock_time, human_bytes, progress_on

if TYPE_CHECKING:
    from collections.abc import Callable


class Terminal(io.TextIOWrapper):
    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, newline="")

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode(self.encoding)

    def lines(self) -> list[str]:
        """What was drawn, one item for each time, without colours."""
        return [re.sub(r"\x1b\[[0-9;]*[mK]", "", part) for part in self.text().split("\r") if part]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def bar(
    terminal: Terminal, clock: Clock, columns: Callable[[], int] = lambda: 80, color: bool = False
) -> TerminalProgress:
    return TerminalProgress(terminal, clock=clock, columns=columns, color=color)


def test_the_bar_shows_share_bytes_rate_and_time_left(terminal: Terminal, clock: Clock) -> None:
    progress = bar(terminal, clock)
    progress.start(250_000_000, "Reading")
    clock.now += 2
    progress.advance(125_000_000)
    assert terminal.lines() == [
        "Reading ━━━━━━━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌  50%  125 of 250 MB  62 MB/s  0:02 left"
    ]


def test_a_short_job_draws_nothing_at_all(terminal: Terminal, clock: Clock) -> None:
    progress = bar(terminal, clock)
    progress.start(1000, "Reading")
    clock.now += 0.1
    progress.advance(1000)
    progress.finish()
    assert terminal.text() == ""


def test_the_bar_is_redrawn_at_most_ten_times_a_second(terminal: Terminal, clock: Clock) -> None:
    progress = bar(terminal, clock)
    progress.start(10_000, "Reading")
    for _ in range(1000):
        clock.now += 0.001
        progress.advance(1)
    assert 5 <= len(terminal.lines()) <= 8


def test_finish_wipes_the_bar_and_can_be_called_twice(terminal: Terminal, clock: Clock) -> None:
    progress = bar(terminal, clock)
    progress.start(10, "Reading")
    clock.now += 1
    progress.advance(5)
    progress.finish()
    assert terminal.text().endswith("\r\x1b[K")
    drawn = terminal.text()
    progress.finish()
    progress.advance(5)
    assert terminal.text() == drawn


def test_a_file_that_grows_while_it_is_read_never_shows_more_than_all_of_it(
    terminal: Terminal, clock: Clock
) -> None:
    progress = bar(terminal, clock)
    progress.start(1000, "Reading")
    clock.now += 1
    progress.advance(5000)
    assert "100%  5.0 of 5.0 kB" in terminal.lines()[-1]
    assert "0:00 left" in terminal.lines()[-1]


def test_an_empty_job_does_not_divide_by_zero(terminal: Terminal, clock: Clock) -> None:
    progress = bar(terminal, clock)
    progress.start(0, "Reading")
    clock.now += 1
    progress.advance(0)
    assert "100%" in terminal.lines()[-1]


def test_the_rate_follows_recent_speed_and_not_the_average(
    terminal: Terminal, clock: Clock
) -> None:
    progress = bar(terminal, clock)
    progress.start(10**9, "Reading")
    for _ in range(10):
        clock.now += 1
        progress.advance(50_000_000)
    for _ in range(20):
        clock.now += 1
        progress.advance(1_000_000)
    assert "1.5 MB/s" in terminal.lines()[-1]


@pytest.mark.parametrize("columns", [1, 10, 20, 40, 60, 79, 200])
def test_the_line_never_wraps(terminal: Terminal, clock: Clock, columns: int) -> None:
    progress = bar(terminal, clock, columns=lambda: columns)
    progress.start(10**9, "Reading transcripts")
    for _ in range(5):
        clock.now += 1
        progress.advance(10**8)
    assert max(map(len, terminal.lines())) < columns or columns == 1


def test_a_second_stage_starts_from_nothing(terminal: Terminal, clock: Clock) -> None:
    progress = bar(terminal, clock)
    for stage in ("Reading", "Checking"):
        progress.start(100, stage)
        clock.now += 1
        progress.advance(50)
    assert [line.split()[0] for line in terminal.lines()] == ["Reading", "Checking"]
    assert all(" 50% " in line for line in terminal.lines())


def test_a_terminal_that_goes_away_does_not_stop_the_job(clock: Clock) -> None:
    class Gone(Terminal):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    progress = bar(Gone(), clock)
    progress.start(100, "Reading")
    clock.now += 1
    progress.advance(50)
    progress.finish()


def test_an_ascii_terminal_gets_ascii(clock: Clock) -> None:
    terminal = Terminal("ascii")
    progress = bar(terminal, clock)
    progress.start(100, "Reading")
    clock.now += 1
    progress.advance(50)
    assert "Reading ############------------  50%" in terminal.lines()[0]


def test_nothing_is_drawn_into_a_pipe() -> None:
    assert isinstance(progress_on(io.StringIO(), environ={"TERM": "xterm"}), NullProgress)


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {}])
def test_nothing_is_drawn_on_a_terminal_that_cannot_redraw(
    terminal: Terminal, environ: dict[str, str]
) -> None:
    assert isinstance(progress_on(terminal, environ=environ), NullProgress)


def test_quiet_draws_nothing(terminal: Terminal) -> None:
    assert isinstance(progress_on(terminal, quiet=True, environ={"TERM": "xterm"}), NullProgress)


@pytest.mark.parametrize(("no_color", "colored"), [("", True), ("1", False)])
def test_no_color_is_respected(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, no_color: str, colored: bool
) -> None:
    monkeypatch.setattr("ctxdb.progress.FIRST_DRAW_SECONDS", 0)
    progress = progress_on(terminal, environ={"TERM": "xterm", "NO_COLOR": no_color})
    progress.start(100, "Reading")
    progress.advance(50)
    assert ("\x1b[32m" in terminal.text()) is colored


def test_the_silent_progress_accepts_every_call() -> None:
    progress = NullProgress()
    progress.start(1, "Reading")
    progress.advance(1)
    progress.finish()


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (31_400, "31 kB"),
        (250_000_000, "250 MB"),
        (1_600_000_000, "1.6 GB"),
    ],
)
def test_sizes_read_as_people_write_them(n: int, text: str) -> None:
    assert human_bytes(n) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (3.4, "0:03"), (59.6, "1:00"), (760, "12:40"), (3723, "1:02:03")],
)
def test_times_read_as_a_clock_shows_them(seconds: float, text: str) -> None:
    assert clock_time(seconds) == text
