"""The first row of the dashboard: cost, tokens, sessions and others, against the period before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.web import figures, units
from ctxdb.web.figures import Figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctxdb.web.dashboard_data import Seen
    from ctxdb.web.filters import Filters
    from ctxdb.web.reading import Row


def first_row(seen: Seen) -> list[Figure]:
    """The figures, in the order in which they are shown."""
    filters, before = seen.filters, seen.filters.before
    costs, work = figures.within(seen.costs, filters), figures.within(seen.work, filters)
    costs_before = figures.within(seen.costs, before) if before else None
    work_before = figures.within(seen.work, before) if before else None
    than = f"the {filters.days} days before" if before and filters.days != 1 else "the day before"
    lower_bound = figures.uncertain(costs).is_lower_bound
    ignored = _ignored(filters)
    sessions, sessions_before = seen.lists.sessions, seen.lists.sessions_before
    sql = seen.sql

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
            shares if 2 * sum(one is not None for one in shares) > len(shares) else (),
            sql("cache_efficiency"),
            sql("cache_efficiency"),
        ),
        summed("Failed calls", work, work_before, "errors", units.count),
    ]


def _ignored(filters: Filters) -> str:
    ignored = filters.ignored_by("daily_work")
    return f"of every {' and '.join(ignored)}" if ignored else ""
