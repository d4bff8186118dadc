"""Find the stored entries of which a line may be a replay."""

from __future__ import annotations

import sqlite3

from ctxdb.rows import Message
from ctxdb.rules.replays import BlockSets, Moment, Voice, blocks_of, thread_of


class StoredReplays:
    """The lines that are stored, moment by moment, each looked up once in a batch."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self.moments: dict[Moment, dict[Voice, BlockSets]] = {}
        self.merged: dict[int, int] = {}

    def find(self, message: Message) -> set[int]:
        """Entries of which any line has the blocks of this one, or only blocks of it."""
        voice = (message.type, thread_of(message.agent_id), message.api_message_id)
        sets = self._voices((message.session_id, message.timestamp)).get(voice)
        if sets is None or message.block_keys is None:
            return set()
        return {self._kept(i) for i in sets.owners_of(blocks_of(message.block_keys))}

    def _kept(self, message_id: int) -> int:
        while message_id in self.merged:
            message_id = self.merged[message_id]
        return message_id

    def _voices(self, moment: Moment) -> dict[Voice, BlockSets]:
        voices = self.moments.get(moment)
        if voices is None:
            voices = self.moments[moment] = {}
            session_id, at = moment
            for message_id, kind, agent_id, api_id, keys in self.conn.execute(
                "SELECT m.id, m.type, m.agent_id, m.api_message_id, b.block_keys FROM messages m"
                " JOIN _message_lines b ON b.message_id = m.id"
                "  WHERE m.timestamp = ?1 AND m.session_id IS ?2 AND b.block_keys IS NOT NULL"
                " UNION ALL SELECT m.id, m.type, m.agent_id, m.api_message_id, b.block_keys"
                "  FROM _copy_lines b JOIN message_copies c ON c.id = b.copy_id"
                "  JOIN messages m ON m.id = c.message_id"
                "  WHERE b.timestamp = ?1 AND c.session_id IS ?2 AND b.block_keys IS NOT NULL",
                (at, session_id),
            ):
                voice = (kind, thread_of(agent_id), api_id)
                voices.setdefault(voice, BlockSets()).add(blocks_of(keys), message_id)
        return voices

    def add(self, moment: Moment, keys: str | None, message_id: int) -> None:
        """A line now represents an entry."""
        voices = self.moments.get(moment)
        if voices is not None and keys:
            kind, agent_id, api_id = self.conn.execute(
                "SELECT type, agent_id, api_message_id FROM messages WHERE id = ?", (message_id,)
            ).fetchone()
            voice = (kind, thread_of(agent_id), api_id)
            voices.setdefault(voice, BlockSets()).add(blocks_of(keys), message_id)

    def merge(self, keep: int, drop: int) -> None:
        """Two entries are one."""
        self.merged[drop] = keep

    def forget(self) -> None:
        """An entry says something else than before: look again."""
        self.moments.clear()
