"""Write times, money and counts for people, in the same way everywhere."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

EXACT_BELOW = 10_000  # smaller amounts are written in full


def moment(timestamp: str | None) -> datetime | None:
    """A timestamp of a transcript as local time, or None if it is not one."""
    if not timestamp:
        return None
    from datetime import datetime

    try:
        found = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    try:
        return found.astimezone()
    except (OverflowError, OSError, ValueError):
        return None


def day_and_time(timestamp: str | None) -> str:
    """2026-08-24 22:43, in local time; empty without a timestamp."""
    at = moment(timestamp)
    return "" if at is None else f"{at:%Y-%m-%d %H:%M}"


def clock(timestamp: str | None) -> str:
    """22:43:22, in local time; empty without a timestamp."""
    at = moment(timestamp)
    return "" if at is None else f"{at:%H:%M:%S}"


def period(start: str | None, end: str | None) -> str:
    """2026-08-24 22:43 to 23:10, with both days if they differ."""
    first, last = moment(start), moment(end)
    if first is None:
        return ""
    if last is None or last <= first or f"{last:%Y%m%d%H%M}" == f"{first:%Y%m%d%H%M}":
        return f"{first:%Y-%m-%d %H:%M}"
    until = f"{last:%H:%M}" if last.date() == first.date() else f"{last:%Y-%m-%d %H:%M}"
    return f"{first:%Y-%m-%d %H:%M} to {until}"


def milliseconds_between(start: str | None, end: str | None) -> int | None:
    """The time between two timestamps, or None if it is not known."""
    first, last = moment(start), moment(end)
    if first is None or last is None or last < first:
        return None
    return round((last - first).total_seconds() * 1000)


def money(value: float) -> str:
    """$3.41, $1,204, or $0.0012 for less than a cent."""
    sign = "-" if value < 0 else ""
    size = abs(value)
    if size >= 1000:
        return f"{sign}${size:,.0f}"
    if size >= 0.01 or size == 0:
        return f"{sign}${size:.2f}"
    return f"{sign}${size:.4f}" if size >= 0.0001 else f"{sign}<$0.0001"


def amount(value: float) -> str:
    """9,876, 12.3k, 1.2M, 4.5B."""
    if abs(value) < EXACT_BELOW:
        return f"{value:,.0f}"
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * 0.9995:
            scaled = value / size
            return f"{scaled:.1f}{unit}" if abs(scaled) < 99.95 else f"{scaled:,.0f}{unit}"
    return f"{value:,.0f}"


def duration(seconds: float) -> str:
    """820ms, 4.1s, 12s, 3m 20s, 1h 05m, 2d 03h."""
    if not 0 <= seconds < math.inf:
        return str(seconds)
    if 0 < seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 10:
        return f"{seconds:.1f}s" if seconds != int(seconds) else f"{int(seconds)}s"
    return _two_units(round(seconds), "")


def spaced_duration(seconds: float) -> str:
    """28 ms, 0.8 s, 12 s, 2 m 05 s, 1 h 05 m, 2 d 03 h: for pages. Empty if it is no duration."""
    if not 0 <= seconds < math.inf:
        return ""
    if 0 < seconds < 0.095:
        return f"{max(round(seconds * 1000), 1)} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    return _two_units(round(seconds), " ")


def _two_units(seconds: int, gap: str) -> str:
    """The two largest units of ten seconds or more, with a gap before each unit."""
    if seconds < 60:
        return f"{seconds}{gap}s"
    if seconds < 3600:
        return f"{seconds // 60}{gap}m {seconds % 60:02}{gap}s"
    if seconds < 86400:
        return f"{seconds // 3600}{gap}h {seconds % 3600 // 60:02}{gap}m"
    return f"{seconds // 86400}{gap}d {seconds % 86400 // 3600:02}{gap}h"


def counted(count: int, what: str) -> str:
    """1 turn, 2 turns."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
