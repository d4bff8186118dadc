"""Rows of source_files: what is known of each transcript file, and what a pass finds changed."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from ctxdb.claude.layout import role_of
from ctxdb.files.identity import Known
from ctxdb.files.tail import Unfinished
from ctxdb.files.walk import FoundFile, numbers_of, store_path
from ctxdb.store.chunk import SourceFile
from ctxdb.store.lookup import look_up


@dataclass(slots=True)
class KnownFile:
    """A row of source_files."""

    file: SourceFile
    known: Known
    state: str
    attempting: int | None
    open_path: str | bytes


_COLUMNS = (
    'id, path, session_id, agent_id, workflow_run, generation, "offset", root, size,'
    " dev, ino, mtime_ns, ctime_ns, mark, state, attempting, path_bytes, searched, searched_mark"
)


def load_place(conn: sqlite3.Connection, file: SourceFile) -> None:
    """Forget how far a file was read in what was rolled back, and what that said of it."""
    file.session_id, file.offset, file.mark = conn.execute(
        'SELECT session_id, "offset", mark FROM source_files WHERE id = ?', (file.id,)
    ).fetchone()
    file.unfinished = None


def load_some(conn: sqlite3.Connection, paths: Iterable[str]) -> dict[str, KnownFile]:
    """Those files that are known, by their stored path."""
    sql = f"SELECT {_COLUMNS} FROM j CROSS JOIN source_files f ON f.path = j.value"
    return {row[1]: _known(row) for row in look_up(conn, paths, sql)}


def load_by_inode(conn: sqlite3.Connection, files: Iterable[FoundFile]) -> list[KnownFile]:
    """Those files that were last seen with one of these files' inodes."""
    wanted = {(file.dev, file.ino) for file in files}
    rows = conn.execute(
        "WITH j AS (SELECT value FROM json_each(?))"
        f" SELECT {_COLUMNS} FROM j CROSS JOIN source_files f ON f.ino = j.value",
        (orjson.dumps([ino for _, ino in wanted]).decode(),),
    )
    found = [_known(row) for row in rows]
    return [item for item in found if (item.known.dev, item.known.ino) in wanted]


def _known(row: tuple[Any, ...]) -> KnownFile:
    (file_id, path, session_id, agent_id, run, generation, offset, root, size) = row[:9]
    dev, ino, mtime_ns, ctime_ns, mark, state, attempting, path_bytes, *unfinished = row[9:]
    where = (generation, offset, root or "", mark)
    file = SourceFile(file_id, path, session_id, agent_id, run, *where)
    if None not in unfinished:
        file.unfinished = Unfinished(*unfinished)
    known = Known(path, dev or 0, ino or 0, size, mtime_ns or 0, ctime_ns or 0, offset, mark)
    return KnownFile(file, known, state, attempting, path_bytes or path)


def add_file(conn: sqlite3.Connection, found: FoundFile, now: str) -> KnownFile:
    """A row for a file that is seen for the first time."""
    path, raw = store_path(found.path)
    role = role_of(found.path, found.root)
    cursor = conn.execute(
        "INSERT INTO source_files (path, path_bytes, session_id, agent_id, workflow_run, root,"
        " size, state, first_seen_at) VALUES (?, ?, ?, ?, ?, ?, ?, 'new', ?)",
        (
            path,
            raw,
            role.session_id,
            role.agent_id,
            role.workflow_run,
            store_path(found.root)[0],
            found.size,
            now,
        ),
    )
    file = SourceFile(
        int(cursor.lastrowid or 0),
        path,
        role.session_id,
        role.agent_id,
        role.workflow_run,
        root=found.root,
        fresh=True,
    )
    known = Known(path, 0, 0, 0, 0, 0, 0, None)
    return KnownFile(file, known, "new", None, raw or found.path)


def rename_file(conn: sqlite3.Connection, old: KnownFile, found: FoundFile) -> None:
    """The same file under another name: nothing is read again."""
    path, raw = store_path(found.path)
    conn.execute(
        "UPDATE source_files SET path = ?, path_bytes = ?, root = ?, missing_since = NULL,"
        " state = CASE WHEN \"offset\" < ? THEN 'partial' ELSE 'ok' END WHERE id = ?",
        (path, raw, store_path(found.root)[0], found.size, old.file.id),
    )
    old.file.path = path
    old.file.root = found.root
    old.open_path = raw or found.path


def begin_again(conn: sqlite3.Connection, file: SourceFile) -> None:
    """A rewritten file is read from its start.

    Its rows stay: their lines count as gone until they are met again, and what is no longer in the
    file is kept.
    """
    for table in ("messages", "events"):
        conn.execute(
            f"UPDATE {table} SET byte_length = -byte_length"
            " WHERE source_file_id = ? AND byte_length > 0",
            (file.id,),
        )
    for table in ("message_copies", "_event_copies", "line_counts", "ingest_errors"):
        conn.execute(f"DELETE FROM {table} WHERE source_file_id = ?", (file.id,))
    conn.execute(
        'UPDATE source_files SET generation = generation + 1, "offset" = 0, lines = 0,'
        " bad_lines = 0, skipped_lines = 0, mark = NULL, searched = NULL, searched_mark = NULL,"
        " attempting = NULL WHERE id = ?",
        (file.id,),
    )
    file.generation += 1
    file.offset, file.mark, file.unfinished = 0, None, None


def note_stat(conn: sqlite3.Connection, file_id: int, stat: os.stat_result, offset: int) -> None:
    """The file was looked at and had nothing new."""
    state = "ok" if offset >= stat.st_size else "partial"
    conn.execute(
        "UPDATE source_files SET dev = ?, ino = ?, size = ?, mtime_ns = ?, ctime_ns = ?, state = ?,"
        " missing_since = NULL WHERE id = ?",
        (*numbers_of(stat), state, file_id),
    )


def forget_unreadable(conn: sqlite3.Connection, item: KnownFile) -> None:
    """The file can be opened again."""
    if item.state == "unreadable":
        conn.execute(
            "DELETE FROM ingest_errors WHERE source_file_id = ? AND byte_start IS NULL",
            (item.file.id,),
        )


def note_unreadable(conn: sqlite3.Connection, file_id: int, reason: str, now: str) -> None:
    """The file could not be opened or read: one error row, whatever the number of tries."""
    conn.execute(
        "UPDATE source_files SET state = 'unreadable', missing_since = NULL WHERE id = ?",
        (file_id,),
    )
    stored = conn.execute(
        "SELECT 1 FROM ingest_errors WHERE source_file_id = ? AND byte_start IS NULL"
        " AND reason = ?",
        (file_id, reason),
    ).fetchone()
    if stored is None:
        conn.execute(
            "DELETE FROM ingest_errors WHERE source_file_id = ? AND byte_start IS NULL", (file_id,)
        )
        conn.execute(
            "INSERT INTO ingest_errors (source_file_id, reason, seen_at) VALUES (?, ?, ?)",
            (file_id, reason, now),
        )


def note_missing(conn: sqlite3.Connection, files: list[SourceFile], now: str) -> None:
    """Files that are gone: rows stay, sessions whose transcripts are all gone say so."""
    for file in files:
        conn.execute(
            "UPDATE source_files SET state = 'missing', missing_since = ? WHERE id = ?"
            " AND missing_since IS NULL",
            (now, file.id),
        )


def mark_deleted_sessions(conn: sqlite3.Connection, now: str) -> None:
    """A session is deleted when no main transcript of it is left; one that comes back is not."""
    conn.execute(
        "UPDATE sessions INDEXED BY sessions_present SET source_deleted_at = ?"
        " WHERE source_deleted_at IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM source_files f WHERE f.session_id = sessions.id"
        "  AND f.agent_id IS NULL AND f.missing_since IS NULL)"
        " AND EXISTS (SELECT 1 FROM source_files f WHERE f.session_id = sessions.id"
        "  AND f.agent_id IS NULL AND f.missing_since IS NOT NULL)",
        (now,),
    )
    conn.execute(
        "UPDATE sessions SET source_deleted_at = NULL WHERE source_deleted_at IS NOT NULL"
        " AND id IN (SELECT session_id FROM source_files INDEXED BY source_files_present"
        "  WHERE agent_id IS NULL AND missing_since IS NULL)"
    )
