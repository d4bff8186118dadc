"""Make a table's stored rows equal to rows that were worked out, and write only what differs."""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Mapping
from typing import TypeVar

from ctxdb.columns import Row, values_of
from ctxdb.store.insert import insert, update

Kind = TypeVar("Kind", bound=Row)
Key = TypeVar("Key", bound=Hashable)


def write_differences(
    conn: sqlite3.Connection,
    kind: type[Kind],
    stored: Mapping[Key, Kind],
    wanted: Mapping[Key, Kind],
) -> None:
    """Both by the same keys. A row that is worked out again keeps its id."""
    values = values_of(kind)
    gone = [(getattr(row, kind.key),) for key, row in stored.items() if key not in wanted]
    conn.executemany(f'DELETE FROM {kind.table} WHERE "{kind.key}" = ?', gone)
    changed = []
    for key, row in wanted.items():
        before = stored.get(key)
        if before is not None:
            setattr(row, kind.key, getattr(before, kind.key))
            if values(row) != values(before):
                changed.append(row)
    update(conn, kind, changed)
    insert(conn, kind, [row for key, row in wanted.items() if key not in stored])
