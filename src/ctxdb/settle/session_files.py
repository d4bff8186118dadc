"""What each file says of each session, which the rows of sessions are made from."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from ctxdb.columns import insert_sql, values_of
from ctxdb.rows import SessionFile
from ctxdb.store.lookup import look_up

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctxdb.settle.touched import Touched

_MERGE = (
    f"{insert_sql(SessionFile)} ON CONFLICT DO UPDATE SET"
    " main_lines = max(main_lines, excluded.main_lines),"
    " first_cwd = coalesce(first_cwd, excluded.first_cwd),"
    " agent_cwd = coalesce(agent_cwd, excluded.agent_cwd),"
    " git_branch = coalesce(excluded.git_branch, git_branch),"
    " version = coalesce(excluded.version, version),"
    " slug = coalesce(excluded.slug, slug),"
    " entrypoint = coalesce(excluded.entrypoint, entrypoint),"
    " first_at = min(coalesce(first_at, excluded.first_at), coalesce(excluded.first_at, first_at)),"
    " last_at = max(coalesce(last_at, excluded.last_at), coalesce(excluded.last_at, last_at)),"
    " first_user_at = coalesce(first_user_at, excluded.first_user_at),"
    " last_user_at = coalesce(excluded.last_user_at, last_user_at),"
    " forked_session = coalesce(excluded.forked_session, forked_session),"
    " process_session = coalesce(process_session, excluded.process_session)"
)


def see(conn: sqlite3.Connection, seen: Iterable[SessionFile], touched: Touched) -> None:
    """Keep what the lines of a batch say of sessions, in reading order."""
    rows = list(seen)
    if not rows:
        return
    conn.executemany(_MERGE, map(values_of(SessionFile), rows))
    firsts: dict[str, str] = {}
    for row in rows:
        touched.sessions.add(row.session_id)
        at = row.first_at
        if at is not None and at < firsts.get(row.session_id, "~"):
            firsts[row.session_id] = at
    named = {row.session_id for row in rows}
    # In a session that shares entries, an earlier unshared one can change which session owns them.
    for session_id, first in look_up(
        conn,
        named,
        "SELECT s.session_id, s.first_unshared_at FROM j CROSS JOIN _shared_sessions s"
        " ON s.session_id = j.value",
    ):
        if session_id in firsts and (first is None or firsts[session_id] < first):
            touched.shared.add(session_id)
    # Where a session has several files, which of them is first may have changed.
    touched.renumber.update(
        session_id
        for (session_id,) in look_up(
            conn,
            named,
            "SELECT s.session_id FROM j CROSS JOIN _session_files s"
            " ON s.session_id = j.value JOIN source_files f ON f.id = s.source_file_id"
            " WHERE f.agent_id IS NULL GROUP BY 1 HAVING count(*) > 1",
        )
    )
    # What one session does in a file can say how another one there continues it.
    touched.sessions.update(
        other
        for (other,) in look_up(
            conn,
            {row.source_file_id for row in rows},
            "SELECT s.session_id FROM j CROSS JOIN _session_files s ON s.source_file_id = j.value",
        )
    )


def recount_file(conn: sqlite3.Connection, session_id: str, file_id: int) -> None:
    """Work out again what a file says of a session, after lines changed hands."""
    where = " FROM messages WHERE source_file_id = :file AND session_id = :session"
    conn.execute(
        "INSERT INTO _session_files (session_id, source_file_id) VALUES (:session, :file)"
        " ON CONFLICT DO NOTHING",
        {"session": session_id, "file": file_id},
    )
    conn.execute(
        "UPDATE _session_files SET"
        f" main_lines = EXISTS (SELECT 1{where} AND agent_id IS NULL),"
        f" first_cwd = (SELECT cwd{where} AND agent_id IS NULL AND cwd IS NOT NULL"
        "   ORDER BY byte_start LIMIT 1),"
        f" agent_cwd = (SELECT cwd{where} AND agent_id IS NOT NULL AND cwd IS NOT NULL"
        "   ORDER BY byte_start LIMIT 1),"
        f" git_branch = (SELECT git_branch{where} AND git_branch IS NOT NULL"
        "   ORDER BY byte_start DESC LIMIT 1),"
        f" version = (SELECT version{where} AND version IS NOT NULL"
        "   ORDER BY byte_start DESC LIMIT 1),"
        f" first_at = (SELECT min(timestamp){where}), last_at = (SELECT max(timestamp){where})"
        " WHERE session_id = :session AND source_file_id = :file",
        {"session": session_id, "file": file_id},
    )
