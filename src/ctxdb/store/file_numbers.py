"""What stat said about every file when it was last read, for the walk to compare with.

Apart from source_files because the check before a query uses it too, and must load fast.
"""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.files.walk import KnownNumbers

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
    was_on = gc.isenabled()
    gc.disable()  # else it would go through the new tuples again and again: a third of the time
    try:
        known: KnownNumbers = {
            path: (dev, ino, size, mtime_ns, ctime_ns)
            for path, dev, ino, size, mtime_ns, ctime_ns in conn.execute(_NUMBERS)
        }
    finally:
        if was_on:
            gc.enable()
    for path, raw, is_read, *numbers in conn.execute(_OTHERS):
        dev, ino, size, mtime_ns, ctime_ns = numbers
        name = os.fsdecode(raw) if isinstance(raw, bytes) else path
        known[name] = (dev, ino, size, mtime_ns, ctime_ns) if is_read else None
    return known
