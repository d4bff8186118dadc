"""The parent chain: what is no message is stepped over, and sidechains get their names.

In versions 2.1.11 to 2.1.63 messages hang on progress lines, which are not stored; some day they
may hang on entries of a type that is not known yet, which are events. The place of such lines in
the chain is remembered, so that parent_uuid always names the nearest stored ancestor, also when
the two come in different batches.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from ctxdb.claude import Event, Fact, Skip
from ctxdb.store.chunk import Placed
from ctxdb.store.lookup import look_up


class Parents:
    """The skipped lines of one batch, with those stored before."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self.skipped: dict[str, str | None] = {}
        self.stored: dict[str, str | None] = {}

    def learn(self, placed: list[Placed], skipped: Sequence[Skip | Event]) -> None:
        """Take in the batch's lines that are no messages, and the wrappers of unwrapped ones."""
        for skip in skipped:
            if skip.uuid is not None:
                self.skipped[skip.uuid] = skip.parent_uuid
        for item in placed:
            if item.rec.wrapper is not None:
                self.skipped[item.rec.wrapper[0]] = item.rec.wrapper[1]
        own = {item.rec.uuid for item in placed}
        wanted = {item.rec.parent_uuid for item in placed}
        wanted.update(self.skipped.values())
        wanted.difference_update(own, self.skipped, (None,))
        self._load([uuid for uuid in wanted if uuid is not None])

    def _load(self, uuids: list[str]) -> None:
        self.stored.update(
            look_up(
                self.conn,
                uuids,
                "SELECT s.uuid, s.ancestor FROM j"
                " CROSS JOIN _skipped_parents s ON s.uuid = j.value",
            )
        )

    def ancestor(self, uuid: str | None) -> str | None:
        """The nearest ancestor that is not skipped, as far as is known."""
        passed: list[str] = []
        while uuid is not None and len(passed) < 100_000:
            if uuid in self.skipped:
                following = self.skipped[uuid]
            elif uuid in self.stored:
                following = self.stored[uuid]
            else:
                break
            if following == uuid:
                break
            passed.append(uuid)
            uuid = following
        for step in passed:
            if step in self.skipped:
                self.skipped[step] = uuid  # so that a long run of progress is walked once
        return uuid

    def resolve(self, placed: list[Placed]) -> None:
        """Give every message its nearest stored ancestor."""
        if not self.skipped and not self.stored:
            for item in placed:
                item.parent_uuid = item.rec.parent_uuid
            return
        for item in placed:
            item.parent_uuid = self.ancestor(item.rec.parent_uuid)

    def name_sidechains(self, placed: list[Placed]) -> None:
        """Version 1.0 keeps agents inside the main file: one agent per sidechain root."""
        if not any(item.agent_id is None and item.rec.is_sidechain for item in placed):
            return
        named: dict[str, str | None] = {}
        for item in placed:
            rec = item.rec
            if rec.is_sidechain and item.agent_id is None:
                parent = item.parent_uuid
                agent_id = None
                if parent is not None:
                    agent_id = named[parent] if parent in named else self._agent_of(parent)
                if agent_id is None:
                    agent_id = f"side-{rec.uuid or rec.line_hash}"
                    at = rec.timestamp or ""
                    fact = Fact(agent_id, "root", "", at, kind="sidechain", prompt=rec.text)
                    rec.facts = [*(rec.facts or ()), fact]
                item.agent_id = agent_id
            if rec.uuid is not None:
                named[rec.uuid] = item.agent_id

    def _agent_of(self, uuid: str) -> str | None:
        row = self.conn.execute(
            "SELECT agent_id FROM messages WHERE uuid = ?1 AND is_sidechain = 1"
            " UNION ALL SELECT m.agent_id FROM message_copies c JOIN messages m"
            "  ON m.id = c.message_id WHERE c.uuid = ?1 AND m.is_sidechain = 1 LIMIT 1",
            (uuid,),
        ).fetchone()
        return row[0] if row else None

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
        self,
        filled: list[Placed],
        replaced: set[int],
        found: list[tuple[int, str]],
    ) -> None:
        """Remember the skipped lines, and settle parents that this batch alone cannot tell.

        `parent_uuid` names stored entries only: a parent that is a copy stands for its owner, one
        that is nowhere is kept aside until it comes. `filled` are the lines that own their rows,
        `replaced` the rows that have another owner than before, `found` messages whose parent was
        waited for.
        """
        self.conn.executemany(
            "INSERT OR REPLACE INTO _skipped_parents VALUES (?, ?)",
            [(uuid, self.ancestor(uuid)) for uuid in self.skipped],
        )
        last = {item.id: item for item in filled}  # a row may have changed hands within the batch
        self.conn.executemany(
            "DELETE FROM _orphans WHERE message_id = ?", [(row,) for row in replaced]
        )
        stored = {item.rec.uuid for item in last.values()}
        open_ends = [
            (item.id, item.parent_uuid)
            for item in last.values()
            if item.parent_uuid is not None and item.parent_uuid not in stored
        ]
        open_ends += [row for row in found if row[0] not in replaced]
        for message_id, uuid in open_ends:
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
        for _ in range(10_000):
            if wanted is None:
                return True, None
            row = self.conn.execute(
                "SELECT uuid FROM messages WHERE uuid = ?1"
                " UNION ALL SELECT m.uuid FROM message_copies c JOIN messages m"
                "  ON m.id = c.message_id WHERE c.uuid = ?1 LIMIT 1",
                (wanted,),
            ).fetchone()
            if row is not None:
                return True, row[0]
            row = self.conn.execute(
                "SELECT ancestor FROM _skipped_parents WHERE uuid = ?", (wanted,)
            ).fetchone()
            if row is None or row[0] == wanted:
                return False, wanted
            wanted = row[0]
        return False, uuid
