"""How a session continues another: resume, fork or clear."""

from __future__ import annotations

import sqlite3

from ctxdb.settle.session_facts import Seen

Found = tuple[str | None, str | None]


def relation_of(conn: sqlite3.Connection, session_id: str, seen: Seen) -> Found:
    """(relation, parent) of a session."""
    if forked := _forked_from(session_id, seen):
        return "fork", forked
    if seen.resumed is not None:
        return "resume", seen.resumed
    if seen.shares_entries and (owner := _shared(conn, session_id)):
        return "fork", owner
    if any(n == 1 and prompt.split(None, 1)[:1] == ["/clear"] for n, prompt in seen.prompts):
        named = [p for p in seen.parts if p.process_session is not None]
        named.sort(key=lambda part: (part.first_at or "", part.process_session or ""))
        return "clear", named[0].process_session if named else None
    return None, None


def _forked_from(session_id: str, seen: Seen) -> str | None:
    """The session that forkedFrom names, by the file that was written last."""
    named = [p for p in seen.parts if p.forked_session not in (None, session_id)]
    latest = max((part.last_at or "" for part in named), default="")
    return min(
        (p.forked_session for p in named if p.forked_session and (p.last_at or "") == latest),
        default=None,
    )


def _shared(conn: sqlite3.Connection, session_id: str) -> str | None:
    """A fork without forkedFrom: entries another session owns stand here under this one's id."""
    row = conn.execute(
        "SELECT m.session_id FROM message_copies c JOIN messages m ON m.id = c.message_id"
        " JOIN source_files f ON f.id = c.source_file_id"
        " WHERE c.session_id = ?1 AND m.session_id <> ?1"
        " ORDER BY f.path DESC, c.byte_start DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    return str(row[0]) if row else None
