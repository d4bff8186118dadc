"""Parents that a chunk alone cannot tell: in other chunks, behind copies, or not yet there.

`parent_uuid` names stored entries only. A parent that is a copy means its owner; one that is
nowhere is kept in _orphans until it comes.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from ctxdb.rules.parent_chain import name_sidechains
from ctxdb.store.lookup import look_up

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctxdb.rows import Message

MAX_STEPS = 10_000  # a loop in damaged data must end
_ENTRY = (
    "SELECT uuid FROM messages WHERE uuid = ?1"
    " UNION ALL SELECT m.uuid FROM message_copies c JOIN messages m"
    "  ON m.id = c.message_id WHERE c.uuid = ?1 LIMIT 1"
)
_AGENT = (
    "SELECT agent_id FROM messages WHERE uuid = ?1 AND is_sidechain = 1"
    " UNION ALL SELECT m.agent_id FROM message_copies c JOIN messages m"
    "  ON m.id = c.message_id WHERE c.uuid = ?1 AND m.is_sidechain = 1 LIMIT 1"
)


class Parents:
    """The lines of one batch that are no messages, with those stored before."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self.skipped: dict[str, str | None] = {}

    def skip(self, skipped: Iterable[tuple[str, str | None]]) -> None:
        """Take in lines of the batch that are no messages: (uuid, ancestor)."""
        self.skipped.update(skipped)

    def name_sidechains(self, messages: list[Message]) -> None:
        """Name the sidechains whose root may be in another chunk."""
        name_sidechains(messages, self._agent_of)

    def _agent_of(self, uuid: str) -> str | None:
        wanted: str | None = uuid
        for _ in range(MAX_STEPS):
            if wanted is None:
                return None
            found = self.conn.execute(_AGENT, (wanted,)).fetchone()
            if found is not None:
                (agent_id,) = found
                return str(agent_id)
            following = self._after(wanted)
            if following is None or following == wanted:
                return None
            wanted = following
        return None

    def _after(self, uuid: str) -> str | None:
        """The ancestor of a line that is no message, as far as is known; the uuid if it is one."""
        if uuid in self.skipped:
            return self.skipped[uuid]
        found = self.conn.execute(
            "SELECT ancestor FROM _skipped_parents WHERE uuid = ?", (uuid,)
        ).fetchone()
        if found is None:
            return uuid
        (ancestor,) = found
        return str(ancestor) if ancestor is not None else None

    def waiting_for(self, came: set[str]) -> list[tuple[int, str]]:
        """Messages whose parent is among these or was skipped with them: (message, parent)."""
        return list(
            look_up(
                self.conn,
                sorted(came.union(self.skipped)),
                "SELECT o.message_id, o.parent_uuid FROM j"
                " CROSS JOIN _orphans o ON o.parent_uuid = j.value",
            )
        )

    def write(
        self, filled: list[Message], replaced: set[int], found: list[tuple[int, str]]
    ) -> None:
        """Remember the skipped lines, and settle parents that are elsewhere.

        `filled` are the lines that own their rows, `replaced` the rows that have another owner
        than before, `found` messages whose parent was waited for.
        """
        self.conn.executemany(
            "INSERT OR REPLACE INTO _skipped_parents VALUES (?, ?)", list(self.skipped.items())
        )
        last = {message.id: message for message in filled}  # a row may have changed hands twice
        self.conn.executemany(
            "DELETE FROM _orphans WHERE message_id = ?", [(row,) for row in replaced]
        )
        stored = {message.uuid for message in last.values()}
        elsewhere = [
            (message.id, message.parent_uuid)
            for message in last.values()
            if message.parent_uuid is not None and message.parent_uuid not in stored
        ]
        elsewhere += [(row, uuid) for row, uuid in found if row not in replaced]
        for message_id, uuid in elsewhere:
            is_settled, parent = self._settled(uuid)
            self.conn.execute(
                "UPDATE messages SET parent_uuid = ?1 WHERE id = ?2 AND parent_uuid IS NOT ?1",
                (parent if is_settled else None, message_id),
            )
            if is_settled:
                self.conn.execute("DELETE FROM _orphans WHERE message_id = ?", (message_id,))
            else:
                self.conn.execute(
                    "INSERT OR REPLACE INTO _orphans VALUES (?, ?)", (message_id, parent)
                )

    def _settled(self, uuid: str) -> tuple[bool, str | None]:
        """(True, a stored uuid or None at a chain's end), or (False, the uuid that is missing)."""
        wanted: str | None = uuid
        for _ in range(MAX_STEPS):
            if wanted is None:
                return True, None
            found = self.conn.execute(_ENTRY, (wanted,)).fetchone()
            if found is not None:
                (stored,) = found
                return True, stored
            following = self._after(wanted)
            if following == wanted:
                return False, wanted
            wanted = following
        return False, uuid
