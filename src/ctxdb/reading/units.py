"""Times, money and counts as people read them."""

from __future__ import annotations

from datetime import datetime

PICODOLLARS = 10**12


def moment(timestamp: str | None) -> datetime | None:
    """A timestamp of a transcript as local time; None for anything else."""
    if not timestamp:
        return None
    try:
        found = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    try:
        return found.astimezone()
    except (OverflowError, OSError, ValueError):
        return None


def day_and_time(timestamp: str | None) -> str:
    """2026-08-24 22:43, local; empty where there is none."""
    at = moment(timestamp)
    return "" if at is None else f"{at:%Y-%m-%d %H:%M}"


def clock(timestamp: str | None) -> str:
    """22:43:22, local."""
    at = moment(timestamp)
    return "" if at is None else f"{at:%H:%M:%S}"


def period(start: str | None, end: str | None) -> str:
    """2026-08-24 22:43 to 23:10; both days where it takes more than one."""
    first, last = moment(start), moment(end)
    if first is None:
        return ""
    if last is None or last <= first or f"{last:%Y%m%d%H%M}" == f"{first:%Y%m%d%H%M}":
        return f"{first:%Y-%m-%d %H:%M}"
    until = f"{last:%H:%M}" if last.date() == first.date() else f"{last:%Y-%m-%d %H:%M}"
    return f"{first:%Y-%m-%d %H:%M} to {until}"


def milliseconds_between(start: str | None, end: str | None) -> int | None:
    """How long it took, as far as that is known."""
    first, last = moment(start), moment(end)
    if first is None or last is None or last < first:
        return None
    return round((last - first).total_seconds() * 1000)


def duration(ms: int | None) -> str:
    """820 ms, 4.1 s, 3 min 20 s, 2 h 05 min."""
    if ms is None or ms < 0:
        return ""
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    seconds = ms // 1000
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02} min"


def money(cost: int | None) -> str:
    """$0.12; four digits below a cent; empty where it is not known."""
    if cost is None:
        return ""
    dollars = cost / PICODOLLARS
    if dollars == 0:
        return "$0"
    return f"${dollars:,.2f}" if dollars >= 0.01 else f"${dollars:.4f}"


def tokens(count: int) -> str:
    """950, 12.3k, 4.5M."""
    if count < 1000:
        return str(count)
    for unit, size in (("k", 1e3), ("M", 1e6), ("G", 1e9)):
        if count < size * 999.95:
            return f"{count / size:.1f}{unit}"
    return f"{count / 1e12:.1f}T"


def counted(count: int, what: str) -> str:
    """1 turn, 2 turns."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
