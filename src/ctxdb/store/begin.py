"""Where turns begin in a batch, and which turn each of its new messages belongs to."""

from __future__ import annotations

import sqlite3
from typing import Any

import orjson

from ctxdb.normalize import Event, Message
from ctxdb.store import turns
from ctxdb.store.events import EventRows
from ctxdb.store.model import Chunk, Placed, Touched

AgentKey = tuple[str | None, str]


class TurnBeginnings:
    """Gives new messages their turns, in reading order."""

    def __init__(self, conn: sqlite3.Connection, touched: Touched) -> None:
        self.conn = conn
        self.touched = touched
        (last,) = conn.execute("SELECT max(id) FROM turns").fetchone()
        self.next_id = (last or 0) + 1
        self.new: list[tuple[Any, ...]] = []
        self.of_agents: dict[AgentKey, int | None] = {}
        self.of_calls: dict[str, int | None] = {}

    def begin(self, chunks: list[Chunk], placed: list[list[Placed]], events: EventRows) -> None:
        """Main threads first: agents belong to the turns of the calls that started them."""
        for chunk, items in zip(chunks, placed, strict=True):
            self._in_chunk(chunk, items, events)
        self.conn.executemany(
            "INSERT INTO turns (id, session_id, kind, prompt, started_at, message_id, event_id,"
            " source_file_id, byte_start) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            self.new,
        )
        self._number()
        self._agents(placed)

    def _in_chunk(self, chunk: Chunk, items: list[Placed], events: EventRows) -> None:
        file_id = chunk.file.id
        current: dict[str | None, int | None] = {}
        queue: turns.QueueReader | None = None
        messages = iter(items)
        place: tuple[Any, ...]

        def reader() -> turns.QueueReader:
            if chunk.start == 0:
                return turns.QueueReader()
            return turns.read_queue(self.conn, file_id, chunk.start)

        for record in chunk.records:
            if type(record) is Message:
                item = next(messages)
                turn = record.turn
                if record.queued is not None:
                    queue = queue or reader()
                    turn = queue.attachment(record.queued)
                if not item.fresh or item.agent_id is not None:
                    continue
                session_id = item.session_id
                if turn is not None:
                    place = (record.timestamp, item.id, None, file_id, record.start)
                    current[session_id] = self._new(session_id, turn, place)
                elif session_id not in current:
                    current[session_id] = self._before(chunk, session_id)
                item.turn_id = turn_id = current[session_id]
                if record.calls:
                    for call in record.calls:
                        self.of_calls[call.tool_use_id] = turn_id
            elif type(record) is Event and record.type == "queue-operation":
                queue = queue or reader()
                content = orjson.loads(record.data).get("content")
                turn = queue.operation(record.subtype, content, record.timestamp)
                row = events.row_of(record)
                if turn is not None and row is not None:
                    session_id = record.session_id or chunk.file.session_id
                    place = (record.timestamp, None, row, file_id, record.start)
                    current[session_id] = self._new(session_id, turn, place)

    def _before(self, chunk: Chunk, session_id: str | None) -> int | None:
        if chunk.start == 0:
            return None
        turn_id = turns.last_turn(self.conn, chunk.file.id, session_id, chunk.start)
        if turn_id is not None:
            self.touched.turns.add(turn_id)
        return turn_id

    def _new(self, session_id: str | None, turn: tuple[str, str], place: tuple[Any, ...]) -> int:
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
        for session_id, ids in by_session.items():
            last, files = self.conn.execute(
                "SELECT max(ordinal), count(DISTINCT source_file_id) FROM turns"
                " WHERE session_id = ?",
                (session_id,),
            ).fetchone()
            if files > 1:
                self.touched.renumber.add(session_id)
                continue
            self.conn.executemany(
                "UPDATE turns SET ordinal = ? WHERE id = ?",
                [(last + n, turn_id) for n, turn_id in enumerate(ids, 1)],
            )

    def _agents(self, placed: list[list[Placed]]) -> None:
        """An agent's lines belong to the turn of the call that started it, where that is known."""
        links: dict[AgentKey, str] = {}
        of_agents: list[Placed] = []
        for items in placed:
            for item in items:
                if item.rec.facts and item.fresh:
                    for fact in item.rec.facts:
                        if fact.tool_use_id and fact.source in ("progress", "result"):
                            links.setdefault((item.session_id, fact.agent_id), fact.tool_use_id)
                if item.agent_id is not None and item.fresh:
                    of_agents.append(item)
        for item in of_agents:
            item.turn_id = turn_id = self.of_agent(item, links)
            for call in item.rec.calls or ():
                self.of_calls[call.tool_use_id] = turn_id
            if turn_id is not None:
                self.touched.turns.add(turn_id)

    def of_agent(self, item: Placed, links: dict[AgentKey, str] | None = None) -> int | None:
        """The turn that an agent's line belongs to, as far as is known now."""
        key = (item.session_id, item.agent_id or "")
        if key not in self.of_agents:
            self.of_agents[key] = self._find(key, links or {})
        return self.of_agents[key]

    def _find(self, key: AgentKey, links: dict[AgentKey, str]) -> int | None:
        row = self.conn.execute(
            "SELECT turn_id FROM agents WHERE session_id = ? AND agent_id = ?", key
        ).fetchone()
        if row is not None:
            return int(row[0]) if row[0] is not None else None
        call = links.get(key)
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
