"""Lead to the SQL and rows of a view in Datasette, narrowed as the command line narrows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.query.statement import Ask
from ctxdb.store import sql_files
from ctxdb.web.facts import without_comments
from ctxdb.web.page import Missing, Redirect

if TYPE_CHECKING:
    from ctxdb.web.page import Question

_OPTIONS = ("since", "until", "project", "session", "model", "sort", "columns", "human")
MOST_ROWS = 1000


def page(question: Question) -> Redirect:
    """Make the statement, and lead to it."""
    name = question.parts["view"]
    args = question.args
    file = sql_files.find(name)
    if file is None:
        raise Missing(f"There is no view or query {name!r}.")
    options = {option: args.get(option) or None for option in _OPTIONS}
    values = {param.name: text for param in file.params if (text := args.get(f"p_{param.name}"))}
    equal = {column: text for column in file.columns if (text := args.get(f"is_{column}"))}
    limit = args.number("limit", 0, MOST_ROWS) or None
    ask = Ask(name, {**values, **equal}, **options, limit=limit)
    statement = question.db.statement(ask)
    return Redirect(question.links.sql(without_comments(statement.sql), statement.values))
