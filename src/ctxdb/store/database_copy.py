"""Copy the whole database into one file, as of one moment and without deleted rows.

A read-only connection of SQLite 3.40 leaves CHECK constraints out of the schema that it reads, and
then cannot VACUUM a table with a generated column. So the database is opened for writing, although
nothing is written to it. If it is write-protected, it is copied first and the copy is vacuumed.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import quote

from ctxdb.errors import CtxdbError
from ctxdb.store.connection import naming_damage

if TYPE_CHECKING:
    from pathlib import Path


def copy_database(db_path: Path, target: Path) -> None:
    """Copy the database into `target`, an empty file that is private already.

    A writer may go on meanwhile. The copy holds what was committed when it began.
    """
    can_write = os.access(db_path, os.W_OK)
    uri = f"file:{quote(os.fsencode(db_path))}?mode={'rw' if can_write else 'ro'}"
    try:
        with (
            naming_damage(db_path),
            closing(sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None)) as conn,
        ):
            if can_write:
                conn.execute("VACUUM INTO ?", (str(target),))
            else:
                _copy_then_vacuum(conn, target)
    except sqlite3.OperationalError as e:
        if e.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL:
            raise CtxdbError(f"{target}: no space left for the copy") from e
        raise


def _copy_then_vacuum(conn: sqlite3.Connection, target: Path) -> None:
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        conn.backup(copy)
        # The copy must be complete in one file: a log would be left behind when it is renamed.
        copy.execute("PRAGMA journal_mode = DELETE")
        copy.execute("VACUUM")
