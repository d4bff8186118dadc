"""The sums of a period, from rows by day, and how they compare with the period before."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from ctxdb.web import charts, units
from ctxdb.web.filters import all_days

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from markupsafe import Markup

    from ctxdb.web.filters import Filters
    from ctxdb.web.reading import Row

LARGEST_GROWTH = 10  # times; above, it is said in words
MOST_POINTS = 400  # of a small line


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the first row."""

    name: str
    text: str
    change: str  # against the period before; empty if there is none
    change_in_words: str
    line: Sequence[float | None]  # by day
    url: str
    sql_url: str
    is_lower_bound: bool = False
    note: str = ""

    @property
    def drawn(self) -> Markup:
        """The small line chart."""
        return charts.spark(self.line)


@dataclass(frozen=True, slots=True)
class Uncertain:
    """How many requests a sum leaves out or has only in part."""

    unpriced: int
    not_final: int

    @property
    def is_lower_bound(self) -> bool:
        """Whether the cost is at least the sum."""
        return bool(self.unpriced or self.not_final)


def day_of(row: Row) -> date | None:
    """The local day of a row."""
    try:
        return date.fromisoformat(row["day"] or "")
    except ValueError:
        return None


def within(rows: Iterable[Row], filters: Filters) -> list[Row]:
    """The rows of the period. Without a first day, also those without a day."""
    found = []
    for row in rows:
        day = day_of(row)
        if filters.first is None:
            if day is None or day <= filters.last:
                found.append(row)
        elif day is not None and filters.first <= day <= filters.last:
            found.append(row)
    return found


def total(rows: Iterable[Row], column: str) -> float:
    """The sum of a column."""
    return sum(row[column] or 0 for row in rows)


def uncertain(rows: Sequence[Row]) -> Uncertain:
    """What the sums of these rows leave out."""
    return Uncertain(int(total(rows, "requests_unpriced")), int(total(rows, "requests_not_final")))


def by_day(rows: Iterable[Row], value: Callable[[Row], float]) -> dict[date, float]:
    """A value by day."""
    found: dict[date, float] = defaultdict(float)
    for row in rows:
        if day := day_of(row):
            found[day] += value(row)
    return dict(found)


def line(values: dict[date, float], filters: Filters) -> list[float | None]:
    """The value of every day of the period, for a small line."""
    first = filters.first or min(values, default=filters.last)
    days = all_days(first, filters.last)
    if len(days) > MOST_POINTS:
        return _by_month(values, days)
    return [values.get(day, 0.0) for day in days]


def _by_month(values: dict[date, float], days: Sequence[date]) -> list[float | None]:
    months: dict[tuple[int, int], float] = {(day.year, day.month): 0.0 for day in days}
    for day, value in values.items():
        if (day.year, day.month) in months:
            months[day.year, day.month] += value
    return list(months.values())


def change(now: float | None, before: float | None, than: str) -> tuple[str, str]:
    """How a number has changed, short and in words. Nothing before is "new", not a percentage."""
    if before is None or now is None:
        return "", ""
    if not before:
        return ("new", f"there was none in {than}") if now else ("", "")
    ratio = now / before
    if ratio > LARGEST_GROWTH:
        return f"\N{MULTIPLICATION SIGN}{ratio:,.0f}", f"{ratio:,.0f} times as much as in {than}"
    percent = round((ratio - 1) * 100)
    if percent == 0:
        return "same", f"about the same as in {than}"
    if percent < 0:
        return f"\N{MINUS SIGN}{-percent} %", f"{-percent} % less than in {than}"
    return f"+{percent} %", f"{percent} % more than in {than}"


def points(now: float | None, before: float | None, than: str) -> tuple[str, str]:
    """How a share has changed: by percentage points."""
    if now is None or before is None:
        return "", ""
    moved = round((now - before) * 100, 1)
    if moved == 0:
        return "same", f"about the same as in {than}"
    sign = "+" if moved > 0 else "\N{MINUS SIGN}"
    return f"{sign}{abs(moved):g} pts", f"{units.share(before)} in {than}"


def cache_share(rows: Sequence[Row]) -> float | None:
    """The share of prompt tokens that came from the cache; None without prompts."""
    prompts = total(rows, "prompt_tokens")
    return total(rows, "cache_read_tokens") / prompts if prompts else None


def groups(rows: Iterable[Row], column: str) -> dict[str, dict[str, Any]]:
    """Sums by the value of a column, the most expensive first."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = row[column] or ""
        one = found.setdefault(
            name,
            {"name": name, "cost": 0.0, "tokens": 0, "requests": 0, "unpriced": 0, "not_final": 0},
        )
        one["cost"] += row["cost_usd"] or 0
        one["tokens"] += row["total_tokens"]
        one["requests"] += row["requests"]
        one["unpriced"] += row["requests_unpriced"]
        one["not_final"] += row["requests_not_final"]
    return dict(
        sorted(found.items(), key=lambda item: (-item[1]["cost"], -item[1]["tokens"], item[0]))
    )
