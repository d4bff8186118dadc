"""One row per entry, however many lines repeat it (contract: Copies).

Resumed, forked and replayed history repeats old entries. The line that owns an entry fills its row
in messages; every other place is a row in message_copies. Which line owns follows from the lines
alone, never from the order they were read in, so a better owner that comes late takes over: its
line is read (again) and the row is filled from it, with all that hangs on it.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import orjson

from ctxdb.store.counts import shift_count
from ctxdb.store.model import WRAPPED, Placed, Touched, owner_flags, owner_rank
from ctxdb.store.sessions import recount_file
from ctxdb.store.tools import is_unique_id
from ctxdb.store.turns import forked_queues

if TYPE_CHECKING:
    from collections.abc import Callable

_OWNER = (
    "SELECT id, uuid, session_id, source_file_id, byte_start, byte_length, timestamp, owner_flags,"
    " type, version, block_keys, line_hash FROM messages WHERE id = ?"
)


class Owner:
    """The line that fills a row of messages."""

    __slots__ = (
        "block_keys",
        "byte_length",
        "byte_start",
        "id",
        "line_hash",
        "owner_flags",
        "session_id",
        "source_file_id",
        "timestamp",
        "type",
        "uuid",
        "version",
    )

    def __init__(self, row: tuple[Any, ...]) -> None:
        (
            self.id,
            self.uuid,
            self.session_id,
            self.source_file_id,
            self.byte_start,
            self.byte_length,
            self.timestamp,
            self.owner_flags,
            self.type,
            self.version,
            self.block_keys,
            self.line_hash,
        ) = row

    @property
    def line_type(self) -> str:
        """The type its line is counted under: a wrapped entry stands on a progress line."""
        return "progress" if self.owner_flags & WRAPPED else self.type


class Copies:
    """Settles repeated entries, one at a time."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        touched: Touched,
        replace: Callable[[Placed], None],
        reread: Callable[[int, int, int], Placed | None],
    ) -> None:
        self.conn = conn
        self.touched = touched
        self.replace = replace  # fills a row of messages, and all that hangs on it, from a line
        self.reread = reread  # reads a line again: (source_file_id, byte_start, byte_length)
        self.recount: set[tuple[str, int]] = set()

    def absorb(self, placed: Placed, message_id: int) -> str:
        """Take in a line that repeats a stored entry; says whether it is `stored` or a `copy`."""
        row = self.conn.execute(_OWNER, (message_id,)).fetchone()
        if row is None:
            raise LookupError(message_id)
        owner = Owner(row)
        rec = placed.rec
        placed.id = message_id
        if owner.source_file_id == placed.file.id:
            if owner.byte_start == rec.start and owner.byte_length == rec.length:
                return "stored"
            if owner.byte_length < 0:
                self._relocate(owner, placed)
                return "stored"
        if self._precedes(placed, owner):
            self._to_copy(owner)
            self._take_over(owner, placed)
            return "stored"
        self.conn.execute(
            "INSERT INTO message_copies (message_id, uuid, session_id, source_file_id, byte_start,"
            " byte_length, timestamp, type, version, owner_flags, line_hash)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                message_id,
                rec.uuid,
                placed.session_id,
                placed.file.id,
                rec.start,
                rec.length,
                rec.timestamp,
                rec.line_type,
                rec.version,
                owner_flags(rec, placed.session_id, placed.file),
                rec.line_hash,
            ),
        )
        self._rename_parent(rec.uuid, owner.uuid)
        self._share(owner.session_id, placed.session_id)
        return "copy"

    def _rename_parent(self, uuid: str | None, owner_uuid: str | None) -> None:
        """What hangs on a copy under another uuid hangs on the owner."""
        if uuid is not None and uuid != owner_uuid:
            self.conn.execute(
                "UPDATE messages SET parent_uuid = ? WHERE parent_uuid = ?", (owner_uuid, uuid)
            )

    def _share(self, one: str | None, other: str | None) -> None:
        for session_id in (one, other):
            if session_id is not None:
                self.touched.sessions.add(session_id)
        if one != other:
            self.touched.shared.update(s for s in (one, other) if s is not None)

    def _relocate(self, owner: Owner, placed: Placed) -> None:
        """The same line at another place of a rewritten file."""
        rec = placed.rec
        same = (
            rec.length == -owner.byte_length
            and rec.timestamp == owner.timestamp
            and rec.uuid == owner.uuid
            and rec.block_keys == owner.block_keys
        )
        self.touched.retell.add(placed.file.id)
        if same and rec.type not in {"attachment", "system"}:
            self.conn.execute(
                "UPDATE messages SET byte_start = ?, byte_length = ? WHERE id = ?",
                (rec.start, rec.length, owner.id),
            )
            return
        self._take_over(owner, placed)

    def _precedes(self, placed: Placed, owner: Owner) -> bool:
        flags = owner_flags(placed.rec, placed.session_id, placed.file)
        rank = owner_rank(flags, placed.rec.timestamp)
        other = owner_rank(owner.owner_flags, owner.timestamp)
        if rank != other:
            return rank < other
        if placed.session_id != owner.session_id:
            return self._session_rank(placed.session_id) < self._session_rank(owner.session_id)
        if placed.file.id == owner.source_file_id:
            return bool(placed.rec.start < owner.byte_start)
        return self._path(placed.file.id) < self._path(owner.source_file_id)

    def _session_rank(self, session_id: str | None) -> tuple[bool, str, str]:
        """The session with the earlier unshared entry comes first, one with none before all."""
        row = self.conn.execute(
            "SELECT first_unshared_at FROM sessions WHERE id = ?", (session_id,)
        ).fetchone()
        first = row[0] if row else None
        return first is not None, first or "", session_id or ""

    def _path(self, file_id: int) -> str:
        row = self.conn.execute("SELECT path FROM source_files WHERE id = ?", (file_id,)).fetchone()
        return str(row[0]) if row else ""

    def _to_copy(self, owner: Owner) -> None:
        """The owner's line becomes one of the other places."""
        if owner.byte_length < 0:
            return  # its line is gone
        self.conn.execute(
            "INSERT INTO message_copies (message_id, uuid, session_id, source_file_id, byte_start,"
            " byte_length, timestamp, type, version, owner_flags, line_hash)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                owner.id,
                owner.uuid,
                owner.session_id,
                owner.source_file_id,
                owner.byte_start,
                owner.byte_length,
                owner.timestamp,
                owner.line_type,
                owner.version or "",
                owner.owner_flags,
                owner.line_hash,
            ),
        )
        shift_count(
            self.conn, owner.source_file_id, owner.line_type, owner.version or "", "stored", "copy"
        )

    def _take_over(self, owner: Owner, placed: Placed) -> None:
        placed.id = owner.id
        self.touched.retell.update((owner.source_file_id, placed.file.id))
        self._share(owner.session_id, placed.session_id)
        if placed.session_id is not None:
            self.recount.add((placed.session_id, placed.file.id))
        if owner.session_id is not None:
            self.recount.add((owner.session_id, owner.source_file_id))
        self.replace(placed)
        self._rename_parent(owner.uuid, placed.rec.uuid)
        if owner.session_id != placed.session_id:
            self._fold_replays(placed)

    def _fold_replays(self, placed: Placed) -> None:
        """An entry has come to another session: lines replayed there may now turn out to be it."""
        rec = placed.rec
        if not rec.block_keys or rec.timestamp is None:
            return
        blocks = frozenset(rec.block_keys.split(" "))
        for other_id, keys in self.conn.execute(
            "SELECT id, block_keys FROM messages WHERE timestamp = ? AND session_id IS ?"
            " AND agent_id IS ? AND type = ? AND id <> ? AND block_keys IS NOT NULL",
            (rec.timestamp, placed.session_id, placed.agent_id, rec.type, placed.id),
        ).fetchall():
            other = frozenset(keys.split(" "))
            if other <= blocks:
                self.merge(placed.id, other_id)
            elif blocks < other:
                self.merge(other_id, placed.id)
                return

    def settle(self) -> None:
        """Decide ties between sessions that share entries, now that the batch is in."""
        for session_id, file_id in self.recount:
            recount_file(self.conn, session_id, file_id)
        self.recount.clear()
        for _ in range(3):  # a change of owner can change who is first once more
            sessions = sorted(self.touched.shared)
            if not sessions:
                return
            self.touched.shared.clear()
            self._mark_sharing(sessions)
            self._settle_ties(sessions)
            self.touched.retell.update(
                file_id
                for (file_id,) in self.conn.execute(
                    "SELECT s.source_file_id FROM json_each(?) j CROSS JOIN _session_files s"
                    " ON s.session_id = j.value JOIN source_files f ON f.id = s.source_file_id"
                    " WHERE f.agent_id IS NULL",
                    (orjson.dumps(sessions).decode(),),
                )
            )
            self.touched.retell.update(forked_queues(self.conn, sessions))
            for session_id, file_id in self.recount:
                recount_file(self.conn, session_id, file_id)
            self.recount.clear()
        self.touched.shared.clear()

    def _mark_sharing(self, sessions: list[str]) -> None:
        for session_id in sessions:
            self.conn.execute(
                "INSERT INTO sessions (id, shares_entries) VALUES (?1, 1) ON CONFLICT (id)"
                " DO UPDATE SET shares_entries = 1",
                (session_id,),
            )
            self.conn.execute(
                "UPDATE sessions SET first_unshared_at = (SELECT min(m.timestamp) FROM messages m"
                "  WHERE m.session_id = sessions.id AND NOT EXISTS (SELECT 1 FROM message_copies c"
                "   WHERE c.message_id = m.id AND c.session_id IS NOT m.session_id))"
                " WHERE id = ?",
                (session_id,),
            )

    def _settle_ties(self, sessions: list[str]) -> None:
        ties = self.conn.execute(
            "SELECT m.id, c.id, m.session_id, c.session_id, c.source_file_id, c.byte_start,"
            "  c.byte_length FROM message_copies c JOIN messages m ON m.id = c.message_id"
            " WHERE c.owner_flags = m.owner_flags AND c.timestamp IS m.timestamp"
            "  AND c.session_id IS NOT m.session_id"
            "  AND (c.session_id IN (SELECT value FROM json_each(?1))"
            "   OR m.session_id IN (SELECT value FROM json_each(?1)))",
            (orjson.dumps(sessions).decode(),),
        ).fetchall()
        ranks: dict[str | None, tuple[bool, str, str]] = {}
        best: dict[int, tuple[tuple[bool, str, str], tuple[Any, ...]]] = {}
        for tie in ties:
            for session_id in tie[2:4]:
                if session_id not in ranks:
                    ranks[session_id] = self._session_rank(session_id)
            rank = ranks[tie[3]]
            current = best.get(tie[0])
            if rank < (current[0] if current else ranks[tie[2]]):
                best[tie[0]] = (rank, tie)
        for message_id, (_, tie) in best.items():
            placed = self.reread(tie[4], tie[5], tie[6])
            if placed is None:
                continue  # its file is gone: the owner stays as it is
            owner = Owner(self.conn.execute(_OWNER, (message_id,)).fetchone())
            self.conn.execute("DELETE FROM message_copies WHERE id = ?", (tie[1],))
            shift_count(
                self.conn, tie[4], placed.rec.line_type, placed.rec.version, "copy", "stored"
            )
            self._to_copy(owner)
            self._take_over(owner, placed)

    def merge(self, keep: int, drop: int) -> None:
        """Two rows turn out to be one entry: the second becomes a place of the first."""
        if keep == drop:
            return
        owner = Owner(self.conn.execute(_OWNER, (drop,)).fetchone())
        self._to_copy(owner)
        self.conn.execute(
            "UPDATE message_copies SET message_id = ? WHERE message_id = ?", (keep, drop)
        )
        self.conn.execute("UPDATE _aliases SET message_id = ? WHERE message_id = ?", (keep, drop))
        for column in ("message_id", "result_message_id"):
            self.touched.pairs.update(
                (owner.session_id, tool_use_id)
                for (tool_use_id,) in self.conn.execute(
                    f"SELECT tool_use_id FROM tool_uses WHERE {column} = ?", (drop,)
                )
                if not is_unique_id(tool_use_id)
            )
            self.conn.execute(f"UPDATE tool_uses SET {column} = ? WHERE {column} = ?", (keep, drop))
        self.touched.requests.update(
            key
            for (key,) in self.conn.execute(
                "SELECT request_key FROM _usage_lines WHERE message_id = ?", (drop,)
            )
        )
        for table in ("_usage_lines", "_agent_facts", "turns", "files_touched"):
            self.conn.execute(f"DELETE FROM {table} WHERE message_id = ?", (drop,))
        self.conn.execute("DELETE FROM messages WHERE id = ?", (drop,))
        kept = self.conn.execute("SELECT uuid FROM messages WHERE id = ?", (keep,)).fetchone()
        self._rename_parent(owner.uuid, kept[0])
        self.touched.retell.add(owner.source_file_id)
        self._share(owner.session_id, owner.session_id)
