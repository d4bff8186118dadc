"""The filters of the pages: period, project, model, people or programs. They are in the URL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from ctxdb.errors import UsageError
from ctxdb.query.narrow import AUTOMATED
from ctxdb.store import sql_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctxdb.web.page import Arguments

DAY = timedelta(days=1)
PERIODS = {  # in the URL -> days; "" in from and to
    "today": 1,
    "7d": 7,
    "30d": 30,
    "90d": 90,
    "365d": 365,
    "all": None,
}
PERIOD_NAMES = {
    "today": "Today",
    "7d": "7 days",
    "30d": "30 days",
    "90d": "90 days",
    "365d": "A year",
    "all": "All time",
}
PEOPLE = {"": "People and programs", "people": "People only", "programs": "Programs only"}
_HUMAN = {"people": "yes", "programs": AUTOMATED}  # as Ask.human has it


@dataclass(frozen=True, slots=True)
class Filters:
    """What the pages are narrowed to."""

    first: date | None  # a local day; None: from the beginning
    last: date  # a local day, included
    period: str = ""  # a key of PERIODS; empty if two days were given
    project: str = ""
    model: str = ""
    who: str = ""  # a key of PEOPLE

    @property
    def days(self) -> int | None:
        """How many days; None for all."""
        return None if self.first is None else (self.last - self.first).days + 1

    @property
    def before(self) -> Filters | None:
        """The period before this one, of the same length."""
        if self.first is None or self.days is None:
            return None
        try:
            first = self.first - timedelta(days=self.days)
        except OverflowError:
            return None
        return replace(self, first=first, last=self.first - DAY, period="")

    @property
    def in_words(self) -> str:
        """The last 30 days; 1 to 20 August 2026."""
        if self.period == "today":
            return "today"
        if self.period and self.days:
            return f"the last {self.days} days"
        if self.first is None:
            return "all time"
        return days_in_words(self.first, self.last)

    def ending(self, last: date) -> Filters:
        """A period of the same length that ends on another day."""
        if self.days is None:
            return replace(self, last=last)
        return replace(self, last=last, first=last - timedelta(days=self.days - 1), period="")

    def args(self, **changes: Any) -> dict[str, str]:
        """The arguments of a URL with these filters, and some changes; empty ones are left out."""
        dates = (
            {"period": self.period}
            if self.period
            else {"from": str(self.first or ""), "to": str(self.last)}
        )
        found = {**dates, "project": self.project, "model": self.model, "who": self.who}
        if "day" in changes:
            day = changes.pop("day")
            found |= {"period": "", "from": day, "to": day}
        found.update(changes)
        return {name: str(value) for name, value in found.items() if value}

    def narrow(self, view: str) -> dict[str, str]:
        """The options of `ctxdb query` for a view, as far as it has them."""
        has = _filters_of(view)
        wanted = {
            "since": "all" if self.first is None else str(self.first),
            "until": str(self.last) if self.first is not None else None,
            "project": self.project or None,
            "model": self.model or None,
            "human": _HUMAN.get(self.who),
        }
        return {name: value for name, value in wanted.items() if value and name in has}

    def ignored_by(self, view: str) -> list[str]:
        """The names of the filters that a view cannot follow."""
        given = {"project": self.project, "model": self.model, "people": self.who}
        names = {"people": "human"}
        has = _filters_of(view)
        return [name for name, value in given.items() if value and names.get(name, name) not in has]


@cache
def _filters_of(view: str) -> frozenset[str]:
    """The filters that a view has. A page asks for hundreds of links, so this is read once."""
    file = sql_files.find(view)
    return frozenset(file.filters) if file else frozenset()


def filters_from(args: Arguments, today: date, default: str = "30d") -> Filters:
    """Read the filters of a URL. A wrong date is an error that says so."""
    period = args.get("period")
    begin, end = args.get("from"), args.get("to")
    common = {
        "project": args.get("project"),
        "model": args.get("model"),
        "who": args.get("who") if args.get("who") in PEOPLE else "",
    }
    if begin or end:
        first = _day(begin) if begin else None
        last = _day(end) if end else today
        if first and first > last:
            raise UsageError(f"the period ends on {last}, before it begins on {first}")
        return Filters(first, last, "", **common)
    if period not in PERIODS:
        period = default
    days = PERIODS[period]
    first = None if days is None else today - timedelta(days=days - 1)
    return Filters(first, today, period, **common)


def _day(text: str) -> date:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a day; write it as 2026-08-01") from None
    if not 1970 <= found.year <= 9000:
        raise UsageError(f"{text!r} is too far away; write a day such as 2026-08-01")
    return found


def days_in_words(first: date, last: date) -> str:
    """20 August 2026; 1 to 20 August 2026; 28 July to 20 August 2026."""
    end = f"{last.day} {last:%B %Y}"
    if first == last:
        return end
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day} to {end}"
    if first.year == last.year:
        return f"{first.day} {first:%B} to {end}"
    return f"{first.day} {first:%B %Y} to {end}"


def all_days(first: date, last: date) -> list[date]:
    """Every day from one to another."""
    return [first + DAY * n for n in range((last - first).days + 1)]


def newest_day(days: Iterable[str | None]) -> date | None:
    """The newest of these days, as views write them."""
    found = []
    for text in days:
        try:
            found.append(date.fromisoformat(text or ""))
        except ValueError:
            continue
    return max(found, default=None)
