"""Money, tokens, durations and times as the pages show them; docs/serve.md has the rules."""

from __future__ import annotations

from datetime import UTC, datetime

from ctxdb.formatting import moment, spaced_duration

_UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
NOTHING = "\N{EN DASH}"  # shown where there is no value


def money(value: float | None) -> str:
    """$3.41, $1,204, <$0.01; a dash if it is not known."""
    if value is None:
        return NOTHING
    sign, size = ("-" if value < 0 else ""), abs(value)
    if 0 < size < 0.01:
        return f"{sign}<$0.01"
    return f"{sign}${size:,.2f}" if size < 9999.995 else f"{sign}${size:,.0f}"


def tokens(value: float | None) -> str:
    """812, 1.2k, 3.4M, 2.1B."""
    if value is None:
        return NOTHING
    for size, unit in _UNITS:
        if abs(value) >= size * 0.9995:
            scaled = value / size
            return f"{scaled:.1f}{unit}" if abs(scaled) < 99.95 else f"{scaled:,.0f}{unit}"
    return f"{value:,.0f}"


def count(value: float | None) -> str:
    """12,345."""
    return NOTHING if value is None else f"{value:,.0f}"


def share(value: float | None) -> str:
    """12.3 %. What is not quite all is never shown as 100 %, nor what is not nothing as 0 %."""
    if value is None:
        return NOTHING
    if 0.9995 <= value < 1:
        return ">99.9 %"
    if 0 < value < 0.0005:
        return "<0.1 %"
    text = f"{value * 100:.1f}".removesuffix(".0")
    return f"{text} %"


def duration(seconds: float | None) -> str:
    """28 ms, 0.8 s, 12 s, 2 m 05 s, 1 h 05 m, 2 d 03 h."""
    return NOTHING if seconds is None else spaced_duration(seconds) or NOTHING


def hours(seconds: float | None) -> str:
    """12.3 h; minutes below an hour."""
    if seconds is None:
        return NOTHING
    if seconds < 3600:
        return duration(seconds)
    return f"{seconds / 3600:,.1f} h"


def size(number: float | None) -> str:
    """812 B, 12 kB, 3.4 MB."""
    if number is None:
        return NOTHING
    for step, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= step:
            scaled = number / step
            return f"{scaled:.1f} {unit}" if scaled < 10 else f"{scaled:,.0f} {unit}"
    return f"{number:,.0f} B"


def short_time(timestamp: str | None, now: datetime) -> str:
    """14:05 today, Tue 14:05 this week, 24 Aug 22:43, 24 Aug 2025."""
    at = moment(timestamp)
    if at is None:
        return ""
    days = (now.date() - at.date()).days
    if days == 0:
        return f"{at:%H:%M}"
    if 0 < days < 7:
        return f"{at:%a %H:%M}"
    if at.year == now.year:
        return f"{at.day} {at:%b %H:%M}"
    return f"{at.day} {at:%b %Y}"


def full_time(timestamp: str | None) -> str:
    """Tue 2026-08-24 22:43:22 +0200 (20:43:22 UTC)."""
    at = moment(timestamp)
    if at is None:
        return ""
    return f"{at:%a %Y-%m-%d %H:%M:%S %z} ({at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC)"


def ago(timestamp: str | None, now: datetime) -> str:
    """Just now, 5 minutes ago, 3 hours ago, 2 days ago."""
    at = moment(timestamp)
    if at is None:
        return ""
    seconds = (now - at).total_seconds()
    if seconds < 60:
        return "just now"
    for size_, unit in (
        (86400 * 365, "year"),
        (86400 * 30, "month"),
        (86400, "day"),
        (3600, "hour"),
        (60, "minute"),
    ):
        if seconds >= size_:
            number = int(seconds // size_)
            return f"{number} {unit}{'' if number == 1 else 's'} ago"
    return "just now"


def short_path(path: str, most: int = 60) -> str:
    """The end of a long path, from the beginning of a folder's name on."""
    if len(path) <= most:
        return path
    _, sign, rest = path[-most:].partition("/")
    return f"\N{HORIZONTAL ELLIPSIS}/{rest}" if sign else f"\N{HORIZONTAL ELLIPSIS}{path[-most:]}"
