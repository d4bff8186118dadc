"""Write the SQL conditions that options of the command line ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.query import period
from ctxdb.query.resolve import project_ids

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.store.sql_files import ColumnKind, Filter

    Value = str | int | float | None


AUTOMATED = "automated"  # as the value of `human`: only the sessions that a program ran


def condition(
    option: str, one: Filter, text: str, conn: sqlite3.Connection, values: dict[str, Value]
) -> str:
    """Return what an option asks of a column, empty for nothing; what it binds goes to `values`."""
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
    if option == "human":
        automated = "(SELECT id FROM main.sessions WHERE is_automated = 1)"
        if text == AUTOMATED:
            return f"{name} IN {automated}"
        return f"coalesce({name}, '') NOT IN {automated}"  # nothing says that a program wrote it
    values["_model"] = text.lower()
    return f"instr(lower({name}), :_model) > 0"


def has_value(column: str, kind: ColumnKind, text: str, values: dict[str, Value]) -> str:
    """Return the condition for -p COLUMN VALUE.

    Upper and lower case are equal. A value with % is a pattern. In a path, whole names must match.
    """
    name = quoted(column)
    if kind == "path" and "%" not in text:
        whole = _bound(f"/{text.removeprefix('./').strip('/')}/", values)
        return f"instr('/' || {name} || '/', {whole}) > 0"
    given = _bound(text, values)
    if "%" in text:
        return f"{name} LIKE {given}"
    same = f"{name} = {given} COLLATE NOCASE"
    value = number(text)
    if value == text:
        return same
    # A computed column has no type, and there 42 and '42' differ.
    return f"({same} OR {name} = {_bound(value, values)})"


def _bound(value: Value, values: dict[str, Value]) -> str:
    """Bind a value; return its name in SQL. Columns can have any name, so it is not made of one."""
    name = f"_value_{len(values)}"
    values[name] = value
    return f":{name}"


def number(text: str) -> Value:
    """Return the number that a text is, or the text: SQL has no declaration of its parameters."""
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if str(value) == text and (kind is float or abs(value) < 2**63):
            return value
    return text


def narrowed(table: str, conditions: list[str], first: str = "", *, looked_up: bool = False) -> str:
    """Return a common table expression of that name with the rows that fit.

    `first` is ORDER BY and LIMIT. `looked_up` is true if the view finds the requests of each of its
    rows by an index.
    """
    name = quoted(table)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    # A view may read the table twice, so usually it is not copied. But a view that groups requests
    # would read all of them, in the order of its groups. Those of a period are few: they are copied
    # first. So are the first rows.
    copied = first or (table == "_costs" and ":_since" in where and not looked_up)
    how = "MATERIALIZED" if copied else "NOT MATERIALIZED"
    return f"{name} AS {how} (SELECT * FROM main.{name}{where}{first})"  # noqa: S608


def quoted(name: str) -> str:
    """Return a name as SQL writes it, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'
