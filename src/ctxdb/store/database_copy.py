"""Copy the whole database into one file, as of one moment and without deleted rows."""

from __future__ import annotations

import os
import sqlite3
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
    with naming_damage(db_path):
        uri = f"file:{quote(os.fsencode(db_path))}?mode=ro"
        conn = sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None)
        try:
            # The copy must be complete in one file: its log would be left behind when it is moved.
            conn.execute("VACUUM INTO ?", (str(target),))
        except sqlite3.OperationalError as e:
            if e.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL:
                raise CtxdbError(f"{target}: no space left for the copy") from e
            raise
        finally:
            conn.close()
