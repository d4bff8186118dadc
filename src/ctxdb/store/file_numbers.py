"""What stat said about every file when it was last read, for the walk to compare with.

Apart from source_files because the check before a query uses it too, and must load fast.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.files.walk import KnownNumbers

_NUMBERS = (
    "SELECT f.path, b.path_bytes, f.state = 'ok' OR f.state = 'partial', b.dev, b.ino, f.size,"
    " b.mtime_ns, b.ctime_ns FROM source_files f JOIN _file_marks b ON b.source_file_id = f.id"
    " WHERE f.missing_since IS NULL"
)


def load_numbers(conn: sqlite3.Connection) -> KnownNumbers:
    """The stat numbers of all files that were there at the last look, by the path to open them.

    None for a file that could not be read, or not yet: it is to be looked at even if unchanged.
    """
    known: KnownNumbers = {}
    # Named one by one, not `*numbers`: that would make a list per file, of 200,000.
    for path, raw, is_read, dev, ino, size, mtime_ns, ctime_ns in conn.execute(_NUMBERS):
        numbers = (dev, ino, size, mtime_ns, ctime_ns) if is_read else None
        known[path if raw is None else os.fsdecode(raw)] = numbers
    return known
