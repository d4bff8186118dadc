"""The order in which the places of an entry may own it.

Most of the order follows from the line itself (rules/owners.py). What it needs from the database is
which session had an entry of its own first, and the name of each file.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from ctxdb.rows import Message, MessageCopy
from ctxdb.rules.owners import FileRank, LineRank, SessionRank, line_rank, session_rank

Place = Message | MessageCopy


class OwnerOrder(NamedTuple):
    """Sort key of the places of an entry: the first one owns it."""

    is_gone: bool  # a line that is gone can only keep what no other line has
    line: LineRank
    session: SessionRank
    file: FileRank
    byte_start: int


class OwnerRanks:
    """The ranks of sessions and files, each read once."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self.sessions: dict[str | None, SessionRank] = {}
        self.files: dict[int, FileRank] = {}

    def _session_rank(self, session_id: str | None) -> SessionRank:
        if session_id not in self.sessions:
            row = self.conn.execute(
                "SELECT first_unshared_at FROM _shared_sessions WHERE session_id = ?", (session_id,)
            ).fetchone()
            (first,) = row or (None,)
            self.sessions[session_id] = session_rank(session_id, first)
        return self.sessions[session_id]

    def _file_rank(self, file_id: int) -> FileRank:
        if file_id not in self.files:
            row = self.conn.execute(
                "SELECT agent_id IS NOT NULL, path, machine FROM source_files WHERE id = ?",
                (file_id,),
            ).fetchone()
            is_agents, path, machine = row or (True, "", "")
            self.files[file_id] = FileRank(bool(is_agents), path, machine)
        return self.files[file_id]

    def order(self, place: Place) -> OwnerOrder:
        """The sort key of a place."""
        return OwnerOrder(
            place.byte_length < 0,
            line_rank(place),
            self._session_rank(place.session_id),
            self._file_rank(place.source_file_id),
            place.byte_start,
        )

    def mark_sharing(self, sessions: list[str]) -> None:
        """Note that these sessions share entries, and when each first had one of its own."""
        self.conn.executemany(
            "INSERT OR REPLACE INTO _shared_sessions SELECT ?1, (SELECT min(m.timestamp)"
            " FROM messages m WHERE m.session_id = ?1 AND NOT EXISTS ("
            "  SELECT 1 FROM message_copies c WHERE c.message_id = m.id"
            "   AND c.session_id IS NOT m.session_id))",
            [(session_id,) for session_id in sessions],
        )
        self.sessions.clear()
