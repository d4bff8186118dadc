"""The first page: what it cost, whether that is more than before, and where the work was."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from ctxdb.formatting import moment
from ctxdb.query.uncertain import LeftOut
from ctxdb.web import charts, figures, units
from ctxdb.web.buckets import Bucket, buckets
from ctxdb.web.choices import choices, known_names
from ctxdb.web.figures import Figure
from ctxdb.web.filters import days_in_words, filters_from, newest_day
from ctxdb.web.page import Page
from ctxdb.web.session_count import session_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ctxdb.web.filters import Filters
    from ctxdb.web.page import Question
    from ctxdb.web.reading import Row, Rows

CALENDAR = timedelta(days=52 * 7)
LISTED = 10  # rows of each list
RANKED = 12  # projects or models in the ranked list
OTHER = "other"
NO_PROJECT = "(no project)"


def page(question: Question) -> Page:
    """Show the period that the URL names, or the newest that has data."""
    asked = filters_from(question.args, question.now.date())
    costs, work, filters = _period_with_data(question, asked)
    lists = _lists(question, filters)
    by = "model" if question.args.get("by") == "model" else "project"
    seen = Seen(question, filters, costs, work, by, lists["known"])
    period_costs = figures.within(costs, filters)
    values = {
        "title": "Dashboard",
        "filters": filters,
        "asked": asked,
        "action": question.links.page(),
        "hidden": {"by": by} if by == "model" else {},
        "is_moved": filters.last != asked.last,
        "moved_to": days_in_words(filters.first or filters.last, filters.last),
        "choices": _choices(question, filters, lists["known"], by),
        "figures": _figures(seen, lists["sessions"], lists["sessions_before"]),
        "cost_chart": _cost_chart(seen),
        "calendar": _calendar(seen),
        "year_ago": str(filters.last - CALENDAR),
        "ranked": _ranked(seen, period_costs),
        "hours": _hours(seen, lists["hours"]),
        "top_sessions": lists["top"],
        "tools": _tools(seen, lists["tools"]),
        "files": _files(seen, lists["files"]),
        "blocks": lists["blocks"][:LISTED],
        "uncertain": _uncertain_words(period_costs),
        "fresh": lists["fresh"],
        "sql": partial(_sql, question, filters),
        "has_data": bool(figures.within(costs, filters) or figures.within(work, filters)),
        "is_empty": not costs and not work,
    }
    return Page("dashboard.html", values)


@dataclass(frozen=True, slots=True)
class Seen:
    """What every part of the page needs."""

    question: Question
    filters: Filters
    costs: Rows  # by day, project and model; also of the period before, and of the calendar
    work: Rows  # by day
    by: str  # project or model: how costs are divided
    known: Mapping[str, Sequence[str]]  # the names of all projects and models, oldest first

    def sessions(self, **changes: Any) -> str:
        """The list of sessions with these filters."""
        return self.question.links.page("sessions", **self.filters.args(**changes))


def _period_with_data(question: Question, asked: Filters) -> tuple[Rows, Rows, Filters]:
    """Read costs and work by day. Without data in the period, take the newest that has some."""
    filters = asked
    if not _newest_moments(question, asked):
        moments = _newest_moments(question, replace(asked, first=None, period="all"))
        if newest := newest_day(moments):
            filters = asked.ending(newest)
    return *_days(question, filters), filters


def _newest_moments(question: Question, filters: Filters) -> list[str]:
    """The local days of the newest billed request and of the newest human request."""
    found = []
    for table, column in (("usage", "timestamp"), ("turns", "started_at")):
        narrow = {**filters.narrow("daily_by_project")}
        if table == "turns":
            narrow.pop("model", None)
        rows = question.db.ask(table, **narrow, columns=column, sort=f"-{column}", limit=1)
        found += [str(at.date()) for row in rows if (at := moment(row[column]))]
    return found


def _reach(filters: Filters, first: date | None = None) -> Filters:
    """The days to read: those of the period and of the one before, and from `first` on."""
    if filters.first is None:
        return filters
    begin = filters.before.first if filters.before and filters.before.first else filters.first
    return replace(filters, first=min(begin, first or begin), period="")


def _days(question: Question, filters: Filters) -> tuple[Rows, Rows]:
    reach = {
        "daily_by_project": _reach(filters, filters.last - CALENDAR),
        "daily_work": _reach(filters),
    }
    found = question.db.together(
        {
            view: partial(question.db.ask, view, **narrowed.narrow(view))
            for view, narrowed in reach.items()
        }
    )
    return found["daily_by_project"], found["daily_work"]


_FRESH = """
SELECT max(last_read_at) AS read_at FROM source_files
"""


def _lists(question: Question, filters: Filters) -> dict[str, Any]:
    db = question.db

    def ask(view: str, **more: Any) -> Rows:
        return db.ask(view, **filters.narrow(view), **more)

    parts: dict[str, Callable[[], Any]] = {
        "known": lambda: known_names(db),
        "fresh": lambda: db.sql(_FRESH)[0]["read_at"],
        "sessions": lambda: session_count(db, filters),
        "top": lambda: ask("sessions_overview", sort="-cost_usd", limit=LISTED),
        "hours": lambda: ask("activity_by_hour"),
        "tools": lambda: ask("tool_stats"),
        "files": lambda: ask("file_activity", limit=LISTED),
        "blocks": lambda: ask("usage_blocks", limit=LISTED),
        "sessions_before": lambda: None,
    }
    if before := filters.before:
        parts["sessions_before"] = lambda: session_count(db, before)
    return db.together(parts)


def _sql(question: Question, filters: Filters, view: str, **more: Any) -> str:
    """The SQL and rows of a part of the page."""
    return question.links.rows(view, **{**filters.narrow(view), **more})


def _choices(
    question: Question, filters: Filters, known: dict[str, list[str]], by: str
) -> dict[str, Any]:
    return {
        **choices(question.db, known),
        "by": by,
        "by_url": {
            one: question.links.page("", **filters.args(), by=one) for one in ("project", "model")
        },
    }


# -- figures ---------------------------------------------------------------------------------------


def _figures(seen: Seen, sessions: int, sessions_before: int | None) -> list[Figure]:
    filters, before = seen.filters, seen.filters.before
    costs, work = figures.within(seen.costs, filters), figures.within(seen.work, filters)
    costs_before = figures.within(seen.costs, before) if before else None
    work_before = figures.within(seen.work, before) if before else None
    than = f"the {filters.days} days before" if before and filters.days != 1 else "the day before"
    lower_bound = figures.uncertain(costs).is_lower_bound
    ignored = _ignored(filters)
    sql = partial(_sql, seen.question, filters)

    def summed(
        name: str, rows: list[Row], earlier: list[Row] | None, column: str, unit: Callable[..., str]
    ) -> Figure:
        now = figures.total(rows, column)
        past = None if earlier is None else figures.total(earlier, column)
        view = "daily_by_project" if rows is costs else "daily_work"
        return Figure(
            name,
            unit(now),
            *figures.change(now, past, than),
            figures.line(figures.by_day(rows, lambda row: row[column] or 0), filters),
            seen.sessions(sort="-cost_usd") if name == "Cost" else sql(view),
            sql(view),
            is_lower_bound=lower_bound and rows is costs,
            note=ignored if rows is work else "",
        )

    share, share_before = figures.cache_share(costs), None
    if costs_before is not None:
        share_before = figures.cache_share(costs_before)
    days = len({row["day"] for row in [*costs, *work] if row["day"]})
    days_before = None
    if costs_before is not None and work_before is not None:
        days_before = len({row["day"] for row in [*costs_before, *work_before] if row["day"]})
    cached = figures.by_day(costs, lambda row: row["cache_read_tokens"])
    prompts = figures.by_day(costs, lambda row: row["prompt_tokens"])
    shares = [
        None if not whole else part / whole
        for part, whole in zip(
            (one or 0.0 for one in figures.line(cached, filters)),
            (one or 0.0 for one in figures.line(prompts, filters)),
            strict=False,
        )
    ]
    return [
        summed("Cost", costs, costs_before, "cost_usd", units.money),
        summed("Tokens", costs, costs_before, "total_tokens", units.tokens),
        Figure(
            "Sessions",
            units.count(sessions),
            *figures.change(sessions, sessions_before, than),
            figures.line(figures.by_day(work, lambda row: row["sessions"]), filters),
            seen.sessions(),
            sql("sessions_overview"),
        ),
        summed("Turns", work, work_before, "turns", units.count),
        summed("Agent time", work, work_before, "active_seconds", units.hours),
        Figure(
            "Active days",
            units.count(days),
            *figures.change(days, days_before, than),
            (),  # a day is active or not: a line would say nothing
            sql("daily_work"),
            sql("daily_work"),
        ),
        Figure(
            "From cache",
            units.share(share),
            *figures.points(share, share_before, than),
            shares,
            sql("cache_efficiency"),
            sql("cache_efficiency"),
        ),
        summed("Failed calls", work, work_before, "errors", units.count),
    ]


def _ignored(filters: Filters) -> str:
    ignored = filters.ignored_by("daily_work")
    return f"of every {' and '.join(ignored)}" if ignored else ""


# -- charts ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, what its colours mean, and its numbers."""

    svg: Any
    legend: Sequence[Mapping[str, str]]
    columns: Sequence[str]
    rows: Sequence[tuple[str, str, Sequence[str]]]  # label, URL, cells
    step: str


def _shown_name(seen: Seen, row: Row) -> str:
    return row[seen.by] or (NO_PROJECT if seen.by == "project" else "(no model)")


def _series(seen: Seen, rows: Sequence[Row]) -> dict[str, str]:
    """The class of each name that gets a colour; the others are one series."""
    names = [name or NO_PROJECT for name in figures.groups(rows, seen.by)]
    shown = names if len(names) <= charts.SERIES else names[: charts.SERIES]
    return charts.colours(shown, seen.known[seen.by])


def _cost_chart(seen: Seen) -> Chart:
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
        narrowed = {} if name in (OTHER, NO_PROJECT) else {seen.by: name}
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
    if name in (OTHER, NO_PROJECT, "(no model)"):
        return ""
    links = seen.question.links
    changes = {key: value for key, value in seen.filters.args().items() if key != seen.by}
    if seen.by == "project":
        return links.project(name, **changes)
    return links.model(name, **changes)


def _calendar(seen: Seen) -> Chart:
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


def _ranked(seen: Seen, rows: Sequence[Row]) -> list[dict[str, Any]]:
    style = _series(seen, rows)
    found = list(figures.groups(rows, seen.by).values())
    most = max((one["cost"] for one in found), default=0.0)
    for one in found:
        one["name"] = one["name"] or NO_PROJECT
        one["url"] = _narrowed_url(seen, one["name"])
        one["bar"] = charts.share_bar(
            one["cost"] / most if most else 0.0, style.get(one["name"], OTHER)
        )
        one["is_lower_bound"] = bool(one["unpriced"] or one["not_final"])
    return found[:RANKED]


def _hours(seen: Seen, rows: Rows) -> Chart:
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
        return _sql(
            seen.question,
            seen.filters,
            "activity_by_hour",
            is_weekday_number=weekday,
            is_hour=hour,
        )

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


# -- lists -----------------------------------------------------------------------------------------


def _tools(seen: Seen, rows: Rows) -> list[dict[str, Any]]:
    links = seen.question.links
    shown = [dict(row) for row in rows[:LISTED]]
    for row in shown:
        row["url"] = links.table("tool_uses", name=row["tool"], _sort_desc="started_at")
        row["errors_url"] = links.rows(
            "tool_errors", **seen.filters.narrow("tool_errors"), is_tool=row["tool"]
        )
    return shown


def _files(seen: Seen, rows: Rows) -> list[dict[str, Any]]:
    shown = [dict(row) for row in rows if row["edits"]]
    for row in shown:
        row["url"] = seen.question.links.file(row["path"])
        row["shown"] = units.short_path(row["relative_path"] or row["path"])
    return shown


def _uncertain_words(rows: Sequence[Row]) -> str | None:
    columns = ("requests_unpriced", "requests_not_final")
    counter = LeftOut(columns)
    found = figures.uncertain(rows)
    counter.add((found.unpriced, found.not_final))
    return counter.in_words()
