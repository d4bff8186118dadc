"""Read the header of a database file without ending the locks of this process.

POSIX locks belong to a process and a file: when a process closes any descriptor of a file, all its
locks on that file are gone. If a module read the header with `open`, SQLite connections of the same
process would lose theirs, unnoticed. Another program that closes the database then takes itself for
the last one and removes the log under them: "database disk image is malformed". SQLite knows its
own descriptors, so SQLite is asked. It takes no lock for this and makes no file (`immutable`).
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from pathlib import Path


_BYTES = 100  # of a header


@dataclass(frozen=True, slots=True)
class Header:
    """What the first page says. The log beside the file may say something newer."""

    is_sqlite: bool = True  # an empty file is a new database
    application_id: int = 0
    user_version: int = 0


def read_header(path: Path) -> Header:
    """The header of a file that is there; raises sqlite3.Error if it cannot be read."""
    with suppress(OSError):  # SQLite says what is wrong
        if 0 < path.stat().st_size < _BYTES:  # SQLite takes a file of one byte for an empty one
            return Header(is_sqlite=False)
    uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as conn:
        # While a checkpoint runs, the file may be shorter than its header says.
        conn.execute("PRAGMA writable_schema = ON")
        try:
            (application_id,) = conn.execute("PRAGMA application_id").fetchone()
            (user_version,) = conn.execute("PRAGMA user_version").fetchone()
        except sqlite3.DatabaseError as e:
            if e.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
                return Header(is_sqlite=False)
            raise
    return Header(True, application_id, user_version)
