"""Ask: every view and canned query as a form, with a chart of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctxdb.query.statement import Ask
from ctxdb.store import sql_files
from ctxdb.web.answer_chart import answer_chart
from ctxdb.web.choices import choices
from ctxdb.web.page import Missing, Page
from ctxdb.web.tables import table

if TYPE_CHECKING:
    from ctxdb.store.sql_files import SqlFile
    from ctxdb.web.page import Question

MOST = 200  # rows of a page
FIELDS = {  # the options of `ctxdb query`, and what the form calls them
    "since": "Since",
    "until": "Until",
    "project": "Project",
    "model": "Model",
    "session": "Session",
}


def index(question: Question) -> Page:
    """List all questions."""
    del question
    return Page(
        "ask_index.html",
        {
            "title": "Ask",
            "queries": sql_files.all_queries(),
            "views": sql_files.all_views(),
        },
    )


def page(question: Question) -> Page:
    """Show the form of a question, and its answer if nothing is missing."""
    name = question.parts["name"]
    file = sql_files.find(name)
    if file is None:
        raise Missing(f"There is no question {name!r}. The page Ask lists all of them.")
    args = question.args
    given = {param.name: args.get(param.name) for param in file.params}
    missing = [
        param.name for param in file.params if param.default is None and not given[param.name]
    ]
    options = {name: args.get(name) for name in FIELDS if name in file.filters}
    sort = args.get("sort")
    values: dict[str, Any] = {
        "title": name.replace("_", " ").capitalize(),
        "file": file,
        "fields": _fields(file, given),
        "options": {name: (FIELDS[name], value) for name, value in options.items()},
        "has_human": "human" in file.filters,
        "human": bool(args.get("human")),
        "choices": choices(question.db),
        "missing": missing,
        "table": None,
    }
    if missing:
        return Page("ask.html", values)
    kept = {
        **{name: value for name, value in given.items() if value},
        **{name: value for name, value in options.items() if value},
    }
    human = "yes" if args.get("human") and "human" in file.filters else None
    narrow = {name: value or None for name, value in options.items()}
    ask = Ask(
        name,
        {key: value for key, value in given.items() if value},
        **narrow,
        limit=None if "limit" in given else MOST,
        sort=sort if sort.removeprefix("-") in file.columns else None,
        human=human,
    )
    rows = question.db.answer(ask)
    statement = rows.statement

    def sort_url(column: str) -> str:
        wanted = f"-{column}" if sort != f"-{column}" else column
        return question.links.ask(name, **kept, human=human and 1, sort=wanted)

    params = {f"p_{key}": value for key, value in given.items() if value}
    others = {key: value for key, value in narrow.items() if value}
    values |= {
        "table": table(
            question, rows, words=dict(file.columns), sort_url=sort_url, is_money_first=True
        ),
        "chart": answer_chart(rows),
        "note": (statement.note if statement else "").replace("--since all", "Since: all"),
        "count": len(rows),
        "is_cut": len(rows) >= MOST,
        "uncertain": rows.uncertain,
        "sql": question.links.rows(name, **params, **others, human=human, sort=sort),
    }
    return Page("ask.html", values)


def _fields(file: SqlFile, given: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "name": param.name,
            "words": param.words,
            "value": given[param.name],
            "default": "" if param.default in (None, "%") else param.default,
            "is_required": param.default is None,
        }
        for param in file.params
    ]
