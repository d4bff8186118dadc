"""Each column is declared once, in rows.py, and that is what the schema has."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from ctxdb import columns, rows, side_rows
from ctxdb.store.insert import insert
from demo_db import demo_folder

KINDS = [
    kind
    for module in (rows, side_rows)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, columns.Row) and kind is not columns.Row
]
# What no row class declares: ids that SQLite counts, and what only one statement writes.
AUTOMATIC = {"id"}
WRITTEN_ELSEWHERE = {"sessions": {"source_deleted_at"}}


@pytest.fixture(scope="module")
def conn() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(demo_folder() / "demo.db")) as conn:
        yield conn


def columns_in_schema(conn: sqlite3.Connection, table: str) -> set[str]:
    """Without generated columns: nothing writes them."""
    found = conn.execute(f'PRAGMA table_xinfo("{table}")').fetchall()
    return {name for _, name, *_, hidden in found if not hidden}


def compare(kind: type[Any], table: str, declared: set[str], stored: set[str]) -> None:
    missing, unknown = sorted(stored - declared), sorted(declared - stored)
    where = f"class {kind.__name__} in src/ctxdb/rows.py"
    assert not missing, f"{table} has {', '.join(missing)}: add the field to {where}"
    assert not unknown, (
        f"{where} has {', '.join(unknown)}, which {table} has not:"
        " add the column in migrations/ (a new step), or declare the field with `working`"
    )


def test_there_are_row_classes() -> None:
    assert len(KINDS) >= 14
    assert len({kind.table for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_columns_of_a_row_are_those_of_its_table(
    conn: sqlite3.Connection, kind: type[columns.Row]
) -> None:
    declared = set(columns.columns(kind))
    stored = columns_in_schema(conn, kind.table) - WRITTEN_ELSEWHERE.get(kind.table, set())
    compare(kind, kind.table, declared, stored - (AUTOMATIC - declared))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.beside])
def test_the_bookkeeping_columns_of_a_row_are_those_of_its_bookkeeping_table(
    conn: sqlite3.Connection, kind: type[columns.Row]
) -> None:
    declared = {kind.beside_key, *columns.columns(kind, kind.beside)}
    compare(kind, kind.beside, declared, columns_in_schema(conn, kind.beside))


@pytest.mark.parametrize("kind", KINDS)
def test_every_column_of_a_row_is_in_its_own_or_its_bookkeeping_table(
    kind: type[columns.Row],
) -> None:
    both = {*columns.columns(kind), *(columns.columns(kind, kind.beside) if kind.beside else ())}
    assert both == set(columns.all_columns(kind))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.beside])
def test_bookkeeping_is_deleted_with_its_row(
    conn: sqlite3.Connection, kind: type[columns.Row]
) -> None:
    """Whoever deletes the row: the next row may have the same id."""
    triggers = conn.execute(
        "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?", (kind.table,)
    )
    wanted = f"DELETE FROM {kind.beside} WHERE {kind.beside_key} = OLD.id"
    assert any(wanted in sql and "AFTER DELETE" in sql for (sql,) in triggers), (
        f"add a trigger to migrations/ (a new step): {wanted}"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_can_be_null_has_no_default(
    conn: sqlite3.Connection, kind: type[columns.Row]
) -> None:
    """Inserting leaves out columns that are None in all rows: they must come out as NULL."""
    for table in filter(None, (kind.table, kind.beside)):
        found = conn.execute(f'PRAGMA table_info("{table}")').fetchall()
        assert [
            name for _, name, _, not_null, default, _ in found if default and not not_null
        ] == []


@pytest.mark.parametrize("number", [1, 7, 8, 9, 50, 57])
def test_rows_are_inserted_alike_however_many_come_at_once(number: int) -> None:
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.execute("CREATE TABLE plans (" + ", ".join(columns.columns(side_rows.Plan)) + ")")
        made = [side_rows.Plan(id=n, path="x" if n % 3 else None) for n in range(number)]
        assert insert(empty, side_rows.Plan, made) == number
        names = ", ".join(columns.columns(side_rows.Plan))
        values = columns.values_of(side_rows.Plan)
        assert empty.execute(f"SELECT {names} FROM plans ORDER BY id").fetchall() == [
            values(one) for one in made
        ]
