"""Bring a database to this version of the schema, in one transaction.

sqlite-utils applies the numbered steps of migrations/. This module puts one BEGIN IMMEDIATE around
all of them, so that four processes can do it at once and a kill leaves the old schema. It refuses a
database that has steps which this code does not have. Views are not part of the migrations: they
are created again from sql/ whenever their text has changed.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctxdb.assets import asset_dir
from ctxdb.errors import CtxdbError, NewerSchema
from ctxdb.store import model_ladder, shipped_prices, sql_files
from ctxdb.store.connection import open_old, write_transaction
from ctxdb.store.fulltext import INDEX_OF, INDEXED
from ctxdb.store.readme import write_readme
from ctxdb.store.version import (
    CONTRACT,
    MEANINGS,
    MEANINGS_KEY,
    applied,
    fingerprint,
    is_current,
    is_old,
    meanings_of,
    steps,
    view_files,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


CLEAN = "pages are clean"  # a key of _meta: no freed page holds what was deleted


class DocRow(NamedTuple):
    """The description of a table, a view or a column."""

    kind: str
    name: str
    column: str
    position: int
    description: str


def unknown_steps(conn: sqlite3.Connection) -> list[str]:
    """Steps of the database that this code does not have."""
    known = set(steps())
    return [name for name in applied(conn) if name not in known]


def refuse_newer(conn: sqlite3.Connection, path: Path) -> None:
    """Raise NewerSchema if a newer ctxdb has changed the database."""
    if unknown := unknown_steps(conn):
        raise NewerSchema(path, unknown)


def is_outdated(path: Path) -> bool:
    """Whether the rows of a database were derived by a version that gave them other meanings."""
    if not path.is_file() or not path.stat().st_size:
        return False
    try:
        with closing(open_old(path)) as conn:
            return not is_old(conn) and meanings_of(conn) < MEANINGS
    except (sqlite3.Error, CtxdbError):
        return False  # the sync that follows will say what is wrong


def prepare(conn: sqlite3.Connection, path: Path) -> None:
    """Migrate, re-create views and refresh the docs; quick when there is nothing to do."""
    refuse_newer(conn, path)
    if is_current(conn):
        return
    with write_transaction(conn):
        refuse_newer(conn, path)
        if (found := applied(conn)) != steps():
            _migrate(conn)
        if not found:  # all that is ever deleted from it is overwritten: see connection.py
            conn.execute("INSERT OR REPLACE INTO _meta VALUES (?, '1')", (CLEAN,))
        # The first databases did not say by which meanings their rows were made.
        meanings = (MEANINGS_KEY, "1" if found else str(MEANINGS))
        conn.execute("INSERT OR IGNORE INTO _meta VALUES (?, ?)", meanings)
        _create_views(conn)
        shipped_prices.refresh(conn)
        model_ladder.store_all_names(conn)
        _write_docs(conn)
        write_readme(conn)
        conn.execute(f"PRAGMA user_version = {CONTRACT}")
        conn.execute("INSERT OR REPLACE INTO _meta VALUES ('schema', ?)", (fingerprint(),))


def make_tables(conn: sqlite3.Connection) -> None:
    """Only the tables, for a database that is compared and deleted: half the time of `prepare`."""
    with write_transaction(conn):
        _migrate(conn)


def _migrate(conn: sqlite3.Connection) -> None:
    import runpy

    from sqlite_utils import Database  # 85 ms: only when there is something to migrate

    found: Any = runpy.run_path(str(asset_dir("migrations") / "migrations.py"))["migrations"]
    found.apply(Database(conn, execute_plugins=False))


def _create_views(conn: sqlite3.Connection) -> None:
    """Create all views again, and drop those that this version no longer has.

    The names of these views are stored, because people make their own views in this database.
    """
    wanted = {path.stem: path.read_text(encoding="utf-8") for path in view_files()}
    row = conn.execute("SELECT value FROM _meta WHERE key = 'views'").fetchone()
    (names,) = row or (" ".join(wanted),)
    ours = set(names.split())
    for name, kind in conn.execute("SELECT name, type FROM sqlite_master").fetchall():
        if name in wanted and (kind == "table" or (kind == "view" and name not in ours)):
            why = f"a {kind} of that name is in the way of a view of ctxdb"
            raise CtxdbError(f"{name}: {why}; rename it, then sync again")
    for name in sorted(ours):
        conn.execute(f'DROP VIEW IF EXISTS "{name}"')
    for name, text in wanted.items():
        conn.execute(f'CREATE VIEW "{name}" AS\n{text.rstrip().rstrip(";")}')
    conn.execute("INSERT OR REPLACE INTO _meta VALUES ('views', ?)", (" ".join(sorted(wanted)),))


_TABLE = re.compile(
    r"(?:^--[ ]?(?P<doc>[^\n]*)\n)?^CREATE TABLE (?P<name>\w+) \((?P<body>.*?)^\)",
    re.MULTILINE | re.DOTALL,
)
_VIRTUAL = re.compile(r"^CREATE VIRTUAL TABLE (\w+) USING fts5\(([^)]*)", re.MULTILINE)
_COLUMN = re.compile(r'^  "?(?P<name>[a-z]\w*)"? .*?--[ ](?P<doc>.*)$', re.MULTILINE)
_ADDED = re.compile(r'^ALTER TABLE (\w+) ADD COLUMN "?(\w+)"? [^\n]*?--[ ](.*)$', re.MULTILINE)
_FTS_DOCS = {INDEX_OF[table]: words for table, words in INDEXED.items()}


def table_docs(text: str) -> Iterator[DocRow]:
    """What the comments of one migration say."""
    for table in _TABLE.finditer(text):
        name = table["name"]
        yield DocRow("table", name, "", 0, table["doc"] or "")
        for position, column in enumerate(_COLUMN.finditer(table["body"]), 1):
            yield DocRow("table", name, column["name"], position, column["doc"])
    for virtual in _VIRTUAL.finditer(text):
        yield DocRow("table", virtual[1], "", 0, _FTS_DOCS.get(virtual[1], ""))
        names = [part.strip() for part in virtual[2].split(",") if "=" not in part]
        for position, column_name in enumerate(names, 1):
            yield DocRow("table", virtual[1], column_name, position, f"words of {column_name}")
    for position, added in enumerate(_ADDED.finditer(text), 100):
        yield DocRow("table", added[1], added[2], position, added[3])


def view_docs(name: str, text: str) -> Iterator[DocRow]:
    """What the comments of one view say: its question first, then `-- column: words`."""
    view = sql_files.parse(name, "view", text)
    yield DocRow("view", name, "", 0, view.question)
    for position, (column, words) in enumerate(view.columns.items(), 1):
        yield DocRow("view", name, column, position, words)


def docs_of_tables() -> dict[tuple[str, str], DocRow]:
    """Every table and its columns in words, from migrations/, by table and column."""
    rows: dict[tuple[str, str], DocRow] = {}  # a later step may create a table again
    for path in sorted(asset_dir("migrations").glob("[0-9]*.sql")):
        for row in table_docs(path.read_text(encoding="utf-8")):
            rows[row.name, row.column] = row
    return rows


def all_docs() -> list[DocRow]:
    """Every table, view and column in words, from migrations/ and sql/."""
    rows = docs_of_tables()
    for path in view_files():
        text = path.read_text(encoding="utf-8")
        for row in view_docs(path.stem, text):
            rows[row.name, row.column] = row
    return list(rows.values())


def _write_docs(conn: sqlite3.Connection) -> None:
    conn.execute("DELETE FROM _schema_docs")
    conn.executemany(
        'INSERT INTO _schema_docs (kind, name, "column", position, description)'
        " VALUES (?, ?, ?, ?, ?)",
        all_docs(),
    )
