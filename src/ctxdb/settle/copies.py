"""One row per entry, however many lines repeat it.

Resumed, forked and replayed history repeats old entries. The line that owns an entry fills its row
in messages; every other place is a row in message_copies. Which line owns follows from the lines
alone (rules/owners.py), never from the order they were read in: a line that may be a better owner
is first stored as one more place, and at the end of the batch each contested entry elects the best
of its places. That line is read (again) and the row is filled from it, with all that depends on it.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from ctxdb.claude.names import PROGRESS, is_unique_id
from ctxdb.columns import insert_sql, values_of
from ctxdb.rows import Message, MessageCopy
from ctxdb.rules.owners import WRAPPED, is_uuid, line_rank
from ctxdb.settle import agent_facts, repeated_calls, requests
from ctxdb.settle.line_counts import CountedLine, shift_count
from ctxdb.settle.owner_order import OwnerRanks, Place
from ctxdb.settle.session_files import recount_file
from ctxdb.settle.turns import forked_queues
from ctxdb.store.insert import insert_beside, load
from ctxdb.store.lookup import first_column, json_list, look_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctxdb.settle.stored_replays import StoredReplays
    from ctxdb.settle.touched import Touched

_TIED = (
    "cl.owner_flags = ml.owner_flags AND cl.timestamp IS m.timestamp"
    " AND c.session_id IS NOT m.session_id"
)
_COPY_AND_OWNER = (
    " JOIN _copy_lines cl ON cl.copy_id = c.id JOIN _message_lines ml ON ml.message_id = m.id"
)

_PLACES = "SELECT session_id, source_file_id FROM message_copies WHERE message_id = ?"
_FILES = "SELECT s.source_file_id FROM j CROSS JOIN _session_files s ON s.session_id = j.value"
_CHILDREN = (
    "SELECT m.id, m.parent_uuid, m.session_id FROM j CROSS JOIN messages m"
    " ON m.source_file_id = j.value WHERE m.parent_uuid IN (SELECT value FROM json_each(?))"
)

Places = frozenset[tuple[str | None, int | None]]  # sessions and files


def line_of(place: Place) -> CountedLine:
    """What the line of a place is counted by: a wrapped entry is on a progress line."""
    line_type = PROGRESS if place.owner_flags & WRAPPED else place.type or ""
    return CountedLine(place.source_file_id, place.byte_start, line_type, place.version or "")


def copy_of(place: Message, message_id: int) -> MessageCopy:
    """The row of message_copies for a place that does not own its entry."""
    line = line_of(place)
    return MessageCopy(
        message_id=message_id,
        uuid=place.uuid,
        session_id=place.session_id,
        source_file_id=place.source_file_id,
        byte_start=place.byte_start,
        byte_length=place.byte_length,
        type=line.line_type,
        timestamp=place.timestamp,
        version=line.version,
        owner_flags=place.owner_flags,
        block_keys=place.block_keys,
        line_hash=place.line_hash,
    )


class Copies:
    """Settles repeated entries."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        touched: Touched,
        replace: Callable[[Message], None],
        reread: Callable[[int, int, int], Message | None],
    ) -> None:
        self.conn = conn
        self.touched = touched
        self.replace = replace  # fills a row of messages, and all that depends on it, from a line
        self.reread = reread  # reads a line again: (source_file_id, byte_start, byte_length)
        self.recount: set[tuple[str, int]] = set()
        self.contested: set[int] = set()
        self.merged: dict[int, int] = {}  # rows that were merged with others, and with which
        self.mixed: set[int] = set()  # rows that may have calls which their owner's line has not
        self.renamed: list[tuple[str, str | None, int]] = []  # uuid, session, message
        self.at_hand: dict[tuple[int, int], Message] = {}  # lines of this batch, by place
        self.ranks = OwnerRanks(conn)

    def _owner(self, message_id: int) -> Message | None:
        return next(load(self.conn, Message, "WHERE t.id = ?", (message_id,)), None)

    def _add_copy(self, copy: MessageCopy) -> None:
        copy.id = self.conn.execute(insert_sql(MessageCopy), values_of(MessageCopy)(copy)).lastrowid
        insert_beside(self.conn, MessageCopy, [copy])

    def _drop_copy(self, copy_id: int | None) -> None:
        self.conn.execute("DELETE FROM message_copies WHERE id = ?", (copy_id,))

    def absorb(self, message: Message, message_id: int, replays: StoredReplays) -> str:
        """Take in a line that repeats a stored entry, and say what to count it as."""
        owner = self._owner(message_id)
        if owner is None:
            raise LookupError(message_id)
        message.id = message_id
        if owner.source_file_id == message.source_file_id:
            if (owner.byte_start, owner.byte_length) == (message.byte_start, message.byte_length):
                return "stored"
            if owner.byte_length < 0:
                # Its line in a rewritten file: at another place, and it may say something else.
                self._take_over(owner, message)
                if (owner.uuid, owner.block_keys) != (message.uuid, message.block_keys):
                    replays.forget()
                return "stored"
        self._add_copy(copy_of(message, message_id))
        replays.add((message.session_id, message.timestamp), message.block_keys, message_id)
        self._share(owner.session_id, message.session_id)
        is_other_session = owner.session_id != message.session_id
        if message.usage and is_other_session:
            requests.touch(self.conn, message_id, self.touched)
        if not is_other_session and owner.source_file_id != message.source_file_id:
            # Lines that follow it here may belong to the turn that it begins there.
            self.touched.turns_of_files.add(message.source_file_id)
        if message.is_wrapped and message.facts:
            started = [fact for fact in message.facts if fact.source == "progress"]
            agent_facts.add_facts(self.conn, owner.session_id, started, message_id, self.touched)
        if owner.byte_length < 0 or line_rank(message) <= line_rank(owner):
            self.contested.add(message_id)
            self.at_hand[message.source_file_id, message.byte_start] = message
        return "copy"

    def _rename(self, old: Message, message_id: int) -> None:
        """Children of an entry that is known by another uuid from now on must name that one."""
        if old.uuid is not None:
            self.renamed.append((old.uuid, old.session_id, message_id))

    def rename_parents(self) -> None:
        """Let children name the owners of their parents.

        They are in files with a place of the parent, or in others of the same sessions: the first
        line of an agent's file may hang on one in the main file.
        """
        by_places: dict[Places, dict[str, tuple[str | None, str | None]]] = {}
        for old, session_id, renamed in self.renamed:
            message_id = self._kept(renamed)
            owner = self._owner(message_id)
            if owner is None or owner.uuid == old:
                continue
            at: set[tuple[str | None, int | None]] = {(owner.session_id, owner.source_file_id)}
            at.add((session_id, None))
            at.update(self.conn.execute(_PLACES, (message_id,)))
            renames = by_places.setdefault(frozenset(at), {})
            renames[old] = (owner.uuid, session_id)
        self.renamed.clear()
        for places, renames in by_places.items():
            self._rename_in(places, renames)

    def _rename_in(self, places: Places, renames: dict[str, tuple[str | None, str | None]]) -> None:
        sessions = {session_id for session_id, _ in places if session_id is not None}
        files = {file_id for _, file_id in places if file_id is not None}
        files.update(first_column(look_up(self.conn, sessions, _FILES)))
        for message_id, parent, session_id in list(
            look_up(self.conn, files, _CHILDREN, (json_list(renames),))
        ):
            new, of_session = renames[parent]
            if is_uuid(parent) or session_id == of_session:
                self.touched.changed.add(session_id)
                self.conn.execute(
                    "UPDATE messages SET parent_uuid = ? WHERE id = ?", (new, message_id)
                )

    def _kept(self, message_id: int) -> int:
        while message_id in self.merged:
            message_id = self.merged[message_id]
        return message_id

    def _share(self, one: str | None, other: str | None) -> None:
        sessions = {session_id for session_id in (one, other) if session_id is not None}
        self.touched.sessions |= sessions
        if one != other:
            self.touched.shared |= sessions

    def _to_copy(self, owner: Message, message_id: int) -> None:
        """The owner's line becomes one of the other places."""
        if owner.byte_length < 0:
            return  # its line is gone
        self._add_copy(copy_of(owner, message_id))
        shift_count(self.conn, line_of(owner), "stored", "copy")

    def _take_over(self, owner: Message, message: Message) -> None:
        message.id = owner.id
        if message.uuid is None and message.nth is None:  # read again: it is the same entry
            message.nth = owner.nth
        self.touched.turns_of_files.update((owner.source_file_id, message.source_file_id))
        self._share(owner.session_id, message.session_id)
        # Sessions with copies of it name the owner's session as their parent.
        self.touched.sessions.update(
            session_id
            for (session_id,) in self.conn.execute(
                "SELECT session_id FROM message_copies WHERE message_id = ?"
                " AND session_id IS NOT NULL",
                (owner.id,),
            )
        )
        for place in (message, owner):
            if place.session_id is not None:
                self.recount.add((place.session_id, place.source_file_id))
        if message.block_keys != owner.block_keys:
            self.mixed.add(owner.id)
        self.replace(message)
        self._rename(owner, owner.id)

    def settle(self) -> None:
        """Elect the owners of contested entries, now that the batch is stored."""
        # Which session is first follows from where entries are, not from which line owns them: it
        # can be found out once, before the elections.
        sessions = sorted(self.touched.shared)
        self.touched.shared.clear()
        if sessions:
            self.ranks.mark_sharing(sessions)
            self._contest_ties(sessions)
        for message_id in sorted(self.contested):
            self._elect(message_id)
        for session_id, file_id in self.recount:
            recount_file(self.conn, session_id, file_id)
        self.recount.clear()
        sessions = sorted(self.touched.shared.union(sessions))
        self.touched.shared.clear()
        if sessions:
            self.touched.turns_of_files.update(
                file_id
                for (file_id,) in look_up(
                    self.conn,
                    sessions,
                    "SELECT s.source_file_id FROM j CROSS JOIN _session_files s"
                    " ON s.session_id = j.value JOIN source_files f ON f.id = s.source_file_id"
                    " WHERE f.agent_id IS NULL",
                )
            )
            self.touched.turns_of_files.update(forked_queues(self.conn, sessions))

    def _contest_ties(self, sessions: list[str]) -> None:
        """Entries whose owner only the rank of these sessions decides."""
        self.contested.update(
            message_id
            for (message_id,) in look_up(
                self.conn,
                sessions,
                "SELECT m.id FROM j CROSS JOIN message_copies c ON c.session_id = j.value"
                f" JOIN messages m ON m.id = c.message_id{_COPY_AND_OWNER} WHERE {_TIED}"
                " UNION SELECT m.id FROM j CROSS JOIN messages m ON m.session_id = j.value"
                f" JOIN message_copies c ON c.message_id = m.id{_COPY_AND_OWNER} WHERE {_TIED}",
            )
        )

    def _elect(self, message_id: int) -> None:
        owner = self._owner(message_id)
        if owner is None:
            return  # merged with another since
        copies = load(self.conn, MessageCopy, "WHERE t.message_id = ?", (message_id,))
        for place in sorted(copies, key=self.ranks.order):
            if self.ranks.order(place) > self.ranks.order(owner):
                return
            message = self._read(place)
            if message is None:
                continue  # its file is gone, or has just been rewritten
            self._drop_copy(place.id)
            shift_count(self.conn, line_of(place), "copy", "stored")
            self._to_copy(owner, message_id)
            self._take_over(owner, message)
            return

    def _read(self, place: MessageCopy) -> Message | None:
        at = (place.source_file_id, place.byte_start)
        message = self.at_hand.get(at) or self.reread(*at, place.byte_length)
        if message is None or (message.uuid, message.timestamp) != (place.uuid, place.timestamp):
            return None
        return message

    def merge(self, keep: int, drop: int, replays: StoredReplays) -> None:
        """Two rows turn out to be one entry: the second becomes a place of the first."""
        if keep == drop:
            return
        owner, kept = self._owner(drop), self._owner(keep)
        if owner is None or kept is None:
            raise LookupError(drop if owner is None else keep)
        self._to_copy(owner, drop)
        replays.merge(keep, drop)
        if owner.byte_length < 0:
            replays.forget()
        for table in ("message_copies", "_aliases"):
            self.conn.execute(
                f"UPDATE {table} SET message_id = ? WHERE message_id = ?", (keep, drop)
            )
        repeated_calls.merge(self.conn, keep, drop, self.touched)
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
        successor = agent_facts.Successor(kept.session_id, keep)
        agent_facts.drop_facts(self.conn, drop, self.touched, successor)
        if owner.turn_id is not None:
            self.touched.turns.add(owner.turn_id)
        if owner.session_id is not None and owner.agent_id is not None:
            self.touched.agents.add((owner.session_id, owner.agent_id))
        for table in ("turns", "files_touched", "_orphans", "_message_lines"):
            self.conn.execute(f"DELETE FROM {table} WHERE message_id = ?", (drop,))
        self.conn.execute("DELETE FROM messages WHERE id = ?", (drop,))
        self.merged[drop] = keep
        if drop in self.mixed or owner.block_keys != kept.block_keys:
            self.mixed.add(keep)
        self.mixed.discard(drop)
        self._rename(owner, keep)
        self.touched.turns_of_files.add(owner.source_file_id)
        self._share(owner.session_id, kept.session_id)
        if owner.session_id is not None:
            self.recount.add((owner.session_id, owner.source_file_id))
        self.contested.add(keep)
