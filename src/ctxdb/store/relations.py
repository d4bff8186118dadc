"""How a session continues another: resume, fork or clear (contract: Relation)."""

from __future__ import annotations

import sqlite3

import orjson


def relate(conn: sqlite3.Connection, session_id: str, files: list[int]) -> None:
    """Write relation and parent of a session, given its files in reading order."""
    relation, parent = (
        _forked_from(conn, session_id)
        or _resumed(conn, session_id, files)
        or _shared(conn, session_id)
        or _cleared(conn, session_id)
        or (None, None)
    )
    conn.execute(
        "UPDATE sessions SET relation = ?1, parent_session_id = ?2 WHERE id = ?3"
        " AND (relation IS NOT ?1 OR parent_session_id IS NOT ?2)",
        (relation, parent, session_id),
    )


Found = tuple[str, str | None] | None


def _forked_from(conn: sqlite3.Connection, session_id: str) -> Found:
    row = conn.execute(
        "SELECT forked_session FROM _session_files WHERE session_id = ?1"
        " AND forked_session IS NOT NULL AND forked_session <> ?1 ORDER BY last_at DESC,"
        "  forked_session LIMIT 1",
        (session_id,),
    ).fetchone()
    return ("fork", row[0]) if row else None


def _resumed(conn: sqlite3.Connection, session_id: str, files: list[int]) -> Found:
    """An old resume copies history into a new file: the user lines in it keep the old session."""
    row = conn.execute(
        "SELECT other.session_id FROM json_each(?1) j"
        " JOIN _session_files own ON own.session_id = ?2 AND own.source_file_id = j.value"
        " JOIN _session_files other ON other.source_file_id = own.source_file_id"
        "  AND other.session_id <> own.session_id"
        " JOIN source_files f ON f.id = own.source_file_id AND f.agent_id IS NULL"
        " WHERE other.first_user_at < coalesce(own.first_user_at, 1 << 62)"
        "  AND (own.main_lines OR EXISTS (SELECT 1 FROM message_copies c"
        "   WHERE c.source_file_id = own.source_file_id AND c.session_id = own.session_id))"
        " ORDER BY other.last_user_at DESC, other.session_id LIMIT 1",
        (orjson.dumps(files).decode(), session_id),
    ).fetchone()
    return ("resume", row[0]) if row else None


def _shared(conn: sqlite3.Connection, session_id: str) -> Found:
    """A fork without forkedFrom: entries another session owns stand here under this one's id."""
    row = conn.execute("SELECT shares_entries FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is None or not row[0]:
        return None
    row = conn.execute(
        "SELECT m.session_id FROM message_copies c JOIN messages m ON m.id = c.message_id"
        " JOIN source_files f ON f.id = c.source_file_id"
        " WHERE c.session_id = ?1 AND m.session_id <> ?1"
        " ORDER BY f.path DESC, c.byte_start DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    return ("fork", row[0]) if row else None


def _cleared(conn: sqlite3.Connection, session_id: str) -> Found:
    row = conn.execute(
        "SELECT prompt FROM turns WHERE session_id = ? AND ordinal = 1", (session_id,)
    ).fetchone()
    if row is None or row[0].split(None, 1)[:1] != ["/clear"]:
        return None
    row = conn.execute(
        "SELECT process_session FROM _session_files WHERE session_id = ?"
        " AND process_session IS NOT NULL ORDER BY first_at,"
        "  process_session LIMIT 1",
        (session_id,),
    ).fetchone()
    return "clear", row[0] if row else None
