"""Divide a period into bars: days, weeks or months, so that each bar can be seen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from ctxdb.web.filters import DAY, all_days, days_in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ctxdb.web.filters import Filters

MOST_DAYS = 93  # shown as days
MOST_WEEKS = 400  # days shown as weeks


@dataclass(frozen=True, slots=True)
class Bucket:
    """Some days in a row that are one bar."""

    first: date
    last: date
    label: str
    title: str

    @property
    def days(self) -> list[date]:
        """Each of its days."""
        return all_days(self.first, self.last)

    @property
    def args(self) -> dict[str, str]:
        """As arguments of a URL."""
        return {"period": "", "from": str(self.first), "to": str(self.last)}


def buckets(filters: Filters, days: Iterable[date]) -> tuple[str, Sequence[Bucket]]:
    """The bars of a period: what each is (day, week, month), and the bars, oldest first."""
    known = [day for day in days if day <= filters.last]
    first = filters.first or min(known, default=filters.last)
    last = filters.last if filters.first else max(known, default=filters.last)
    length = (last - first).days + 1
    if length <= MOST_DAYS:
        return "day", [_day(day) for day in all_days(first, last)]
    if length <= MOST_WEEKS:
        return "week", [_week(*ends) for ends in _cut(first, last, _next_monday)]
    return "month", [_month(*ends) for ends in _cut(first, last, _next_month)]


def _cut(first: date, last: date, following: Callable[[date], date]) -> Iterator[tuple[date, date]]:
    """Pairs of the first and last day of each bar."""
    begin = first
    while begin <= last:
        after = following(begin)
        yield begin, min(after - DAY, last)
        begin = after


def _next_monday(day: date) -> date:
    return day + timedelta(days=7 - day.weekday())


def _next_month(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)


def _day(day: date) -> Bucket:
    return Bucket(day, day, f"{day.day} {day:%b}", f"{day:%a} {day.day} {day:%b %Y}")


def _week(first: date, last: date) -> Bucket:
    return Bucket(first, last, f"{first.day} {first:%b}", days_in_words(first, last))


def _month(first: date, last: date) -> Bucket:
    is_whole = first.day == 1 and (last + DAY).day == 1
    title = f"{first:%B %Y}" if is_whole else days_in_words(first, last)
    return Bucket(first, last, f"{first:%b %Y}", title)
