"""Tell whether a database has changed: which file it is, and SQLite's count of changes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.query.guard import Guarded

if TYPE_CHECKING:
    from pathlib import Path

FileId = tuple[int, int] | None  # device and inode; None without a file


class Version(NamedTuple):
    """Equal for as long as nothing was written."""

    file: FileId
    connection: int  # each connection counts from its own number on
    changes: int


class DataVersion:
    """The version of a database, asked on a connection of its own. Any thread may ask."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._file: FileId = None
        self._guarded: Guarded | None = None
        self._opened = 0

    def now(self, file: FileId) -> Version:
        """The version of the file that is there now."""
        with self._lock:
            if self._guarded is None or self._file != file:
                self._close()
                self._guarded, self._file = Guarded(self._path, any_thread=True), file
                self._opened += 1
            self._guarded.renew()
            with self._guarded.asking() as conn:
                (changes,) = conn.execute("PRAGMA data_version").fetchone()
            return Version(file, self._opened, changes)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._guarded is not None:
            self._guarded.close()
            self._guarded = None
