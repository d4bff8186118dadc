"""What can be asked by name: all of it in a line each, or one in full.

Tables can be asked too, so they are here as well, in the words that the database has for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.output import say
from ctxdb.query.resolve import unknown
from ctxdb.query.run import Answer
from ctxdb.store import sql_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Table = dict[str, str]  # what each column means; the empty name is the table itself


def show_list(name: str, format_: str) -> None:
    """Print all of it, or what is to be said of one."""
    if name:
        for line in describe(name):
            say(line)
        return
    from ctxdb.query.present import page, write

    if format_ == "table":
        for line in overview(page().columns or 100):
            say(line)
    else:
        write(Answer(*everything()), format_)


def overview(room: int) -> Iterator[str]:
    """The list for people: questions whole, with what a query wants to be told."""
    from textwrap import wrap

    views, queries, tables = sql_files.all_views(), sql_files.all_queries(), _tables()
    margin = max(len(name) for name in [*(one.name for one in [*views, *queries]), *tables]) + 2
    for title, some in (
        ("Views", {one.name: _with_params(one) for one in views}),
        (
            "Queries (a parameter is given as -p NAME VALUE)",
            {one.name: _with_params(one) for one in queries},
        ),
        ("Tables", {name: table[""] for name, table in tables.items()}),
    ):
        if not some:
            continue
        yield f"{title}:"
        for name, text in some.items():
            first, *rest = wrap(text, max(room - margin - 2, 30)) or [""]
            yield f"  {name:{margin}}{first}"
            yield from (f"  {'':{margin}}{line}" for line in rest)
    yield "What one of them has to offer: ctxdb query --list NAME"


def _with_params(one: sql_files.Canned) -> str:
    wants = ", ".join(f":{param.name}" for param in one.params)
    return f"{one.question} ({wants})" if wants else one.question


def everything() -> tuple[list[str], Iterator[tuple[object, ...]]]:
    """Columns and rows of the list of views, queries and tables."""

    def rows() -> Iterator[tuple[object, ...]]:
        for one in [*sql_files.all_views(), *sql_files.all_queries()]:
            params = ", ".join(param.name for param in one.params) or None
            yield one.name, one.kind, one.question, params
        for name, table in _tables().items():
            yield name, "table", table[""], None

    return ["name", "kind", "question", "params"], rows()


def _tables() -> dict[str, Table]:
    """The tables that are an interface, in the order of the docs."""
    from ctxdb.store.schema import all_docs

    found: dict[str, Table] = {}
    for kind, name, column, _, words in all_docs():
        if kind == "table" and not name.startswith("_"):
            found.setdefault(name, {})[column] = words
    return found


def describe(name: str) -> Iterator[str]:
    """What one view or query answers, takes and gives, or what a table has."""
    name = name.replace("-", "_")
    one = sql_files.find(name)
    if one is None:
        tables = _tables()
        if name not in tables:
            known = [*sql_files.names("view"), *sql_files.names("query"), *tables]
            raise unknown("view, query or table", name, known, "`ctxdb query --list` shows all")
        yield f"{name} (table): {tables[name].pop('')}"
        yield from _columns(tables[name])
        return
    yield f"{one.name} ({one.kind}): {one.question}"
    if one.params:
        yield ""
        yield "Parameters, each given as -p NAME VALUE:"
        for param in one.params:
            default = "must be given" if param.default is None else f"default {param.default}"
            yield f"  {param.name}: {param.words} ({default})"
    yield from _columns(one.columns)
    yield ""
    yield "Options: " + ", ".join([*one.options, "--sort", "--columns", "--limit", "--format"])
    if one.period:
        yield f"Shows the last {one.period.removesuffix('d')} days unless told otherwise."
    if one.example:
        yield f"Example: {one.example}"


def _columns(columns: Mapping[str, str]) -> Iterator[str]:
    if not columns:
        return
    yield ""
    yield "Columns:"
    margin = max(map(len, columns))
    for column, words in columns.items():
        yield f"  {column:{margin}}  {words}"
