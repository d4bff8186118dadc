"""What Claude Code says on standard input when it asks for a status line.

Every field can be absent, null or of another type, so each is read on its own.
"""

from __future__ import annotations

import json  # not orjson: loading it takes longer than reading 1 kB
import math
from typing import Any, NamedTuple


class ClientInput(NamedTuple):
    """The fields that are used; None where nothing usable was said."""

    session_id: str | None = None
    transcript_path: str | None = None
    cost_usd: float | None = None  # the client's own sum
    context_percent: float | None = None
    context_size: int | None = None
    window_percent: float | None = None  # of the 5-hour limit
    window_resets_at: float | None = None  # Unix seconds
    week_percent: float | None = None
    week_resets_at: float | None = None


def read_input(data: bytes) -> ClientInput:
    """Read it; anything that is not as expected is left out."""
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    size = _number(found, "context_window", "context_window_size")
    return ClientInput(
        session_id=_text(found, "session_id"),
        transcript_path=_text(found, "transcript_path"),
        cost_usd=_number(found, "cost", "total_cost_usd"),
        context_percent=_number(found, "context_window", "used_percentage"),
        context_size=None if size is None else int(size),
        window_percent=_number(found, "rate_limits", "five_hour", "used_percentage"),
        window_resets_at=_number(found, "rate_limits", "five_hour", "resets_at"),
        week_percent=_number(found, "rate_limits", "seven_day", "used_percentage"),
        week_resets_at=_number(found, "rate_limits", "seven_day", "resets_at"),
    )


def _at(value: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(value: Any, *keys: str) -> str | None:
    found = _at(value, keys)
    return found if isinstance(found, str) and found and len(found) < 10_000 else None


def _number(value: Any, *keys: str) -> float | None:
    found = _at(value, keys)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    is_sane = math.isfinite(found) and 0 <= found < 1e15
    return float(found) if is_sane else None
