"""Conditions for SQL, and tables that hold only what fits them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.query import period
from ctxdb.query.cells import kind_of
from ctxdb.query.resolve import project_ids

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.store.sql_files import Filter

    Value = str | int | float | None

# Views with one row for each row of a table, in this order: for the first few of them nothing else
# needs to be read, let alone added up.
ROW_BY_ROW = {
    "sessions_overview": ("sessions", "started_at DESC, id"),
    "turns_overview": ("turns", "started_at DESC, id DESC"),
}


def condition(
    option: str, one: Filter, text: str, conn: sqlite3.Connection, values: dict[str, Value]
) -> str:
    """What an option of the command line demands of a column; empty for nothing."""
    name = quoted(one.column)
    if option == "since":
        values["_since"] = moment = period.since(text)
        return "" if moment is None else f"{name} >= :_since"
    if option == "until":
        values["_until"] = moment = period.until(text)
        return "" if moment is None else f"{name} < :_until"
    if option == "project":
        ids = ", ".join(map(str, project_ids(conn, text)))
        if one.column.endswith("project_id") or one == ("projects", "id"):
            return f"{name} IN ({ids})"
        return f"{name} IN (SELECT id FROM main.sessions WHERE project_id IN ({ids}))"  # noqa: S608
    if option == "session":
        from ctxdb.session.find import find_session

        values["_session"] = find_session(conn, text)
        return f"{name} = :_session"
    values["_model"] = text.lower()
    return f"instr(lower({name}), :_model) > 0"


def has_value(column: str, text: str, values: dict[str, Value]) -> str:
    """-p COLUMN VALUE: the value, whatever its case; with % a pattern; of a path whole names."""
    name = quoted(column)
    if kind_of(column) == "path" and "%" not in text:
        whole = _bound(f"/{text.removeprefix('./').strip('/')}/", values)
        return f"instr('/' || {name} || '/', {whole}) > 0"
    given = _bound(text, values)
    if "%" in text:
        return f"{name} LIKE {given}"
    same = f"{name} = {given} COLLATE NOCASE"
    value = number(text)
    if value == text:
        return same
    # A computed column says of no value what it is, and there 42 and '42' differ.
    return f"({same} OR {name} = {_bound(value, values)})"


def _bound(value: Value, values: dict[str, Value]) -> str:
    """How SQL names a value; a column may have any name, so none is made of it."""
    name = f"_value_{len(values)}"
    values[name] = value
    return f":{name}"


def number(text: str) -> Value:
    """In SQL nothing says what a value is; what looks like a number is one."""
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if str(value) == text and (kind is float or abs(value) < 2**63):
            return value
    return text


def narrowed(table: str, conditions: list[str], first: str = "", *, looked_up: bool = False) -> str:
    """A table of that name with these rows only; `first` says in which order, and how many.

    `looked_up` is true where the view finds the requests of each of its rows by an index.
    """
    name = quoted(table)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    # A view may read the table twice, so it is not copied. But a view that groups requests would
    # read all of them in the order of its groups: those of a period are few, and copied first.
    # So are the first rows.
    copied = first or (table == "_costs" and ":_since" in where and not looked_up)
    how = "MATERIALIZED" if copied else "NOT MATERIALIZED"
    return f"{name} AS {how} (SELECT * FROM main.{name}{where}{first})"  # noqa: S608


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'
