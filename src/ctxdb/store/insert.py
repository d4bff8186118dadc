"""Insert, update and load rows of any kind. All rows are written by these functions."""

from __future__ import annotations

import sqlite3
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from ctxdb.columns import (
    Row,
    columns,
    from_sql,
    insert_sql,
    loader,
    select_sql,
    update_sql,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Kind = TypeVar("Kind", bound=Row)

# SQLite opens a table and all its indexes once for each statement.
ROWS_OF_STATEMENT = 8
MANY_ROWS = 50  # with fewer, to look for empty columns takes longer than it saves


def insert(
    conn: sqlite3.Connection,
    kind: type[Kind],
    rows: Sequence[Kind],
    *,
    beside: Callable[[Kind], bool] | None = None,
    conflict: str = "",
) -> int:
    """Insert rows of one kind; return how many.

    `beside`: which rows have bookkeeping (all). `conflict`: what to do if a row is there.
    """
    if not rows:
        return 0
    count = _insert_into(conn, kind, "", rows, conflict)
    if kind.beside:
        _insert_into(conn, kind, kind.beside, rows if beside is None else [*filter(beside, rows)])
    return count


def _insert_into(
    conn: sqlite3.Connection,
    kind: type[Kind],
    table: str,
    rows: Sequence[Kind],
    conflict: str = "",
) -> int:
    # sqlite3 takes 0.2 us to bind a None. A column that is left out is NULL, too.
    empty = _empty_columns(kind, table, rows) if len(rows) >= MANY_ROWS else ()
    sql = insert_sql(kind, table, empty)
    values = values_of(kind, table, empty)
    grouped = len(rows) - len(rows) % ROWS_OF_STATEMENT
    count = 0
    if grouped:
        into, _, row = sql.rpartition(" VALUES ")
        many = f"{into} VALUES {', '.join([row] * ROWS_OF_STATEMENT)} {conflict}"
        groups = zip(*[map(values, rows[:grouped])] * ROWS_OF_STATEMENT, strict=True)
        parameters = map(tuple, map(chain.from_iterable, groups))
        count = conn.executemany(many, parameters).rowcount
    for values_of_row in map(values, rows[grouped:]):
        count += conn.execute(f"{sql} {conflict}", values_of_row).rowcount
    return count


def _empty_columns(kind: type[Kind], table: str, rows: Sequence[Kind]) -> tuple[str, ...]:
    """The columns that are None in all rows."""
    some = rows[:: len(rows) // MANY_ROWS]  # mostly one of these has something
    return tuple(
        name
        for name in columns(kind, table)
        if all(getattr(row, name) is None for row in some)
        and [*map(attrgetter(name), rows)].count(None) == len(rows)
    )


def insert_beside(conn: sqlite3.Connection, kind: type[Kind], rows: Sequence[Kind]) -> None:
    """Write the bookkeeping of rows, in place of what was there."""
    sql = insert_sql(kind, kind.beside, verb="INSERT OR REPLACE")
    conn.executemany(sql, map(values_of(kind, kind.beside), rows))


def update(
    conn: sqlite3.Connection,
    kind: type[Kind],
    rows: Sequence[Kind],
    *,
    beside: Callable[[Kind], bool] | None = None,
) -> None:
    """Write stored rows again, bookkeeping included."""
    if not rows:
        return
    values = values_of(kind)
    conn.executemany(update_sql(kind), [(*values(row), getattr(row, kind.key)) for row in rows])
    if kind.beside:
        keep = rows if beside is None else [*filter(beside, rows)]
        drop = [] if beside is None else [(getattr(r, kind.key),) for r in rows if not beside(r)]
        conn.executemany(f"DELETE FROM {kind.beside} WHERE {kind.beside_key} = ?", drop)
        insert_beside(conn, kind, keep)


def last_id(conn: sqlite3.Connection, kind: type[Row]) -> int:
    """The highest id in a table; ids are counted on from there."""
    (last,) = conn.execute(f"SELECT max(id) FROM {kind.table}").fetchone()
    return last or 0


def load(
    conn: sqlite3.Connection, kind: type[Kind], where: str, values: Sequence[Any] = ()
) -> Iterator[Kind]:
    """Stored rows of a kind. In `where`, t is its table and b the bookkeeping table."""
    sql = f"SELECT {select_sql(kind)} FROM {from_sql(kind)} {where}"
    yield from map(loader(kind), conn.execute(sql, values))
