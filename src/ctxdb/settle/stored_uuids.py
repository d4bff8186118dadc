"""Which uuids a database can have by now: of one that was empty, most lines need no look-up."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable

MOST_UUIDS = 400_000  # of which hashes are kept: they take 30 MB


class UuidFilter:
    """The uuids of one table, if it was empty when this run began."""

    def __init__(self, conn: sqlite3.Connection, table: str) -> None:
        is_empty = conn.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is None
        self._hashes: set[int] | None = set() if is_empty else None  # None: it can have any

    def possible(self, uuids: Collection[str | None]) -> Collection[str | None]:
        """Those of some uuids that may be stored."""
        if self._hashes is None:
            return uuids
        return [uuid for uuid in uuids if hash(uuid) in self._hashes]

    def add(self, uuids: Iterable[str | None]) -> None:
        """These are stored, or will be."""
        if self._hashes is not None:
            self._hashes.update(map(hash, uuids))
            if len(self._hashes) > MOST_UUIDS:
                self._hashes = None


class StoredUuids:
    """The uuids of messages and their copies, and of lines that are no messages."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.messages = UuidFilter(conn, "messages")
        self.skipped = UuidFilter(conn, "_skipped_parents")
