"""Files that Claude Code kept a backup of: one row per session, path and version.

Most snapshots name files relative to the folder the session began in. That folder may become known
later, or turn out to be another one: then a session's snapshots are written again from its events.
"""

from __future__ import annotations

import sqlite3

import orjson

from ctxdb.claude.names import FILE_SNAPSHOT, FILE_SNAPSHOT_CHANGE
from ctxdb.claude.side_data import Snapshot, snapshots_of
from ctxdb.columns import insert_sql, values_of
from ctxdb.rows import FileTouch
from ctxdb.rules.paths import Project, is_relative, joined, located

_INSERT = (
    f"{insert_sql(FileTouch)}"
    " ON CONFLICT (session_id, path, snapshot_version) WHERE operation = 'snapshot'"
    " DO UPDATE SET timestamp = min(coalesce(timestamp, excluded.timestamp),"
    "  coalesce(excluded.timestamp, timestamp))"
)
_Key = tuple[str, str, int]


class Snapshots:
    """Collects snapshots and stores them in one go; of equal ones, the earlier time holds."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self.rows: dict[_Key, FileTouch] = {}

    def add(self, session_id: str, snapshots: list[Snapshot], project: Project | None) -> None:
        """Add what one event says."""
        for path, version, at in snapshots:
            whole = joined(project.path, path) if project and is_relative(path) else path
            known = self.rows.get((session_id, whole, version))
            if known is not None:
                times = [t for t in (known.timestamp, at) if t is not None]
                known.timestamp = min(times, default=None)
                continue
            project_id, relative_path = located(whole, project)
            self.rows[session_id, whole, version] = FileTouch(
                session_id=session_id,
                project_id=project_id,
                path=whole,
                relative_path=relative_path,
                operation="snapshot",
                succeeded=1,
                timestamp=at,
                snapshot_version=version,
            )

    def write(self) -> None:
        """Store them."""
        self.conn.executemany(_INSERT, map(values_of(FileTouch), self.rows.values()))


def rewrite_snapshots(conn: sqlite3.Connection, session_id: str, project: Project | None) -> None:
    """Write a session's snapshots again, for another project."""
    conn.execute(
        "DELETE FROM files_touched WHERE session_id = ? AND operation = 'snapshot'", (session_id,)
    )
    found = Snapshots(conn)
    for (data,) in conn.execute(
        "SELECT data FROM events WHERE session_id = ? AND type IN (?, ?)",
        (session_id, FILE_SNAPSHOT, FILE_SNAPSHOT_CHANGE),
    ):
        found.add(session_id, snapshots_of(orjson.loads(data)) or [], project)
    found.write()
