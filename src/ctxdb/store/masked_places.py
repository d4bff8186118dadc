"""Rows of _masked: which bytes of each file hold a secret that was masked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.privacy.json_bytes import Place

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from ctxdb.rules.chunk import Chunk

_INSERT = "INSERT OR REPLACE INTO _masked VALUES (?, ?, ?, ?)"


def add_places(conn: sqlite3.Connection, file_id: int, places: Iterable[Place]) -> None:
    """These bytes of a file were masked."""
    conn.executemany(_INSERT, [(file_id, *place) for place in places])


def add_places_of(conn: sqlite3.Connection, chunks: Iterable[Chunk]) -> None:
    """What was masked in these chunks."""
    for chunk in chunks:
        if chunk.masked:
            add_places(conn, chunk.file.id, chunk.masked)


def load_places(
    conn: sqlite3.Connection, file_id: int, start: int = 0, end: int = 1 << 62
) -> tuple[Place, ...]:
    """What was masked in a file, or in a part of it, in order."""
    return tuple(
        Place(*values)
        for values in conn.execute(
            "SELECT byte_start, byte_length, rule FROM _masked WHERE source_file_id = ?"
            " AND byte_start >= ? AND byte_start < ? ORDER BY byte_start",
            (file_id, start, end),
        )
    )
