"""Everything that the rows of some sessions are made from, read in a few statements."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from typing import NamedTuple

from ctxdb.claude.names import AI_TITLE, CUSTOM_TITLE, WORKTREE_STATE
from ctxdb.claude.stored_data import AI_TITLE_TEXT, CUSTOM_TITLE_TEXT
from ctxdb.columns import loader, select_sql
from ctxdb.rows import SessionFile
from ctxdb.rules.paths import Project
from ctxdb.store.lookup import look_up


class Prompt(NamedTuple):
    """One of the first things a person asked in a session."""

    ordinal: int
    kind: str
    text: str


class Summary(NamedTuple):
    """A summary of a session, and where the entry is that it names."""

    file_id: int
    byte_start: int
    is_in_own_file: bool
    text: str


@dataclass(slots=True)
class SessionFacts:
    """What is stored of one session."""

    exists: bool = False
    project_id: int | None = None
    slug: str | None = None
    started_at: str | None = None
    shares_entries: bool = False
    files: list[SessionFile] = field(default_factory=list)  # in reading order
    prompts: list[Prompt] = field(default_factory=list)  # the first ten
    # of what was asked in it: one that is not sdk, if there is any
    turn_kinds: set[str] = field(default_factory=set)
    plans: list[str] = field(default_factory=list)  # lines that begin the work on plans
    titles: dict[tuple[int, str], str] = field(default_factory=dict)  # by file and kind
    summaries: list[Summary] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # all titles and summaries it ever had
    worktrees: list[str] = field(default_factory=list)  # worktree-state entries
    resumed: str | None = None  # the session that its file began as


def read_facts(
    conn: sqlite3.Connection, sessions: list[str], *, whole: bool = True
) -> dict[str, SessionFacts]:
    """What is stored of these sessions; without `whole`, only what says their project."""
    found = {session_id: SessionFacts() for session_id in sessions}
    for session_id, project_id, slug, started_at, shares in look_up(
        conn,
        sessions,
        "SELECT s.id, s.project_id, s.slug, s.started_at, EXISTS (SELECT 1 FROM _shared_sessions h"
        "  WHERE h.session_id = s.id) FROM j CROSS JOIN sessions s ON s.id = j.value",
    ):
        facts = found[session_id]
        facts.exists, facts.project_id, facts.shares_entries = True, project_id, bool(shares)
        facts.slug, facts.started_at = slug, started_at
    for file in map(
        loader(SessionFile),
        look_up(
            conn,
            sessions,
            f"SELECT {select_sql(SessionFile, 's')}"
            " FROM j CROSS JOIN _session_files s ON s.session_id = j.value"
            " JOIN source_files f ON f.id = s.source_file_id"
            " ORDER BY j.key, f.agent_id IS NOT NULL, f.session_id IS NOT s.session_id,"
            "  s.first_at IS NULL, s.first_at, f.path, f.machine",
        ),
    ):
        found[file.session_id].files.append(file)
    for session_id, data in look_up(
        conn,
        sessions,
        "SELECT e.session_id, e.data FROM j CROSS JOIN events e"
        " ON e.session_id = j.value AND e.type = ?",
        (WORKTREE_STATE,),
    ):
        found[session_id].worktrees.append(data)
    if whole:
        _read_words(conn, found)
        _read_files(conn, found)
        _read_names(conn, found)
    return found


_TITLE = (
    "(SELECT json_extract(e.data, ?) FROM events e WHERE e.session_id = s.session_id"
    "  AND e.type = ? AND e.source_file_id = s.source_file_id"
    " ORDER BY e.byte_length > 0 DESC, e.byte_start DESC LIMIT 1)"
)


def _read_words(conn: sqlite3.Connection, found: dict[str, SessionFacts]) -> None:
    for session_id, *prompt in look_up(
        conn,
        found,
        "SELECT t.session_id, t.ordinal, t.kind, t.prompt FROM j CROSS JOIN turns t"
        " ON t.session_id = j.value AND t.ordinal <= 10 ORDER BY j.key, t.ordinal",
    ):
        found[session_id].prompts.append(Prompt(*prompt))
    for session_id, *kinds in look_up(
        conn,
        found,
        "SELECT j.value, (SELECT kind FROM turns WHERE session_id = j.value LIMIT 1),"
        " (SELECT kind FROM turns WHERE session_id = j.value AND kind <> 'sdk' LIMIT 1) FROM j",
    ):
        found[session_id].turn_kinds.update(kind for kind in kinds if kind is not None)
    for session_id, text in look_up(
        conn,
        found,
        "SELECT t.session_id, m.text FROM j CROSS JOIN turns t ON t.session_id = j.value"
        " AND t.kind = 'plan' JOIN messages m ON m.id = t.message_id ORDER BY j.key, t.ordinal",
    ):
        if text is not None:
            found[session_id].plans.append(text)
    for session_id, file_id, custom, ai in look_up(
        conn,
        found,
        "SELECT s.session_id, s.source_file_id,"
        f" {_TITLE} AS custom, {_TITLE} AS ai"
        " FROM j CROSS JOIN _session_files s ON s.session_id = j.value"
        " WHERE custom IS NOT NULL OR ai IS NOT NULL",
        (CUSTOM_TITLE_TEXT, CUSTOM_TITLE, AI_TITLE_TEXT, AI_TITLE),
    ):
        for source, text in (("custom", custom), ("ai", ai)):
            if isinstance(text, str) and text.strip():
                found[session_id].titles[file_id, source] = text


def _read_files(conn: sqlite3.Connection, found: dict[str, SessionFacts]) -> None:
    for session_id, file_id, start, own, text in look_up(
        conn,
        found,
        "SELECT s.leaf_session, coalesce(m.source_file_id, o.source_file_id),"
        "  coalesce(m.byte_start, o.byte_start), f.session_id IS s.leaf_session, s.summary"
        " FROM j CROSS JOIN _summaries s ON s.leaf_session = j.value"
        " CROSS JOIN events e ON e.id = s.event_id"
        " CROSS JOIN source_files f ON f.id = e.source_file_id"
        " LEFT JOIN messages m ON m.uuid = s.leaf_uuid"
        " LEFT JOIN message_copies c ON m.id IS NULL AND c.uuid = s.leaf_uuid"
        " LEFT JOIN messages o ON o.id = c.message_id",
    ):
        place = -1 if start is None else start
        found[session_id].summaries.append(Summary(file_id, place, bool(own), text))
    # An old resume copies history into a new file: the user lines in it keep the old session.
    for session_id, other in look_up(
        conn,
        found,
        "SELECT own.session_id, other.session_id FROM j"
        " CROSS JOIN _session_files own ON own.session_id = j.value"
        " JOIN source_files f ON f.id = own.source_file_id AND f.agent_id IS NULL"
        " CROSS JOIN _session_files other ON other.source_file_id = own.source_file_id"
        "  AND other.session_id <> own.session_id"
        " WHERE other.first_user_at < coalesce(own.first_user_at, 1 << 62)"
        "  AND (own.main_lines OR EXISTS (SELECT 1 FROM message_copies c"
        "   WHERE c.source_file_id = own.source_file_id AND c.session_id = own.session_id))"
        " ORDER BY j.key, other.last_user_at DESC, other.session_id",
    ):
        if found[session_id].resumed is None:
            found[session_id].resumed = other


def _read_names(conn: sqlite3.Connection, found: dict[str, SessionFacts]) -> None:
    for session_id, name in look_up(
        conn,
        found,
        "SELECT DISTINCT e.session_id, json_extract(e.data, ?) AS name FROM j CROSS JOIN events e"
        " ON e.session_id = j.value AND e.type = ?"
        " UNION SELECT e.session_id, json_extract(e.data, ?) FROM j CROSS JOIN events e"
        " ON e.session_id = j.value AND e.type = ?",
        (CUSTOM_TITLE_TEXT, CUSTOM_TITLE, AI_TITLE_TEXT, AI_TITLE),
    ):
        if isinstance(name, str) and name.strip():
            found[session_id].names.add(name.strip())
    for facts in found.values():
        facts.names.update(summary.text.strip() for summary in facts.summaries)
        facts.names.update(file.slug for file in facts.files if file.slug)


def project_of(conn: sqlite3.Connection, session_id: str | None) -> Project | None:
    """The project of a session, as far as it is known."""
    found = conn.execute(
        "SELECT p.id, p.path FROM sessions s JOIN projects p ON p.id = s.project_id WHERE s.id = ?",
        (session_id,),
    ).fetchone()
    return None if found is None else Project(*found)
