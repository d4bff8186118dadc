"""Print `ctxdb query --list`: all views, queries and tables, or one of them in full.

What a table and its columns mean comes from the comments in the migrations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.output import say
from ctxdb.query.execute import Answer
from ctxdb.query.resolve import unknown
from ctxdb.store import sql_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    TableWords = dict[str, str]  # what each column means; under the empty name, the table itself


def show_list(name: str, format_: str) -> None:
    """Print the whole list, or the description of one view, query or table."""
    if name:
        for line in describe(name):
            say(line)
        return
    from ctxdb.query.present import page, write

    if format_ == "table":
        for line in overview(page().width or 100):
            say(line)
    else:
        write(Answer(*everything()), format_)


def overview(room: int) -> Iterator[str]:
    """Return the lines of the list for people: each question, and the parameters of a query."""
    from textwrap import wrap

    views, queries, tables = sql_files.all_views(), sql_files.all_queries(), _tables()
    margin = max(len(name) for name in [*(one.name for one in [*views, *queries]), *tables]) + 2
    for title, some in (
        ("Views", {one.name: _with_params(one) for one in views}),
        (
            "Queries (a parameter is given as -p NAME VALUE)",
            {one.name: _with_params(one) for one in queries},
        ),
        ("Tables", {name: words[""] for name, words in tables.items()}),
    ):
        if not some:
            continue
        yield f"{title}:"
        for name, text in some.items():
            first, *rest = wrap(text, max(room - margin - 2, 30)) or [""]
            yield f"  {name:{margin}}{first}"
            yield from (f"  {'':{margin}}{line}" for line in rest)
    yield "What one of them takes and gives: ctxdb query --list NAME"


def _with_params(file: sql_files.SqlFile) -> str:
    params = ", ".join(f":{param.name}" for param in file.params)
    return f"{file.question} ({params})" if params else file.question


def everything() -> tuple[list[str], Iterator[tuple[object, ...]]]:
    """Return columns and rows of the list of views, queries and tables."""

    def rows() -> Iterator[tuple[object, ...]]:
        for file in [*sql_files.all_views(), *sql_files.all_queries()]:
            params = ", ".join(param.name for param in file.params) or None
            yield file.name, file.kind, file.question, params
        for name, words in _tables().items():
            yield name, "table", words[""], None

    return ["name", "kind", "question", "params"], rows()


def _tables() -> dict[str, TableWords]:
    """Return the public tables, in the order of the docs."""
    from ctxdb.store.schema import all_docs

    found: dict[str, TableWords] = {}
    for kind, name, column, _, words in all_docs():
        if kind == "table" and not name.startswith("_"):
            found.setdefault(name, {})[column] = words
    return found


def describe(name: str) -> Iterator[str]:
    """Return lines on one view, query or table: what it answers, its parameters and columns."""
    name = name.replace("-", "_")
    file = sql_files.find(name)
    if file is None:
        tables = _tables()
        if name not in tables:
            known = [*sql_files.names("view"), *sql_files.names("query"), *tables]
            raise unknown("view, query or table", name, known, "`ctxdb query --list` shows all")
        yield f"{name} (table): {tables[name].pop('')}"
        yield from _columns(tables[name])
        return
    yield f"{file.name} ({file.kind}): {file.question}"
    if file.params:
        yield ""
        yield "Parameters, each given as -p NAME VALUE:"
        for param in file.params:
            default = "must be given" if param.default is None else f"default {param.default}"
            yield f"  {param.name}: {param.words} ({default})"
    yield from _columns(file.columns)
    yield ""
    yield "Options: " + ", ".join([*file.options, "--sort", "--columns", "--limit", "--format"])
    if file.period:
        yield f"Shows the last {file.period.removesuffix('d')} days by default."
    if file.example:
        yield f"Example: {file.example}"


def _columns(columns: Mapping[str, str]) -> Iterator[str]:
    if not columns:
        return
    yield ""
    yield "Columns:"
    margin = max(map(len, columns))
    for column, words in columns.items():
        yield f"  {column:{margin}}  {words}"
