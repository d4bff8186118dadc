"""Where turns begin in a batch, and which turn each of its new messages belongs to."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import orjson

from ctxdb.claude import Event, Message
from ctxdb.settle import turns
from ctxdb.store.chunk import Chunk, Placed, Touched
from ctxdb.store.lookup import look_up

AgentKey = tuple[str | None, str]
LINKS = ("progress", "result")  # facts that name the call which started an agent


class TurnBeginnings:
    """Follows the lines of files in reading order: where turns begin, and the turn of each line."""

    def __init__(self, conn: sqlite3.Connection, touched: Touched) -> None:
        self.conn = conn
        self.touched = touched
        # By file: a batch can hold several chunks of one.
        self.current: dict[int, dict[str | None, int | None]] = {}
        self.queues: dict[int, turns.QueueReader] = {}
        self.of_calls: dict[str, int | None] = {}
        (last,) = conn.execute("SELECT max(id) FROM turns").fetchone()
        self.next_id = (last or 0) + 1
        self.new: list[tuple[Any, ...]] = []
        self.of_agents: dict[AgentKey, int | None] = {}
        self.links: dict[AgentKey, str] = {}

    def _queue(self, chunk: Chunk) -> turns.QueueReader:
        found = self.queues.get(chunk.file.id)
        if found is None:
            found = self.queues[chunk.file.id] = self._queue_before(chunk)
        return found

    def follow(
        self, chunk: Chunk, items: list[Placed], row_of: Callable[[Event], int | None]
    ) -> None:
        """Give the new main-thread messages of a chunk their turns."""
        file_id = chunk.file.id
        current = self.current.setdefault(file_id, {})
        messages = iter(items)
        place: tuple[Any, ...]
        for record in chunk.records:
            if type(record) is Message:
                item = next(messages)
                turn = record.turn
                if record.queued is not None:
                    turn = self._queue(chunk).attachment(record.queued)
                if not item.fresh or item.agent_id is not None:
                    continue
                session_id = item.session_id
                if turn is not None:
                    place = (record.timestamp, item.id, None, file_id, record.start)
                    current[session_id] = self.new_turn(session_id, turn, place)
                elif session_id not in current:
                    current[session_id] = self.before(chunk, session_id)
                item.turn_id = turn_id = current[session_id]
                if record.calls:
                    for call in record.calls:
                        self.of_calls[call.tool_use_id] = turn_id
            elif type(record) is Event and record.type == "queue-operation":
                content = orjson.loads(record.data).get("content")
                turn = self._queue(chunk).operation(record.subtype, content, record.timestamp)
                row = row_of(record)
                if turn is not None and row is not None:
                    session_id = record.session_id or chunk.file.session_id
                    place = (record.timestamp, None, row, file_id, record.start)
                    current[session_id] = self.new_turn(session_id, turn, place)

    def write(self) -> None:
        """Store the turns that begin in the batch."""
        self.conn.executemany(
            "INSERT INTO turns (id, session_id, kind, prompt, started_at, message_id, event_id,"
            " source_file_id, byte_start) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            self.new,
        )
        self._number()

    def _queue_before(self, chunk: Chunk) -> turns.QueueReader:
        if chunk.start == 0:
            return turns.QueueReader()
        return turns.read_queue(self.conn, chunk.file.id, chunk.start)

    def before(self, chunk: Chunk, session_id: str | None) -> int | None:
        """The turn in force before a chunk, by what is stored."""
        if chunk.start == 0:
            return None
        turn_id = turns.last_turn(self.conn, chunk.file.id, session_id, chunk.start)
        if turn_id is not None:
            self.touched.turns.add(turn_id)
        return turn_id

    def new_turn(
        self, session_id: str | None, turn: tuple[str, str], place: tuple[Any, ...]
    ) -> int:
        """A turn begins: (kind, prompt), at (time, message, event, file, byte)."""
        turn_id = self.next_id
        self.next_id += 1
        self.new.append((turn_id, session_id, *turn, *place))
        self.touched.turns.add(turn_id)
        return turn_id

    def _number(self) -> None:
        """Ordinals: counted on where a session has one file, else worked out again later."""
        by_session: dict[str, list[int]] = {}
        for row in self.new:
            if row[1] is not None:
                by_session.setdefault(row[1], []).append(row[0])
        known = {
            session_id: (last, files)
            for session_id, last, files in look_up(
                self.conn,
                by_session,
                "SELECT t.session_id, max(t.ordinal), count(DISTINCT t.source_file_id)"
                " FROM j CROSS JOIN turns t ON t.session_id = j.value GROUP BY 1",
            )
        }
        numbered: list[tuple[int, int]] = []
        for session_id, ids in by_session.items():
            last, files = known[session_id]
            if files > 1:
                self.touched.renumber.add(session_id)
            else:
                numbered += [(last + n, turn_id) for n, turn_id in enumerate(ids, 1)]
        self.conn.executemany("UPDATE turns SET ordinal = ? WHERE id = ?", numbered)

    def learn_links(self, items: list[Placed]) -> None:
        """Which call started an agent, where new lines say so."""
        for item in items:
            if item.rec.facts and item.fresh:
                for fact in item.rec.facts:
                    if fact.tool_use_id and fact.source in LINKS:
                        self.links.setdefault((item.session_id, fact.agent_id), fact.tool_use_id)

    def place_agents(self, items: list[Placed]) -> None:
        """An agent's lines belong to the turn of the call that started it, where that is known."""
        for item in items:
            if item.agent_id is None or not item.fresh:
                continue
            item.turn_id = turn_id = self.of_agent(item.session_id, item.agent_id)
            for call in item.rec.calls or ():
                self.of_calls[call.tool_use_id] = turn_id

    def of_agent(self, session_id: str | None, agent_id: str) -> int | None:
        """The turn that an agent's lines belong to, as far as is known now."""
        key = (session_id, agent_id)
        if key not in self.of_agents:
            self.of_agents[key] = turn_id = self._find(key)
            if turn_id is not None:
                self.touched.turns.add(turn_id)
        return self.of_agents[key]

    def _find(self, key: AgentKey) -> int | None:
        row = self.conn.execute(
            "SELECT turn_id FROM agents WHERE session_id = ? AND agent_id = ?", key
        ).fetchone()
        if row is not None:
            return int(row[0]) if row[0] is not None else None
        call = self.links.get(key)
        if call is None:
            row = self.conn.execute(
                "SELECT tool_use_id FROM _agent_facts WHERE session_id = ? AND agent_id = ?"
                " AND tool_use_id <> '' AND source IN ('meta', 'progress', 'result')"
                " ORDER BY source = 'meta' DESC LIMIT 1",
                key,
            ).fetchone()
            call = row[0] if row else None
        if call is None:
            return None
        if call in self.of_calls:
            return self.of_calls[call]
        row = self.conn.execute(
            "SELECT turn_id FROM tool_uses WHERE tool_use_id = ?", (call,)
        ).fetchone()
        return row[0] if row else None
