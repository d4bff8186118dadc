"""Make a table's stored rows equal to rows that were worked out, and write only what differs."""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Mapping
from typing import TypeVar

from ctxdb.columns import values_of
from ctxdb.side_rows import Plan, Todo
from ctxdb.store.changes import stamp
from ctxdb.store.insert import insert, update

Kind = TypeVar("Kind", Plan, Todo)
Key = TypeVar("Key", bound=Hashable)


def write_differences(
    conn: sqlite3.Connection,
    kind: type[Kind],
    stored: Mapping[Key, Kind],
    wanted: Mapping[Key, Kind],
) -> None:
    """Both by the same keys. A row that is worked out again keeps its id."""
    values = values_of(kind)
    gone: list[Kind] = [row for key, row in stored.items() if key not in wanted]
    conn.executemany(
        f'DELETE FROM {kind.table} WHERE "{kind.key}" = ?',
        [(getattr(row, kind.key),) for row in gone],
    )
    changed: list[Kind] = []
    for key, row in wanted.items():
        before = stored.get(key)
        if before is not None:
            setattr(row, kind.key, getattr(before, kind.key))
            if values(row) != values(before):
                changed.append(row)
    update(conn, kind, changed)
    new: list[Kind] = [row for key, row in wanted.items() if key not in stored]
    insert(conn, kind, new)
    stamp(conn, {row.session_id for row in (*gone, *changed, *new)})
