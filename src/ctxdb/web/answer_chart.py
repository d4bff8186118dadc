"""Choose a chart for the rows of any answer: bars over time, or a ranked list."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from ctxdb.query.cells import display_by_name
from ctxdb.web import charts, units
from ctxdb.web.filters import all_days

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from markupsafe import Markup

    from ctxdb.web.reading import Rows

RANKED = 15
FEWEST = 2  # rows that are worth a chart
_TIMES = re.compile(r"\d{4}-(?:\d\d(?:-\d\d)?|W\d\d)\Z")
_DAY = re.compile(r"\d{4}-\d\d-\d\d\Z")
MOST_DAYS = 400  # shown as bars; above, months are
_VALUES: dict[str, Callable[[float], str]] = {
    "money": units.money,
    "tokens": units.tokens,
    "seconds": units.duration,
    "number": units.count,
}


@dataclass(frozen=True, slots=True)
class AnswerChart:
    """A chart of an answer. The table below it has its numbers."""

    title: str
    svg: Markup | None
    ranked: Sequence[tuple[str, Markup, str]] = ()


def answer_chart(rows: Rows) -> AnswerChart | None:
    """A chart of the first value over the first label; None if the rows do not suit."""
    displays = dict(zip(rows.columns, rows.displays, strict=False))
    kinds = {name: (displays.get(name) or display_by_name(name)).kind for name in rows.columns}
    value = next(
        (
            name
            for kind in _VALUES
            for name in rows.columns
            if kinds[name] == kind and _has(rows, name)
        ),
        None,
    )
    label = next((name for name in rows.columns if kinds[name] in ("text", "path")), None)
    if value is None or label is None or len(rows) < FEWEST:
        return None
    sums: dict[str, float] = {}
    for row in rows:
        name = str(row[label] if row[label] is not None else "")
        sums[name] = sums.get(name, 0.0) + _number(row[value])
    if len(sums) < FEWEST or not any(one > 0 for one in sums.values()):
        return None
    unit = _VALUES[kinds[value]]
    step = label
    if all(_DAY.match(name) for name in sums):
        sums = _with_all_days(sums)
        if not all(_DAY.match(name) for name in sums):
            step = "month"
    title = f"{value} by {step}".replace("_usd", "").replace("_", " ").capitalize()
    if all(_TIMES.match(name) for name in sums):
        bars = [
            charts.Bar(name, [charts.Part("s1", one, f"{name}: {unit(one)}")])
            for name, one in sorted(sums.items())
        ]
        return AnswerChart(title, charts.stacked_bars(bars, unit, height=180))
    most = max(sums.values())
    best = sorted(sums.items(), key=lambda item: -item[1])[:RANKED]
    return AnswerChart(
        title,
        None,
        [(name or "(none)", charts.share_bar(one / most, "s1"), unit(one)) for name, one in best],
    )


def _with_all_days(sums: dict[str, float]) -> dict[str, float]:
    """The sums of every day from the first to the last; of months, if there are too many days."""
    try:
        first, last = date.fromisoformat(min(sums)), date.fromisoformat(max(sums))
    except ValueError:
        return sums
    days = {str(day): 0.0 for day in all_days(first, last)} | sums
    if len(days) <= MOST_DAYS:
        return days
    months: dict[str, float] = {}
    for day, one in days.items():
        months[day[:7]] = months.get(day[:7], 0.0) + one
    return months


def _has(rows: Rows, name: str) -> bool:
    return any(_number(row[name]) > 0 for row in rows)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
