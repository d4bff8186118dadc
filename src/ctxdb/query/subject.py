"""Find what a name on the command line means: a view, a canned query or a table.

A view is taken as the database has it: the database of another version of ctxdb has other tables,
and only its own views fit them. A table, or a view that a person made, has no header; its columns
say by which options it can be narrowed.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.query.narrow import quoted
from ctxdb.query.resolve import unknown
from ctxdb.store import sql_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from ctxdb.errors import UsageError

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
    total: tuple[str, ...] = ()


def check_name(name: str, db_path: Path) -> None:
    """Raise UsageError if nothing has that name, before any transcript is read for the answer."""
    from ctxdb.errors import DatabaseError, NoDatabase
    from ctxdb.store.connection import open_reader

    if sql_files.find(name):
        return
    try:
        with closing(open_reader(db_path)) as conn:
            tables = _tables(conn)
    except NoDatabase:
        from ctxdb.store.schema import all_docs

        tables = {table.lower(): table for kind, table, *_ in all_docs() if kind == "table"}
    except (DatabaseError, sqlite3.Error):
        return  # the command that asks it says what is wrong with it
    if name.lower() not in tables:
        raise _unknown_name(name, tables.values())


def _tables(conn: sqlite3.Connection) -> dict[str, str]:
    """The tables and views that people may ask for, by their names in lower case."""
    rows = conn.execute(
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        " AND name NOT LIKE '\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    )
    return {table.lower(): table for (table,) in rows}


def _unknown_name(name: str, tables: Iterable[str]) -> UsageError:
    known = [*sql_files.names("view"), *sql_files.names("query"), *tables]
    return unknown(
        "view, query or table", name, dict.fromkeys(known), "`ctxdb query --list` shows all"
    )


def find_subject(name: str, conn: sqlite3.Connection) -> Subject:
    """Return what has that name; raise UsageError if nothing has."""
    if file := sql_files.find(name):
        return _from_file(_as_stored(file, conn))
    tables = _tables(conn)
    table = tables.get(name.lower())
    if table is None:
        raise _unknown_name(name, tables.values())
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
        total=file.total,
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
