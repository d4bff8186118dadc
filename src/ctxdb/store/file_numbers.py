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

_ORDINARY = "path_bytes IS NULL AND state IN ('ok', 'partial')"  # nearly all files
_NUMBERS = (
    "SELECT path, dev, ino, size, mtime_ns, ctime_ns"
    f" FROM source_files WHERE missing_since IS NULL AND {_ORDINARY}"
)
_OTHERS = (
    "SELECT path, path_bytes, state IN ('ok', 'partial'), dev, ino, size, mtime_ns, ctime_ns"
    f" FROM source_files WHERE missing_since IS NULL AND NOT ({_ORDINARY})"
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
