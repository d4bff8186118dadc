"""Insert, update and load rows of any kind. All rows are written by these functions."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, TypeVar

from ctxdb.columns import Row, from_sql, insert_sql, loader, select_sql, update_sql, values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Kind = TypeVar("Kind", bound=Row)


def insert(
    conn: sqlite3.Connection,
    kind: type[Kind],
    rows: Sequence[Kind],
    *,
    beside: Callable[[Kind], bool] | None = None,
) -> int:
    """Insert rows of one kind; return how many. `beside`: which rows have bookkeeping (all)."""
    if not rows:
        return 0
    count = conn.executemany(insert_sql(kind), map(values_of(kind), rows)).rowcount
    if kind.beside:
        kept = rows if beside is None else filter(beside, rows)
        conn.executemany(insert_sql(kind, kind.beside), map(values_of(kind, kind.beside), kept))
    return count


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
