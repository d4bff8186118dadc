"""What the dashboard reads: costs and work by day, and the lists, all at the same time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from ctxdb.formatting import moment
from ctxdb.web.choices import known_names
from ctxdb.web.filters import newest_day
from ctxdb.web.session_count import session_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ctxdb.web.filters import Filters
    from ctxdb.web.page import Question
    from ctxdb.web.reading import Rows

CALENDAR = timedelta(days=52 * 7)
LISTED = 10  # rows of each list


@dataclass(frozen=True, slots=True)
class Lists:
    """What is shown below the charts, and numbers that are not by day."""

    sessions: int
    sessions_before: int | None  # None without a period before
    top: Rows  # the sessions that cost most
    hours: Rows
    tools: Rows
    files: Rows
    blocks: Rows
    fresh: str | None  # when the newest line was read


@dataclass(frozen=True, slots=True)
class Seen:
    """What every part of the page needs."""

    question: Question
    filters: Filters
    by: str  # project or model: how costs are divided
    costs: Rows  # by day, project and model; also of the period before, and of the calendar
    work: Rows  # by day
    known: Mapping[str, Sequence[str]]  # the names of all projects and models, oldest first
    lists: Lists

    def sessions(self, **changes: Any) -> str:
        """The list of sessions with these filters."""
        return self.question.links.page("sessions", **self.filters.args(**changes))

    def sql(self, view: str, **more: Any) -> str:
        """The SQL and rows of a part of the page."""
        return self.question.links.rows(view, **{**self.filters.narrow(view), **more})


def read(question: Question, asked: Filters, by: str) -> Seen:
    """Read all that the page shows of a period; without data in it, of the newest that has some."""
    db = question.db
    filters = db.remember(("period with data", asked), lambda: _period_with_data(question, asked))
    before = filters.before

    def ask(view: str, narrowed: Filters = filters, **more: Any) -> Callable[[], Rows]:
        return lambda: db.ask_once(view, **narrowed.narrow(view), **more)

    parts: dict[str, Callable[[], Any]] = {  # what takes longest first
        "costs": ask("daily_by_project", _reach(filters, filters.last - CALENDAR)),
        "work": ask("daily_work", _reach(filters)),
        "blocks": ask("usage_blocks", limit=LISTED),
        "top": ask("sessions_overview", sort="-cost_usd", limit=LISTED),
        "tools": ask("tool_stats"),
        "hours": ask("activity_by_hour"),
        "files": ask("file_activity", limit=LISTED),
        "known": lambda: known_names(db),
        "sessions": lambda: session_count(db, filters),
        "sessions_before": lambda: session_count(db, before) if before else None,
        "fresh": lambda: db.sql(_FRESH)[0]["read_at"],
    }
    found = db.together(parts)
    costs, work, known = found.pop("costs"), found.pop("work"), found.pop("known")
    return Seen(question, filters, by, costs, work, known, Lists(**found))


_FRESH = """
SELECT max(last_read_at) AS read_at FROM source_files
"""


def _period_with_data(question: Question, asked: Filters) -> Filters:
    if not _newest_days(question, asked):
        days = _newest_days(question, replace(asked, first=None, period="all"))
        if newest := newest_day(days):
            return asked.ending(newest)
    return asked


def _newest_days(question: Question, filters: Filters) -> list[str]:
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
