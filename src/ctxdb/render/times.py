"""Times as HTML: local and short, with the full time and UTC on hover."""

from __future__ import annotations

from datetime import UTC

from ctxdb.formatting import clock, day_and_time, moment
from ctxdb.render.html_text import text


def full_time(timestamp: str | None) -> str:
    """2026-08-24 22:43:22 CEST (20:43:22 UTC); empty without a timestamp."""
    at = moment(timestamp)
    if at is None:
        return ""
    utc = at.astimezone(UTC)
    if not at.utcoffset():
        return f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    day = "" if utc.date() == at.date() else f"{utc:%Y-%m-%d} "
    return f"{at:%Y-%m-%d %H:%M:%S %Z} ({day}{utc:%H:%M:%S} UTC)"


def time_tag(timestamp: str | None, shown: str | None = None) -> str:
    """A time of the day, or what is to be shown in its place; empty without a timestamp."""
    at = moment(timestamp)
    if at is None:
        return ""
    utc = at.astimezone(UTC)
    title = text(full_time(timestamp))
    words = text(clock(timestamp) if shown is None else shown)
    return f'<time datetime="{utc:%Y-%m-%dT%H:%M:%SZ}" title="{title}">{words}</time>'


def day_tag(timestamp: str | None) -> str:
    """A day and a time of it."""
    return time_tag(timestamp, day_and_time(timestamp))
