"""The prices that the user has set on both machines.

Those of this database stay. Those of the other one are added where this one has none for the same
model, day and size of prompt.
"""

from __future__ import annotations

import sqlite3

from ctxdb.store.connection import write_transaction

_USERS = "SELECT * FROM prices WHERE origin = 'user' ORDER BY id"


def find_prices(
    conn: sqlite3.Connection, other: sqlite3.Connection
) -> tuple[list[dict[str, object]], list[str]]:
    """The prices to add, and the models whose prices differ."""
    ours = {_key(price): price for price in _prices(conn)}
    new: list[dict[str, object]] = []
    differing: set[str] = set()
    for price in _prices(other):
        known = ours.get(_key(price))
        if known is None:
            new.append(price)
        elif known != price:
            differing.add(str(price["model"]))
    return new, sorted(differing)


def _prices(conn: sqlite3.Connection) -> list[dict[str, object]]:
    rows = conn.execute(_USERS)
    names = [name for name, *_ in rows.description]
    found = [dict(zip(names, row, strict=True)) for row in rows]
    for price in found:
        del price["id"]
    return found


def _key(price: dict[str, object]) -> tuple[object, ...]:
    return price["model"], price["effective_from"], price["prompt_tokens_gt"]


def add_prices(conn: sqlite3.Connection, prices: list[dict[str, object]]) -> list[str]:
    """Add them; returns the models whose price does not fit beside one that is here."""
    refused: list[str] = []
    with write_transaction(conn):
        for price in prices:
            names = ", ".join(f'"{name}"' for name in price)
            places = ", ".join("?" * len(price))
            try:
                conn.execute(f"INSERT INTO prices ({names}) VALUES ({places})", [*price.values()])
            except sqlite3.IntegrityError:  # a trigger of the table
                refused.append(str(price["model"]))
    return refused
