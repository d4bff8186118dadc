"""The points of a chart in the order of their days, weeks or months, the empty ones included."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# More days, weeks or months than this are not filled in. Eleven years of days can be a person's
# history. The days since 1970 come from a clock that was not set, and would hide everything else.
MOST_STEPS = 4000


class Point(NamedTuple):
    """A label and its value."""

    label: str
    value: float


_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_WEEK = re.compile(r"(\d{4})-W(\d\d)")
_MONTH = re.compile(r"(\d{4})-(\d\d)")


def in_time(sums: dict[str, float]) -> list[Point] | None:
    """Return the points in order if they are times, with those between them as zero; else None."""
    if not all(label[:4].isdecimal() and label[4:5] == "-" for label in sums):
        return None
    for pattern, begin, next_, name in (
        (_DAY, date, _next_day, date.isoformat),
        (_WEEK, _monday, _next_week, _week_name),
        (_MONTH, _first_day, _next_month, _month_name),
    ):
        try:
            days = sorted(begin(*map(int, found.groups())) for found in _all(pattern, sums))
        except ValueError:
            continue
        if len(days) != len(sums):
            continue
        first, *_ = days
        are_weeks = pattern is _DAY and not any((day - first).days % 7 for day in days)
        return _filled(sums, days, _next_week if are_weeks else next_, name)
    return _by_label(sums)


def _by_label(sums: dict[str, float]) -> list[Point]:
    return [Point(label, value) for label, value in sorted(sums.items())]


def _filled(
    sums: dict[str, float],
    days: list[date],
    next_: Callable[[date], date],
    name: Callable[[date], str],
) -> list[Point]:
    points: list[Point] = []
    day, last = min(days), max(days)
    while day <= last:
        if len(points) > MOST_STEPS:
            return _by_label(sums)
        points.append(Point(name(day), sums.get(name(day), 0.0)))
        if day == last:  # the calendar may end here
            break
        day = next_(day)
    return points


def _all(pattern: re.Pattern[str], labels: Iterable[str]) -> list[re.Match[str]]:
    return [found for label in labels if (found := pattern.fullmatch(label))]


def _monday(year: int, week: int) -> date:
    return date.fromisocalendar(year, week, 1)


def _first_day(year: int, month: int) -> date:
    return date(year, month, 1)


def _next_day(day: date) -> date:
    return day + timedelta(days=1)


def _next_week(day: date) -> date:
    return day + timedelta(days=7)


def _next_month(day: date) -> date:
    return (day + timedelta(days=31)).replace(day=1)


def _week_name(day: date) -> str:
    year, week, _ = day.isocalendar()
    return f"{year:04}-W{week:02}"


def _month_name(day: date) -> str:
    return f"{day.year:04}-{day.month:02}"
