"""Files that Claude Code kept a backup of: one row per session, path and version.

Most snapshots name files relative to the folder the session began in. That folder may become known
later, or turn out to be another one: then a session's snapshots are written again from its events.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import orjson

from ctxdb.claude.names import FILE_SNAPSHOT, FILE_SNAPSHOT_CHANGE
from ctxdb.claude.side_data import Snapshot, SnapshotLine, snapshots_of
from ctxdb.columns import insert_sql, values_of
from ctxdb.rows import FileTouch
from ctxdb.rules.paths import Project, is_relative, joined, located
from ctxdb.store.lookup import look_up

_INSERT = (
    f"{insert_sql(FileTouch)}"
    " ON CONFLICT (session_id, path, snapshot_version) WHERE operation = 'snapshot'"
    " DO UPDATE SET timestamp = min(coalesce(timestamp, excluded.timestamp),"
    "  coalesce(excluded.timestamp, timestamp)),"
    " backup_name = min(coalesce(backup_name, excluded.backup_name),"
    "  coalesce(excluded.backup_name, backup_name))"
)
_NAME_MESSAGE = (
    "INSERT INTO _snapshot_messages (session_id, path, version, begun_at, files, message_uuid)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET begun_at = excluded.begun_at,"
    "  files = excluded.files, message_uuid = excluded.message_uuid"
    " WHERE (excluded.begun_at, excluded.files, excluded.message_uuid)"
    "  < (begun_at, files, message_uuid)"
)
# The turn of the message that a snapshot names, by its own uuid or that of a copy.
_NAMED = (
    " WHERE n.session_id = files_touched.session_id AND n.path = files_touched.path"
    "  AND n.version = files_touched.snapshot_version"
    "  AND (length(n.message_uuid) = 36 OR m.session_id = n.session_id) ORDER BY m.id LIMIT 1"
)
_TURN = (
    "coalesce((SELECT m.turn_id FROM _snapshot_messages n CROSS JOIN messages m"
    f" ON m.uuid = n.message_uuid{_NAMED}),"
    " (SELECT m.turn_id FROM _snapshot_messages n CROSS JOIN message_copies c"
    f"  ON c.uuid = n.message_uuid CROSS JOIN messages m ON m.id = c.message_id{_NAMED}))"
)
_TOUCH = (
    " CROSS JOIN files_touched f ON f.session_id = n.session_id AND f.path = n.path"
    " AND f.snapshot_version = n.version AND f.operation = 'snapshot'"
)
_OF_MESSAGES = (
    "SELECT f.id, f.session_id FROM j CROSS JOIN _snapshot_messages n ON n.message_uuid = j.value"
    + _TOUCH
)
_OF_SESSIONS = (
    "SELECT f.id, f.session_id FROM j CROSS JOIN _snapshot_messages n ON n.session_id = j.value"
    + _TOUCH
)
_OF_MOVED = (
    "SELECT f.id, f.session_id FROM j CROSS JOIN messages m ON m.session_id = j.value"
    " CROSS JOIN _snapshot_messages n ON n.message_uuid = m.uuid" + _TOUCH
)
_Key = tuple[str, str, int]


class Snapshots:
    """Collects snapshots and stores them in one go; of equal ones, the earlier time holds."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self.rows: dict[_Key, FileTouch] = {}
        self.named: dict[_Key, SnapshotLine] = {}

    def add(self, session_id: str, snapshots: list[Snapshot], project: Project | None) -> None:
        """Add what one event says."""
        for path, version, at, backup_name, line in snapshots:
            whole = joined(project.path, path) if project and is_relative(path) else path
            key = (session_id, whole, version)
            self.named[key] = min(self.named.get(key, line), line)
            known = self.rows.get(key)
            if known is not None:
                known.timestamp = _earlier(known.timestamp, at)
                known.backup_name = _earlier(known.backup_name, backup_name)
                continue
            project_id, relative_path = located(whole, project)
            self.rows[key] = FileTouch(
                session_id=session_id,
                project_id=project_id,
                path=whole,
                relative_path=relative_path,
                operation="snapshot",
                succeeded=1,
                timestamp=at,
                snapshot_version=version,
                backup_name=backup_name,
            )

    def write(self) -> None:
        """Store them."""
        self.conn.executemany(_INSERT, map(values_of(FileTouch), self.rows.values()))
        self.conn.executemany(_NAME_MESSAGE, [(*key, *line) for key, line in self.named.items()])


def _earlier(one: str | None, other: str | None) -> str | None:
    return min((text for text in (one, other) if text is not None), default=None)


def give_turns(
    conn: sqlite3.Connection, came: Iterable[str], sessions: set[str], moved: set[str]
) -> set[str]:
    """Snapshots belong to the turn of the message that they name, once it is there.

    `came` are uuids of messages that have come, `sessions` have new snapshots, and in `moved`
    sessions messages may have other turns than before. Returns the sessions of the snapshots that
    were looked at: a snapshot can name a message of another session.
    """
    (is_used,) = conn.execute("SELECT EXISTS (SELECT 1 FROM _snapshot_messages)").fetchone()
    if not is_used:
        return set()
    found = dict(look_up(conn, came, _OF_MESSAGES))
    found.update(look_up(conn, sessions | moved, _OF_SESSIONS))
    found.update(look_up(conn, moved, _OF_MOVED))
    if found:
        conn.executemany(
            f"UPDATE files_touched SET turn_id = {_TURN} WHERE id = ? AND turn_id IS NOT {_TURN}",
            [(row_id,) for row_id in sorted(found)],
        )
    return set(found.values())


def rewrite_snapshots(conn: sqlite3.Connection, session_id: str, project: Project | None) -> None:
    """Write a session's snapshots again, for another project."""
    conn.execute(
        "DELETE FROM files_touched WHERE session_id = ? AND operation = 'snapshot'", (session_id,)
    )
    conn.execute("DELETE FROM _snapshot_messages WHERE session_id = ?", (session_id,))
    found = Snapshots(conn)
    for (data,) in conn.execute(
        "SELECT data FROM events WHERE session_id = ? AND type IN (?, ?)",
        (session_id, FILE_SNAPSHOT, FILE_SNAPSHOT_CHANGE),
    ):
        found.add(session_id, snapshots_of(orjson.loads(data)) or [], project)
    found.write()
    give_turns(conn, (), {session_id}, set())
