"""What Datasette is told about a ctxdb database: one table of facts for all its versions.

`adapter_065` and `adapter_1` give these facts to Datasette in its own words. The descriptions are
those of the database itself (schema_docs), so a database of another version describes itself.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxdb.errors import CtxdbError
from ctxdb.store import sql_files
from ctxdb.store.connection import open_reader

if TYPE_CHECKING:
    from pathlib import Path

    from ctxdb.store.sql_files import Param, SqlFile

TITLE = "ctxdb"
ABOUT = "Claude Code transcripts: every line, exactly once."
SETTINGS = {  # of Datasette, under `ctxdb serve` and as --print-config prints them
    "default_allow_sql": True,
    "sql_time_limit_ms": 10_000,
    "max_returned_rows": 2000,
    "num_sql_threads": 4,
    "suggest_facets": False,  # they would count every column of a large table
    "default_facet_size": 20,
    "facet_time_limit_ms": 400,
    "default_page_size": 50,
    "truncate_cells_html": 300,
    "allow_download": False,
    "default_cache_ttl": 0,
}
# The newest first, by a column with an index. A table that is not named here is shown by its key.
NEWEST_FIRST = {
    "messages": "id",
    "tool_uses": "id",
    "turns": "id",
    "usage": "id",
    "events": "id",
    "files_touched": "id",
    "git_operations": "id",
    "history": "id",
    "ingest_errors": "id",
    "sessions": "started_at",
}
LABELS = {  # what a link to a row says
    "sessions": "title",
    "projects": "name",
    "turns": "prompt",
    "source_files": "path",
    "agents": "description",
}
# Rows have long texts, and views of whole conversations work out each row.
SHORT_PAGES = {"conversation": 25, "replies": 25, "session_messages": 25, "turns_overview": 25}
# Counting all rows of these takes longer than showing some of them.
UNCOUNTED = frozenset(
    {"conversation", "replies", "session_messages", "sessions_overview", "turns_overview"}
)
# For a Datasette elsewhere, without the plugin: it gives up counting after this time.
PRINTED_SETTINGS = {**SETTINGS, "sql_time_limit_ms": 700}
_TIME = "'%Y-%m-%dT%H:%M:%fZ'"


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table or view."""

    description: str = ""
    columns: dict[str, str] = field(default_factory=dict)  # what each means
    hidden: bool = False
    label: str | None = None
    newest_first: str | None = None
    size: int | None = None  # rows of a page


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """A canned query as a form: SQL that takes what a person types."""

    name: str
    title: str
    description: str
    sql: str
    params: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is told of a database."""

    tables: dict[str, TableFacts]
    queries: tuple[QueryFacts, ...]


def read_facts(path: Path) -> Facts:
    """Read them from a database; empty if it cannot be read."""
    try:
        with closing(open_reader(path)) as conn:
            names = [
                str(name)
                for (name,) in conn.execute(
                    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
                )
            ]
            documented = conn.execute('SELECT name, "column", description FROM schema_docs')
            docs = [(str(name), column, str(words)) for name, column, words in documented]
    except (CtxdbError, sqlite3.Error):
        return Facts({}, ())
    tables = {name: _table(name, docs) for name in names}
    queries = tuple(_query(file) for file in sql_files.all_queries())
    return Facts(tables, queries)


def _table(name: str, docs: list[tuple[str, str | None, str]]) -> TableFacts:
    own = [(column, words) for table, column, words in docs if table == name]
    about = [words for column, words in own if column is None]
    return TableFacts(
        description=about[0] if about else "",
        columns={column: words for column, words in own if column is not None},
        hidden=name.startswith("_") or "_fts" in name,
        label=LABELS.get(name),
        newest_first=NEWEST_FIRST.get(name),
        size=SHORT_PAGES.get(name),
    )


def _query(file: SqlFile) -> QueryFacts:
    words = [f"{param.name}: {_described(param)}" for param in file.params]
    return QueryFacts(
        name=file.name,
        title=file.name.replace("_", " "),
        description=" ".join([file.question, *(f"{one}." for one in words)]),
        sql=typed_sql(file),
        params=tuple(param.name for param in file.params),
    )


def _described(param: Param) -> str:
    if param.default is None:
        return param.words
    if param.default == "%":
        return f"{param.words} (empty: all)"
    return f"{param.words} (empty: {param.default})"


def without_comments(sql: str) -> str:
    """The statement without the lines that describe it."""
    lines = [line for line in sql.splitlines() if not line.lstrip().startswith("--")]
    return "\n".join(line for line in lines if line.strip())


def typed_sql(file: SqlFile) -> str:
    """The SQL of a query, with each parameter as a person types it in a form.

    An empty field means the default. A time is a local day (2026-08-01), a number of days (30d),
    today or yesterday. A session is the beginning of its id.
    """
    sql = without_comments(file.sql)
    for param in file.params:
        made = _expression(param)
        sql = re.sub(rf"(?<![:\w]):{param.name}\b", lambda _, made=made: made, sql)  # type: ignore[misc]
    return sql


def _expression(param: Param) -> str:
    given = f":{param.name}"
    default = (param.default or "").replace("'", "''")
    text = f"coalesce(nullif({given}, ''), '{default}')"
    match param.kind:
        case "since" | "day":
            return f"({_begin_of(text)})"
        case "until":
            return f"coalesce({_end_of(given)}, '9999')"
        case "session":
            return (  # only the name of a parameter is put in
                f"(SELECT id FROM main.sessions WHERE {given} IN ('', 'last')"  # noqa: S608
                f" OR id LIKE {given} || '%' ORDER BY started_at DESC LIMIT 1)"
            )
        case "integer":
            return f"CAST({text} AS INTEGER)"
        case _:
            return text if param.default is not None else given


def _begin_of(text: str) -> str:
    """SQL for the UTC text of the beginning of a local day, of days ago, or of today."""
    days = (
        f"CASE WHEN {text} = 'today' THEN 0 WHEN {text} = 'yesterday' THEN 1"
        f" WHEN {text} GLOB '[0-9]*d' THEN CAST({text} AS INTEGER) END"
    )
    ago = (
        f"strftime({_TIME}, 'now', 'localtime', 'start of day', '-' || ({days}) || ' days', 'utc')"
    )
    return f"coalesce({ago}, strftime({_TIME}, {text}, 'utc'), '')"


def _end_of(given: str) -> str:
    """SQL for the UTC text of the end of a local day; NULL if none is given."""
    return f"strftime({_TIME}, nullif({given}, ''), '+1 day', 'utc')"
