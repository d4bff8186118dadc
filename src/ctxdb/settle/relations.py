"""How a session continues another: resume, fork, clear or plan."""

from __future__ import annotations

import sqlite3

from ctxdb.claude.plan_lines import planning_transcript, session_of_transcript
from ctxdb.settle.session_facts import Prompt, SessionFacts

Found = tuple[str | None, str | None]


def relation_of(conn: sqlite3.Connection, session_id: str, seen: SessionFacts) -> Found:
    """(relation, parent) of a session."""
    if forked := _forked_from(session_id, seen):
        return "fork", forked
    if seen.resumed is not None:
        return "resume", seen.resumed
    if seen.shares_entries and (owner := _shared(conn, session_id)):
        return "fork", owner
    if any(_is_clear(prompt) for prompt in seen.prompts):
        named = [p for p in seen.files if p.process_session is not None]
        named.sort(key=lambda file: (file.first_at or "", file.process_session or ""))
        return "clear", next((file.process_session for file in named), None)
    return _planned(session_id, seen)


def _planned(session_id: str, seen: SessionFacts) -> Found:
    """The session whose transcript a plan names: the first that is not this one.

    A name that is no session's says that there was one, not which.
    """
    transcripts = [path for text in seen.plans if (path := planning_transcript(text))]
    named = [session_of_transcript(path) for path in transcripts]
    others = [parent for parent in named if parent != session_id]
    parent = next((parent for parent in others if parent is not None), None)
    return ("plan", parent) if others else (None, None)


def _is_clear(prompt: Prompt) -> bool:
    return prompt.ordinal == 1 and prompt.text.split(None, 1)[:1] == ["/clear"]


def _forked_from(session_id: str, seen: SessionFacts) -> str | None:
    """The session that forkedFrom names, by the file that was written last."""
    named = [p for p in seen.files if p.forked_session not in (None, session_id)]
    latest = max((file.last_at or "" for file in named), default="")
    return min(
        (p.forked_session for p in named if p.forked_session and (p.last_at or "") == latest),
        default=None,
    )


def _shared(conn: sqlite3.Connection, session_id: str) -> str | None:
    """A fork without forkedFrom: entries that another session owns are here under this one's id."""
    row = conn.execute(
        "SELECT m.session_id FROM message_copies c JOIN messages m ON m.id = c.message_id"
        " JOIN source_files f ON f.id = c.source_file_id"
        " WHERE c.session_id = ?1 AND m.session_id <> ?1"
        " ORDER BY f.path DESC, f.machine DESC, c.byte_start DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    (owner,) = row or (None,)
    return owner
