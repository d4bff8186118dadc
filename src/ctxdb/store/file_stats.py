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

    from ctxdb.files.walk import KnownStats

CACHE_KIB = 2000  # SQLite's own default

_STATS = (
    "SELECT coalesce(b.path_bytes, f.path), CASE WHEN f.state IN ('ok', 'partial') THEN b.stat END"
    # CROSS: both tables by their keys. By an index of source_files it takes twice as long.
    " FROM _file_marks b CROSS JOIN source_files f ON f.id = b.source_file_id"
    " WHERE f.missing_since IS NULL AND f.machine = ''"
)


def load_stats(conn: sqlite3.Connection) -> KnownStats:
    """The packed stat of all files that were there at the last look, by the path to open them.

    None for a file that could not be read, or not yet: it is to be looked at even if unchanged.
    """
    with _small_cache(conn), _no_collector():
        return {
            os.fsdecode(path) if isinstance(path, bytes) else path: stat
            for path, stat in conn.execute(_STATS)
        }


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
