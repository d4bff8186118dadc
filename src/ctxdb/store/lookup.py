"""Many values in one look-up."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

import orjson


def look_up(conn: sqlite3.Connection, names: Iterable[str], sql: str) -> Iterator[Any]:
    """Run a query over the table `j (key, value)` of some names.

    SQLite ends a JSON string at its first NUL, so that names which hold one (no real ones do) are
    looked up one by one.
    """
    odd: list[str] = []
    plain: list[str] = []
    for name in names:
        (odd if "\0" in name else plain).append(name)
    if plain:
        given = "WITH j AS (SELECT key, value FROM json_each(?)) "
        yield from conn.execute(given + sql, (orjson.dumps(plain).decode(),))
    for name in odd:
        yield from conn.execute(f"WITH j AS (SELECT 0 AS key, ? AS value) {sql}", (name,))
