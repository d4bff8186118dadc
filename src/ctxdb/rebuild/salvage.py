"""Copies what can still be read of a damaged database into a new one.

Tables are read row by row. Where a page cannot be read, the next readable row is searched for.
Indexes are not used: they are damaged as often as tables. References that lead nowhere afterwards
are removed, so that what was saved is consistent in itself.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ctxdb.rebuild.session_rows import FILE_PARTS, PARTS
from ctxdb.store.connection import open_aside, write_transaction
from ctxdb.store.schema import prepare
from ctxdb.store.tombstones import TABLES as TOMBSTONE_TABLES

_MAX_ROWID = 2**63 - 1
# Tables that are filled with each database, and those that belong to a full-text index.
_NOT_SALVAGED = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    " AND name NOT LIKE '%\\_fts%' ESCAPE '\\'"
    " AND name NOT IN ('README', '_schema_docs', '_model_names', '_sqlite_migrations')"
)
_TOMBSTONES = {"_meta", *TOMBSTONE_TABLES}  # _meta has the key of their hashes
MOST_GAPS = 10_000  # stretches that cannot be read, in one table


@dataclass(slots=True)
class Salvaged:
    """What was read."""

    rows: int = 0
    gaps: int = 0  # stretches that could not be read
    has_all_tombstones: bool = True


def salvage(path: Path, target: Path) -> Salvaged:
    """Copy the readable rows of a database into a new file."""
    done = Salvaged()
    uri = f"file:{quote(os.fsencode(path))}?mode=ro"
    with (
        closing(open_aside(target)) as new,
        closing(sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None)) as old,
    ):
        prepare(new, target)
        old.text_factory = lambda data: data.decode("utf-8", "replace")
        with write_transaction(new):
            # All prices come from the old database; deleting these is not the user's doing.
            new.execute("INSERT OR REPLACE INTO _meta VALUES ('refreshing prices', '1')")
            new.execute("DELETE FROM prices")
            new.execute("DELETE FROM _meta WHERE key = 'refreshing prices'")
            for (table,) in new.execute(_NOT_SALVAGED).fetchall():
                gaps = done.gaps
                _copy(old, new, table, done)
                if done.gaps > gaps and table in _TOMBSTONES:
                    done.has_all_tombstones = False
            _remove_loose_ends(new)
    return done


def _copy(old: sqlite3.Connection, new: sqlite3.Connection, table: str, done: Salvaged) -> None:
    try:
        found = {name for _, name, *_ in old.execute(f'PRAGMA table_info("{table}")')}
    except sqlite3.DatabaseError:
        done.gaps += 1
        return
    columns = new.execute(f'PRAGMA table_info("{table}")').fetchall()
    names = [name for _, name, *_ in columns if name in found]
    if not names:
        done.gaps += table in _TOMBSTONES  # its place in the schema cannot be read
        return
    (sql,) = new.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    key = [name for _, name, _, _, _, nth in sorted(columns, key=lambda row: row[-1]) if nth]
    rows = (
        _without_rowid(old, table, names, key, done)
        if "WITHOUT ROWID" in sql
        else _by_rowid(old, table, names, done)
    )
    quoted = ", ".join(f'"{name}"' for name in names)
    places = ", ".join("?" * len(names))
    verb = "INSERT OR REPLACE" if table == "_meta" else "INSERT OR IGNORE"
    for row in rows:
        done.rows += new.execute(
            f'{verb} INTO "{table}" ({quoted}) VALUES ({places})', row
        ).rowcount


def _by_rowid(
    old: sqlite3.Connection, table: str, names: list[str], done: Salvaged
) -> Iterator[tuple[Any, ...]]:
    quoted = ", ".join(f'"{name}"' for name in names)
    sql = f'SELECT rowid, {quoted} FROM "{table}" NOT INDEXED WHERE rowid > ? ORDER BY rowid'
    last = -_MAX_ROWID
    for _ in range(MOST_GAPS):
        try:
            for rowid, *values in old.execute(sql, (last,)):
                if not isinstance(rowid, int) or rowid <= last:
                    done.gaps += 1
                    return  # pages that lead in a circle
                yield tuple(values)
                last = rowid
        except sqlite3.DatabaseError:
            done.gaps += 1
        else:
            return
        following = _next_readable(old, f"{sql} LIMIT 1", last)
        if following is None:
            return
        last = following


def _next_readable(old: sqlite3.Connection, sql: str, last: int) -> int | None:
    """The least rowid after which a row can be read; None when there is none."""

    def can_read(after: int) -> bool:
        try:
            return old.execute(sql, (after,)).fetchone() is not None
        except sqlite3.DatabaseError:
            return False

    start = max(last, 0)
    step = 1
    while not can_read(start + step):
        step *= 2
        if start + step > _MAX_ROWID // 2:
            return None
    low, high = start + step // 2, start + step  # not readable, readable
    while high - low > 1:
        middle = (low + high) // 2
        if can_read(middle):
            high = middle
        else:
            low = middle
    return high


def _without_rowid(
    old: sqlite3.Connection, table: str, names: list[str], key: list[str], done: Salvaged
) -> Iterator[tuple[Any, ...]]:
    """From the beginning up to what cannot be read, then from the end."""
    quoted = ", ".join(f'"{name}"' for name in names)
    for direction in ("", " DESC"):
        order = ", ".join(f'"{name}"{direction}' for name in key)
        try:
            yield from old.execute(f'SELECT {quoted} FROM "{table}" ORDER BY {order}')
        except sqlite3.DatabaseError:
            done.gaps += 1
        else:
            return


def _remove_loose_ends(new: sqlite3.Connection) -> None:
    """Remove references to rows that could not be read, and rows that mean nothing without."""
    for part in (*PARTS, *FILE_PARTS):
        required = {
            name
            for _, name, _, required, _, nth in new.execute(f"PRAGMA table_info({part.table})")
            if required or nth
        }
        for column, table in part.references.items():
            lost = f"{column} IS NOT NULL AND {column} NOT IN (SELECT id FROM {table})"
            if column in required:
                new.execute(f"DELETE FROM {part.table} WHERE {lost}")
            else:
                new.execute(f"UPDATE {part.table} SET {column} = NULL WHERE {lost}")
    # Sessions whose own row was lost, but not their messages.
    for table in ("messages", "tool_uses", "usage", "turns", "events"):
        new.execute(
            f"INSERT OR IGNORE INTO sessions (id) SELECT DISTINCT session_id FROM {table}"
            " WHERE session_id IS NOT NULL AND session_id NOT IN (SELECT id FROM sessions)"
        )
