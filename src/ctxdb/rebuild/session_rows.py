"""Which rows belong to sessions: every table, how its rows are found, and what they refer to."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import NamedTuple

SESSIONS = "(SELECT id FROM temp.wanted_sessions)"
FILES = "(SELECT id FROM temp.wanted_files)"
MESSAGES = "(SELECT id FROM temp.wanted_messages)"
_EVENTS = "(SELECT id FROM temp.wanted_events)"
TOOLS = "(SELECT id FROM temp.wanted_tool_uses)"
_COPIES = "(SELECT id FROM temp.wanted_message_copies)"
OF_SESSION = f"session_id IN {SESSIONS}"
_OF_MESSAGE = f"message_id IN {MESSAGES}"
# An entry of no session belongs to its file.
_OF_EITHER = f"{OF_SESSION} OR (session_id IS NULL AND source_file_id IN {FILES})"


class Part(NamedTuple):
    """A table, and which of its rows belong to the sessions."""

    table: str
    where: str
    references: dict[str, str] = {}  # column: table whose id it is  # noqa: RUF012
    key: str = ""  # the integer key that gets a new value
    is_needed: bool = False  # ids of its rows select rows of later tables


# In this order: a part can refer to the parts before it, and turns to messages after them.
PARTS = (
    Part("sessions", f"id IN {SESSIONS}", {"project_id": "projects"}),
    Part("_shared_sessions", OF_SESSION),
    Part("_session_files", OF_SESSION, {"source_file_id": "source_files"}),
    Part(
        "messages",
        _OF_EITHER,
        {"turn_id": "turns", "source_file_id": "source_files"},
        key="id",
        is_needed=True,
    ),
    Part("events", _OF_EITHER, {"source_file_id": "source_files"}, key="id", is_needed=True),
    Part(
        "turns",
        OF_SESSION,
        {"message_id": "messages", "event_id": "events", "source_file_id": "source_files"},
        key="id",
    ),
    Part("_message_lines", _OF_MESSAGE, {"message_id": "messages"}),
    Part(
        "message_copies",
        _OF_MESSAGE,
        {"message_id": "messages", "source_file_id": "source_files"},
        key="id",
        is_needed=True,
    ),
    Part("_copy_lines", f"copy_id IN {_COPIES}", {"copy_id": "message_copies"}),
    Part("_aliases", _OF_MESSAGE, {"message_id": "messages"}),
    Part("_orphans", _OF_MESSAGE, {"message_id": "messages"}),
    Part("_skipped_parents", "1"),
    Part(
        "tool_uses",
        f"{OF_SESSION} OR (session_id IS NULL AND"
        f" ({_OF_MESSAGE} OR result_message_id IN {MESSAGES}))",
        {"message_id": "messages", "turn_id": "turns", "result_message_id": "messages"},
        key="id",
        is_needed=True,
    ),
    Part("_tool_results", f"tool_id IN {TOOLS}", {"tool_id": "tool_uses"}),
    Part("_repeated_calls", _OF_MESSAGE, {"message_id": "messages"}),
    Part(
        "files_touched",
        OF_SESSION,
        {
            "tool_id": "tool_uses",
            "turn_id": "turns",
            "project_id": "projects",
            "message_id": "messages",
        },
        key="id",
    ),
    Part("_snapshot_messages", OF_SESSION),
    Part("git_operations", OF_SESSION, {"tool_id": "tool_uses", "turn_id": "turns"}, key="id"),
    Part("usage", OF_SESSION, {"turn_id": "turns"}, key="id"),
    Part("_usage_lines", _OF_MESSAGE, {"message_id": "messages"}),
    Part("agents", OF_SESSION, {"turn_id": "turns"}, key="id"),
    Part(
        "_agent_prompts",
        f"hash IN (SELECT prompt_hash FROM _agent_facts WHERE {OF_SESSION})",
    ),
    Part("_agent_facts", OF_SESSION, {"message_id": "messages"}),
    Part("todos", OF_SESSION, {"turn_id": "turns"}, key="id"),
    Part("plans", OF_SESSION, key="id"),
    Part("_event_lines", f"event_id IN {_EVENTS}", {"event_id": "events"}),
    Part(
        "_event_copies",
        f"event_id IN {_EVENTS}",
        {"event_id": "events", "source_file_id": "source_files"},
    ),
    Part("_summaries", f"event_id IN {_EVENTS}", {"event_id": "events"}),
)
# Of files that are new in the target.
FILE_PARTS = (
    Part("_file_marks", f"source_file_id IN {FILES}", {"source_file_id": "source_files"}),
    Part("line_counts", f"source_file_id IN {FILES}", {"source_file_id": "source_files"}),
    Part("_masked", f"source_file_id IN {FILES}", {"source_file_id": "source_files"}),
    Part(
        "ingest_errors",
        f"source_file_id IN {FILES}",
        {"source_file_id": "source_files"},
        key="id",
    ),
)


class wanted_rows:  # noqa: N801  a context manager
    """Temporary tables of the ids to copy. Only temporary tables are written."""

    def __init__(
        self, old: sqlite3.Connection, sessions: Collection[str], files: Collection[int]
    ) -> None:
        self.old = old
        self.sessions = sessions
        self.files = files  # beside those of the sessions

    def __enter__(self) -> None:
        old = self.old
        old.execute("PRAGMA query_only = 0")
        self.drop()
        old.execute("CREATE TEMP TABLE wanted_sessions (id TEXT PRIMARY KEY) WITHOUT ROWID")
        old.executemany(
            "INSERT INTO temp.wanted_sessions VALUES (?)", [(one,) for one in self.sessions]
        )
        old.execute("CREATE TEMP TABLE wanted_files (id INTEGER PRIMARY KEY)")
        for sql in (
            f"SELECT id FROM source_files WHERE {OF_SESSION}",
            f"SELECT source_file_id FROM _session_files WHERE {OF_SESSION}",
            f"SELECT DISTINCT source_file_id FROM messages WHERE {OF_SESSION}",
            f"SELECT DISTINCT source_file_id FROM message_copies WHERE {OF_SESSION}",
            f"SELECT DISTINCT source_file_id FROM events WHERE {OF_SESSION}",
        ):
            old.execute(f"INSERT OR IGNORE INTO temp.wanted_files {sql}")
        old.execute("DELETE FROM temp.wanted_files WHERE id IS NULL")
        old.executemany(
            "INSERT OR IGNORE INTO temp.wanted_files VALUES (?)", [(one,) for one in self.files]
        )
        for part in PARTS:
            if part.is_needed:
                old.execute(f"CREATE TEMP TABLE wanted_{part.table} (id INTEGER PRIMARY KEY)")
                old.execute(
                    f"INSERT INTO temp.wanted_{part.table}"
                    f" SELECT id FROM {part.table} WHERE {part.where}"
                )

    def __exit__(self, *error: object) -> None:
        self.drop()

    def drop(self) -> None:
        """Remove the temporary tables."""
        names = ["sessions", "files", *(part.table for part in PARTS if part.is_needed)]
        for name in names:
            self.old.execute(f"DROP TABLE IF EXISTS temp.wanted_{name}")
