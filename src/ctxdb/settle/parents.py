"""Parents that a chunk alone cannot tell: in other chunks, behind copies, or not yet there.

`parent_uuid` names stored entries only. A parent that is a copy means its owner; one that is
nowhere is kept in _orphans until it comes. What a uuid means is in rules/parent_chain.py. A line
may change what a uuid meant before: a message with the uuid of a line that was stepped over, or a
second such line with another parent. Such uuids are contested: the messages that may hang on them
are read again, and settled again. Claude Code does not write such lines.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from ctxdb.rules.parent_chain import first_parent, name_sidechains
from ctxdb.store.lookup import first_column, json_list, look_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctxdb.rows import Message
    from ctxdb.settle.stored_uuids import StoredUuids

_ENTRY = (
    "SELECT uuid FROM messages WHERE uuid = ?1"
    " UNION ALL SELECT * FROM (SELECT m.uuid FROM message_copies c JOIN messages m"
    "  ON m.id = c.message_id WHERE c.uuid = ?1 ORDER BY m.uuid) LIMIT 1"
)
_AGENT = (
    "SELECT is_sidechain, agent_id FROM messages WHERE uuid = ?1"
    " UNION ALL SELECT * FROM (SELECT m.is_sidechain, m.agent_id FROM message_copies c"
    "  JOIN messages m ON m.id = c.message_id WHERE c.uuid = ?1 ORDER BY m.uuid) LIMIT 1"
)
_STORED_STEPS = "SELECT p.uuid, p.ancestor FROM j CROSS JOIN _skipped_parents p ON p.uuid = j.value"
_SKIPPED_AMONG = "SELECT p.uuid FROM j CROSS JOIN _skipped_parents p ON p.uuid = j.value"
_MESSAGES_AMONG = (
    "SELECT m.uuid FROM j CROSS JOIN messages m ON m.uuid = j.value"
    " UNION SELECT c.uuid FROM j CROSS JOIN message_copies c ON c.uuid = j.value"
)
_CHILDREN = (
    "SELECT id, source_file_id, byte_start, byte_length FROM messages"
    " WHERE parent_uuid IN (SELECT value FROM json_each(?1))"
    "  OR (?2 AND parent_uuid IS NULL AND id NOT IN (SELECT message_id FROM _orphans))"
    " UNION SELECT m.id, m.source_file_id, m.byte_start, m.byte_length FROM json_each(?3) j"
    "  CROSS JOIN _orphans o ON o.parent_uuid = j.value JOIN messages m ON m.id = o.message_id"
)


class Parents:
    """The lines of one batch that are no messages, with those stored before."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        uuids: StoredUuids,
        reread: Callable[[int, int, int], Message | None] | None = None,
    ) -> None:
        self.conn = conn
        self.uuids = uuids
        self.reread = reread  # reads a line again: (source_file_id, byte_start, byte_length)
        self.skipped: dict[str, str | None] = {}
        self.said: dict[str, set[str | None]] = {}  # other parents that were said for a uuid

    def skip(self, skipped: Iterable[tuple[str, str | None]]) -> None:
        """Take in lines of the batch that are no messages: (uuid, parent)."""
        parents = dict(skipped)
        for uuid in self.skipped.keys() & parents.keys():
            before, now = self.skipped[uuid], parents[uuid]
            if before != now:
                self.said.setdefault(uuid, set()).update((before, now))
                parents[uuid] = first_parent(before, now)
        self.skipped.update(parents)

    def name_sidechains(self, messages: list[Message]) -> None:
        """Name the sidechains whose root may be in another chunk."""
        name_sidechains(messages, self._agent_of)

    def _agent_of(self, uuid: str) -> str | None:
        wanted: str | None = uuid
        seen: set[str] = set()
        while wanted is not None and wanted not in seen:
            seen.add(wanted)
            found = self.conn.execute(_AGENT, (wanted,)).fetchone()
            if found is not None:
                is_sidechain, agent_id = found
                return str(agent_id) if is_sidechain == 1 else None
            wanted = self._after(wanted)
        return None

    def _after(self, uuid: str) -> str | None:
        """The parent of a line that is no message, as far as is known; the uuid if it is one."""
        if uuid in self.skipped:
            return self.skipped[uuid]
        found = self.conn.execute(
            "SELECT ancestor FROM _skipped_parents WHERE uuid = ?", (uuid,)
        ).fetchone()
        if found is None:
            return uuid
        (parent,) = found
        return str(parent) if parent is not None else None

    def waiting_for(self, came: set[str]) -> list[tuple[int, str]]:
        """Messages whose parent is among these or was skipped with them: (message, parent)."""
        named = came.union(self.skipped)
        (waiting,) = self.conn.execute("SELECT count(*) FROM _orphans").fetchone()
        if waiting < len(named):  # it is quicker to go over those that wait
            rows = self.conn.execute("SELECT message_id, parent_uuid FROM _orphans")
            return [(message_id, uuid) for message_id, uuid in rows if uuid in named]
        return list(
            look_up(
                self.conn,
                sorted(named),
                "SELECT o.message_id, o.parent_uuid FROM j"
                " CROSS JOIN _orphans o ON o.parent_uuid = j.value",
            )
        )

    def write(
        self,
        filled: list[Message],
        replaced: set[int],
        found: list[tuple[int, str]],
        came: set[str],
    ) -> set[int]:
        """Remember the skipped lines, and settle parents that are elsewhere.

        `filled` are the lines that own their rows, `replaced` the rows that have another owner
        than before, `found` messages whose parent was waited for, `came` the uuids of the batch's
        messages. Returns messages that were stored before and have got a parent.
        """
        contested = self._remember(came)
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
            self._settle(message_id, uuid)
        changed = {message_id for message_id, _ in found}
        if contested:
            changed |= self._settle_below(contested, last)
        return changed

    def _settle(self, message_id: int, uuid: str) -> bool:
        """Give a message the parent that a uuid means, and say whether that is another one."""
        is_settled, parent = self._settled(uuid)
        changed = self.conn.execute(
            "UPDATE messages SET parent_uuid = ?1 WHERE id = ?2 AND parent_uuid IS NOT ?1",
            (parent if is_settled else None, message_id),
        )
        if is_settled:
            self.conn.execute("DELETE FROM _orphans WHERE message_id = ?", (message_id,))
        else:
            self.conn.execute("INSERT OR REPLACE INTO _orphans VALUES (?, ?)", (message_id, parent))
        return changed.rowcount > 0

    def _settled(self, uuid: str) -> tuple[bool, str | None]:
        """(True, a stored uuid or None at a chain's end), or (False, the uuid that is missing).

        Of a chain that comes back to itself all are missing: its smallest uuid stands for them.
        """
        passed: list[str] = []
        seen: set[str] = set()
        wanted = uuid
        while wanted not in seen:
            seen.add(wanted)
            passed.append(wanted)
            found = self.conn.execute(_ENTRY, (wanted,)).fetchone()
            if found is not None:
                (stored,) = found
                return True, stored
            following = self._after(wanted)
            if following is None:
                return True, None
            if following == wanted:
                return False, wanted
            wanted = following
        return False, min(passed[passed.index(wanted) :])

    # -- uuids that several lines have -------------------------------------------------------------

    def _remember(self, came: set[str]) -> set[str]:
        """Store the skipped lines; returns the uuids that mean something else than one line says.

        For these, `said` has all parents by which messages may have been settled.
        """
        before = self.conn.total_changes
        self.conn.executemany(
            "INSERT OR IGNORE INTO _skipped_parents VALUES (?, ?)", list(self.skipped.items())
        )
        if self.conn.total_changes - before < len(self.skipped):
            for uuid, parent in look_up(self.conn, self.skipped, _STORED_STEPS):
                if parent != self.skipped[uuid]:
                    self.said.setdefault(uuid, set()).update((parent, self.skipped[uuid]))
                    self.skipped[uuid] = first_parent(parent, self.skipped[uuid])
            self.conn.executemany(
                "UPDATE _skipped_parents SET ancestor = ? WHERE uuid = ?",
                [(self.skipped[uuid], uuid) for uuid in self.said],
            )
        contested = {*self.said, *(came & self.skipped.keys())}
        for among, uuids in (
            (_MESSAGES_AMONG, self.uuids.messages.possible(self.skipped)),
            (_SKIPPED_AMONG, self.uuids.skipped.possible(came.difference(self.skipped))),
        ):
            if uuids:
                contested.update(first_column(look_up(self.conn, uuids, among)))
        self.uuids.skipped.add(self.skipped)
        return contested

    def _settle_below(self, contested: set[str], last: dict[int, Message]) -> set[int]:
        """Settle again what may hang on these uuids; returns the messages that have changed."""
        reached, ends = self._above(contested)
        rows = self.conn.execute(
            _CHILDREN, (json_list(reached), ends, json_list(reached))
        ).fetchall()
        changed: set[int] = set()
        for message_id, *place in rows:
            message = last.get(message_id)
            if message is None and self.reread is not None:
                message = self.reread(*place)
            if message is None or message.said_parent is None:
                continue  # nothing says any more what it hung on
            if self._settle(message_id, message.said_parent):
                changed.add(message_id)
        return changed

    def _above(self, contested: set[str]) -> tuple[set[str], bool]:
        """All that these uuids may have meant: the entries above them, and whether it was none."""
        reached: set[str] = set()
        ends = False
        waiting: list[str | None] = [*contested]
        while waiting:
            uuid = waiting.pop()
            if uuid is None:
                ends = True
            elif uuid not in reached:
                reached.add(uuid)
                found = self.conn.execute(_ENTRY, (uuid,)).fetchone()
                if found is not None and found[0] is not None:
                    reached.add(found[0])
                waiting += self.said.get(uuid, ())
                following = self._after(uuid)
                if following != uuid:
                    waiting.append(following)
        return reached, ends
