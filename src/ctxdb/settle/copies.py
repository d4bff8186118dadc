"""One row per entry, however many lines repeat it.

Resumed, forked and replayed history repeats old entries. The line that owns an entry fills its row
in messages; every other place is a row in message_copies. Which line owns follows from the lines
alone, never from the order they were read in: a line that may be a better owner is first put down
as one more place, and at the end of the batch each contested entry elects the best of its places.
That line is read (again) and the row is filled from it, with all that hangs on it.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import orjson

from ctxdb.settle import agents, requests
from ctxdb.settle.calls import is_unique_id
from ctxdb.settle.line_counts import Line, shift_count
from ctxdb.settle.repeated_calls import merge_tellings
from ctxdb.settle.replays import StoredReplays
from ctxdb.settle.sessions import recount_file
from ctxdb.settle.turns import forked_queues
from ctxdb.store.chunk import WRAPPED, Placed, Touched, is_uuid, owner_flags, owner_rank

if TYPE_CHECKING:
    from collections.abc import Callable

# Columns that messages and message_copies share: what is known of a line that holds an entry.
_PLACE = (
    "uuid, session_id, source_file_id, byte_start, byte_length, timestamp, version, owner_flags,"
    " block_keys, line_hash"
)
_OWNER = f"SELECT id, type, {_PLACE} FROM messages WHERE id = ?"
_COPIES = f"SELECT id, type, {_PLACE} FROM message_copies WHERE message_id = ?"
_TIED = (
    "c.owner_flags = m.owner_flags AND c.timestamp IS m.timestamp"
    " AND c.session_id IS NOT m.session_id"
)
_ADD_COPY = (
    f"INSERT INTO message_copies (message_id, type, {_PLACE})"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

SessionRank = tuple[bool, str, str]


class Place:
    """A line that holds an entry: the owner's, from messages, or a copy's."""

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
            self.type,
            self.uuid,
            self.session_id,
            self.source_file_id,
            self.byte_start,
            self.byte_length,
            self.timestamp,
            self.version,
            self.owner_flags,
            self.block_keys,
            self.line_hash,
        ) = row

    @property
    def line_type(self) -> str:
        """The type its line is counted under: a wrapped entry stands on a progress line."""
        return "progress" if self.owner_flags & WRAPPED else self.type

    @property
    def line(self) -> Line:
        """What its line is counted by."""
        return self.source_file_id, self.byte_start, self.line_type, self.version or ""

    def as_copy(self, message_id: int) -> tuple[Any, ...]:
        """The row of message_copies for it."""
        return (
            message_id,
            self.line_type,
            self.uuid,
            self.session_id,
            self.source_file_id,
            self.byte_start,
            self.byte_length,
            self.timestamp,
            self.version or "",
            self.owner_flags,
            self.block_keys,
            self.line_hash,
        )


def place_of(placed: Placed) -> Place:
    """The place of a line that is at hand."""
    rec = placed.rec
    return Place(
        (
            0,
            rec.type,
            rec.uuid,
            placed.session_id,
            placed.file.id,
            rec.start,
            rec.length,
            rec.timestamp,
            rec.version,
            owner_flags(rec, placed.session_id, placed.file),
            rec.block_keys,
            rec.line_hash,
        )
    )


def _rank(place: Place) -> tuple[Any, ...]:
    """What of the order of owners the line itself decides; a line with more blocks says more."""
    blocks = place.block_keys.count(" ") if place.block_keys else 0
    return (*owner_rank(place.owner_flags, place.timestamp), -blocks)


class Copies:
    """Settles repeated entries."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        touched: Touched,
        replace: Callable[[Placed], None],
        leave: Callable[[int], None],
        reread: Callable[[int, int, int], Placed | None],
    ) -> None:
        self.conn = conn
        self.touched = touched
        self.replace = replace  # fills a row of messages, and all that hangs on it, from a line
        self.leave = leave  # notes what a row belonged to, before it goes
        self.reread = reread  # reads a line again: (source_file_id, byte_start, byte_length)
        self.recount: set[tuple[str, int]] = set()
        self.contested: set[int] = set()
        self.dropped: set[int] = set()  # rows that were merged with others
        self.at_hand: dict[tuple[int, int], Placed] = {}  # lines of this batch, by place
        self.ranks: dict[str | None, SessionRank] = {}
        self.paths: dict[int, tuple[bool, str]] = {}

    def _owner(self, message_id: int) -> Place:
        row = self.conn.execute(_OWNER, (message_id,)).fetchone()
        if row is None:
            raise LookupError(message_id)
        return Place(row)

    def absorb(self, placed: Placed, message_id: int, replays: StoredReplays) -> str:
        """Take in a line that repeats a stored entry, and say what to count it as."""
        owner = self._owner(message_id)
        rec = placed.rec
        placed.id = message_id
        if owner.source_file_id == placed.file.id:
            if owner.byte_start == rec.start and owner.byte_length == rec.length:
                return "stored"
            if owner.byte_length < 0:
                # Its line in a rewritten file: at another place, and it may say something else.
                self._take_over(owner, placed)
                if (owner.uuid, owner.block_keys) != (rec.uuid, rec.block_keys):
                    replays.forget()
                return "stored"
        place = place_of(placed)
        self.conn.execute(_ADD_COPY, place.as_copy(message_id))
        replays.add((placed.session_id, rec.timestamp), rec.block_keys, message_id)
        self._rename_parent(place, owner.uuid)
        self._share(owner.session_id, placed.session_id)
        if rec.usage and owner.session_id != placed.session_id:
            requests.touch(self.conn, message_id, self.touched)
        if owner.session_id == placed.session_id and owner.source_file_id != placed.file.id:
            # Lines that follow it here may belong to the turn that it begins there.
            self.touched.retell.add(placed.file.id)
        if rec.nested and rec.facts:
            started = [fact for fact in rec.facts if fact.source == "progress"]
            agents.add_facts(self.conn, owner.session_id, started, message_id, self.touched)
        if owner.byte_length < 0 or _rank(place) <= _rank(owner):
            self.contested.add(message_id)
            self.at_hand[placed.file.id, rec.start] = placed
        return "copy"

    def _rename_parent(self, place: Place, owner_uuid: str | None) -> None:
        """What hangs on a copy under another uuid hangs on the owner."""
        if place.uuid is not None and place.uuid != owner_uuid:
            self.conn.execute(
                "UPDATE messages SET parent_uuid = ? WHERE parent_uuid = ?"
                " AND (? OR session_id IS ?)",
                (owner_uuid, place.uuid, is_uuid(place.uuid), place.session_id),
            )

    def _share(self, one: str | None, other: str | None) -> None:
        for session_id in (one, other):
            if session_id is not None:
                self.touched.sessions.add(session_id)
        if one != other:
            self.touched.shared.update(s for s in (one, other) if s is not None)

    def _session_rank(self, session_id: str | None) -> SessionRank:
        """The session whose first unshared entry is earlier comes first, one with none before."""
        if session_id not in self.ranks:
            row = self.conn.execute(
                "SELECT first_unshared_at FROM sessions WHERE id = ?", (session_id,)
            ).fetchone()
            first = row[0] if row else None
            self.ranks[session_id] = (first is not None, first or "", session_id or "")
        return self.ranks[session_id]

    def _path(self, file_id: int) -> tuple[bool, str]:
        if file_id not in self.paths:
            row = self.conn.execute(
                "SELECT agent_id IS NOT NULL, path FROM source_files WHERE id = ?", (file_id,)
            ).fetchone()
            self.paths[file_id] = row or (True, "")
        return self.paths[file_id]

    def _order(self, place: Place) -> tuple[Any, ...]:
        """Sort key of the places of an entry: the first one owns it."""
        return (
            place.byte_length < 0,  # a line that is gone can only keep what nobody else has
            *_rank(place),
            *self._session_rank(place.session_id),
            *self._path(place.source_file_id),
            place.byte_start,
        )

    def _to_copy(self, owner: Place, message_id: int) -> None:
        """The owner's line becomes one of the other places."""
        if owner.byte_length < 0:
            return  # its line is gone
        self.conn.execute(_ADD_COPY, owner.as_copy(message_id))
        shift_count(self.conn, owner.line, "stored", "copy")

    def _take_over(self, owner: Place, placed: Placed) -> None:
        placed.id = owner.id
        if placed.rec.uuid is None and placed.nth is None:  # read again: it is the same entry
            (placed.nth,) = self.conn.execute(
                "SELECT nth FROM messages WHERE id = ?", (owner.id,)
            ).fetchone()
        self.touched.retell.update((owner.source_file_id, placed.file.id))
        self._share(owner.session_id, placed.session_id)
        # Sessions with copies of it name the owner's session as their parent.
        self.touched.sessions.update(
            session_id
            for (session_id,) in self.conn.execute(
                "SELECT session_id FROM message_copies WHERE message_id = ?"
                " AND session_id IS NOT NULL",
                (owner.id,),
            )
        )
        if placed.session_id is not None:
            self.recount.add((placed.session_id, placed.file.id))
        if owner.session_id is not None:
            self.recount.add((owner.session_id, owner.source_file_id))
        self.replace(placed)
        self._rename_parent(owner, placed.rec.uuid)

    def settle(self) -> None:
        """Elect the owners of contested entries, now that the batch is in."""
        # Who is first among sessions follows from where entries stand, not from who owns them: it
        # can be found out once, before the elections.
        sessions = sorted(self.touched.shared)
        self.touched.shared.clear()
        if sessions:
            self._mark_sharing(sessions)
            self._contest_ties(sessions)
        for message_id in sorted(self.contested):
            self._elect(message_id)
        for session_id, file_id in self.recount:
            recount_file(self.conn, session_id, file_id)
        self.recount.clear()
        sessions = sorted(self.touched.shared.union(sessions))
        self.touched.shared.clear()
        if sessions:
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
        self.ranks.clear()

    def _contest_ties(self, sessions: list[str]) -> None:
        """Entries whose owner only the rank of these sessions decides."""
        self.contested.update(
            message_id
            for (message_id,) in self.conn.execute(
                "SELECT m.id FROM json_each(?1) j CROSS JOIN message_copies c"
                f" ON c.session_id = j.value JOIN messages m ON m.id = c.message_id WHERE {_TIED}"
                " UNION SELECT m.id FROM json_each(?1) j CROSS JOIN messages m"
                " ON m.session_id = j.value JOIN message_copies c ON c.message_id = m.id"
                f" WHERE {_TIED}",
                (orjson.dumps(sessions).decode(),),
            )
        )

    def _elect(self, message_id: int) -> None:
        row = self.conn.execute(_OWNER, (message_id,)).fetchone()
        if row is None:
            return  # merged with another since
        owner = Place(row)
        copies = [Place(row) for row in self.conn.execute(_COPIES, (message_id,))]
        for place in sorted(copies, key=self._order):
            if self._order(place) > self._order(owner):
                return
            placed = self._read(place)
            if placed is None:
                continue  # its file is gone, or has just been rewritten
            self.conn.execute("DELETE FROM message_copies WHERE id = ?", (place.id,))
            shift_count(self.conn, place.line, "copy", "stored")
            self._to_copy(owner, message_id)
            self._take_over(owner, placed)
            return

    def _read(self, place: Place) -> Placed | None:
        at = (place.source_file_id, place.byte_start)
        placed = self.at_hand.get(at) or self.reread(*at, place.byte_length)
        if placed is None or (placed.rec.uuid, placed.rec.timestamp) != (
            place.uuid,
            place.timestamp,
        ):
            return None
        return placed

    def merge(self, keep: int, drop: int, replays: StoredReplays) -> None:
        """Two rows turn out to be one entry: the second becomes a place of the first."""
        if keep == drop:
            return
        owner, kept = self._owner(drop), self._owner(keep)
        self._to_copy(owner, drop)
        replays.merge(keep, drop)
        if owner.byte_length < 0:
            replays.forget()
        self.conn.execute(
            "UPDATE message_copies SET message_id = ? WHERE message_id = ?", (keep, drop)
        )
        self.conn.execute("UPDATE _aliases SET message_id = ? WHERE message_id = ?", (keep, drop))
        merge_tellings(self.conn, keep, drop, self.touched)
        for column in ("message_id", "result_message_id"):
            self.touched.pairs.update(
                (session_id, tool_use_id)
                for (tool_use_id,) in self.conn.execute(
                    f"SELECT tool_use_id FROM tool_uses WHERE {column} = ?", (drop,)
                )
                for session_id in (owner.session_id, kept.session_id)
                if not is_unique_id(tool_use_id)
            )
            self.conn.execute(f"UPDATE tool_uses SET {column} = ? WHERE {column} = ?", (keep, drop))
        requests.drop_lines(self.conn, drop, self.touched)
        agents.drop_facts(self.conn, drop, self.touched, (kept.session_id, keep))
        self.touched.turns.update(
            turn_id
            for (turn_id,) in self.conn.execute(
                "SELECT turn_id FROM messages WHERE id = ?", (drop,)
            )
            if turn_id is not None
        )
        for table in ("turns", "files_touched", "_orphans"):
            self.conn.execute(f"DELETE FROM {table} WHERE message_id = ?", (drop,))
        self.conn.execute("DELETE FROM messages WHERE id = ?", (drop,))
        self.dropped.add(drop)
        self._rename_parent(owner, kept.uuid)
        self.touched.retell.add(owner.source_file_id)
        self._share(owner.session_id, kept.session_id)
        if owner.session_id is not None:
            self.recount.add((owner.session_id, owner.source_file_id))
        self.contested.add(keep)
