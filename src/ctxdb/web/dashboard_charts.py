"""The charts of the dashboard, each with its numbers as a table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from ctxdb.web import charts, figures, units
from ctxdb.web.buckets import Bucket, buckets
from ctxdb.web.dashboard_data import CALENDAR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctxdb.web.dashboard_data import Seen
    from ctxdb.web.reading import Row

RANKED = 8  # projects or models in the ranked list
OTHER = "other"
NO_PROJECT = "(no project)"
NO_MODEL = "(no model)"


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, what its colours mean, and its numbers."""

    svg: Any
    legend: Sequence[Mapping[str, str]]
    columns: Sequence[str]
    rows: Sequence[tuple[str, str, Sequence[str]]]  # label, URL, cells
    step: str


def _shown_name(seen: Seen, row: Row) -> str:
    return row[seen.by] or _nameless(seen)


def _nameless(seen: Seen) -> str:
    return NO_PROJECT if seen.by == "project" else NO_MODEL


def _series(seen: Seen, rows: Sequence[Row]) -> dict[str, str]:
    """The class of each name that gets a colour; the others are one series."""
    names = [name or _nameless(seen) for name in figures.groups(rows, seen.by)]
    shown = names if len(names) <= charts.SERIES else names[: charts.SERIES]
    return charts.colours(shown, seen.known[seen.by])


def cost_chart(seen: Seen) -> Chart:
    """Cost over time, stacked by project or model."""
    filters = seen.filters
    rows = figures.within(seen.costs, filters)
    style = _series(seen, rows)
    step, parts = buckets(filters, [day for row in rows if (day := figures.day_of(row))])
    sums: dict[tuple[Bucket, str], float] = {}
    place = {day: bucket for bucket in parts for day in bucket.days}
    for row in rows:
        day = figures.day_of(row)
        if day is None or day not in place:
            continue
        name = _shown_name(seen, row)
        key = (place[day], name if name in style else OTHER)
        sums[key] = sums.get(key, 0.0) + (row["cost_usd"] or 0)
    names = [*style, *([OTHER] if any(name == OTHER for _, name in sums) else [])]

    def part(bucket: Bucket, name: str) -> charts.Part:
        value = sums.get((bucket, name), 0.0)
        narrowed = {} if name in (OTHER, NO_PROJECT, NO_MODEL) else {seen.by: name}
        url = seen.sessions(**bucket.args, **narrowed, sort="-cost_usd")
        title = f"{bucket.title}: {name} {units.money(value)}"
        return charts.Part(style.get(name, OTHER), value, title, url)

    bars = [charts.Bar(one.label, [part(one, name) for name in names]) for one in parts]
    table = [
        (
            one.title,
            seen.sessions(**one.args, sort="-cost_usd"),
            [units.money(sum(sums.get((one, name), 0.0) for name in names))]
            + [units.money(sums[one, name]) if (one, name) in sums else "" for name in names],
        )
        for one in reversed(parts)
        if any((one, name) in sums for name in names)
    ]
    legend = [
        {"name": name, "style": style.get(name, OTHER), "url": _narrowed_url(seen, name)}
        for name in names
    ]
    svg = charts.stacked_bars(bars, units.money)
    return Chart(svg, legend, ["Total", *names], table, step)


def _narrowed_url(seen: Seen, name: str) -> str:
    if name in (OTHER, NO_PROJECT, NO_MODEL):
        return ""
    links = seen.question.links
    changes = {key: value for key, value in seen.filters.args().items() if key != seen.by}
    if seen.by == "project":
        return links.project(name, **changes)
    return links.model(name, **changes)


def calendar(seen: Seen) -> Chart:
    """The year up to the last day, a square for each day."""
    last = seen.filters.last
    first = last - CALENDAR
    values = figures.by_day(seen.costs, lambda row: row["cost_usd"] or 0)

    def title(day: date, value: float) -> str:
        about = f"{day:%a} {day.day} {day:%b %Y}"
        return f"{about}: {units.money(value)}" if value else about

    def url(day: date) -> str:
        return seen.sessions(day=str(day))

    svg = charts.calendar(values, first, last, title, url)
    shown = sorted((day for day in values if first <= day <= last), reverse=True)
    rows = [(str(day), url(day), [units.money(values[day])]) for day in shown]
    return Chart(svg, (), ["Cost"], rows, "day")


@dataclass(frozen=True, slots=True)
class Ranked:
    """The most expensive of a list, and what the others come to."""

    shown: Sequence[Mapping[str, Any]]
    more: int
    more_cost: float


def ranked(seen: Seen) -> Ranked:
    """Projects or models by cost, with bars."""
    rows = figures.within(seen.costs, seen.filters)
    style = _series(seen, rows)
    found = list(figures.groups(rows, seen.by).values())
    most = max((one["cost"] for one in found), default=0.0)
    for one in found:
        one["name"] = one["name"] or _nameless(seen)
        one["url"] = _narrowed_url(seen, one["name"])
        one["bar"] = charts.share_bar(
            one["cost"] / most if most else 0.0, style.get(one["name"], OTHER)
        )
        one["is_lower_bound"] = bool(one["unpriced"] or one["not_final"])
    others = found[RANKED:]
    return Ranked(found[:RANKED], len(others), sum(one["cost"] for one in others))


def hours(seen: Seen) -> Chart:
    """Hours of the week, by cost; by turns if nothing has a price."""
    rows = seen.lists.hours
    values = {(row["weekday_number"], row["hour"]): row["cost_usd"] or 0.0 for row in rows}
    turns = {(row["weekday_number"], row["hour"]): row["turns"] for row in rows}
    by_turns = not any(values.values())

    def title(weekday: int, hour: int, _: float) -> str:
        name = charts.WEEKDAYS[weekday - 1]
        key = (weekday, hour)
        if key not in values:
            return f"{name} {hour:02}:00"
        return f"{name} {hour:02}:00: {units.money(values[key])}, {turns[key]} turns"

    def url(weekday: int, hour: int) -> str:
        return seen.sql("activity_by_hour", is_weekday_number=weekday, is_hour=hour)

    svg = charts.hours(turns if by_turns else values, title, url)
    table = [
        (
            f"{row['weekday']} {row['hour']:02}:00",
            url(row["weekday_number"], row["hour"]),
            [units.money(row["cost_usd"]), units.count(row["turns"])],
        )
        for row in rows
    ]
    return Chart(svg, (), ["Cost", "Turns"], table, "hour")
