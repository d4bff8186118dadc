"""Files that Claude Code kept a backup of: one row per session, path and version.

Most snapshots name files relative to the folder the session began in. That folder may become known
later, or turn out to be another one: then a session's snapshots are written anew from its events.
"""

from __future__ import annotations

import sqlite3

import orjson

from ctxdb.claude.records import Snapshot
from ctxdb.claude.side_data import snapshots_of
from ctxdb.settle.calls import is_relative, joined, located

Project = tuple[int, str]  # id, path


def project_of(conn: sqlite3.Connection, session_id: str | None) -> Project | None:
    """The project of a session, as far as it is known."""
    found: Project | None = conn.execute(
        "SELECT p.id, p.path FROM sessions s JOIN projects p ON p.id = s.project_id WHERE s.id = ?",
        (session_id,),
    ).fetchone()
    return found


def add_snapshots(
    conn: sqlite3.Connection,
    session_id: str,
    snapshots: list[Snapshot],
    project: Project | None,
) -> None:
    """Add what one event tells; of a file told again, the earlier time holds."""
    for path, version, at in snapshots:
        whole = joined(project[1], path) if project and is_relative(path) else path
        conn.execute(
            "INSERT INTO files_touched (session_id, path, operation, succeeded, timestamp,"
            " snapshot_version, project_id, relative_path)"
            " VALUES (?, ?, 'snapshot', 1, ?, ?, ?, ?)"
            " ON CONFLICT (session_id, path, snapshot_version) WHERE operation = 'snapshot'"
            " DO UPDATE SET timestamp = min(coalesce(timestamp, excluded.timestamp),"
            "  coalesce(excluded.timestamp, timestamp))",
            (session_id, whole, at, version, *located(whole, project)),
        )


def rewrite_snapshots(conn: sqlite3.Connection, session_id: str, project: Project | None) -> None:
    """Write a session's snapshots anew, for another project."""
    conn.execute(
        "DELETE FROM files_touched WHERE session_id = ? AND operation = 'snapshot'", (session_id,)
    )
    for (data,) in conn.execute(
        "SELECT data FROM events WHERE session_id = ?"
        " AND type IN ('file-history-snapshot', 'file-history-delta')",
        (session_id,),
    ).fetchall():
        add_snapshots(conn, session_id, snapshots_of(orjson.loads(data)) or [], project)
