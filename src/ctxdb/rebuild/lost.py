"""Which files of a database cannot be read again, from no source and no archive."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from ctxdb.archive.opening import archived_sizes
from ctxdb.elsewhere import name_elsewhere
from ctxdb.verify.reach import Node

_LOST_MESSAGES = (
    "SELECT m.uuid, b.line_hash FROM messages m LEFT JOIN _message_lines b ON b.message_id = m.id"
    " WHERE m.source_file_id = ? AND m.byte_length < 0"
)
_FILES_OF_ROWS = (
    "SELECT source_file_id FROM messages WHERE session_id = ?1"
    " UNION SELECT source_file_id FROM events WHERE session_id = ?1"
)
_LOST_EVENTS = (
    "SELECT b.line_hash FROM events e JOIN _event_lines b ON b.event_id = e.id"
    " WHERE e.source_file_id = ? AND e.byte_length < 0"
)


def files_gone(old: sqlite3.Connection, db_path: Path) -> set[Node]:
    """Files whose source is gone and that the archive does not have so far: a first guess."""
    archived = archived_sizes(db_path)
    found: set[Node] = set()
    sql = (
        'SELECT f.id, f.machine, f.path, b.path_bytes, f."offset" FROM source_files f'
        ' LEFT JOIN _file_marks b ON b.source_file_id = f.id WHERE f."offset" > 0'
    )
    for file_id, machine, path, path_bytes, offset in old.execute(sql):
        where = path_bytes if isinstance(path_bytes, bytes) else path
        if archived.get(name_elsewhere(machine, path), 0) >= offset or not isinstance(
            where, str | bytes
        ):
            continue
        if not os.path.lexists(where):
            found.add(("file", file_id))
    return found


def not_derived(old: sqlite3.Connection, new: sqlite3.Connection, carried: set[int]) -> set[Node]:
    """What the old database has, and the new one has not been able to derive."""
    again = _read_again(old, new)
    found: set[Node] = {
        ("file", file_id)
        for (file_id,) in old.execute('SELECT id FROM source_files WHERE "offset" > 0')
        if file_id not in carried and file_id not in again
    }
    rewritten = old.execute(
        "SELECT source_file_id FROM _file_marks WHERE generation > 0"
    ).fetchall()
    for (file_id,) in rewritten:
        if file_id not in carried and _lost_lines(old, new, file_id):
            found.add(("file", file_id))
    return found | sessions_without_files(old, new)


def has_lost_lines(old: sqlite3.Connection, file_id: int) -> bool:
    """Whether a rewritten file had lines that it has no longer."""
    return any(
        old.execute(sql, (file_id,)).fetchone() is not None
        for sql in (_LOST_MESSAGES, _LOST_EVENTS)
    )


def _lost_lines(old: sqlite3.Connection, new: sqlite3.Connection, file_id: int) -> bool:
    """Whether lines that a rewritten file no longer has are in no older generation either."""
    for uuid, hashed in old.execute(_LOST_MESSAGES, (file_id,)):
        if uuid is not None:
            sql, value = "SELECT 1 FROM messages WHERE uuid = ?", uuid
            copies = "SELECT 1 FROM message_copies WHERE uuid = ?"
            if new.execute(copies, (uuid,)).fetchone():
                continue
        else:
            sql, value = "SELECT 1 FROM _message_lines WHERE line_hash = ?", hashed
        if new.execute(sql, (value,)).fetchone() is None:
            return True
    return any(
        new.execute("SELECT 1 FROM _event_lines WHERE line_hash = ?", hashed).fetchone() is None
        for hashed in old.execute(_LOST_EVENTS, (file_id,))
    )


def sessions_without_files(old: sqlite3.Connection, new: sqlite3.Connection) -> set[Node]:
    """Sessions of which no file is known, as in what was read of a damaged database.

    The id of a session can be damaged, too. A session is none if all files of its rows could be
    read again: they do not name it. Nor is it one if it has no rows and an odd id.
    """
    present = {session for (session,) in new.execute("SELECT id FROM sessions")}
    known = {
        session
        for (session,) in old.execute(
            "SELECT session_id FROM _session_files UNION SELECT session_id FROM source_files"
        )
    }
    missing = [
        session
        for (session,) in old.execute("SELECT id FROM sessions")
        if session is not None and session not in present and session not in known
    ]
    again = _read_again(old, new) if missing else set()
    found: set[Node] = set()
    for session in missing:
        files = {file_id for (file_id,) in old.execute(_FILES_OF_ROWS, (session,))}
        if not files <= again or (not files and _is_legible(session)):
            found.add(("session", session))
    return found


def _read_again(old: sqlite3.Connection, new: sqlite3.Connection) -> set[int]:
    """The files that the new database has read as far as the old one had."""
    offsets = 'SELECT id, machine, path, "offset" FROM source_files'
    read = {(machine, path): offset for _, machine, path, offset in new.execute(offsets)}
    return {
        file_id
        for file_id, machine, path, offset in old.execute(offsets)
        if read.get((machine, path), 0) >= offset
    }


def _is_legible(session: object) -> bool:
    return isinstance(session, str) and session.isprintable() and "\ufffd" not in session
