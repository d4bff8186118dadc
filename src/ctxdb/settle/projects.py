"""The project of a session: a row of projects, and the paths of its files."""

from __future__ import annotations

import sqlite3

from ctxdb.rules.paths import Project


def project_of(conn: sqlite3.Connection, session_id: str | None) -> Project | None:
    """The project of a session, as far as it is known."""
    found = conn.execute(
        "SELECT p.id, p.path FROM sessions s JOIN projects p ON p.id = s.project_id WHERE s.id = ?",
        (session_id,),
    ).fetchone()
    return None if found is None else Project(*found)
