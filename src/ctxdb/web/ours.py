"""Tell a database of ctxdb from another one, without opening it with SQLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.store.connection import APPLICATION_ID

if TYPE_CHECKING:
    from pathlib import Path

_HEADER_BYTES = 100
_APPLICATION_ID = slice(68, 72)  # of the header, by SQLite's file format


def is_ours(path: Path) -> bool:
    """Whether the file's header has ctxdb's application_id."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError:
        return False
    return int.from_bytes(header[_APPLICATION_ID]) == APPLICATION_ID
