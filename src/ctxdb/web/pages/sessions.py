"""The list of sessions, with filters and sorting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctxdb.web.choices import choices
from ctxdb.web.filters import filters_from
from ctxdb.web.page import Page
from ctxdb.web.session_count import session_count

if TYPE_CHECKING:
    from ctxdb.web.page import Question

VIEW = "sessions_overview"
PAGE = 50
MOST_PAGES = 400
COLUMNS = {  # of the view -> heading; these can be sorted by
    "title": "Session",
    "project": "Project",
    "started_at": "Began",
    "active_seconds": "Worked",
    "turns": "Turns",
    "tools": "Calls",
    "errors": "Failed",
    "files_changed": "Files",
    "total_tokens": "Tokens",
    "cost_usd": "Cost",
}
TEXTS = ("title", "project")  # sorted from A on; all others the largest first


def page(question: Question) -> Page:
    """Show a page of the list."""
    filters = filters_from(question.args, question.now.date(), default="all")
    sort = question.args.get("sort")
    if sort.removeprefix("-") not in COLUMNS:
        sort = ""
    number = question.args.number("page", 0, MOST_PAGES)
    db = question.db
    narrow = filters.narrow(VIEW)
    wanted = (number + 1) * PAGE
    found = db.together(
        {
            "rows": lambda: db.ask(VIEW, **narrow, sort=sort or None, limit=wanted),
            "count": lambda: session_count(db, filters),
            "choices": lambda: choices(db),
        }
    )
    rows, total = found["rows"], found["count"]

    def url(**changes: Any) -> str:
        args = filters.args(**{"sort": sort, **changes})
        return question.links.page("sessions", **args)

    headings = [
        {
            "name": name,
            "words": words,
            "url": url(sort=_next_sort(name, sort)),
            "order": _order(name, sort),
            "is_number": name not in ("title", "project", "started_at"),
        }
        for name, words in COLUMNS.items()
    ]
    return Page(
        "sessions.html",
        {
            "title": "Sessions",
            "filters": filters,
            "choices": found["choices"],
            "sort": sort,
            "headings": headings,
            "rows": rows[number * PAGE :],
            "total": total,
            "first": number * PAGE + 1,
            "previous": url(page=number - 1 or "") if number else "",
            "next": url(page=number + 1) if total > wanted else "",
            "sql": question.links.rows(VIEW, **narrow, sort=sort),
            "uncertain": rows.uncertain,
        },
    )


def _next_sort(name: str, sort: str) -> str:
    """Sort by this column; if it is sorted by already, the other way round."""
    first, second = (name, f"-{name}") if name in TEXTS else (f"-{name}", name)
    return second if sort == first else first


def _order(name: str, sort: str) -> str:
    """As aria-sort says it."""
    if sort.removeprefix("-") != name and not (name == "started_at" and not sort):
        return ""
    return "descending" if sort.startswith("-") or not sort else "ascending"
