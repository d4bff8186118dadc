"""What people mean by a time: ``7d``, ``yesterday``, ``2026-08``.

Every word names a stretch of local time; ``--since`` takes its beginning and ``--until`` its end,
so that ``--since 2026-08 --until 2026-08`` is August. Days are whole: a daily table that begins in
the middle of a day would lie about it. The result is UTC text as transcripts write it, because a
comparison of texts can use an index.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

from ctxdb.errors import UsageError

ALL = "all"
HINT = (
    "7d, 24h, 2w, today, yesterday, 'last week', monday, 2026-08-01, 2026-W34, 2026-08, 2026 or all"
)

_AGO = re.compile(r"(\d{1,5})\s*(min|minutes?|h|hours?|d|days?|w|weeks?|mo|months?|y|years?)")
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)")
_WEEK = re.compile(r"(\d{4})-?w(\d\d)(?:-?([1-7]))?")  # as weekly_usage names them, in lower case
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def since(text: str, now: datetime | None = None) -> str | None:
    """The UTC text from which on, None for ever."""
    found = _stretch(text, now)
    return None if found is None else _utc(found[0])


def until(text: str, now: datetime | None = None) -> str | None:
    """The UTC text before which, None for ever."""
    found = _stretch(text, now)
    return None if found is None else _utc(found[1])


def bounds(begin: str | None, end: str | None) -> tuple[str | None, str | None]:
    """Both at once; a period that ends before it begins is a mistake, and no empty answer."""
    first = None if begin is None else since(begin)
    last = None if end is None else until(end)
    if first is not None and last is not None and first > last:
        raise UsageError(f"--until {end} ends before --since {begin} begins")
    return first, last


def day(text: str, now: datetime | None = None) -> str:
    """The UTC text of the midnight that a day begins with; a longer or shorter time is none."""
    found = _stretch(text, now)
    if found is None or found[0].time() != time.min or found[1] - found[0] != timedelta(days=1):
        raise UsageError(f"{text!r} is no day; say today, yesterday, monday, 3d or 2026-08-01")
    return _utc(found[0])


def _stretch(text: str, now: datetime | None) -> tuple[datetime, datetime] | None:
    """Beginning and end (exclusive) in naive local time, or aware where the text says a zone."""
    word = " ".join(text.strip().lower().split())
    if word in (ALL, "ever"):
        return None
    now = now or datetime.now()  # noqa: DTZ005
    try:
        found = _named(word, now) or _ago(word, now) or _date(word) or _moment(text.strip())
    except (ValueError, OverflowError):
        found = None
    if found is None:
        raise UsageError(f"{text!r} is no time; say {HINT}")
    return found


def _named(word: str, now: datetime) -> tuple[datetime, datetime] | None:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    day = timedelta(days=1)
    if word == "now":
        return now, now
    if word == "today":
        return today, today + day
    if word == "yesterday":
        return today - day, today
    if word in _WEEKDAYS:
        back = (today.weekday() - _WEEKDAYS.index(word)) % 7
        return today - back * day, today - (back - 1) * day
    monday = today - today.weekday() * day
    first = today.replace(day=1)
    this_year = first.replace(month=1)
    return {
        "this week": (monday, monday + 7 * day),
        "last week": (monday - 7 * day, monday),
        "this month": (first, _months_on(first, 1)),
        "last month": (_months_on(first, -1), first),
        "this year": (this_year, _months_on(this_year, 12)),
        "last year": (_months_on(this_year, -12), this_year),
    }.get(word)


def _ago(word: str, now: datetime) -> tuple[datetime, datetime] | None:
    found = _AGO.fullmatch(word.removesuffix(" ago"))
    if not found:
        return None
    n, unit = int(found[1]), found[2]
    if unit.startswith(("mi", "h")):
        # Hours that have passed, not hours on the clock: there is a day that has 23 of them.
        passed = timedelta(minutes=n) if unit.startswith("mi") else timedelta(hours=n)
        moment = now.astimezone(UTC) - passed
        return moment, moment
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit.startswith("d"):
        begin = today - timedelta(days=n)
    elif unit.startswith("w"):
        begin = today - timedelta(weeks=n)
    else:
        begin = _months_on(today, -n * (12 if unit.startswith("y") else 1))
    return begin, begin + timedelta(days=1)


def _date(word: str) -> tuple[datetime, datetime] | None:
    found = _DATE.fullmatch(word) or _COMPACT.fullmatch(word)
    if not found:
        return _week(word)
    year, month, day = int(found[1]), found[2], found[3]
    begin = datetime(year, int(month or 1), int(day or 1))  # noqa: DTZ001
    if day:
        return begin, begin + timedelta(days=1)
    return begin, _months_on(begin, 1 if month else 12)


def _week(word: str) -> tuple[datetime, datetime] | None:
    found = _WEEK.fullmatch(word)
    if not found:
        return None
    year, week, day = int(found[1]), int(found[2]), found[3]
    begin = datetime.fromisocalendar(year, week, int(day or 1))
    return begin, begin + timedelta(days=1 if day else 7)


def _moment(text: str) -> tuple[datetime, datetime]:
    moment = datetime.fromisoformat(text)
    return moment, moment


def _months_on(moment: datetime, months: int) -> datetime:
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    for day in (moment.day, 30, 29, 28):  # the 31st of a month that has none
        try:
            return moment.replace(year=year, month=month + 1, day=day)
        except ValueError:
            if not 1 <= year <= 9999:
                raise
    raise ValueError("no such month")


def _utc(moment: datetime) -> str:
    # A naive moment is local: astimezone knows what the clocks showed on that day.
    try:
        utc = moment.astimezone(UTC)
        if moment.tzinfo is None and utc.astimezone().replace(tzinfo=None) != moment:
            # Clocks went forward over it: in Chile there are days without a midnight. Which fold
            # then stands for the clock before depends on the version of Python.
            utc = max(utc, moment.replace(fold=1).astimezone(UTC))
    except (OverflowError, ValueError, OSError):
        utc = moment.replace(tzinfo=UTC)  # at the edge of the calendar a zone does not matter
    return utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")
