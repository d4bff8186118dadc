"""Where turns begin in a batch, and which turn each of its new messages belongs to."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from operator import attrgetter

import orjson

from ctxdb.claude.human_text import is_caveat
from ctxdb.claude.names import QUEUE_OPERATION
from ctxdb.rows import Event, Message, Turn
from ctxdb.rules.chunk import Chunk
from ctxdb.rules.prompt_queue import PromptQueue, TurnStart
from ctxdb.settle import turns
from ctxdb.settle.touched import Touched
from ctxdb.store.insert import insert, last_id
from ctxdb.store.lookup import look_up

AgentKey = tuple[str | None, str]
LINKS = ("progress", "result")  # facts that name the call which started an agent


class TurnStarts:
    """Follows the lines of files in reading order."""

    def __init__(self, conn: sqlite3.Connection, touched: Touched) -> None:
        self.conn = conn
        self.touched = touched
        # By file: a batch can hold several chunks of one.
        self.current: dict[int, dict[str | None, int | None]] = {}
        self.queues: dict[int, PromptQueue] = {}
        self.of_calls: dict[str, int | None] = {}
        self.next_id = last_id(conn, Turn) + 1
        self.new: list[Turn] = []
        self.of_agents: dict[AgentKey, int | None] = {}
        self.links: dict[AgentKey, str] = {}

    def follow(self, chunk: Chunk, new_events: set[int]) -> None:
        """Give the new main-thread messages of a chunk their turns.

        `new_events` are the ids of events that are stored for the first time.
        """
        lines: Iterable[Message | Event] = chunk.messages
        queued = [event for event in chunk.events if event.type == QUEUE_OPERATION]
        if queued:
            lines = sorted([*chunk.messages, *queued], key=attrgetter("byte_start"))
        file_id = chunk.file.id
        current = self.current.setdefault(file_id, {})
        for line in lines:
            if isinstance(line, Event):
                self._follow_queue(chunk, line, current, is_new=line.id in new_events)
                continue
            turn = line.turn
            if line.queued is not None:
                turn = self._queue(chunk).attachment(line.queued)
            if not line.is_new or line.agent_id is not None:
                continue
            session_id = line.session_id
            if turn is not None:
                current[session_id] = self._begin(turn, line, message_id=line.id)
            elif session_id not in current:
                current[session_id] = self._before(chunk, session_id)
            # A caveat belongs to the line that names it as its parent (caveats.py).
            line.turn_id = None if is_caveat(line.kind, line.text) else current[session_id]
        self._know_calls(chunk, of_agents=False)

    def _know_calls(self, chunk: Chunk, *, of_agents: bool) -> None:
        """Remember the turns of calls that start agents: of the main thread, or of agents."""
        starting = [*chunk.derived.calls_that_start_agents, *chunk.derived.halves]
        for call in starting:
            if call.message_id is not None and (call.agent_id is not None) == of_agents:
                self.of_calls[call.tool_use_id] = chunk.messages[call.message_id - 1].turn_id

    def _follow_queue(
        self, chunk: Chunk, event: Event, current: dict[str | None, int | None], *, is_new: bool
    ) -> None:
        content = orjson.loads(event.data).get("content")
        turn = self._queue(chunk).operation(event.subtype, content, event.timestamp)
        if turn is not None and is_new:
            current[event.session_id] = self._begin(turn, event, event_id=event.id)

    def _queue(self, chunk: Chunk) -> PromptQueue:
        found = self.queues.get(chunk.file.id)
        if found is None:
            found = PromptQueue()
            if chunk.start:
                found = turns.read_queue(self.conn, chunk.file.id, chunk.start)
            self.queues[chunk.file.id] = found
        return found

    def _before(self, chunk: Chunk, session_id: str | None) -> int | None:
        """The turn in force before a chunk, by what is stored."""
        if chunk.start == 0:
            return None
        turn_id = turns.last_turn(self.conn, chunk.file.id, session_id, chunk.start)
        if turn_id is not None:
            self.touched.turns.add(turn_id)
        return turn_id

    def _begin(
        self,
        turn: TurnStart,
        line: Message | Event,
        *,
        message_id: int | None = None,
        event_id: int | None = None,
    ) -> int:
        kind, prompt = turn
        row = Turn(
            id=self.next_id,
            session_id=line.session_id,
            kind=kind,
            prompt=prompt,
            started_at=line.timestamp,
            message_id=message_id,
            event_id=event_id,
            source_file_id=line.source_file_id,
            byte_start=line.byte_start,
        )
        self.next_id += 1
        self.new.append(row)
        self.touched.turns.add(self.next_id - 1)
        return self.next_id - 1

    def write(self) -> None:
        """Store the turns that begin in the batch."""
        self._number()
        insert(self.conn, Turn, self.new)

    def _number(self) -> None:
        """Ordinals: counted on where a session has one file, else worked out again later."""
        by_session: dict[str, list[Turn]] = {}
        files: dict[str, set[int | None]] = {}
        for turn in self.new:
            if turn.session_id is not None:
                by_session.setdefault(turn.session_id, []).append(turn)
                files.setdefault(turn.session_id, set()).add(turn.source_file_id)
        last: dict[str, int] = {}
        for session_id, ordinal, *some_files in look_up(
            self.conn,
            by_session,
            "SELECT j.value, (SELECT max(ordinal) FROM turns WHERE session_id = j.value),"
            " (SELECT min(source_file_id) FROM turns WHERE session_id = j.value),"
            " (SELECT max(source_file_id) FROM turns WHERE session_id = j.value) FROM j",
        ):
            if ordinal is not None:
                files[session_id].update(some_files)
                last[session_id] = ordinal
        for session_id, begun in by_session.items():
            if len(files[session_id]) > 1:
                self.touched.renumber.add(session_id)
            for ordinal, turn in enumerate(begun, last.get(session_id, 0) + 1):
                turn.ordinal = ordinal

    def learn_links(self, messages: Iterable[Message]) -> None:
        """Remember which calls started which agents, by what new lines say."""
        for message in messages:
            for fact in (message.facts or ()) if message.is_new else ():
                if fact.tool_use_id and fact.source in LINKS:
                    self.links.setdefault((message.session_id, fact.agent_id), fact.tool_use_id)

    def place_agents(self, chunk: Chunk) -> None:
        """An agent's lines belong to the turn of the call that started it, where that is known."""
        for message in chunk.messages:
            if message.agent_id is not None and message.is_new:
                message.turn_id = self.of_agent(message.session_id, message.agent_id)
        self._know_calls(chunk, of_agents=True)

    def of_agent(self, session_id: str | None, agent_id: str) -> int | None:
        """The turn that an agent's lines belong to, as far as is known now."""
        key = (session_id, agent_id)
        if key not in self.of_agents:
            self.of_agents[key] = turn_id = self._find(key)
            if turn_id is not None:
                self.touched.turns.add(turn_id)
        return self.of_agents[key]

    def _find(self, key: AgentKey) -> int | None:
        known = self.conn.execute(
            "SELECT turn_id FROM agents WHERE session_id = ? AND agent_id = ?", key
        ).fetchone()
        if known is not None:
            (turn_id,) = known
            return int(turn_id) if turn_id is not None else None
        call = self.links.get(key)
        if call is None:
            named = self.conn.execute(
                "SELECT tool_use_id FROM _agent_facts WHERE session_id = ? AND agent_id = ?"
                " AND tool_use_id <> '' AND source IN ('meta', 'progress', 'result')"
                " ORDER BY source = 'meta' DESC LIMIT 1",
                key,
            ).fetchone()
            (call,) = named or (None,)
        if call is None:
            return None
        if call in self.of_calls:
            return self.of_calls[call]
        made = self.conn.execute(
            "SELECT turn_id FROM tool_uses WHERE tool_use_id = ?", (call,)
        ).fetchone()
        (turn_id,) = made or (None,)
        return turn_id
