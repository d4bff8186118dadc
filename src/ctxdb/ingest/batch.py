"""One batch of lines into the database, in one transaction.

New entries take a few look-ups for the whole batch, then one executemany per table.
Entries that repeat stored ones are settled afterwards, one at a time (copies.py). At the end
everything derived that the batch has touched is made anew: turns, agents, requests, sessions.
The last statement moves each file's offset, and only from where the batch began: if anyone else has
moved it, the whole batch is rolled back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from ctxdb.claude import Event, Message, Skip
from ctxdb.settle import agents, requests, sessions, tally, turns
from ctxdb.settle.copies import Copies
from ctxdb.settle.events import EventRows
from ctxdb.settle.messages import MessageRows
from ctxdb.settle.parents import Parents
from ctxdb.settle.pull_requests import refresh_pulls
from ctxdb.settle.repeated_call_ids import pair_again
from ctxdb.settle.repeated_calls import retell_tools
from ctxdb.settle.repeats import Repeats
from ctxdb.settle.turn_starts import TurnBeginnings
from ctxdb.store.chunk import Chunk, Placed, SourceFile, Touched, place_line

Reread = Callable[[sqlite3.Connection, int, int, int], Placed | None]


class Batch:
    """The work of one transaction."""

    def __init__(self, conn: sqlite3.Connection, now: str, reread: Reread) -> None:
        self.conn = conn
        self.now = now
        self.reread = reread
        self.touched = Touched()
        self.adopting: set[str] = set()  # sessions of lines that did not name them

    def let_go(self) -> None:
        """Break the circle of references: while a pass runs, nobody looks for such."""
        self.__dict__.clear()

    def _prepare(self) -> None:
        """Ids are counted on from what is stored, so this is part of the transaction."""
        conn = self.conn
        self.rows = MessageRows(conn, self.touched)
        self.begin = TurnBeginnings(conn, self.touched)
        self.parents = Parents(conn)
        self.copies = Copies(conn, self.touched, self.replace, self.rows.leave, self._read_again)

    def _read_again(self, file_id: int, start: int, length: int) -> Placed | None:
        return self.reread(self.conn, file_id, start, length)

    def write(self, chunks: list[Chunk]) -> None:
        """Store the chunks. The caller has begun the transaction and commits it."""
        self._prepare()
        tally.note_errors(self.conn, chunks, self.now)
        events = EventRows(self.conn, self.touched)
        for chunk in chunks:
            self._know_session(chunk, events)
            self._know_agent(chunk.file)
        by_chunk = self._place(chunks)
        placed = [item for items in by_chunk for item in items]
        repeats = Repeats(self.conn)
        fresh, again = repeats.sort_out(placed)
        events.place(chunks)
        self._place_in_turns(chunks, by_chunk, events)
        self.rows.insert([item for item in placed if item.fresh])
        events.write()
        for chunk, items in zip(chunks, by_chunk, strict=True):
            chunk.counts = tally.counted(chunk, items, events.outcome_of)
        tally.count_new(self.conn, chunks)
        told = [
            (chunk.file.id, tally.told_of(items))
            for chunk, items in zip(chunks, by_chunk, strict=True)
        ]
        tally.see(self.conn, told, self.touched)
        # Before files are located, sessions that are new must have their project.
        sessions.know_projects(self.conn, self.touched.sessions)
        for session_id in self.adopting:
            sessions.locate_files(self.conn, session_id)
        events.write_snapshots()
        self.rows.insert_parts(fresh)
        repeats.add_aliases(fresh)
        for item in again:
            self._absorb(item, repeats)
        self.copies.settle()
        came = {item.rec.uuid for item in placed if item.rec.uuid is not None}
        self._finish(self.parents.waiting_for(came))
        tally.move_offsets(self.conn, chunks, self.now)

    def _place_in_turns(
        self, chunks: list[Chunk], by_chunk: list[list[Placed]], events: EventRows
    ) -> None:
        """Give new messages their ids and turns, in reading order."""
        begin = self.begin
        # Main threads first: agents belong to the turns of the calls that started them.
        for chunk, items in zip(chunks, by_chunk, strict=True):
            self.rows.number([item for item in items if item.fresh])
            begin.follow(chunk, items, events.row_of)
            begin.learn_links(items)
        begin.write()
        for items in by_chunk:
            begin.place_agents(items)

    def _know_session(self, chunk: Chunk, events: EventRows) -> None:
        """A file that is not named by its session is of the first session that a line names."""
        file = chunk.file
        if file.session_id is not None:
            return
        file.session_id = chunk.first_session()
        if file.session_id is None:
            return
        self.conn.execute(
            "UPDATE source_files SET session_id = ? WHERE id = ?", (file.session_id, file.id)
        )
        if chunk.start > 0:
            self._adopt_earlier_lines(file)
            events.adopt(file)

    def _know_agent(self, file: SourceFile) -> None:
        if file.facts and file.session_id is not None:
            agents.add_facts(self.conn, file.session_id, file.facts, None, self.touched)

    def _adopt_earlier_lines(self, file: SourceFile) -> None:
        who = (file.session_id, file.id)
        requests.adopt(self.conn, file.id, file.session_id, self.touched)
        self.conn.execute(
            "UPDATE messages SET session_id = ? WHERE source_file_id = ? AND session_id IS NULL",
            who,
        )
        for column in ("message_id", "result_message_id"):
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
        self.touched.retell.add(file.id)
        if file.session_id is not None:
            self.adopting.add(file.session_id)
            self.copies.recount.add((file.session_id, file.id))

    def _place(self, chunks: list[Chunk]) -> list[list[Placed]]:
        """The messages of each chunk with their session, agent and nearest ancestor."""
        by_chunk: list[list[Placed]] = []
        skipped: list[Skip | Event] = []
        for chunk in chunks:
            file = chunk.file
            items: list[Placed] = []
            for record, note in zip(chunk.records, chunk.notes, strict=True):
                if type(record) is Message:
                    items.append(place_line(record, file, note))
                elif isinstance(record, Skip | Event) and record.uuid:
                    skipped.append(record)
            by_chunk.append(items)
        placed = [item for items in by_chunk for item in items]
        self.parents.learn(placed, skipped)
        self.parents.resolve(placed)
        self.parents.name_sidechains(placed)
        return by_chunk

    def replace(self, item: Placed) -> None:
        """Fill an existing row of messages, and all that hangs on it, from another line."""
        if item.agent_id is not None:
            item.turn_id = self.begin.of_agent(item.session_id, item.agent_id)
        self.rows.update(item)
        turns.replace_turn(self.conn, item)

    def _absorb(self, item: Placed, repeats: Repeats) -> None:
        found = repeats.find(item)
        if found:
            for other in found[1:]:
                self.copies.merge(found[0], other, repeats.replays)
            outcome = self.copies.absorb(item, found[0], repeats.replays)
        else:
            # What it repeated in this batch has been settled otherwise: it is an entry of its own.
            outcome = "stored"
            item.fresh = True
            self.rows.number([item])
            self.rows.insert([item])
            if item.agent_id is not None:
                item.turn_id = self.begin.of_agent(item.session_id, item.agent_id)
            self.rows.insert_parts([item])
            turns.replace_turn(self.conn, item)
            self.touched.retell.add(item.file.id)
            tally.see(self.conn, [(item.file.id, tally.told_of([item]))], self.touched)
            repeats.replays.add((item.session_id, item.rec.timestamp), item.rec.block_keys, item.id)
        repeats.add_aliases([item])
        tally.count_one(self.conn, item, outcome)

    def _finish(self, found: list[tuple[int, str]]) -> None:
        """Derive again what the batch has touched, from the lines up to the sessions.

        `found` are messages whose parent has come.
        """
        filled = [item for item in self.rows.filled if item.id not in self.copies.dropped]
        self.parents.write(filled, self.rows.replaced, found)
        turns.retell(self.conn, self.touched)
        pair_again(self.conn, self.rows.tools.next_id, self.touched)
        retell_tools(self.conn, self.rows.tools, self._read_again, self.touched)
        agents.refresh(self.conn, self.touched)
        requests.recompute(self.conn, self.touched.requests)
        for session_id in sorted(self.touched.renumber):
            turns.renumber(self.conn, session_id)
            self.touched.sessions.add(session_id)
        turns.end_turns(self.conn, self.touched.turns)
        self.touched.sessions.update(
            sessions.settle_summaries(self.conn, everything=bool(self.touched.retell))
        )
        self.touched.sessions.update(row[1] for row in self.begin.new if row[1] is not None)
        sessions.refresh(self.conn, self.touched.sessions)
        refresh_pulls(self.conn, self.touched.pulls)
