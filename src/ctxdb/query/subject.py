"""Find what a name on the command line means: a view, a canned query or a table.

A view is taken as the database has it: the database of another version of ctxdb has other tables,
and only its own views fit them. A table, or a view that a person made, has no header; its columns
say by which options it can be narrowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctxdb.query.narrow import quoted
from ctxdb.query.resolve import unknown
from ctxdb.store import sql_files

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

# For a table: the columns that an option can narrow, best first.
_COLUMNS_FOR_OPTION = {
    "since": ("timestamp", "started_at", "last_read_at", "seen_at"),
    "project": ("project_id", "session_id"),
    "human": ("session_id",),
    "session": ("session_id",),
    "model": ("model",),
}


class Subject(NamedTuple):
    """A view, a query or a table."""

    name: str
    sql: str
    columns: tuple[str, ...]
    filters: Mapping[str, tuple[sql_files.Filter, ...]]
    displays: Mapping[str, sql_files.Display] = {}
    params: tuple[sql_files.Param, ...] = ()
    period: str | None = None
    example: str | None = None
    one_row_per: sql_files.RowSource | None = None
    rows_share_requests: bool = False


def find_subject(name: str, conn: sqlite3.Connection) -> Subject:
    """Return what has that name; raise UsageError if nothing has."""
    if file := sql_files.find(name):
        return _from_file(_as_stored(file, conn))
    rows = conn.execute(
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        " AND name NOT LIKE '\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    )
    by_lower = {table.lower(): table for (table,) in rows}
    table = by_lower.get(name.lower())
    if table is None:
        known = [*sql_files.names("view"), *sql_files.names("query"), *by_lower.values()]
        raise unknown(
            "view, query or table", name, dict.fromkeys(known), "`ctxdb query --list` shows all"
        )
    sql = f"SELECT * FROM {quoted(table)}"  # noqa: S608
    columns = tuple(column for column, *_ in conn.execute(f"{sql} LIMIT 0").description)
    return Subject(table, sql, columns, _filters_by_name(table, columns))


def _from_file(file: sql_files.SqlFile) -> Subject:
    return Subject(
        name=file.name,
        sql=_with_parameters(file),
        columns=tuple(file.columns),
        filters=file.filters,
        displays=file.displays,
        params=file.params,
        period=file.period,
        example=file.example,
        one_row_per=file.one_row_per,
        rows_share_requests=file.rows_share_requests,
    )


def _with_parameters(file: sql_files.SqlFile) -> str:
    """The SQL of a file. In a view, a parameter is written as its default: `0 /* :name */`."""
    sql = file.sql
    if file.kind == "view":
        for param in file.params:
            sql = sql.replace(f"{param.default} /* :{param.name} */", f":{param.name}")
    return sql


def _as_stored(file: sql_files.SqlFile, conn: sqlite3.Connection) -> sql_files.SqlFile:
    """Return a view as the database has it."""
    if file.kind != "view":
        return file
    row = conn.execute(
        "SELECT sql FROM sqlite_master WHERE type = 'view' AND name = ?", (file.name,)
    ).fetchone()
    (statement,) = row or ("",)
    _, _, text = statement.partition("\n")  # after CREATE VIEW ... AS
    if text in ("", file.sql):
        return file
    return sql_files.parse(file.name, "view", text)


def _filters_by_name(table: str, columns: Sequence[str]) -> dict[str, tuple[sql_files.Filter, ...]]:
    found: dict[str, tuple[sql_files.Filter, ...]] = {}
    for option, candidates in _COLUMNS_FOR_OPTION.items():
        for candidate in candidates:
            column = "id" if table == "sessions" and candidate == "session_id" else candidate
            if column in columns:
                found[option] = (sql_files.Filter(None, column),)
                break
    if table == "projects":
        found["project"] = (sql_files.Filter("projects", "id"),)
    if "since" in found:
        found["until"] = found["since"]
    return found
