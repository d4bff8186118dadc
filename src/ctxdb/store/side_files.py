"""Rows of _side_files: how each file beside the transcripts looked, and what was read of it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ctxdb.columns import columns
from ctxdb.files.walk import store_path
from ctxdb.side_rows import SideFile
from ctxdb.store.insert import load

if TYPE_CHECKING:
    from ctxdb.files.walk import KnownNumbers, Numbers

_NUMBERS = (
    "SELECT path, path_bytes, dev IS NOT NULL, dev, ino, size, mtime_ns, ctime_ns"
    " FROM _side_files WHERE kind <> 'result' AND state <> 'missing'"
)
_WRITE = (
    f"INSERT INTO _side_files ({', '.join(columns(SideFile))})"
    f" VALUES ({', '.join('?' * len(columns(SideFile)))}) ON CONFLICT (path) DO UPDATE SET "
    + ", ".join(f'"{name}" = excluded."{name}"' for name in columns(SideFile) if name != "id")
).replace("offset,", '"offset",')


def load_side_numbers(conn: sqlite3.Connection) -> KnownNumbers:
    """What stat said of each file that was there and that a walk finds, by the path to open it.

    None for a file that must be read even if it looks the same.
    """
    known: KnownNumbers = {}
    for path, raw, is_read, dev, ino, size, mtime_ns, ctime_ns in conn.execute(_NUMBERS):
        name = os.fsdecode(raw) if isinstance(raw, bytes) else path
        known[name] = (dev, ino, size, mtime_ns, ctime_ns) if is_read else None
    return known


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


def set_numbers(file: SideFile, numbers: Numbers) -> None:
    """Note how the file looks."""
    file.dev, file.ino, file.size, file.mtime_ns, file.ctime_ns = numbers


def note_missing_side_files(conn: sqlite3.Connection, paths: Iterable[str]) -> None:
    """These files are gone; what was read of them stays."""
    conn.executemany(
        "UPDATE _side_files SET state = 'missing', problem = NULL, dev = NULL WHERE path = ?"
        " AND state <> 'missing'",
        [(path,) for path in paths],
    )
