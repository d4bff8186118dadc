"""How long the agent worked on each request: as Claude Code reports it, else an estimate.

A `turn_duration` line ends a run of the agent and says how long that took. What a person typed
meanwhile began turns of its own inside the run.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from ctxdb.claude.values import int_of

# A longer gap is mostly a wait for a person: counted in full, gaps add up to four times the time
# that Claude Code reports.
LONGEST_GAP_MS = 60_000

# Kinds of lines that are the agent's work in the main thread. Each line of an agent is work.
WORK = ("assistant", "synthetic", "tool_result", "command_output", "interruption")


class Run(NamedTuple):
    """A time in which the agent worked, in milliseconds since 1970."""

    begin: int
    end: int


class Begin(NamedTuple):
    """When a turn began."""

    at: int
    ordinal: int
    turn_id: int


def epoch_ms(timestamp: str | None) -> int | None:
    """Milliseconds since 1970; None for what is no time."""
    try:
        moment = datetime.fromisoformat(timestamp or "")
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def iso_of_epoch_ms(ms: int) -> str:
    """The same moment as Claude Code writes it; "" when that is before the year 1."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    except OverflowError:
        return ""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def run_of(timestamp: str | None, duration: Any) -> Run | None:
    """The run that a turn_duration line reports; None when it says no such thing."""
    end = epoch_ms(timestamp)
    length = int_of(duration)
    if end is None or length is None or length < 0:
        return None
    return Run(end - length, end)


def reported_ms(begins: Iterable[Begin], runs: Iterable[Run]) -> dict[int, int]:
    """The reported time of each turn of a session that has some.

    A run is cut at each turn that begins inside it, so no turn gets more than its own span. What
    two runs have in common counts once. Of turns that begin at one moment, the last has the time.
    """
    turns = sorted(begins)
    times = [turn.at for turn in turns]
    pieces: dict[int, list[Run]] = {}
    for run in runs:
        first = bisect_right(times, run.begin) - 1
        inside = range(max(first + 1, 0), bisect_left(times, run.end))
        for place in ([first] if first >= 0 else []) + list(inside):
            following = times[place + 1] if place + 1 < len(times) else run.end
            if place != first and following == times[place]:
                continue  # another turn began at the same moment
            piece = Run(max(run.begin, times[place]), min(run.end, following))
            pieces.setdefault(turns[place].turn_id, []).append(piece)
    return {turn_id: _length(found) for turn_id, found in pieces.items()}


def _length(runs: list[Run]) -> int:
    """The time that runs cover."""
    covered, reached = 0, None
    for run in sorted(runs):
        begin = run.begin if reached is None else max(run.begin, reached)
        covered += max(run.end - begin, 0)
        reached = run.end if reached is None else max(run.end, reached)
    return covered


def estimated_ms(timestamps: Iterable[str | None]) -> int:
    """The gaps between the lines of a turn's work, each counted as at most LONGEST_GAP_MS."""
    times = sorted(at for at in map(epoch_ms, timestamps) if at is not None)
    return sum(min(later - at, LONGEST_GAP_MS) for at, later in pairwise(times))
