"""The database as a clean copy: one file, without what was deleted, as of one moment."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING
from urllib.parse import quote

from ctxdb.errors import CtxdbError
from ctxdb.store.connection import naming_damage

if TYPE_CHECKING:
    from pathlib import Path


def write_snapshot(db_path: Path, target: Path) -> None:
    """Copy the database into `target`, an empty file that is private already.

    A writer may go on meanwhile: the copy is what was committed when it began.
    """
    with naming_damage(db_path):
        uri = f"file:{quote(os.fsencode(db_path))}?mode=ro"
        conn = sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None)
        try:
            # A copy that is given away lies beside no log: it must be whole in its one file.
            conn.execute("VACUUM INTO ?", (str(target),))
        except sqlite3.OperationalError as e:
            if e.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL:
                raise CtxdbError(f"{target}: no space left for the copy") from e
            raise
        finally:
            conn.close()
