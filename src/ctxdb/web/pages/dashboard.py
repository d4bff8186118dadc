"""The first page: what it cost, whether that is more than before, and where the work was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctxdb.query.uncertain import LeftOut
from ctxdb.web import dashboard_charts, figures, units
from ctxdb.web.choices import choices
from ctxdb.web.dashboard_data import CALENDAR, LISTED, read
from ctxdb.web.dashboard_figures import first_row
from ctxdb.web.filters import days_in_words, filters_from
from ctxdb.web.page import Page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxdb.web.dashboard_data import Seen
    from ctxdb.web.page import Question
    from ctxdb.web.reading import Row


def page(question: Question) -> Page:
    """Show the period that the URL names, or the newest that has data."""
    asked = filters_from(question.args, question.now.date())
    by = "model" if question.args.get("by") == "model" else "project"
    seen = read(question, asked, by)
    filters = seen.filters
    period_costs = figures.within(seen.costs, filters)
    values = {
        "title": "Dashboard",
        "filters": filters,
        "asked": asked,
        "action": question.links.page(),
        "hidden": {"by": by} if by == "model" else {},
        "is_moved": filters.last != asked.last,
        "moved_to": days_in_words(filters.first or filters.last, filters.last),
        "choices": _choices(seen),
        "figures": first_row(seen),
        "cost_chart": dashboard_charts.cost_chart(seen),
        "calendar": dashboard_charts.calendar(seen),
        "year_ago": str(filters.last - CALENDAR),
        "ranked": dashboard_charts.ranked(seen),
        "hours": dashboard_charts.hours(seen),
        "top_sessions": seen.lists.top,
        "tools": _tools(seen),
        "files": _files(seen),
        "blocks": seen.lists.blocks[:LISTED],
        "uncertain": _uncertain_words(period_costs),
        "fresh": seen.lists.fresh,
        "sql": seen.sql,
        "has_data": bool(period_costs or figures.within(seen.work, filters)),
        "is_empty": not seen.costs and not seen.work,
    }
    return Page("dashboard.html", values)


def _choices(seen: Seen) -> dict[str, Any]:
    links, args = seen.question.links, seen.filters.args()
    return {
        **choices(seen.question.db),
        "by": seen.by,
        "by_url": {one: links.page("", **args, by=one) for one in ("project", "model")},
    }


def _tools(seen: Seen) -> list[dict[str, Any]]:
    links = seen.question.links
    shown = [dict(row) for row in seen.lists.tools[:LISTED]]
    for row in shown:
        row["url"] = links.table("tool_uses", name=row["tool"], _sort_desc="started_at")
        row["errors_url"] = links.rows(
            "tool_errors", **seen.filters.narrow("tool_errors"), is_tool=row["tool"]
        )
    return shown


def _files(seen: Seen) -> list[dict[str, Any]]:
    shown = [dict(row) for row in seen.lists.files if row["edits"]]
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
