"""Rows of messages, and everything that depends on them."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from ctxdb.rows import FileTouch, Message, UsageLine
from ctxdb.rules.calls import halves_of
from ctxdb.rules.requests import name_request
from ctxdb.settle import agent_facts, requests
from ctxdb.settle.calls import StoredCalls
from ctxdb.store.fulltext import add_rows
from ctxdb.store.insert import insert, last_id, update
from ctxdb.store.model_ladder import store_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctxdb.rules.chunk import Chunk
    from ctxdb.settle.touched import Touched


class StoredMessages:
    """Writes messages with their tool calls, requests, mentions and facts of agents."""

    def __init__(self, conn: sqlite3.Connection, touched: Touched) -> None:
        self.conn = conn
        self.touched = touched
        self.next_id = last_id(conn, Message) + 1
        self.calls = StoredCalls(conn, touched)
        self.filled: list[Message] = []  # lines that fill a row
        self.replaced: set[int] = set()  # rows that have changed hands

    def number(self, messages: Iterable[Message]) -> None:
        """Give new messages their ids, in reading order."""
        for message in messages:
            message.id = self.next_id
            self.next_id += 1

    def insert(self, messages: list[Message]) -> None:
        """New rows, and their full text in the same transaction."""
        if not messages:
            return
        self.filled += messages
        insert(self.conn, Message, messages)
        ids = [message.id for message in messages]
        add_rows(self.conn, Message.table, min(ids), max(ids))

    # -- what a chunk has derived ----------------------------------------------------------------

    def insert_derived(self, chunks: list[Chunk]) -> None:
        """What the new messages of chunks say of other tables; names of rows are resolved here."""
        derived = [chunk.derived for chunk in chunks]
        stored = self.calls.known(tool.tool_use_id for one in derived for tool in one.tools)
        again = _repeated(tool.tool_use_id for one in derived for tool in one.tools)
        for chunk in chunks:
            if stored or again:
                chunk.derived.take_apart(stored | again, chunk.messages)
            self._resolve(chunk)
        tools = [tool for one in derived for tool in one.tools]
        self.calls.add_whole(
            tools,
            [touch for one in derived for touch in one.files],
            [operation for one in derived for operation in one.git],
        )
        self.touched.calls.update(
            call.tool_use_id for one in derived for call in one.calls_that_start_agents
        )
        self.calls.join([half for one in derived for half in one.halves])
        new = [message for chunk in chunks for message in chunk.messages if message.is_new]
        self._add_lines(new)
        requests.add_new(self.conn, derived, self.touched)
        self._add_rest(new)

    def _resolve(self, chunk: Chunk) -> None:
        """Put ids in place of numbers: of messages, of the turns they are in, and of calls."""
        ids = [0, *(message.id for message in chunk.messages)]
        turns = [None, *(message.turn_id for message in chunk.messages)]
        derived = chunk.derived
        numbers = {0: 0}
        derived.take_halves(chunk.messages)
        for tool in derived.tools:
            tool.message_id = ids[tool.message_id or 0]
            tool.result_message_id = ids[tool.result_message_id or 0]
            tool.turn_id = turns[tool.turn_id or 0]
            numbers[tool.id] = self.calls.next_id
            tool.id = self.calls.next_id
            self.calls.next_id += 1
        for touch in derived.files:
            touch.tool_id, touch.turn_id = numbers[touch.tool_id or 0], turns[touch.turn_id or 0]
        for operation in derived.git:
            operation.tool_id = numbers[operation.tool_id or 0]
            operation.turn_id = turns[operation.turn_id or 0]
        for request in derived.requests:
            request.turn_id = turns[request.turn_id or 0]

    def _add_lines(self, messages: Iterable[Message]) -> None:
        lines: list[UsageLine] = []
        for message in messages:
            for line in message.usage or ():
                line.message_id = message.id
                lines.append(line)
        insert(self.conn, UsageLine, lines)
        store_names(self.conn, {line.model for line in lines})

    def _add_rest(self, messages: Iterable[Message]) -> None:
        mentions: list[FileTouch] = []
        facts = agent_facts.Facts(self.conn, self.touched)
        for message in messages:
            for path in message.mentions or ():
                mentions.append(_mention(message, path))  # noqa: PERF401
            if message.facts:
                facts.add(message.session_id, message.facts, message.id)
            if message.agent_id is not None and message.session_id is not None:
                self.touched.agents.add((message.session_id, message.agent_id))
        facts.write()
        if mentions:
            self.calls.add_files(mentions)

    # -- one message -----------------------------------------------------------------------------

    def insert_parts(self, message: Message) -> None:
        """What depends on one new message."""
        name_request(message)
        self._join_calls(message)
        self._add_lines([message])
        self.touched.requests.update(line.request_key for line in message.usage or ())
        self._add_rest([message])

    def update(self, message: Message) -> None:
        """Fill an existing row, and everything that depends on it, from another line."""
        self.leave(message.id)
        update(self.conn, Message, [message])
        self.filled.append(message)
        self.replaced.add(message.id)
        requests.drop_lines(self.conn, message.id, self.touched)
        agent_facts.drop_facts(
            self.conn,
            message.id,
            self.touched,
            agent_facts.Successor(message.session_id, message.id),
        )
        self.conn.execute("DELETE FROM files_touched WHERE message_id = ?", (message.id,))
        self.insert_parts(message)

    def _join_calls(self, message: Message) -> None:
        if halves := halves_of(message):
            self.calls.join(halves)

    def leave(self, message_id: int) -> None:
        """Note what a message belonged to, before it changes hands or goes."""
        turn_id, session_id, agent_id = self.conn.execute(
            "SELECT turn_id, session_id, agent_id FROM messages WHERE id = ?", (message_id,)
        ).fetchone()
        if turn_id is not None:
            self.touched.turns.add(turn_id)
        if session_id is not None and agent_id is not None:
            self.touched.agents.add((session_id, agent_id))
        self.touched.repeated_calls.update(
            tool_use_id
            for (tool_use_id,) in self.conn.execute(
                "SELECT tool_use_id FROM _repeated_calls WHERE message_id = ?1 UNION"
                " SELECT o.tool_use_id FROM tool_uses t JOIN _repeated_calls o"
                "  ON o.tool_use_id = t.tool_use_id"
                "  WHERE t.message_id = ?1 OR t.result_message_id = ?1",
                (message_id,),
            )
        )


def _repeated(names: Iterable[str]) -> set[str]:
    """Names that are there more than once."""
    seen: set[str] = set()
    return {name for name in names if name in seen or seen.add(name)}  # type: ignore[func-returns-value]


def _mention(message: Message, path: str) -> FileTouch:
    """A file that a person has named."""
    return FileTouch(
        session_id=message.session_id,
        agent_id=message.agent_id,
        turn_id=message.turn_id,
        path=path,
        operation="mention",
        succeeded=1,
        timestamp=message.timestamp,
        message_id=message.id,
    )
