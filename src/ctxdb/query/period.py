"""Turn a time as people write it (``7d``, ``yesterday``, ``2026-08``) into UTC text.

Every word names a stretch of local time. ``--since`` takes its beginning and ``--until`` its end,
so ``--since 2026-08 --until 2026-08`` is August. Days are whole: a table by days would be wrong for
a day that begins in its middle. The result is UTC text as transcripts write it, because an index
can compare texts.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from typing import NamedTuple

from ctxdb.errors import UsageError

ALL = "all"
HINT = (
    "7d, 24h, 2w, today, yesterday, 'last week', monday, 2026-08-01, 2026-W34, 2026-08, 2026 or all"
)

_AGO = re.compile(
    r"(?P<number>\d{1,5})\s*"
    r"(?P<unit>min|minutes?|h|hours?|d|days?|w|weeks?|mo|months?|y|years?)"
)
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)")
_WEEK = re.compile(r"(\d{4})-?w(\d\d)(?:-?([1-7]))?")  # as weekly_usage names them, in lower case
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def since(text: str, now: datetime | None = None) -> str | None:
    """Return the UTC text of the beginning; None for `all`."""
    found = _stretch(text, now)
    return None if found is None else _utc(found.begin)


def until(text: str, now: datetime | None = None) -> str | None:
    """Return the UTC text of the end, which is not included; None for `all`."""
    found = _stretch(text, now)
    return None if found is None else _utc(found.end)


def bounds(begin: str | None, end: str | None) -> tuple[str | None, str | None]:
    """Return both; a period that ends before it begins is an error, not an empty answer."""
    first = None if begin is None else since(begin)
    last = None if end is None else until(end)
    # The end is not included: until 2026-07 ends just when since 2026-08 begins.
    if (
        first is not None
        and last is not None
        and (first > last or (first == last and begin != end))
    ):
        raise UsageError(f"--until {end} ends before --since {begin} begins")
    return first, last


def in_words(begin: str | None, end: str | None, now: datetime | None = None) -> str:
    """Return the local days of a period: since 2026-08-01, until 2026-08-31; empty for all."""
    first = None if begin is None else _stretch(begin, now)
    last = None if end is None else _stretch(end, now)
    parts = []
    if first is not None:
        parts.append(f"since {_day_or_minute(first.begin)}")
    if last is not None:
        # The end is not included: of whole days, the last one is named.
        is_day = last.end.time() == time.min and last.end > last.begin
        shown = last.end - timedelta(days=1) if is_day else last.end
        parts.append(f"until {_day_or_minute(shown)}")
    return " ".join(parts)


def _day_or_minute(moment: datetime) -> str:
    local = moment if moment.tzinfo is None else moment.astimezone().replace(tzinfo=None)
    return f"{local:%Y-%m-%d}" if local.time() == time.min else f"{local:%Y-%m-%d %H:%M}"


def day(text: str, now: datetime | None = None) -> str:
    """Return the UTC text of the midnight that a day begins with; only one whole day is valid."""
    found = _stretch(text, now)
    if (
        found is None
        or found.begin.time() != time.min
        or found.end - found.begin != timedelta(days=1)
    ):
        raise UsageError(f"{text!r} is not a day; say today, yesterday, monday, 3d or 2026-08-01")
    return _utc(found.begin)


class _Stretch(NamedTuple):
    """A stretch of time: naive local times, or aware ones if the text names a zone."""

    begin: datetime
    end: datetime  # not included


def _days(begin: datetime, days: int) -> _Stretch:
    return _Stretch(begin, begin + timedelta(days=days))


def _stretch(text: str, now: datetime | None) -> _Stretch | None:
    """Return the time that a text names; None for all time."""
    word = " ".join(text.strip().lower().split())
    if word in (ALL, "ever"):
        return None
    now = now or datetime.now()  # noqa: DTZ005
    try:
        found = _named(word, now) or _ago(word, now) or _date(word) or _moment(text.strip())
    except (ValueError, OverflowError):
        found = None
    if found is None:
        raise UsageError(f"{text!r} is not a time; say {HINT}")
    return found


def _named(word: str, now: datetime) -> _Stretch | None:
    today = _midnight(now)
    day = timedelta(days=1)
    if word == "now":
        return _Stretch(now, now)
    if word == "today":
        return _days(today, 1)
    if word == "yesterday":
        return _days(today - day, 1)
    if word in _WEEKDAYS:
        back = (today.weekday() - _WEEKDAYS.index(word)) % 7
        return _days(today - back * day, 1)
    monday = today - today.weekday() * day
    first = today.replace(day=1)
    this_year = first.replace(month=1)
    return {
        "this week": _days(monday, 7),
        "last week": _days(monday - 7 * day, 7),
        "this month": _Stretch(first, _months_on(first, 1)),
        "last month": _Stretch(_months_on(first, -1), first),
        "this year": _Stretch(this_year, _months_on(this_year, 12)),
        "last year": _Stretch(_months_on(this_year, -12), this_year),
    }.get(word)


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _ago(word: str, now: datetime) -> _Stretch | None:
    found = _AGO.fullmatch(word.removesuffix(" ago"))
    if not found:
        return None
    n, unit = int(found["number"]), found["unit"]
    if unit.startswith(("mi", "h")):
        # Hours that have passed, not hours on the clock: there is a day with 23 of them.
        passed = timedelta(minutes=n) if unit.startswith("mi") else timedelta(hours=n)
        moment = now.astimezone(UTC) - passed
        return _Stretch(moment, moment)
    today = _midnight(now)
    if unit.startswith("d"):
        return _days(today - timedelta(days=n), 1)
    if unit.startswith("w"):
        return _days(today - timedelta(weeks=n), 1)
    return _days(_months_on(today, -n * (12 if unit.startswith("y") else 1)), 1)


def _date(word: str) -> _Stretch | None:
    found = _DATE.fullmatch(word) or _COMPACT.fullmatch(word)
    if not found:
        return _week(word)
    year, month, day = found.groups()
    begin = datetime(int(year), int(month or 1), int(day or 1))  # noqa: DTZ001
    if day:
        return _days(begin, 1)
    return _Stretch(begin, _months_on(begin, 1 if month else 12))


def _week(word: str) -> _Stretch | None:
    found = _WEEK.fullmatch(word)
    if not found:
        return None
    year, week, day = found.groups()
    begin = datetime.fromisocalendar(int(year), int(week), int(day or 1))
    return _days(begin, 1 if day else 7)


def _moment(text: str) -> _Stretch:
    moment = datetime.fromisoformat(text)
    return _Stretch(moment, moment)


def _months_on(moment: datetime, months: int) -> datetime:
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    for day in (moment.day, 30, 29, 28):  # a month may have no 31st
        try:
            return moment.replace(year=year, month=month + 1, day=day)
        except ValueError:
            if not 1 <= year <= 9999:
                raise
    raise ValueError("no such month")


def _utc(moment: datetime) -> str:
    # A naive moment is local: astimezone uses the offset of that day.
    try:
        utc = moment.astimezone(UTC)
        if moment.tzinfo is None and utc.astimezone().replace(tzinfo=None) != moment:
            # Clocks went forward over it: in Chile there are days without a midnight. Which fold
            # means the clock before the change depends on the version of Python.
            utc = max(utc, moment.replace(fold=1).astimezone(UTC))
    except (OverflowError, ValueError, OSError):
        utc = moment.replace(tzinfo=UTC)  # at the end of the calendar the zone does not matter
    return utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")
