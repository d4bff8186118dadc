"""One batch of chunks into the open transaction.

New entries take a few look-ups for the whole batch, then one executemany per table. Entries that
repeat stored ones are settled afterwards, one at a time (settle/copies.py). At the end everything
is derived again that the batch has touched: turns, calls, agents, requests, sessions. The last
statement moves each file's offset, and only from where the batch began: if another process has
moved it, the whole batch is rolled back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable

from ctxdb.claude.names import is_unique_id
from ctxdb.rows import Message, SessionFile, SourceFile
from ctxdb.rules.chunk import Chunk
from ctxdb.settle import agent_facts, agents, requests, session_files, sessions, snapshots, turns
from ctxdb.settle.beside import refresh_beside
from ctxdb.settle.caveats import settle_caveats
from ctxdb.settle.copies import Copies
from ctxdb.settle.events import StoredEvents
from ctxdb.settle.left_calls import drop_left
from ctxdb.settle.line_counts import count_chunks, count_one
from ctxdb.settle.messages import StoredMessages
from ctxdb.settle.parents import Parents
from ctxdb.settle.pull_requests import refresh_pull_requests
from ctxdb.settle.repeated_call_ids import pair_again
from ctxdb.settle.repeated_calls import choose_first
from ctxdb.settle.repeats import Repeats
from ctxdb.settle.session_titles import named_by_agents
from ctxdb.settle.sidechains import name_again
from ctxdb.settle.stored_uuids import StoredUuids
from ctxdb.settle.touched import Touched
from ctxdb.settle.turn_starts import TurnStarts
from ctxdb.settle.turn_times import settle_times
from ctxdb.store import source_files
from ctxdb.store.changes import stamp
from ctxdb.store.lookup import first_column, look_up
from ctxdb.store.masked_places import add_places_of
from ctxdb.store.tombstones import Tombstones

_OF_TURNS = "SELECT DISTINCT t.session_id FROM j CROSS JOIN turns t ON t.id = j.value"
_OF_MESSAGES = "SELECT DISTINCT m.session_id FROM j CROSS JOIN messages m ON m.id = j.value"
_OF_FILES = (
    "SELECT DISTINCT f.session_id FROM j CROSS JOIN _session_files f ON f.source_file_id = j.value"
)

Reread = Callable[[sqlite3.Connection, int, int, int], Message | None]


class Batch:
    """The work of one batch; the caller commits."""

    def __init__(
        self, conn: sqlite3.Connection, now: str, reread: Reread, uuids: StoredUuids | None = None
    ) -> None:
        self.conn = conn
        self.uuids = uuids or StoredUuids(conn)
        self.now = now
        self.touched = Touched()
        self.adopting: set[str] = set()  # sessions of lines that did not name them
        self.named: set[str] = set()  # uuids of its lines, and those that its summaries name
        # Ids are counted on from what is stored, so this is part of the transaction.
        self.messages = StoredMessages(conn, self.touched)
        self.starts = TurnStarts(conn, self.touched)
        self.read_again = lambda *place: reread(conn, *place)
        self.parents = Parents(conn, self.uuids, self.read_again)
        self.copies = Copies(conn, self.touched, self.replace, self.read_again)

    def let_go(self) -> None:
        """Break the circle of references: garbage collection is off meanwhile."""
        self.__dict__.clear()

    def write(self, chunks: list[Chunk]) -> bool:
        """Store the chunks. The caller has begun the transaction and commits it.

        Returns whether entries may have changed hands. Before it commits, the caller settles what
        summaries are of (`settle_summaries`): that may go over all summaries, so not in each batch.
        """
        source_files.note_errors(self.conn, chunks, self.now)
        add_places_of(self.conn, chunks)
        tombstones = Tombstones(self.conn)
        if tombstones.forgotten:
            for chunk in chunks:
                chunk.pass_on(tombstones.is_forgotten)
        events = StoredEvents(self.conn, self.touched)
        for chunk in chunks:
            self._know_session(chunk, events)
        for chunk in chunks:
            if chunk.session_id != chunk.file.session_id:  # a later chunk of the batch names it
                chunk.belong_to(chunk.file.session_id)
                chunk.derive()
            self._know_agent(chunk.file)
            for message in chunk.messages:
                message.source_file_id = chunk.file.id
            for event in chunk.events:
                event.source_file_id = chunk.file.id
            self.parents.skip(chunk.skipped)
        messages = [message for chunk in chunks for message in chunk.messages]
        repeats = Repeats(self.conn, self.uuids)
        repeated = self._find_repeats(chunks, messages, repeats)
        new = [message for message in messages if message.is_new]
        events.place(chunks)
        self._place_in_turns(chunks, events)
        self.messages.insert(new)
        events.write()
        count_chunks(self.conn, chunks)
        self._see(chunks)
        # Before files are located, sessions that are new must have their project.
        self.touched.placed |= sessions.know_projects(self.conn, self.touched.sessions)
        for session_id in self.adopting:
            sessions.locate_files(self.conn, session_id)
        events.write_snapshots()
        self.messages.insert_derived(chunks)
        repeats.add_aliases(new)
        for message in repeated:
            self._absorb(message, repeats)
        self.copies.settle()
        came = {message.uuid for message in messages if message.uuid is not None}
        self.named = came.union(self.parents.skipped, events.leaves)
        self._finish(self.parents.waiting_for(came), came)
        moved = self.touched.renumber if self.touched.turns_of_files else set()
        self.touched.changed |= snapshots.give_turns(self.conn, came, self.touched.snapshots, moved)
        stamp(self.conn, self._changed(chunks))
        source_files.move_offsets(self.conn, chunks, self.now)
        return bool(self.touched.turns_of_files)

    def _changed(self, chunks: list[Chunk]) -> set[str | None]:
        """The sessions that have rows which the batch has changed, but for those stamped already.

        Where entries have changed hands, all sessions of the files count: that is rare.
        """
        conn, touched = self.conn, self.touched
        changed = touched.changed
        for chunk in chunks:
            changed.update({message.session_id for message in chunk.messages})
            changed.update({event.session_id for event in chunk.events})
        changed |= touched.renumber | touched.pull_requests | touched.snapshots
        changed |= touched.lists | touched.placed
        changed.update(first_column(look_up(conn, touched.turns, _OF_TURNS)))
        if touched.turns_of_files:
            changed.update(first_column(look_up(conn, touched.turns_of_files, _OF_FILES)))
        return changed - touched.sessions

    def settle_again(self) -> None:
        """Derive again what `touched` names, after rows were removed. The caller commits."""
        sessions.know_projects(self.conn, self.touched.sessions)
        self.copies.settle()
        self._finish([], set())
        stamp(self.conn, self._changed([]))

    def _find_repeats(
        self, chunks: list[Chunk], messages: list[Message], repeats: Repeats
    ) -> list[Message]:
        """The lines that repeat an entry; chunks with such lines are derived again."""
        if any(chunk.needs_stored_rows for chunk in chunks):
            self.parents.name_sidechains(messages)
        repeated = repeats.sort_out(messages)
        for chunk in chunks:
            has_repeats = repeated and not all(message.is_new for message in chunk.messages)
            if has_repeats or chunk.needs_stored_rows:
                chunk.derive()
        return repeated

    def _place_in_turns(self, chunks: list[Chunk], events: StoredEvents) -> None:
        """Give new messages their ids and turns, in reading order."""
        starts = self.starts
        new_events = {event.id for event in events.new}
        # Main threads first: agents belong to the turns of the calls that started them.
        for chunk in chunks:
            self.messages.number(message for message in chunk.messages if message.is_new)
            starts.follow(chunk, new_events)
            starts.learn_links(chunk.messages)
        starts.write()
        for chunk in chunks:
            starts.place_agents(chunk)

    def _know_session(self, chunk: Chunk, events: StoredEvents) -> None:
        """A file that is not named by its session is of the first session that a line names."""
        file = chunk.file
        if file.session_id is not None or chunk.session_id is None:
            return
        file.session_id = chunk.session_id
        self.conn.execute(
            "UPDATE source_files SET session_id = ? WHERE id = ?", (file.session_id, file.id)
        )
        if chunk.start > 0:
            self._adopt_earlier_lines(file)
            events.adopt(file)

    def _know_agent(self, file: SourceFile) -> None:
        if file.facts and file.session_id is not None:
            agent_facts.add_facts(self.conn, file.session_id, file.facts, None, self.touched)

    def _adopt_earlier_lines(self, file: SourceFile) -> None:
        who = (file.session_id, file.id)
        requests.adopt(self.conn, file.id, file.session_id, self.touched)
        self.conn.execute(
            "UPDATE messages SET session_id = ? WHERE source_file_id = ? AND session_id IS NULL",
            who,
        )
        for column in ("message_id", "result_message_id"):
            self.touched.pairs.update(
                (session_id, tool_use_id)
                for (tool_use_id,) in self.conn.execute(
                    f"SELECT t.tool_use_id FROM messages m JOIN tool_uses t ON t.{column} = m.id"
                    " WHERE m.source_file_id = ?",
                    (file.id,),
                )
                for session_id in (None, file.session_id)
                if not is_unique_id(tool_use_id)
            )
            self.conn.execute(
                "UPDATE tool_uses SET session_id = ? WHERE session_id IS NULL AND"
                f" {column} IN (SELECT id FROM messages WHERE source_file_id = ?)",
                who,
            )
        self.conn.execute(
            "UPDATE files_touched SET session_id = ?1 WHERE session_id IS NULL AND (tool_id IN"
            " (SELECT t.id FROM tool_uses t JOIN messages m ON m.id = t.message_id"
            "  WHERE m.source_file_id = ?2)"
            " OR message_id IN (SELECT id FROM messages WHERE source_file_id = ?2))",
            who,
        )
        self.conn.execute(
            "UPDATE git_operations SET session_id = ?1 WHERE session_id IS NULL AND tool_id IN"
            " (SELECT t.id FROM tool_uses t JOIN messages m"
            "  ON m.id IN (t.message_id, t.result_message_id) WHERE m.source_file_id = ?2)",
            who,
        )
        self.touched.turns_of_files.add(file.id)
        self.touched.changed.add(None)
        if file.session_id is not None:
            self.adopting.add(file.session_id)
            self.copies.recount.add((file.session_id, file.id))

    def _see(self, chunks: Iterable[Chunk]) -> None:
        seen = []
        for chunk in chunks:
            for row in chunk.derived.seen:
                row.source_file_id = chunk.file.id
                seen.append(row)
        session_files.see(self.conn, seen, self.touched)

    def replace(self, message: Message) -> None:
        """Fill an existing row of messages, and all that depends on it, from another line."""
        if message.agent_id is not None:
            message.turn_id = self.starts.of_agent(message.session_id, message.agent_id)
        else:
            message.turn_id = None  # found again with the turns of its file
        self.messages.update(message)
        turns.replace_turn(self.conn, message)

    def _absorb(self, message: Message, repeats: Repeats) -> None:
        found = repeats.find(message)
        first = next(iter(found), None)
        if first is not None:
            for other in found:
                self.copies.merge(first, other, repeats.replays)
            outcome = self.copies.absorb(message, first, repeats.replays)
        else:
            # What it repeated in this batch has been settled otherwise: it is an entry of its own.
            outcome = "stored"
            self._store_late(message, repeats)
        repeats.add_aliases([message])
        count_one(self.conn, message, outcome)

    def _store_late(self, message: Message, repeats: Repeats) -> None:
        message.is_new = True
        self.messages.number([message])
        message.turn_id = None
        self.messages.insert([message])
        if message.agent_id is not None:
            message.turn_id = self.starts.of_agent(message.session_id, message.agent_id)
        self.messages.insert_parts(message)
        turns.replace_turn(self.conn, message)
        self.touched.turns_of_files.add(message.source_file_id)
        self._see_again(message)
        moment = (message.session_id, message.timestamp)
        repeats.replays.add(moment, message.block_keys, message.id)

    def _see_again(self, message: Message) -> None:
        """What the file says of the session, now that it owns this line.

        What any line says was noted when the line was read. Lines after it may say otherwise.
        """
        if message.session_id is not None:
            row = SessionFile(message.session_id, message.source_file_id)
            row.first_at = row.last_at = message.timestamp
            session_files.see(self.conn, [row], self.touched)
            session_files.recount_file(self.conn, message.session_id, message.source_file_id)

    def _finish(self, found: list[tuple[int, str]], came: set[str]) -> None:
        """Derive again what the batch has touched, from the lines up to the sessions.

        `found` are messages whose parent has come, `came` the uuids of the batch's messages.
        """
        conn, touched, stored = self.conn, self.touched, self.messages
        filled = [message for message in stored.filled if message.id not in self.copies.merged]
        self.copies.rename_parents()
        drop_left(conn, stored.calls, self.copies.mixed, self.read_again, touched)
        hung = self.parents.write(filled, stored.replaced, found, came)
        touched.changed.update(first_column(look_up(conn, hung, _OF_MESSAGES)))
        name_again(conn, filled, hung, self.read_again, self.replace)
        turns.find_again(conn, touched)
        settle_caveats(conn, touched)
        pair_again(conn, stored.calls, touched)
        choose_first(conn, stored.calls, self.read_again, touched)
        touched.sessions.update(named_by_agents(conn, agents.refresh(conn, touched)))
        touched.changed |= requests.recompute(conn, touched.requests)
        for session_id in sorted(touched.renumber):
            turns.renumber(conn, session_id)
            touched.sessions.add(session_id)
        settle_times(conn, touched, filled)
        touched.sessions.update(
            turn.session_id for turn in self.starts.new if turn.session_id is not None
        )
        touched.placed |= sessions.refresh(conn, touched.sessions)
        refresh_pull_requests(conn, touched.pull_requests)
        refresh_beside(conn, touched, self.starts.new)
