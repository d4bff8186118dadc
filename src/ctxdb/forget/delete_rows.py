"""Deletes all rows that lines of some files say, in every table.

What goes is named in temporary tables first, which are in memory.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from ctxdb.rows import SourceFile
from ctxdb.settle import requests
from ctxdb.settle.snapshots import give_turns
from ctxdb.store.changes import stamp
from ctxdb.store.lookup import first_column

_NAMED = {
    "gone_messages": (
        "SELECT id, uuid FROM messages WHERE source_file_id IN (SELECT id FROM gone_files)"
    ),
    "gone_events": "SELECT id FROM events WHERE source_file_id IN (SELECT id FROM gone_files)",
    "gone_turns": "SELECT id FROM turns WHERE source_file_id IN (SELECT id FROM gone_files)",
    "gone_tools": (
        "SELECT t.id FROM gone_messages g CROSS JOIN tool_uses t ON t.message_id = g.id"
        " WHERE t.result_message_id IS NULL"
        "  OR t.result_message_id IN (SELECT id FROM gone_messages)"
        " UNION SELECT t.id FROM gone_messages g CROSS JOIN tool_uses t"
        " ON t.result_message_id = g.id"
        " WHERE t.message_id IS NULL OR t.message_id IN (SELECT id FROM gone_messages)"
    ),
}
_OF_FILES = "source_file_id IN (SELECT id FROM gone_files)"
_OF_SESSIONS = "session_id IN (SELECT id FROM gone_sessions)"
_OF_MESSAGES = "message_id IN (SELECT id FROM gone_messages)"
_OF_EVENTS = "event_id IN (SELECT id FROM gone_events)"
_OF_TOOLS = "tool_id IN (SELECT id FROM gone_tools)"
# An agent's own file and meta.json say something of it that no line says.
_FROM_FILES = (
    "source IN ('file', 'meta') AND EXISTS (SELECT 1 FROM source_files f"
    " WHERE f.agent_id = _agent_facts.agent_id AND f.session_id = _agent_facts.session_id"
    "  AND f.id IN (SELECT id FROM gone_files WHERE comes_back))"
)
_DELETIONS = (
    # Lines that are no messages name their parents: chains that end at a message that goes, at a
    # copy whose uuid no other file has, or nowhere, in a line that goes.
    (
        "WITH RECURSIVE chain(uuid) AS (SELECT uuid FROM gone_messages WHERE uuid IS NOT NULL"
        " UNION SELECT c.uuid FROM gone_files f CROSS JOIN message_copies c"
        "  ON c.source_file_id = f.id WHERE c.uuid IS NOT NULL"
        "  AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.uuid = c.uuid)"
        "  AND NOT EXISTS (SELECT 1 FROM message_copies o WHERE o.uuid = c.uuid"
        "   AND o.source_file_id NOT IN (SELECT id FROM gone_files))"
        " UNION SELECT uuid FROM gone_skips"
        " UNION SELECT s.uuid FROM chain c JOIN _skipped_parents s ON s.ancestor = c.uuid)"
        " DELETE FROM _skipped_parents WHERE uuid IN (SELECT uuid FROM chain)"
    ),
    f"DELETE FROM files_touched WHERE {_OF_TOOLS}",
    f"DELETE FROM files_touched WHERE {_OF_MESSAGES}",
    f"DELETE FROM files_touched WHERE {_OF_SESSIONS} AND operation = 'snapshot'",
    f"DELETE FROM _snapshot_messages WHERE {_OF_SESSIONS}",
    f"DELETE FROM git_operations WHERE {_OF_TOOLS}",
    f"DELETE FROM git_operations WHERE {_OF_SESSIONS} AND tool_id IS NULL",
    "DELETE FROM tool_uses WHERE id IN (SELECT id FROM gone_tools)",
    f"DELETE FROM _repeated_calls WHERE {_OF_MESSAGES}",
    f"DELETE FROM _agent_facts WHERE {_OF_MESSAGES}",
    (
        f"DELETE FROM _agent_facts WHERE {_OF_SESSIONS} AND message_id IS NULL"
        f" AND NOT ({_FROM_FILES})"
    ),
    f"DELETE FROM agents WHERE {_OF_SESSIONS}",
    (
        "DELETE FROM _agent_prompts WHERE hash NOT IN"
        " (SELECT prompt_hash FROM _agent_facts WHERE prompt_hash IS NOT NULL)"
    ),
    "UPDATE history SET turn_id = NULL WHERE turn_id IN (SELECT id FROM gone_turns)",
    "DELETE FROM _turn_texts WHERE turn_id IN (SELECT id FROM gone_turns)",
    f"DELETE FROM _turn_texts WHERE {_OF_SESSIONS}",
    "UPDATE todos SET turn_id = NULL WHERE turn_id IN (SELECT id FROM gone_turns)",
    "DELETE FROM turns WHERE id IN (SELECT id FROM gone_turns)",
    f"DELETE FROM _summaries WHERE {_OF_EVENTS}",
    (
        "UPDATE _summaries SET leaf_session = NULL"
        " WHERE leaf_session IN (SELECT id FROM gone_sessions)"
    ),
    f"DELETE FROM _event_copies WHERE {_OF_FILES}",
    f"DELETE FROM _event_copies WHERE {_OF_EVENTS}",
    "DELETE FROM events WHERE id IN (SELECT id FROM gone_events)",
    f"DELETE FROM _aliases WHERE {_OF_MESSAGES}",
    f"DELETE FROM message_copies WHERE {_OF_FILES}",
    f"DELETE FROM message_copies WHERE {_OF_MESSAGES}",
    "DELETE FROM messages WHERE id IN (SELECT id FROM gone_messages)",
    f"DELETE FROM _session_files WHERE {_OF_FILES}",
    f"DELETE FROM _shared_sessions WHERE {_OF_SESSIONS}",
    f"DELETE FROM _carried_sessions WHERE {_OF_SESSIONS}",
    f"DELETE FROM line_counts WHERE {_OF_FILES}",
    f"DELETE FROM ingest_errors WHERE {_OF_FILES}",
    "DELETE FROM sessions WHERE id IN (SELECT id FROM gone_sessions)",
)
# Messages whose parent is gone and has not come back with another file.
_ORPHANED = (
    "SELECT g.uuid, m.id FROM messages m JOIN gone_messages g ON g.uuid = m.parent_uuid"
    " WHERE NOT EXISTS (SELECT 1 FROM messages o WHERE o.uuid = g.uuid)"
)
_TEMPORARY = {
    "gone_files": "id INTEGER PRIMARY KEY, comes_back INTEGER",
    "gone_sessions": "id TEXT PRIMARY KEY",
    "gone_skips": "uuid TEXT PRIMARY KEY",
    "loose_snapshots": "session_id TEXT PRIMARY KEY",
}
# A snapshot can name a message of another session, and has the turn of that.
_LOOSEN_SNAPSHOTS = (
    (
        "INSERT OR IGNORE INTO loose_snapshots SELECT f.session_id FROM gone_turns g"
        " CROSS JOIN files_touched f ON f.turn_id = g.id WHERE f.operation = 'snapshot'"
    ),
    (
        "UPDATE files_touched SET turn_id = NULL"
        " WHERE operation = 'snapshot' AND turn_id IN (SELECT id FROM gone_turns)"
    ),
)


def name_what_goes(
    conn: sqlite3.Connection,
    doomed: Sequence[SourceFile],
    again: Sequence[SourceFile],
    sessions: Iterable[str],
) -> None:
    """Note the files that go, those that are read again, and the sessions without other files."""
    for table, columns in _TEMPORARY.items():
        conn.execute(f"DROP TABLE IF EXISTS temp.{table}")
        conn.execute(f"CREATE TEMP TABLE {table} ({columns})")
    files = [(file.id, 0) for file in doomed] + [(file.id, 1) for file in again]
    conn.executemany("INSERT INTO gone_files VALUES (?, ?)", files)
    conn.executemany("INSERT INTO gone_sessions VALUES (?)", [(one,) for one in sessions])
    skips = _skips(conn, [*doomed, *again])
    conn.executemany("INSERT OR IGNORE INTO gone_skips VALUES (?)", [(one,) for one in skips])


def _skips(conn: sqlite3.Connection, files: Sequence[SourceFile]) -> list[str]:
    """Skipped lines without a parent: nothing stored says which file they were in.

    If a file is gone, all of them go. A message that names one later has no parent then either.
    """
    rows = conn.execute("SELECT uuid FROM _skipped_parents WHERE ancestor IS NULL")
    wanted = {uuid.encode(errors="surrogatepass"): uuid for (uuid,) in rows}
    found: set[bytes] = set()
    for file in files if wanted else ():
        try:
            data = Path(os.fsdecode(file.path_bytes or file.path)).read_bytes()
        except OSError:
            return list(wanted.values())
        found.update(uuid for uuid in wanted if uuid in data)
    return [wanted[uuid] for uuid in found]


def delete_rows(conn: sqlite3.Connection) -> set[int]:
    """Delete what was named; returns the projects of the sessions that are gone."""
    for name, sql in _NAMED.items():
        conn.execute(f"DROP TABLE IF EXISTS temp.{name}")
        conn.execute(f"CREATE TEMP TABLE {name} AS {sql}")
        conn.execute(f"CREATE INDEX temp.{name}_id ON {name}(id)")
    projects = conn.execute(
        "SELECT DISTINCT project_id FROM sessions WHERE project_id IS NOT NULL"
        " AND id IN (SELECT id FROM gone_sessions)"
    ).fetchall()
    keys = conn.execute(
        "SELECT DISTINCT l.request_key FROM gone_messages g"
        " CROSS JOIN _usage_lines l ON l.message_id = g.id"
    ).fetchall()
    for statement in (*_LOOSEN_SNAPSHOTS, *_DELETIONS):
        conn.execute(statement)
    stamp(conn, requests.recompute(conn, set(first_column(keys))))
    conn.execute(
        "DELETE FROM _model_names WHERE model NOT IN (SELECT model FROM _usage_lines"
        " UNION SELECT model FROM usage WHERE model IS NOT NULL)"
    )
    return set(first_column(projects))


def orphan_children(conn: sqlite3.Connection) -> None:
    """Messages whose parent is gone have none, until it comes."""
    for uuid, message_id in conn.execute(_ORPHANED).fetchall():
        changed = conn.execute(
            "UPDATE messages SET parent_uuid = NULL WHERE id = ? RETURNING session_id",
            (message_id,),
        )
        stamp(conn, first_column(changed.fetchall()))
        conn.execute("INSERT OR REPLACE INTO _orphans VALUES (?, ?)", (message_id, uuid))


def settle_loose_snapshots(conn: sqlite3.Connection) -> None:
    """Snapshots whose turn is gone get the turn of another line with that message, if any."""
    sessions = set(first_column(conn.execute("SELECT session_id FROM loose_snapshots")))
    give_turns(conn, (), sessions, set())
    stamp(conn, sessions)


def forget_names(conn: sqlite3.Connection) -> None:
    """Drop the temporary tables."""
    for name in (*_TEMPORARY, *_NAMED):
        conn.execute(f"DROP TABLE temp.{name}")
