"""The folders that this database was backed up to, so that `forget` can name them.

They are in `_meta`, with a random name of the database: a folder that holds a backup of another
database is not written to. What rebuild carries over from `_meta` includes this key.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection
from contextlib import closing
from glob import escape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

KEY = "backups"  # of `_meta`
DATABASE_NAME = "ctxdb.db"  # in the folder of a backup
BEFORE = "-before-"  # and a time, after the name of a database: a folder with an earlier one
_FOUND_AT_ONCE = 500  # session ids in one statement


class KnownBackup(NamedTuple):
    """A folder, and when it was last written to."""

    folder: str
    made_at: str

    @property
    def database(self) -> Path:
        """The copy of the database in it."""
        return Path(self.folder) / DATABASE_NAME


def known_backups(conn: sqlite3.Connection) -> list[KnownBackup]:
    """The folders that this database was backed up to, the latest first."""
    folders = _read(conn)["folders"]
    found = [KnownBackup(folder, made_at) for folder, made_at in folders.items()]
    return sorted(found, key=lambda one: one.made_at, reverse=True)


def database_name(conn: sqlite3.Connection) -> str:
    """The random name of this database; empty if it was never backed up."""
    return str(_read(conn)["name"])


def remember_backup(conn: sqlite3.Connection, folder: str, made_at: str) -> str:
    """Note a folder, in the caller's transaction; returns the random name of the database."""
    kept = _read(conn)
    kept["name"] = kept["name"] or os.urandom(8).hex()
    kept["folders"][folder] = made_at
    _write(conn, kept)
    return str(kept["name"])


def drop_backup(conn: sqlite3.Connection, folder: str) -> None:
    """Forget that there was a backup in this folder."""
    kept = _read(conn)
    if kept["folders"].pop(folder, None) is not None:
        _write(conn, kept)


def backups_with(conn: sqlite3.Connection, sessions: Collection[str]) -> list[KnownBackup]:
    """The known backups that still hold any of these sessions; those that are gone hold none."""
    return [one for one in known_backups(conn) if _holds(one.database, [*sessions])]


def moved_aside(db_path: Path) -> list[Path]:
    """The folders with what was in the place of the database before a backup was restored."""
    name = escape(db_path.name)
    return sorted(one.parent for one in db_path.parent.glob(f"{name}{BEFORE}*/{name}"))


def moved_aside_with(db_path: Path, sessions: Collection[str]) -> list[str]:
    """Those of these folders that still hold any of the sessions."""
    return [
        str(folder) for folder in moved_aside(db_path) if _holds(folder / db_path.name, [*sessions])
    ]


def _holds(path: Path, sessions: list[str]) -> bool:
    uri = f"file:{quote(os.fsencode(path))}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=1.0)) as conn:
            for start in range(0, len(sessions), _FOUND_AT_ONCE):
                some = sessions[start : start + _FOUND_AT_ONCE]
                marks = ", ".join("?" * len(some))
                if conn.execute(f"SELECT 1 FROM sessions WHERE id IN ({marks})", some).fetchone():
                    return True
    except sqlite3.OperationalError as e:
        # One that is there but cannot be read may hold it.
        return e.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CANTOPEN
    except sqlite3.Error:
        return True
    return False


def _read(conn: sqlite3.Connection) -> dict[str, Any]:
    row = conn.execute("SELECT value FROM _meta WHERE key = ?", (KEY,)).fetchone()
    (text,) = row or ("",)
    try:
        found = json.loads(text or "{}")
        name, folders = str(found.get("name", "")), dict(found.get("folders", {}))
        folders = {str(folder): str(made_at) for folder, made_at in folders.items()}
    except (TypeError, ValueError, AttributeError):  # any value can be in a database
        name, folders = "", {}
    return {"name": name, "folders": folders}


def _write(conn: sqlite3.Connection, kept: dict[str, Any]) -> None:
    conn.execute("INSERT OR REPLACE INTO _meta VALUES (?, ?)", (KEY, json.dumps(kept)))
