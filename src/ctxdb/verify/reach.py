"""Which sessions and files can be made again from the transcripts that are left.

A session can be made again if every line that was ever stored for it can still be read, and every
line of the sessions and files that it is linked to. Links are copies in other files, requests that
two sessions report, calls and results, parents, and summaries in files of other sessions. If one
member of a linked group is gone, the whole group is left out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass

Node = tuple[str, str | int]  # ('session', id) or ('file', id)

_SESSIONS_AND_FILES = (
    "SELECT session_id, source_file_id FROM _session_files",
    "SELECT DISTINCT session_id, source_file_id FROM messages",
    "SELECT DISTINCT session_id, source_file_id FROM message_copies",
    (
        "SELECT DISTINCT m.session_id, c.source_file_id FROM message_copies c"
        " JOIN messages m ON m.id = c.message_id"
    ),
    "SELECT DISTINCT session_id, source_file_id FROM events",
    (
        "SELECT DISTINCT e.session_id, c.source_file_id FROM _event_copies c"
        " JOIN events e ON e.id = c.event_id"
    ),
    (
        "SELECT DISTINCT s.leaf_session, e.source_file_id FROM _summaries s"
        " JOIN events e ON e.id = s.event_id"
    ),
    "SELECT session_id, id FROM source_files",
)
_SESSIONS_AND_SESSIONS = (
    (
        "SELECT DISTINCT u.session_id, m.session_id FROM usage u JOIN _usage_lines l"
        " ON l.request_key = u.request_key JOIN messages m ON m.id = l.message_id"
        " WHERE m.session_id <> u.session_id"
    ),
    (
        "SELECT DISTINCT m.session_id, p.session_id FROM messages m JOIN messages p"
        " ON p.uuid = m.parent_uuid WHERE p.session_id <> m.session_id"
    ),
    (
        "SELECT DISTINCT t.session_id, m.session_id FROM tool_uses t JOIN messages m"
        " ON m.id = t.message_id WHERE m.session_id <> t.session_id"
    ),
    (
        "SELECT DISTINCT t.session_id, m.session_id FROM tool_uses t JOIN messages m"
        " ON m.id = t.result_message_id WHERE m.session_id <> t.session_id"
    ),
    (
        "SELECT DISTINCT a.session_id, t.session_id FROM agents a JOIN tool_uses t"
        " ON t.tool_use_id = a.tool_use_id WHERE t.session_id <> a.session_id"
    ),
)
# Sessions that name no folder, each with a session that names the folder of their project.
_GUESSING = (
    "SELECT s.id, o.id FROM sessions s JOIN sessions o ON o.project_id = s.project_id"
    " AND o.cwd IS NOT NULL WHERE s.cwd IS NULL"
)
# Entries of a session that is in two files. The first file by name owned them, and one of the two
# was renamed since.
_RENAMED = (
    (
        "SELECT DISTINCT m.session_id, m.source_file_id FROM message_copies c JOIN messages m"
        " ON m.id = c.message_id AND m.session_id IS c.session_id"
        " JOIN _copy_lines cl ON cl.copy_id = c.id AND cl.timestamp IS m.timestamp"
        " JOIN _message_lines ml ON ml.message_id = m.id AND ml.owner_flags = cl.owner_flags"
        " JOIN source_files f ON f.id = m.source_file_id"
        " JOIN source_files g ON g.id = c.source_file_id"
        " WHERE (g.agent_id IS NOT NULL, g.path, g.machine)"
        "  < (f.agent_id IS NOT NULL, f.path, f.machine)"
    ),
    (
        "SELECT DISTINCT e.session_id, e.source_file_id FROM _event_copies c JOIN events e"
        " ON e.id = c.event_id JOIN source_files f ON f.id = e.source_file_id"
        " JOIN source_files g ON g.id = c.source_file_id"
        " WHERE (g.agent_id IS NOT NULL, g.path, g.machine)"
        "  < (f.agent_id IS NOT NULL, f.path, f.machine)"
    ),
)


@dataclass(frozen=True, slots=True)
class Reach:
    """Sessions and files that can be made again."""

    sessions: set[str]
    files: set[int]
    sessions_left_out: int
    is_whole: bool  # nothing is left out


class _Groups:
    """Groups of linked nodes."""

    def __init__(self) -> None:
        self.above: dict[Node, Node] = {}

    def top(self, node: Node) -> Node:
        above = self.above
        while (up := above.setdefault(node, node)) != node:
            above[node] = node = above[up]
        return node

    def link(self, one: Node, other: Node) -> None:
        self.above[self.top(one)] = self.top(other)


def reach(conn: sqlite3.Connection, readable: set[int]) -> Reach:
    """The sessions and files whose rows depend on these files alone."""
    generations = dict(conn.execute("SELECT source_file_id, generation FROM _file_marks"))
    # Rows of lines that a rewritten file no longer has are kept, and no line can make them again.
    lost: list[Node] = [
        ("file", file) for file, n in generations.items() if n or file not in readable
    ]
    for sql in _RENAMED:
        for session, file in conn.execute(sql):
            lost += [("session", session or ""), ("file", file)]
    return all_but(conn, lost)


def all_but(conn: sqlite3.Connection, lost: Collection[Node]) -> Reach:
    """All sessions and files but the lost ones and what is linked to them."""
    sessions = {session for (session,) in conn.execute("SELECT id FROM sessions")}
    files = {file for (file,) in conn.execute("SELECT id FROM source_files")}
    if not lost:
        return Reach(sessions, files, 0, is_whole=True)
    groups = _Groups()
    for sql in _SESSIONS_AND_FILES:
        for session, file in conn.execute(sql):
            if session is not None:
                groups.link(("session", session), ("file", file))
    for sql in _SESSIONS_AND_SESSIONS:
        for one, other in conn.execute(sql):
            groups.link(("session", one), ("session", other))
    tops = {groups.top(node) for node in lost}
    kept: set[str] = set()
    guessing = conn.execute(_GUESSING).fetchall()
    while True:
        kept = {session for session in sessions if groups.top(("session", session)) not in tops}
        more = {groups.top(("session", one)) for one, other in guessing if other not in kept}
        if more <= tops:
            break
        tops |= more
    return Reach(
        kept,
        {file for file in files if groups.top(("file", file)) not in tops},
        len(sessions) - len(kept),
        is_whole=False,
    )
