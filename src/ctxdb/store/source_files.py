"""Rows of source_files: what is known of each transcript file, and how far it has been read."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctxdb.claude.layout import role_of
from ctxdb.columns import from_sql, loader, select_sql
from ctxdb.elsewhere import split_name
from ctxdb.files.identity import Known
from ctxdb.files.walk import FoundFile, numbers_of, pack, store_path, unpack
from ctxdb.rows import SourceFile
from ctxdb.store.changes import stamp
from ctxdb.store.insert import insert, last_id
from ctxdb.store.lookup import first_column, look_up

if TYPE_CHECKING:
    from ctxdb.rules.chunk import Chunk


@dataclass(slots=True)
class KnownFile:
    """A row of source_files, and the file as the identity check knows it."""

    file: SourceFile
    known: Known

    @property
    def state(self) -> str:
        """What was last found: new, ok, partial, unreadable or missing."""
        return self.file.state

    @property
    def open_path(self) -> str | bytes:
        """The path to open it by."""
        return self.file.path_bytes or self.file.path


_COLUMNS = select_sql(SourceFile)
_TABLES = from_sql(SourceFile)


def load_place(conn: sqlite3.Connection, file: SourceFile) -> None:
    """Forget how far a file was read in what was rolled back, and what that said of it."""
    file.session_id, file.offset, file.mark = conn.execute(
        f'SELECT t.session_id, t."offset", b.mark FROM {_TABLES} WHERE t.id = ?', (file.id,)
    ).fetchone()
    file.searched = file.searched_mark = None


def load_some(conn: sqlite3.Connection, paths: Iterable[str]) -> dict[str, KnownFile]:
    """Those files that are known, by their stored path, or by their name on another machine."""
    sql = f"SELECT {_COLUMNS} FROM j CROSS JOIN {_TABLES} WHERE t.path = j.value AND t.machine = ?"
    by_machine: dict[str, list[str]] = {"": []}
    for name in paths:
        machine, path = split_name(name)
        by_machine.setdefault(machine, []).append(path)
    found: dict[str, KnownFile] = {}
    for machine, there in by_machine.items():
        found |= _load(look_up(conn, there, sql, (machine,)))
    return found


def load_by_inode(conn: sqlite3.Connection, files: Iterable[FoundFile]) -> list[KnownFile]:
    """Those files that were last seen with one of these files' inodes."""
    wanted = {(file.dev, file.ino) for file in files}
    sql = (
        f"SELECT {_COLUMNS} FROM j CROSS JOIN _file_marks b ON b.ino = j.value"
        " JOIN source_files t ON t.id = b.source_file_id AND t.machine = ''"
    )
    found = _load(look_up(conn, [ino for _, ino in wanted], sql)).values()
    return [item for item in found if (item.known.dev, item.known.ino) in wanted]


def _load(rows: Iterable[tuple[Any, ...]]) -> dict[str, KnownFile]:
    return {file.name: _known(file) for file in map(loader(SourceFile), rows)}


def _known(file: SourceFile) -> KnownFile:
    return KnownFile(file, Known(file.path, *unpack(file.stat), file.offset, file.mark))


def add_file(conn: sqlite3.Connection, found: FoundFile, now: str) -> KnownFile:
    """A row for a file that is seen for the first time."""
    item = new_file(last_id(conn, SourceFile) + 1, found, now)
    insert(conn, SourceFile, [item.file])
    return item


def new_file(file_id: int, found: FoundFile, now: str) -> KnownFile:
    """A file that is seen for the first time; its row is not stored yet."""
    name, raw = store_path(found.path)
    machine, path = split_name(name)
    if machine:
        raw = os.fsencode(found.path)  # its path alone would open a file of this machine
    root, _ = store_path(found.root)
    role = role_of(found.path, found.root)
    file = SourceFile(
        id=file_id,
        path=path,
        session_id=role.session_id,
        agent_id=role.agent_id,
        size=found.size,
        first_seen_at=now,
        machine=machine,
        path_bytes=raw,
        root=root,
        workflow_run=role.workflow_run,
        is_new=True,
    )
    return KnownFile(file, Known(path, 0, 0, 0, 0, 0, 0, None))


def rename_file(conn: sqlite3.Connection, old: KnownFile, found: FoundFile) -> None:
    """The same file under another name: nothing is read again."""
    path, raw = store_path(found.path)
    root, _ = store_path(found.root)
    conn.execute(
        "UPDATE source_files SET path = ?, missing_since = NULL,"
        " state = CASE WHEN \"offset\" < ? THEN 'partial' ELSE 'ok' END WHERE id = ?",
        (path, found.size, old.file.id),
    )
    conn.execute(
        "UPDATE _file_marks SET path_bytes = ?, root = ? WHERE source_file_id = ?",
        (raw, root, old.file.id),
    )
    old.file.path, old.file.path_bytes, old.file.root = path, raw, root


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
    for table in ("message_copies", "_event_copies", "line_counts", "ingest_errors", "_masked"):
        conn.execute(f"DELETE FROM {table} WHERE source_file_id = ?", (file.id,))
    conn.execute(
        'UPDATE source_files SET "offset" = 0, lines = 0, bad_lines = 0, skipped_lines = 0'
        " WHERE id = ?",
        (file.id,),
    )
    conn.execute(
        "UPDATE _file_marks SET generation = generation + 1, mark = NULL, attempting = NULL,"
        " searched = NULL, searched_mark = NULL WHERE source_file_id = ?",
        (file.id,),
    )
    file.generation += 1
    file.offset, file.mark, file.unfinished = 0, None, None


def note_stat(conn: sqlite3.Connection, file_id: int, stat: os.stat_result, offset: int) -> None:
    """The file was looked at and had nothing new."""
    numbers = numbers_of(stat)
    _, ino, size, _, _ = numbers
    conn.execute(
        "UPDATE source_files SET size = ?, state = ?, missing_since = NULL WHERE id = ?",
        (size, "ok" if offset >= stat.st_size else "partial", file_id),
    )
    conn.execute(
        "UPDATE _file_marks SET stat = ?, ino = ? WHERE source_file_id = ?",
        (pack(numbers), ino, file_id),
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


_GONE = (
    "SELECT s.id FROM sessions s INDEXED BY sessions_present WHERE s.source_deleted_at IS NULL"
    " AND NOT EXISTS (SELECT 1 FROM source_files f WHERE f.session_id = s.id"
    "  AND f.agent_id IS NULL AND f.missing_since IS NULL)"
    " AND EXISTS (SELECT 1 FROM source_files f WHERE f.session_id = s.id"
    "  AND f.agent_id IS NULL AND f.missing_since IS NOT NULL)"
)
_BACK = (
    "SELECT s.id FROM source_files f INDEXED BY source_files_present"
    " CROSS JOIN sessions s ON s.id = f.session_id AND s.source_deleted_at IS NOT NULL"
    " WHERE f.agent_id IS NULL AND f.missing_since IS NULL"
    " AND NOT EXISTS (SELECT 1 FROM sessions p INDEXED BY sessions_present"
    "  WHERE p.id = f.session_id AND p.source_deleted_at IS NULL)"
)


def has_unmarked_sessions(conn: sqlite3.Connection) -> bool:
    """True if a sync ended early, so that sessions are not marked as `mark_deleted_sessions` does.

    The two queries read nothing but indexes as long as there is no such session.
    """
    (found,) = conn.execute(f"SELECT EXISTS ({_GONE}) OR EXISTS ({_BACK})").fetchone()
    return bool(found)


def mark_deleted_sessions(conn: sqlite3.Connection, now: str) -> None:
    """A session is deleted when no main transcript of it is left; one that comes back is not."""
    gone = first_column(conn.execute(_GONE))
    back = first_column(conn.execute(_BACK))
    conn.executemany(
        "UPDATE sessions SET source_deleted_at = ? WHERE id = ?",
        [(now, session_id) for session_id in gone] + [(None, session_id) for session_id in back],
    )
    stamp(conn, [*gone, *back])


# -- what a batch does to files -------------------------------------------------------------------


class OffsetMoved(Exception):
    """Another process has read on in the same file: nothing of this batch may stay."""


def note_errors(conn: sqlite3.Connection, chunks: Iterable[Chunk], now: str) -> None:
    """Lines that could not be read, or only after mending."""
    conn.executemany(
        "INSERT INTO ingest_errors (source_file_id, byte_start, byte_length, reason,"
        " excerpt, seen_at) VALUES (?, ?, ?, ?, ?, ?)",
        [(chunk.file.id, *error, now) for chunk in chunks for error in chunk.errors],
    )


def move_offsets(conn: sqlite3.Connection, chunks: Iterable[Chunk], now: str) -> None:
    """The last step: each file's offset moves on, and only from where the batch began."""
    for chunk in chunks:
        file, stat = chunk.file, chunk.stat
        bad = sum(n for (_, _, outcome, _), n in chunk.counts.items() if outcome == "bad")
        skipped = sum(n for (_, _, outcome, _), n in chunk.counts.items() if outcome == "skipped")
        moved = conn.execute(
            'UPDATE source_files SET "offset" = ?, lines = lines + ?, bad_lines = bad_lines + ?,'
            " skipped_lines = skipped_lines + ?, size = ?, state = ?,"
            " last_read_at = coalesce(?, last_read_at), missing_since = NULL"
            ' WHERE id = ? AND "offset" = ?',
            (
                chunk.end,
                chunk.lines,
                bad,
                skipped,
                stat.size,
                "ok" if chunk.end >= stat.size else "partial",
                now if chunk.lines else None,
                file.id,
                chunk.start,
            ),
        ).rowcount
        marked = conn.execute(
            "UPDATE _file_marks SET mark = ?, stat = ?, ino = ?, attempting = NULL, searched = ?,"
            " searched_mark = ?"
            " WHERE source_file_id = ? AND generation = ?",
            (
                chunk.mark,
                # Only a file that was read to its end may be passed over by its stat.
                pack(stat if chunk.at_end else stat._replace(ctime_ns=0)),
                stat.ino,
                *(chunk.unfinished or (None, None)),
                file.id,
                file.generation,
            ),
        ).rowcount
        if (moved, marked) != (1, 1):
            raise OffsetMoved(file.path)
