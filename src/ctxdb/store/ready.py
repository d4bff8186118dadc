"""Rows made ready where lines are read, so that the process that writes has little left to do.

In a first sync nearly every line is new, and nearly everything that a row needs stands in the same
file. `ReadyFile` follows one file from its first byte and makes the rows of each chunk with the
same functions that the store uses, under numbers in place of ids; straight.py puts in the ids. A
chunk in which something may be a copy, or that cannot be told without the database, is not made
ready: it goes the general way (batch.py), and so does one that the writer knows something of.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from ctxdb.normalize import Event, Message, Skip, pack
from ctxdb.store import tally, usage
from ctxdb.store.begin import LINKS, ReadingOrder
from ctxdb.store.events import event_values
from ctxdb.store.model import Chunk, Placed, Ready, SourceFile, Touched, is_uuid, place_line
from ctxdb.store.parents import Parents
from ctxdb.store.replays import SeenReplays
from ctxdb.store.rows import line_values
from ctxdb.store.tools import ToolJoin, file_row, finish, is_unique_id
from ctxdb.store.turns import QueueReader

MAX_LINES = 50_000  # of one file are remembered; what follows goes the general way


class NotReady(Exception):
    """The chunk must go the general way."""


class _Turns(ReadingOrder):
    """Turns by their number in a chunk."""

    def begin_chunk(self) -> None:
        """Number anew; the queue of the file goes on."""
        self.current.clear()
        self.of_calls.clear()
        self.slots: list[tuple[Any, ...]] = [()]
        self.slot_of: dict[tuple[Any, ...], int] = {(): 0}
        self.new: list[tuple[Any, ...]] = []

    def slot(self, *what: Any) -> int:
        """The number that a turn is named by."""
        found = self.slot_of.get(what)
        if found is None:
            found = self.slot_of[what] = len(self.slots)
            self.slots.append(what)
        return found

    def _queue_before(self, _chunk: Chunk) -> QueueReader:
        return QueueReader()  # files are followed from their first byte

    def before(self, chunk: Chunk, session_id: str | None) -> int | None:
        """The turn before the chunk is left to the database."""
        return 0 if chunk.start == 0 else self.slot(session_id, None)

    def new_turn(
        self, session_id: str | None, turn: tuple[str, str], place: tuple[Any, ...]
    ) -> int:
        """A turn of this chunk."""
        at, message, event, _, start = place
        self.new.append((session_id, *turn, at, message, event, start))
        return self.slot(len(self.new))


class _Chain(Parents):
    """The parent chain within a chunk."""

    def __init__(self) -> None:
        self.skipped = {}
        self.stored = {}

    def _load(self, uuids: list[str]) -> None:
        pass

    def _agent_of(self, _uuid: str) -> str | None:
        raise NotReady


class ReadyFile:
    """Follows one file from its first byte."""

    def __init__(self, session_id: str | None, agent_id: str | None) -> None:
        self.file = SourceFile(0, "", session_id, agent_id)
        self.turns = _Turns()
        self.replays = SeenReplays()
        self.equal: dict[int, int] = {}  # how many events of each hash came before
        self.lines = 0

    def make(self, chunk: Chunk) -> Ready | None:
        """The chunk's rows; None if it must go the general way.

        What later chunks depend on is followed in any case.
        """
        self.lines += chunk.lines
        if self.lines > MAX_LINES:  # what came before is too much to be remembered
            self.replays.seen.clear()
            self.equal.clear()
            return None
        chunk.file = self.file
        if self.file.session_id is None:
            self.file.session_id = chunk.first_session()
        items: list[Placed] = []
        skipped: list[Skip] = []
        events: list[Event] = []
        for record, note in zip(chunk.records, chunk.notes, strict=True):
            if type(record) is Message:
                item = place_line(record, self.file, note)
                item.fresh = True
                items.append(item)
                item.id = len(items)
            elif type(record) is Event:
                events.append(record)
            elif type(record) is Skip and record.uuid:
                skipped.append(record)
        is_ready = self._all_new(items)
        chain = _Chain()
        try:
            chain.learn(items, skipped)
            chain.resolve(items)
            chain.name_sidechains(items)
        except NotReady:
            is_ready = False
        self.turns.begin_chunk()
        numbers = {id(event): n for n, event in enumerate(events, 1)}
        self.turns.follow(chunk, items, lambda event: numbers[id(event)])
        rows = [event_values(event, self.file, self._nth(event)) for event in events]
        if not is_ready:
            return None
        return self._ready(chunk, items, chain, events, rows)

    def _nth(self, event: Event) -> int:
        nth = self.equal.get(event.line_hash, 0)
        self.equal[event.line_hash] = nth + 1
        return nth

    def _all_new(self, items: list[Placed]) -> bool:
        """Whether no line repeats another of its file, as far as its file tells."""
        seen: set[str] = set()
        is_new = True
        for item in items:
            rec = item.rec
            uuid = rec.uuid
            if (
                uuid is None
                or uuid in seen
                or not is_uuid(uuid)
                or item.session_id is None
                or rec.forked_from is not None
            ):
                is_new = False
            else:
                seen.add(uuid)
            if rec.block_keys and rec.timestamp is not None:
                moment = (item.session_id, rec.timestamp)
                thread = item.agent_id or ("side" if rec.is_sidechain else None)
                voice = (rec.type, thread, rec.api_message_id)
                if self.replays.add(moment, voice, rec.block_keys):
                    is_new = False
        return is_new

    def _ready(
        self,
        chunk: Chunk,
        items: list[Placed],
        chain: Parents,
        events: list[Event],
        event_rows: list[tuple[Any, ...]],
    ) -> Ready:
        of_agents = [item for item in items if item.agent_id is not None]
        for item in of_agents:
            item.turn_id = self.turns.slot(item.session_id, item.agent_id)
        own = {item.rec.uuid for item in items}
        touched = Touched()
        join = ToolJoin(None, 1, touched)
        loose = _join(join, items)
        tools = list(join.rows.values())
        for tool in tools:
            finish(tool)
        lines, sums, requests, unsure = _requests(items)
        facts = [(item, item.rec.facts) for item in items if item.rec.facts]
        return Ready(
            session_id=self.file.session_id,
            uuids=[item.rec.uuid or "" for item in items],
            threads=list({(item.session_id or "", item.agent_id) for item in items}),
            messages=[line_values(item) for item in items],
            turn_of=[item.turn_id or 0 for item in items],
            slots=self.turns.slots,
            turns=self.turns.new,
            skipped=list(chain.skipped.items()),
            open_parents=[
                (item.id, item.parent_uuid)
                for item in items
                if item.parent_uuid is not None and item.parent_uuid not in own
            ],
            told=tally.told_of(items),
            events=event_rows,
            telling=[
                (n, pack(replace(event, data="")))
                for n, event in enumerate(events, 1)
                if event.summary or event.facts or event.snapshots or event.type in _TELLING
            ],
            tools=[tool.values() for tool in tools],
            files=[row for tool in tools if (row := file_row(tool)) is not None],
            git=[row for tool in tools for row in join.git_rows(tool, tool.git or [])],
            loose=loose,
            usage_lines=lines,
            usage=sums,
            requests=requests,
            unsure=unsure,
            mentions=[(item.id, path) for item in items for path in item.rec.mentions or ()],
            facts=[(item.id, [tuple(fact) for fact in said]) for item, said in facts],
            links=[
                (item.session_id, fact.agent_id, fact.tool_use_id)
                for item, said in facts
                for fact in said
                if fact.tool_use_id and fact.source in LINKS
            ],
            starting=list(touched.calls),
            pulls=list(touched.pulls),
            counts=list(tally.counted(chunk, items, lambda _: "stored").items()),
        )


_TELLING = ("pr-link", "queue-operation")


def _join(join: ToolJoin, items: list[Placed]) -> list[tuple[Any, ...]]:
    """Join calls with their results; says which stand alone, or not for sure together."""
    speaking = [item for item in items if item.rec.calls or item.rec.results]
    calls = Counter(call.tool_use_id for item in speaking for call in item.rec.calls or ())
    results = Counter(one.tool_use_id for item in speaking for one in item.rec.results or ())
    pairs = {
        tool_use_id
        for tool_use_id, n in calls.items()
        if n == 1 and results.get(tool_use_id) == 1 and is_unique_id(tool_use_id)
    }
    loose: list[tuple[Any, ...]] = []
    for item in speaking:
        for call in item.rec.calls or ():
            if call.tool_use_id in pairs:
                join.add_call(call, item)
            else:
                loose.append((item.id, tuple(call), None))
        for result in item.rec.results or ():
            if result.tool_use_id in pairs:
                join.add_result(result, item)
            else:
                loose.append((item.id, None, tuple(result)))
    return loose


Requests = tuple[list[tuple[Any, ...]], list[tuple[Any, ...]], list[tuple[str, str]], list[str]]


def _requests(items: list[Placed]) -> Requests:
    """(lines, sums, (API message, key), keys that need more than this chunk)."""
    lines, told, keys_of = usage.requests_of(items)
    sums: list[tuple[Any, ...]] = []
    unsure: list[str] = []
    for key, tellers in told.items():
        api_message_id = tellers[0][1][2]
        if api_message_id is None or len(keys_of.get(api_message_id, ())) > 1:
            unsure.append(key)
        else:
            sums.append(usage.sum_up(key, tellers))
    named = [(api, key) for api, keys in keys_of.items() if api is not None for key in keys]
    return lines, sums, named, unsure
