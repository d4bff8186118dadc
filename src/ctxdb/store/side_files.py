"""Rows of _side_files: how each file beside the transcripts looked, and what was read of it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ctxdb.columns import columns
from ctxdb.files.walk import numbers_of, pack, store_path
from ctxdb.side_rows import SideFile
from ctxdb.store.insert import load

if TYPE_CHECKING:
    from ctxdb.files.walk import KnownStats

_STATS = (
    "SELECT coalesce(path_bytes, path), stat FROM _side_files"
    " WHERE kind <> 'result' AND state <> 'missing'"
)
_WRITE = (
    f"INSERT INTO _side_files ({', '.join(columns(SideFile))})"
    f" VALUES ({', '.join('?' * len(columns(SideFile)))}) ON CONFLICT (path) DO UPDATE SET "
    + ", ".join(f'"{name}" = excluded."{name}"' for name in columns(SideFile) if name != "id")
).replace("offset,", '"offset",')


def load_side_stats(conn: sqlite3.Connection) -> KnownStats:
    """What stat said of each file that was there and that a walk finds, by the path to open it.

    None for a file that must be read even if it looks the same.
    """
    return {
        os.fsdecode(path) if isinstance(path, bytes) else path: stat
        for path, stat in conn.execute(_STATS)
    }


def load_side_problems(conn: sqlite3.Connection) -> dict[str, str]:
    """What is wrong with files, by the text of their paths."""
    return dict(
        conn.execute("SELECT path, problem FROM _side_files WHERE problem IS NOT NULL").fetchall()
    )


def find_side_file(conn: sqlite3.Connection, path: str) -> SideFile:
    """The row of a path; a new one if there is none."""
    text, raw = store_path(path)
    found = next(load(conn, SideFile, "WHERE t.path = ?", (text,)), None)
    return found or SideFile(path=text, path_bytes=raw)


def save_side_file(conn: sqlite3.Connection, file: SideFile) -> None:
    """Write a row, and give it its id."""
    values = [getattr(file, name) for name in columns(SideFile)]
    conn.execute(_WRITE, values)
    if file.id is None:
        (file.id,) = conn.execute(
            "SELECT id FROM _side_files WHERE path = ?", (file.path,)
        ).fetchone()


def note_stat(file: SideFile, info: os.stat_result) -> None:
    """Note how the file looks."""
    file.stat, file.size = pack(numbers_of(info)), min(info.st_size, 2**63 - 1)


def note_missing_side_files(conn: sqlite3.Connection, paths: Iterable[str]) -> None:
    """These files are gone; what was read of them stays."""
    conn.executemany(
        "UPDATE _side_files SET state = 'missing', problem = NULL, stat = NULL WHERE path = ?"
        " AND state <> 'missing'",
        [(path,) for path in paths],
    )
