"""What a database holds that no transcript says: it is copied when the database is made again.

These are the user's prices, tables and views, and what ctxdb was told or has noted for good (keys,
tombstones). A table of that kind is added to KEPT_TABLES. Everything in `_meta` is kept, but for
what describes the file itself. `tests/test_rebuild.py` fails for a table that is on no list.
"""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple


class KeptTable(NamedTuple):
    """A table whose rows, or some of them, are copied."""

    name: str
    where: str = ""
    left_out: tuple[str, ...] = ()  # columns that get new values


KEPT_TABLES = (
    KeptTable("_deleted_prices"),  # before prices: these shipped rows stay deleted
    KeptTable("prices", "WHERE origin = 'user'", left_out=("id",)),
    KeptTable("_forgotten"),
    KeptTable("_kept_out"),
    KeptTable("_shared_forgotten"),
)
# Keys of `_meta` that describe the file itself, not what it was told.
OWN_META = frozenset(
    {
        "schema",
        "views",
        "meanings",
        "archive",
        "checked",
        "refreshing prices",
        "pages are clean",
        "database id",
        "unerased",
    }
)
# What earlier versions had and this one has not; every other unknown table is the user's.
DROPPED_TABLES = frozenset({"_tellings"})


def keep_rows(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """Copy what no transcript says. `new` is migrated, and in a transaction."""
    for table in KEPT_TABLES:
        names = [
            name
            for name in _columns(old, table.name)
            if name in set(_columns(new, table.name)) - set(table.left_out)
        ]
        if names:
            _copy(old, new, table, names)
        if table.name == "_deleted_prices":
            new.execute(
                "DELETE FROM prices WHERE origin = 'shipped' AND"
                " (model, coalesce(effective_from, ''), prompt_tokens_gt) IN"
                " (SELECT model, effective_from, prompt_tokens_gt FROM _deleted_prices)"
            )
    told = rows_of(old, "_meta", "key, value")
    new.executemany(
        "INSERT OR IGNORE INTO _meta VALUES (?, ?)",
        [(key, value) for key, value in told if key not in OWN_META],
    )


def _copy(
    old: sqlite3.Connection, new: sqlite3.Connection, table: KeptTable, names: list[str]
) -> None:
    quoted = ", ".join(f'"{name}"' for name in names)
    places = ", ".join("?" * len(names))
    new.executemany(
        f'INSERT OR REPLACE INTO "{table.name}" ({quoted}) VALUES ({places})',
        rows_of(old, table.name, quoted, table.where),
    )


def _columns(conn: sqlite3.Connection, table: str) -> list[str]:
    return [name for _, name, *_ in conn.execute(f'PRAGMA table_info("{table}")')]


def rows_of(old: sqlite3.Connection, table: str, names: str, where: str = "") -> list[Any]:
    """Rows of a table of any version; a database that was killed in its making may not have it."""
    if not old.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
        return []
    return old.execute(f'SELECT {names} FROM "{table}" {where}').fetchall()


def keep_own_tables(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """Copy tables, indexes, triggers and views that no version of ctxdb has made."""
    of_new = {name for (name,) in new.execute("SELECT name FROM sqlite_master")}
    views = next(iter(rows_of(old, "_meta", "value", "WHERE key = 'views'")), ("",))
    of_ctxdb = of_new | DROPPED_TABLES | set(" ".join(views).split())
    made = old.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL"
        " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type <> 'table', rowid"
    ).fetchall()
    for kind, name, table, sql in made:
        if name in of_ctxdb or (kind in ("index", "trigger") and table in of_ctxdb):
            continue
        new.execute(sql)
        if kind == "table":
            quoted = '"' + name.replace('"', '""') + '"'
            rows = old.execute(f"SELECT * FROM {quoted}")
            marks = ", ".join("?" * len(rows.description))
            new.executemany(f"INSERT INTO {quoted} VALUES ({marks})", rows)
