"""A full-text index that is damaged: nothing is lost, it is made again from the tables."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ctxdb.errors import DamagedDatabase
from ctxdb.store.connection import naming_damage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REPAIR = (
    "the full-text index is damaged, everything else may be well; make it again in the sqlite3"
    " shell: INSERT INTO messages_fts(messages_fts) VALUES ('rebuild'); and the same with"
    " tool_uses_fts"
)


@contextmanager
def naming_what_is_damaged(path: Path, *, by_index: bool = False) -> Iterator[None]:
    """Say which part of the database is damaged; `by_index`: what is read comes by an index."""
    with naming_damage(path):
        try:
            yield
        except sqlite3.DatabaseError as e:
            code = getattr(e, "sqlite_errorcode", 0)
            is_corrupt = by_index and code & 0xFF == sqlite3.SQLITE_CORRUPT
            if is_corrupt or code == sqlite3.SQLITE_CORRUPT_VTAB:
                raise DamagedDatabase(path, REPAIR) from e
            raise
