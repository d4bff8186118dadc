"""The straight way of chunks that were made ready: put in the ids, and write.

`known_chunks` says which of them must go the general way after all, because the database or another
chunk of the batch has something to do with them: the same entries, threads, calls or events.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from ctxdb.normalize import Call, Fact, Message, Result
from ctxdb.store import agents
from ctxdb.store.begin import TurnBeginnings
from ctxdb.store.events import EventRows
from ctxdb.store.model import Chunk, Placed, Ready, Touched
from ctxdb.store.replays import thread_of
from ctxdb.store.rows import MessageRows
from ctxdb.store.tools import INSERT_FILE, INSERT_GIT, INSERT_TOOL, located, projects_of
from ctxdb.store.usage import Summed

Thread = tuple[str | None, str | None]


def known_chunks(conn: sqlite3.Connection, chunks: list[Chunk]) -> list[Chunk]:
    """The chunks that were made ready and must go the general way after all."""
    names = [_Names(chunk) for chunk in chunks]
    ready = [one for one in names if one.chunk.ready is not None]
    if not ready:
        return []
    shared_uuids = _shared(one.uuids for one in names) | _known_uuids(conn, ready)
    pairs = {row[3] for one in ready if one.chunk.ready for row in one.chunk.ready.tools}
    shared_tools = _shared(one.tools for one in names) & pairs | _known_tools(conn, pairs)
    shared_threads = _shared(_by_file(names, "threads")) | _known_threads(conn, ready)
    shared_events = _shared(_by_file(names, "events"))
    known_events = _known_events(conn, ready)
    general = {one.chunk.file.id for one in names if one.chunk.ready is None}
    for one in ready:
        if not (
            shared_uuids.isdisjoint(one.uuids)
            and shared_tools.isdisjoint(one.tools)
            and shared_threads.isdisjoint(one.threads)
            and shared_events.isdisjoint(one.events)
            and known_events.isdisjoint(one.identities)
        ):
            general.add(one.chunk.file.id)
    # Chunks of one file depend on each other: all of them, or none.
    return [one.chunk for one in ready if one.chunk.file.id in general]


class _Names:
    """All that a chunk could have in common with others."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.uuids: set[str] = set()
        self.tools: set[str] = set()
        self.threads: set[Thread] = set()
        self.events: set[tuple[int, str]] = set()
        self.identities: set[tuple[int, str, int]] = set()
        if chunk.ready is not None:
            self._of_ready(chunk.ready)
        else:
            self._of_records(chunk)

    def _of_ready(self, ready: Ready) -> None:
        self.uuids.update(ready.uuids)
        self.tools.update(row[3] for row in ready.tools)
        self.tools.update((call or result)[0] for _, call, result in ready.loose)
        self.identities.update((row[8], row[7], row[9]) for row in ready.events)
        self.events.update(one[:2] for one in self.identities)
        self._in_threads(ready.threads)

    def _of_records(self, chunk: Chunk) -> None:
        session = chunk.file.session_id or chunk.first_session()
        threads: set[Thread] = set()
        for record in chunk.records:
            if isinstance(record, Message):
                self.uuids.update(u for u in (record.uuid, record.forked_from) if u is not None)
                self.tools.update(call.tool_use_id for call in record.calls or ())
                self.tools.update(result.tool_use_id for result in record.results or ())
                agent = record.agent_id or chunk.file.agent_id
                threads.add((record.session_id or session, agent))
                threads.add((record.forked_session, agent))
            elif (hashed := getattr(record, "line_hash", None)) is not None:
                self.events.add((hashed, session or ""))
        self._in_threads(threads)

    def _in_threads(self, threads: Iterable[Thread]) -> None:
        for session_id, agent_id in threads:
            self.threads.add((session_id, thread_of(agent_id)))
            if self.chunk.file.agent_id is None:
                self.threads.add((session_id, None))
                self.threads.add((session_id, "side"))


def _by_file(names: list[_Names], which: str) -> Iterator[set[Any]]:
    by_file: dict[int, set[Any]] = {}
    for one in names:
        by_file.setdefault(one.chunk.file.id, set()).update(getattr(one, which))
    return iter(by_file.values())


def _shared(groups: Iterable[set[Any]]) -> set[Any]:
    """What is in more than one group."""
    seen: set[Any] = set()
    shared: set[Any] = set()
    for group in groups:
        shared |= group & seen
        seen |= group
    return shared


def _json(values: Iterable[Any]) -> str:
    return orjson.dumps(list(values)).decode()


def _known_uuids(conn: sqlite3.Connection, ready: list[_Names]) -> set[str]:
    named = _json(uuid for one in ready for uuid in one.uuids)
    return {
        uuid
        for (uuid,) in conn.execute(
            "SELECT m.uuid FROM json_each(?1) j CROSS JOIN messages m ON m.uuid = j.value"
            " UNION ALL SELECT c.uuid FROM json_each(?1) j CROSS JOIN message_copies c"
            "  ON c.uuid = j.value"
            " UNION ALL SELECT a.uuid FROM json_each(?1) j CROSS JOIN _aliases a"
            "  ON a.uuid = j.value",
            (named,),
        )
    }


def _known_tools(conn: sqlite3.Connection, pairs: set[str]) -> set[str]:
    """Calls that are stored; those that stand alone in their chunk are joined with them anyway."""
    return {
        tool_use_id
        for (tool_use_id,) in conn.execute(
            "SELECT t.tool_use_id FROM json_each(?) j CROSS JOIN tool_uses t"
            " ON t.tool_use_id = j.value",
            (_json(pairs),),
        )
    }


def _known_threads(conn: sqlite3.Connection, ready: list[_Names]) -> set[Thread]:
    """Threads of which another file holds lines: replays can be among them."""
    sessions = _json({session_id for one in ready for session_id, _ in one.threads})
    own = {one.chunk.file.id for one in ready}
    found: set[Thread] = set()
    known: set[str] = set()
    for session_id, file_id, agent_id in conn.execute(
        "SELECT s.session_id, s.source_file_id, f.agent_id FROM json_each(?) j"
        " CROSS JOIN _session_files s ON s.session_id = j.value"
        " JOIN source_files f ON f.id = s.source_file_id",
        (sessions,),
    ):
        known.add(session_id)
        if agent_id is None and file_id not in own:
            found.add((session_id, None))
    pairs = [
        (session_id, agent_id, one.chunk.file.id)
        for one in ready
        for session_id, agent_id in one.threads
        if agent_id is not None and session_id in known
    ]
    found.update(
        conn.execute(
            "SELECT json_extract(j.value, '$[0]'), json_extract(j.value, '$[1]')"
            " FROM json_each(?) j WHERE EXISTS (SELECT 1 FROM messages m"
            "  WHERE m.session_id = json_extract(j.value, '$[0]')"
            "   AND m.agent_id = json_extract(j.value, '$[1]')"
            "   AND m.source_file_id <> json_extract(j.value, '$[2]'))",
            (_json(pairs),),
        )
    )
    copied = {
        session_id
        for (session_id,) in conn.execute(
            "SELECT DISTINCT c.session_id FROM json_each(?) j CROSS JOIN message_copies c"
            " ON c.session_id = j.value",
            (_json(known),),
        )
    }
    found.update(t for one in ready for t in one.threads if t[0] in copied)
    return found


def _known_events(conn: sqlite3.Connection, ready: list[_Names]) -> set[tuple[int, str, int]]:
    return set(
        conn.execute(
            "SELECT e.line_hash, e.file_session, e.nth FROM json_each(?) j CROSS JOIN events e"
            " ON e.line_hash = j.value",
            (_json({hashed for one in ready for hashed, _ in one.events}),),
        )
    )


class Straight:
    """Writes the chunks of a batch that go the straight way, step by step beside the others."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        touched: Touched,
        rows: MessageRows,
        begin: TurnBeginnings,
        events: EventRows,
    ) -> None:
        self.conn = conn
        self.touched = touched
        self.rows = rows
        self.begin = begin
        self.events = events
        self.parts: list[_Part] = []

    def number(self, chunk: Chunk, ready: Ready) -> _Part:
        """Set ids aside for everything in a chunk."""
        part = _Part(chunk, ready, self.rows.next_id, self.rows.tools.next_id, self.events.next_id)
        self.rows.next_id += len(ready.messages)
        self.rows.tools.next_id += len(ready.tools)
        self.events.next_id += len(ready.events)
        self.events.add_ready(chunk, ready, part.event)
        self.parts.append(part)
        return part

    def begin_turns(self, part: _Part) -> None:
        """Turns that begin in the chunk, and those that it goes on with."""
        chunk, ready = part.chunk, part.ready
        current = self.begin.current.setdefault(chunk.file.id, {})
        before = {
            slot[0]: current[slot[0]] if slot[0] in current else self.begin.before(chunk, slot[0])
            for slot in ready.slots
            if len(slot) == 2 and slot[1] is None
        }
        new: list[int] = []
        for session_id, kind, prompt, at, message, event, start in ready.turns:
            message_id = part.message + message - 1 if message is not None else None
            event_id = part.event + event - 1 if event is not None else None
            place = (at, message_id, event_id, chunk.file.id, start)
            new.append(self.begin.new_turn(session_id, (kind, prompt), place))
            current[session_id] = new[-1]
        for slot in ready.slots:
            if len(slot) == 1:
                part.turns.append(new[slot[0] - 1])
            else:
                part.turns.append(before[slot[0]] if slot and slot[1] is None else None)
        self._note_calls(part, of_agents=False)
        for session_id, agent_id, call in ready.links:
            self.begin.links.setdefault((session_id, agent_id), call)

    def place_agents(self, part: _Part) -> None:
        """The turns of agents, once all calls of the batch have theirs."""
        of_agents = False
        for n, slot in enumerate(part.ready.slots):
            if len(slot) == 2 and slot[1] is not None:
                part.turns[n] = self.begin.of_agent(*slot)
                of_agents = True
        if of_agents:
            self._note_calls(part, of_agents=True)

    def _note_calls(self, part: _Part, *, of_agents: bool) -> None:
        ready = part.ready
        agent_slots = {n for n, s in enumerate(ready.slots) if len(s) == 2 and s[1] is not None}
        for row in ready.tools:
            if (row[2] in agent_slots) is of_agents:
                self.begin.of_calls[row[3]] = part.turns[row[2] or 0]
        for message, call, _ in ready.loose:
            slot = ready.turn_of[message - 1]
            if call is not None and (slot in agent_slots) is of_agents:
                self.begin.of_calls[call[0]] = part.turns[slot]

    def write_tools(self) -> None:
        """Calls with their results, and the files and git operations they show."""
        tools: list[tuple[Any, ...]] = []
        files: list[tuple[Any, ...]] = []
        git: list[tuple[Any, ...]] = []
        for part in self.parts:
            message, tool, turns = part.message - 1, part.tool - 1, part.turns
            tools += [
                (n, message + row[0], message + row[1], turns[row[2] or 0], *row[3:])
                for n, row in enumerate(part.ready.tools, part.tool)
            ]
            files += [(tool + row[0], turns[row[1] or 0], *row[2:]) for row in part.ready.files]
            git += [(tool + row[0], turns[row[1] or 0], *row[2:]) for row in part.ready.git]
        self.conn.executemany(INSERT_TOOL, tools)
        projects = projects_of(self.conn, {row[3] for row in files})
        self.conn.executemany(
            INSERT_FILE, [(*row, *located(row[5], projects.get(row[3]))) for row in files]
        )
        self.conn.executemany(INSERT_GIT, git)

    def write_rest(self) -> list[Summed]:
        """All else that hangs on the messages; gives back what they tell of requests."""
        loose: list[tuple[Placed, Call | None, Result | None]] = []
        told: list[Summed] = []
        touched = self.touched
        for part in self.parts:
            ready = part.ready
            touched.calls.update(ready.starting)
            touched.pulls.update(ready.pulls)
            touched.agents.update((s, a) for s, a in ready.threads if a is not None)
            for n, path in ready.mentions:
                self.rows.mention(part.item(n), [path])
            for n, facts in ready.facts:
                item = part.item(n)
                said = [Fact._make(fact) for fact in facts]
                agents.add_facts(self.conn, item.session_id, said, item.id, touched)
            for n, call, result in ready.loose:
                item = part.item(n)
                loose.append(
                    (
                        item,
                        Call._make(call) if call is not None else None,
                        Result._make(result) if result is not None else None,
                    )
                )
            told.append(part.requests())
        self.rows.join(loose)
        return told


class _Part:
    """A chunk with the first id of each kind of its rows."""

    def __init__(self, chunk: Chunk, ready: Ready, message: int, tool: int, event: int) -> None:
        self.chunk = chunk
        self.ready = ready
        self.message = message
        self.tool = tool
        self.event = event
        self.turns: list[int | None] = []  # by slot

    def messages(self) -> list[tuple[Any, ...]]:
        """Rows of messages."""
        file_id, turns = self.chunk.file.id, self.turns
        ready = self.ready
        return [
            (n, file_id, turns[slot], *row)
            for n, (slot, row) in enumerate(
                zip(ready.turn_of, ready.messages, strict=True), self.message
            )
        ]

    def item(self, n: int) -> Placed:
        """Who says something, as far as it takes to write what is said."""
        row = self.ready.messages[n - 1]
        rec = Message(0, 0, "", "", row[0], None, None, None, row[7], False, None, None, False,
                      "", None, "", 0)  # fmt: skip
        turn_id = self.turns[self.ready.turn_of[n - 1]]
        return Placed(rec, self.chunk.file, "", row[1], row[2], self.message + n - 1, turn_id)

    def open_parents(self) -> list[tuple[int, str]]:
        """Messages whose parent is not in their chunk."""
        return [(self.message + n - 1, uuid) for n, uuid in self.ready.open_parents]

    def requests(self) -> Summed:
        """What its messages tell of requests."""
        ready, before, turns = self.ready, self.message - 1, self.turns
        return Summed(
            [(before + row[0], *row[1:]) for row in ready.usage_lines],
            [(turns[row[0] or 0], *row[1:]) for row in ready.usage],
            ready.requests,
            ready.unsure,
        )
