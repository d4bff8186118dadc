"""The sessions and files that are linked with some sessions: their rows may depend on each other.

Links are copies in other files, requests that two sessions report, calls and results, parents, and
summaries in files of other sessions, as in `verify/reach.py`. Here they are followed from a few
sessions on, so that a large database is not read as a whole.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from typing import Any

from ctxdb.claude.names import UNIQUE_IDS
from ctxdb.store.lookup import first_column, look_up

_FILES_OF_SESSIONS = (
    "SELECT id FROM j CROSS JOIN source_files f ON f.session_id = j.value",
    "SELECT source_file_id FROM j CROSS JOIN _session_files f ON f.session_id = j.value",
    "SELECT DISTINCT source_file_id FROM j CROSS JOIN messages m ON m.session_id = j.value",
    "SELECT DISTINCT source_file_id FROM j CROSS JOIN message_copies c ON c.session_id = j.value",
    (
        "SELECT DISTINCT c.source_file_id FROM j CROSS JOIN messages m ON m.session_id = j.value"
        " CROSS JOIN message_copies c ON c.message_id = m.id"
    ),
    "SELECT DISTINCT source_file_id FROM j CROSS JOIN events e ON e.session_id = j.value",
    (
        "SELECT DISTINCT c.source_file_id FROM j CROSS JOIN events e ON e.session_id = j.value"
        " CROSS JOIN _event_copies c ON c.event_id = e.id"
    ),
    (
        "SELECT DISTINCT e.source_file_id FROM j CROSS JOIN _summaries s"
        " ON s.leaf_session = j.value CROSS JOIN events e ON e.id = s.event_id"
    ),
)
_SESSIONS_OF_FILES = (
    "SELECT session_id FROM j CROSS JOIN source_files f ON f.id = j.value",
    "SELECT session_id FROM j CROSS JOIN _session_files f ON f.source_file_id = j.value",
    "SELECT DISTINCT session_id FROM j CROSS JOIN messages m ON m.source_file_id = j.value",
    "SELECT DISTINCT session_id FROM j CROSS JOIN message_copies c ON c.source_file_id = j.value",
    (
        "SELECT DISTINCT m.session_id FROM j CROSS JOIN message_copies c"
        " ON c.source_file_id = j.value CROSS JOIN messages m ON m.id = c.message_id"
    ),
    "SELECT DISTINCT session_id FROM j CROSS JOIN events e ON e.source_file_id = j.value",
    (
        "SELECT DISTINCT e.session_id FROM j CROSS JOIN _event_copies c"
        " ON c.source_file_id = j.value CROSS JOIN events e ON e.id = c.event_id"
    ),
    (
        "SELECT DISTINCT s.leaf_session FROM j CROSS JOIN events e ON e.source_file_id = j.value"
        " CROSS JOIN _summaries s ON s.event_id = e.id"
    ),
)
_FILES_OF_FILES = (
    (
        "SELECT DISTINCT m.source_file_id FROM j CROSS JOIN message_copies c"
        " ON c.source_file_id = j.value CROSS JOIN messages m ON m.id = c.message_id"
    ),
    (
        "SELECT DISTINCT c.source_file_id FROM j CROSS JOIN messages m"
        " ON m.source_file_id = j.value CROSS JOIN message_copies c ON c.message_id = m.id"
    ),
    (
        "SELECT DISTINCT e.source_file_id FROM j CROSS JOIN _event_copies c"
        " ON c.source_file_id = j.value CROSS JOIN events e ON e.id = c.event_id"
    ),
    (
        "SELECT DISTINCT c.source_file_id FROM j CROSS JOIN events e"
        " ON e.source_file_id = j.value CROSS JOIN _event_copies c ON c.event_id = e.id"
    ),
)
_MESSAGES = "j CROSS JOIN messages m ON m.session_id = j.value"
_SESSIONS_OF_SESSIONS = (
    (  # lines of one request, or of one API message
        f"SELECT DISTINCT o.session_id FROM {_MESSAGES} CROSS JOIN _usage_lines l"
        " ON l.message_id = m.id CROSS JOIN _usage_lines k ON k.request_key = l.request_key"
        " CROSS JOIN messages o ON o.id = k.message_id"
    ),
    (
        f"SELECT DISTINCT o.session_id FROM {_MESSAGES} CROSS JOIN _usage_lines l"
        " ON l.message_id = m.id AND m.api_message_id IS NOT NULL CROSS JOIN _usage_lines k"
        " ON k.request_key >= m.api_message_id || '|' AND k.request_key < m.api_message_id || '}'"
        " CROSS JOIN messages o ON o.id = k.message_id"
    ),
    (
        f"SELECT DISTINCT p.session_id FROM {_MESSAGES} CROSS JOIN messages p"
        " ON p.uuid = m.parent_uuid"
    ),
    (
        f"SELECT DISTINCT o.session_id FROM {_MESSAGES} CROSS JOIN _orphans n"
        " ON n.parent_uuid = m.uuid CROSS JOIN messages o ON o.id = n.message_id"
    ),
    (
        f"SELECT DISTINCT t.session_id FROM {_MESSAGES} CROSS JOIN tool_uses t"
        " ON t.message_id = m.id"
    ),
    (
        f"SELECT DISTINCT t.session_id FROM {_MESSAGES} CROSS JOIN tool_uses t"
        " ON t.result_message_id = m.id"
    ),
    (
        "SELECT DISTINCT m.session_id FROM j CROSS JOIN tool_uses t ON t.session_id = j.value"
        " CROSS JOIN messages m ON m.id = t.message_id"
    ),
    (
        "SELECT DISTINCT m.session_id FROM j CROSS JOIN tool_uses t ON t.session_id = j.value"
        " CROSS JOIN messages m ON m.id = t.result_message_id"
    ),
    (  # other messages that repeat a call or a result
        f"SELECT DISTINCT o.session_id FROM {_MESSAGES} CROSS JOIN tool_uses t"
        " ON t.message_id = m.id OR t.result_message_id = m.id CROSS JOIN _repeated_calls r"
        " ON r.tool_use_id = t.tool_use_id CROSS JOIN messages o ON o.id = r.message_id"
    ),
    (
        f"SELECT DISTINCT t.session_id FROM {_MESSAGES} CROSS JOIN _repeated_calls r"
        " ON r.message_id = m.id CROSS JOIN tool_uses t ON t.tool_use_id = r.tool_use_id"
    ),
    (
        "SELECT DISTINCT t.session_id FROM j CROSS JOIN agents a ON a.session_id = j.value"
        " CROSS JOIN tool_uses t ON t.tool_use_id = a.tool_use_id"
        f" WHERE a.tool_use_id GLOB '{UNIQUE_IDS}'"
    ),
    (
        "SELECT DISTINCT a.session_id FROM j CROSS JOIN tool_uses t ON t.session_id = j.value"
        " CROSS JOIN agents a ON a.tool_use_id = t.tool_use_id"
        f" WHERE a.tool_use_id GLOB '{UNIQUE_IDS}'"
    ),
)


@dataclass(slots=True)
class Linked:
    """Sessions and files."""

    sessions: set[str] = field(default_factory=set)
    files: set[int] = field(default_factory=set)


def linked_with(conn: sqlite3.Connection, sessions: set[str]) -> Linked:
    """These sessions, and all sessions and files that are linked with them."""
    found = Linked()
    new = Linked(set(sessions))
    while new.sessions or new.files:
        found.sessions |= new.sessions
        found.files |= new.files
        files = _find(conn, new.sessions, _FILES_OF_SESSIONS)
        files |= _find(conn, new.files, _FILES_OF_FILES)
        more = _find(conn, new.files, _SESSIONS_OF_FILES)
        more |= _find(conn, new.sessions, _SESSIONS_OF_SESSIONS)
        new = Linked(more - found.sessions, files - found.files)
    return found


def _find(conn: sqlite3.Connection, names: set[str] | set[int], ways: tuple[str, ...]) -> set[Any]:
    if not names:
        return set()
    found: set[Any] = set()
    for sql in ways:
        found.update(first_column(look_up(conn, sorted(names), sql)))
    return found - {None}
