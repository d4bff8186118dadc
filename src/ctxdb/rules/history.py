"""Which turn each line of history.jsonl became.

Lines and turns with the same text are matched one to one: first within the session that the line
names, then within the project. Of several, those nearest in time belong together. A pure function
of all lines and turns of one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import NamedTuple

# A prompt may wait in the queue for hours. But if a project's transcripts are gone, the same words
# of another month are another prompt.
MAX_APART_SECONDS = 24 * 3600.0
_IMAGE = re.compile(r"\[(?:image|document|Image #\d+)\]")


class Line(NamedTuple):
    """A line of history.jsonl."""

    id: int
    line_hash: int
    nth: int
    timestamp: str | None
    session_id: str | None
    project_path: str | None


class AskedTurn(NamedTuple):
    """A turn with the same text."""

    id: int
    session_id: str
    project_path: str | None
    started_at: str | None
    ordinal: int


def text_hash(text: str) -> int:
    """63 bits of a prompt: white space folded, images left out."""
    folded = " ".join(_IMAGE.sub(" ", text).split())
    data = folded.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big") >> 1


def turn_text(kind: str, prompt: str) -> str:
    """A turn's prompt as history.jsonl writes it."""
    return f"!{prompt}" if kind == "shell" else prompt


def match(lines: Iterable[Line], turns: Iterable[AskedTurn]) -> dict[int, int]:
    """The turn of each line that became one, by their ids."""
    found: dict[int, int] = {}
    left, free = list(lines), list(turns)
    for place, limit in (("session_id", None), ("project_path", MAX_APART_SECONDS)):
        for line, turn in _nearest(_candidates(left, free, place, limit)):
            found[line.id] = turn.id
        taken = set(found.values())
        left = [line for line in left if line.id not in found]
        free = [turn for turn in free if turn.id not in taken]
    return found


class _Pair(NamedTuple):
    """A line and a turn that may belong together. Pairs compare by what decides."""

    apart: float
    typed_at: str
    asked_at: str
    session_id: str
    ordinal: int
    line_hash: int
    nth: int
    line: Line
    turn: AskedTurn


def _candidates(
    lines: Sequence[Line], turns: Sequence[AskedTurn], place: str, limit: float | None
) -> list[_Pair]:
    """Every line with every turn of the same session or project."""
    asked: dict[str, list[tuple[AskedTurn, float | None]]] = {}
    for turn in turns:
        where = getattr(turn, place)
        if where is not None:
            asked.setdefault(where, []).append((turn, _seconds(turn.started_at)))
    pairs = []
    for line in lines:
        typed = _seconds(line.timestamp)
        for turn, began in asked.get(getattr(line, place), ()):
            apart = float("inf") if began is None or typed is None else abs(began - typed)
            if limit is None or apart <= limit:
                at, asked_at = line.timestamp or "", turn.started_at or ""
                of_turn, of_line = (turn.session_id, turn.ordinal), (line.line_hash, line.nth)
                pairs.append(_Pair(apart, at, asked_at, *of_turn, *of_line, line, turn))
    return pairs


def _nearest(pairs: list[_Pair]) -> list[tuple[Line, AskedTurn]]:
    """Pairs that are nearest in time, each line and each turn at most once."""
    lines: set[int] = set()
    turns: set[int] = set()
    found = []
    for pair in sorted(pairs):
        if pair.line.id not in lines and pair.turn.id not in turns:
            lines.add(pair.line.id)
            turns.add(pair.turn.id)
            found.append((pair.line, pair.turn))
    return found


def _seconds(timestamp: str | None) -> float | None:
    try:
        return datetime.fromisoformat(timestamp).timestamp() if timestamp else None
    except (ValueError, OverflowError):
        return None
