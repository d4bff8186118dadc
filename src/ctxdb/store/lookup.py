"""Look up many values in one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator


def json_list(values: Iterable[Any]) -> str:
    """Values as JSON, for json_each."""
    return orjson.dumps(list(values)).decode()


def look_up(
    conn: sqlite3.Connection, names: Iterable[Any], sql: str, values: tuple[Any, ...] = ()
) -> Iterator[Any]:
    """Run a query over the table `j (key, value)` of some names. `values` fill the query's ?.

    Without names nothing is found: each row that a query gives is of one of them.
    """
    given = json_list(names)
    if given != "[]":
        with_names = "WITH j AS (SELECT key, value FROM json_each(?)) "
        yield from conn.execute(with_names + sql, (given, *values))


def first_column(rows: Iterable[tuple[Any]]) -> list[Any]:
    """The values of rows that have one column."""
    return [value for (value,) in rows]
