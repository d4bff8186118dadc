"""What stat said about every file when it was last read, for the walk to compare with.

Apart from source_files because the check before a query uses it too, and must load fast. Of 200,000
files, a page cache of 64 MB would cost 60 MB and a seventh of the time here, and the garbage
collector a third.
"""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from ctxdb.files.walk import KnownNumbers

CACHE_KIB = 2000  # SQLite's own default

_FILES = (
    "FROM source_files f JOIN _file_marks b ON b.source_file_id = f.id"
    " WHERE f.missing_since IS NULL"
)
_ORDINARY = "b.path_bytes IS NULL AND f.state IN ('ok', 'partial')"  # nearly all files
_NUMBERS = f"SELECT f.path, b.dev, b.ino, f.size, b.mtime_ns, b.ctime_ns {_FILES} AND {_ORDINARY}"
_OTHERS = (
    "SELECT f.path, b.path_bytes, f.state IN ('ok', 'partial'), b.dev, b.ino, f.size, b.mtime_ns,"
    f" b.ctime_ns {_FILES} AND NOT ({_ORDINARY})"
)


def load_numbers(conn: sqlite3.Connection) -> KnownNumbers:
    """The stat numbers of all files that were there at the last look, by the path to open them.

    None for a file that could not be read, or not yet: it is to be looked at even if unchanged.
    """
    with _small_cache(conn), _no_collector():
        known: KnownNumbers = {
            path: (dev, ino, size, mtime_ns, ctime_ns)
            for path, dev, ino, size, mtime_ns, ctime_ns in conn.execute(_NUMBERS)
        }
        for path, raw, is_read, *numbers in conn.execute(_OTHERS):
            dev, ino, size, mtime_ns, ctime_ns = numbers
            name = os.fsdecode(raw) if isinstance(raw, bytes) else path
            known[name] = (dev, ino, size, mtime_ns, ctime_ns) if is_read else None
    return known


@contextmanager
def _small_cache(conn: sqlite3.Connection) -> Iterator[None]:
    """Keep SQLite from caching the pages that are read: each of them is needed once."""
    (before,) = conn.execute("PRAGMA cache_size").fetchone()
    conn.execute(f"PRAGMA cache_size = {-CACHE_KIB}")
    try:
        yield
    finally:
        conn.execute(f"PRAGMA cache_size = {int(before)}")


@contextmanager
def _no_collector() -> Iterator[None]:
    """Keep the garbage collector from going through the new tuples again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
