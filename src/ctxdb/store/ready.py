"""Rows made ready where lines are read, so that the process that writes has little left to do.

In a first sync nearly every line is new, and nearly everything that a row needs stands in the same
file. `ReadyFile` follows one file from its first byte and makes the rows of each chunk with the
same functions that the store uses, under numbers in place of ids; straight.py puts in the ids. A
chunk in which something may be a copy, or that cannot be told without the database, is not made
ready: it goes the general way (batch.py), and so does one that has something in common with
another file of its batch (`Seen`) or with what is stored when the batch is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from ctxdb.normalize import Event, Message, Skip, pack
from ctxdb.store import tally, usage
from ctxdb.store.begin import LINKS, ReadingOrder
from ctxdb.store.events import event_values
from ctxdb.store.model import Chunk, Placed, Ready, SourceFile, Touched, are_uuids, place_line
from ctxdb.store.parents import Parents
from ctxdb.store.replays import SeenReplays, Thread, thread_of, threads_of
from ctxdb.store.rows import ready_values
from ctxdb.store.scratch import Scratch
from ctxdb.store.tools import ToolJoin, file_row, finish, is_unique_id
from ctxdb.store.turns import QueueReader

MAX_LINES = 50_000  # of one file are remembered; what follows goes the general way


class NotReady(Exception):
    """The chunk must go the general way."""


class Seen:
    """Names that the lines have had whose rows are in a batch.

    Of most only hashes: two that happen to be equal cost a chunk the straight way, nothing else.
    """

    def __init__(self) -> None:
        self.uuids: set[int] = set()
        self.calls: set[int] = set()
        self.api_messages: set[int] = set()
        self.threads: dict[Thread, int] = {}  # the file that has lines of it
        self.events: dict[tuple[int, str | None], int] = {}

    def clear(self) -> None:
        """Forget everything: a batch begins."""
        self.uuids.clear()
        self.calls.clear()
        self.api_messages.clear()
        self.threads.clear()
        self.events.clear()

    def note(self, names: Names) -> None:
        """Remember the names of lines."""
        self.uuids.update(names.uuids)
        self.calls.update(map(hash, names.calls))
        self.calls.update(map(hash, names.results))
        self.api_messages.update(names.api_messages)
        for thread in names.threads:
            self.threads.setdefault(thread, names.file_id)
        for event in names.events:
            self.events.setdefault(event, names.file_id)

    def knows(self, names: Names, pairs: set[str]) -> bool:
        """Whether anything of these lines has been there before, or stands in another file."""
        file_id = names.file_id
        return not (
            self.uuids.isdisjoint(names.uuids)
            and self.calls.isdisjoint(map(hash, pairs))
            and all(self.threads.get(thread, file_id) == file_id for thread in names.threads)
            and all(self.events.get(event, file_id) == file_id for event in names.events)
        )


class Names:
    """The names that lines of a file have."""

    def __init__(self, items: list[Placed], events: list[Event], file: SourceFile) -> None:
        records = [item.rec for item in items]
        self.file_id = file.id
        self.uuids = [hash(rec.uuid) for rec in records]
        self.uuids += [hash(rec.forked_from) for rec in records if rec.forked_from is not None]
        self.calls = [call.tool_use_id for rec in records if rec.calls for call in rec.calls]
        self.results = [one.tool_use_id for rec in records if rec.results for one in rec.results]
        self.api_messages = [
            hash(rec.api_message_id)
            for rec in records
            if rec.usage and rec.api_message_id is not None
        ]
        self.events = [(event.line_hash, file.session_id) for event in events]
        self.threads = threads_of(
            {(item.session_id, item.agent_id) for item in items}, in_main_file=file.agent_id is None
        )
        self.threads.update(
            (item.rec.forked_session, thread_of(item.agent_id))
            for item in items
            if item.rec.forked_session is not None
        )

    def pairs(self) -> set[str]:
        """Calls that stand with their results, each once, under an id that is nobody else's."""
        results = Counter(self.results)
        return {
            tool_use_id
            for tool_use_id, n in Counter(self.calls).items()
            if n == 1 and results.get(tool_use_id) == 1 and is_unique_id(tool_use_id)
        }


class _Turns(ReadingOrder):
    """Turns by their slots in a batch."""

    def begin_chunk(self, before: int) -> None:
        """Number on from a slot; the queue of the file goes on."""
        self.current.clear()
        self.of_calls.clear()
        self.last = before
        self.slot_of: dict[tuple[Any, ...], int] = {}
        self.new: list[tuple[Any, ...]] = []

    def slot(self, *what: Any) -> int:
        """The number that a turn is named by."""
        found = self.slot_of.get(what)
        if found is None:
            self.last += 1
            found = self.slot_of[what] = self.last
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

    def __init__(self, file: SourceFile, seen: Seen) -> None:
        self.file = file
        self.seen = seen
        self.turns = _Turns()
        self.replays = SeenReplays()
        self.equal: dict[int, int] = {}  # how many events of each hash came before
        self.lines = 0

    def make(self, chunk: Chunk, number: int, scratch: Scratch, *, wanted: bool) -> Ready | None:
        """Add the rows of a chunk, known by a number; None if it must go the general way.

        What later chunks depend on is followed in any case.
        """
        file = self.file
        self.lines += chunk.lines
        if file.session_id is None:
            file.session_id = chunk.first_session()
        items: list[Placed] = []
        skipped: list[Skip | Event] = []
        events: list[Event] = []
        before = scratch.counts["messages"]
        for record, note in zip(chunk.records, chunk.notes, strict=True):
            if type(record) is Message:
                item = place_line(record, file, note)
                item.fresh = True
                items.append(item)
                item.id = before + len(items)
            elif type(record) is Event:
                events.append(record)
                if record.uuid:
                    skipped.append(record)
            elif type(record) is Skip and record.uuid:
                skipped.append(record)
        # What came before is too much to be remembered, or will be of a session yet to be named.
        if self.lines > MAX_LINES or file.session_id is None:
            self.lines = max(self.lines, MAX_LINES)
            self.replays.seen.clear()
            self.equal.clear()
            return None
        is_ready = self._all_new(items) and wanted
        chain = _Chain()
        try:
            chain.learn(items, skipped)
            chain.resolve(items)
            chain.name_sidechains(items)
        except NotReady:
            is_ready = False
        self.turns.begin_chunk(scratch.slots)
        numbers = {id(event): n for n, event in enumerate(events, scratch.counts["events"] + 1)}
        self.turns.follow(chunk, items, lambda event: numbers[id(event)])
        event_rows = [
            (number, file.id, *event_values(event, file, self._nth(event))) for event in events
        ]
        if not is_ready:
            return None
        names = Names(items, events, file)
        pairs = names.pairs()
        if self.seen.knows(names, pairs):
            return None
        ready = self._ready(chunk, number, scratch, items, pairs, chain, events)
        scratch.add("events", event_rows)
        self.seen.note(names)
        return ready

    def _nth(self, event: Event) -> int:
        nth = self.equal.get(event.line_hash, 0)
        self.equal[event.line_hash] = nth + 1
        return nth

    def _all_new(self, items: list[Placed]) -> bool:
        """Whether no line repeats another of its file, as far as its file tells."""
        uuids = [
            item.rec.uuid
            for item in items
            if item.rec.uuid is not None
            and item.rec.forked_from is None
            and item.session_id is not None
        ]
        is_new = are_uuids(uuids) and len(set(uuids)) == len(items)
        add = self.replays.add
        for item in items:
            rec = item.rec
            if rec.block_keys and rec.timestamp is not None:
                thread = item.agent_id or ("side" if rec.is_sidechain else None)
                key = (item.session_id, rec.timestamp, rec.type, thread, rec.api_message_id)
                if add(key, rec.block_keys):
                    is_new = False
        return is_new

    def _ready(
        self,
        chunk: Chunk,
        number: int,
        scratch: Scratch,
        items: list[Placed],
        pairs: set[str],
        chain: Parents,
        events: list[Event],
    ) -> Ready:
        for item in items:
            if item.agent_id is not None:
                item.turn_id = self.turns.slot(item.session_id, item.agent_id)
        own = {item.rec.uuid for item in items}
        touched = Touched()
        join = ToolJoin(None, scratch.counts["tools"] + 1, touched)
        loose = _join(join, items, pairs)
        tools = list(join.rows.values())
        for tool in tools:
            finish(tool)
        lines, sums, unsure = self._requests(items)
        mentions = [(item.id, path) for item in items for path in item.rec.mentions or ()]
        facts = [(item, item.rec.facts) for item in items if item.rec.facts]
        speaking = {n for n, *_ in loose} | {n for n, _ in mentions}
        speaking.update(item.id for item, _ in facts)
        first = scratch.counts["messages"] + 1
        file_id = self.file.id
        scratch.add(
            "messages",
            [(number, file_id, item.turn_id or 0, *ready_values(item)) for item in items],
        )
        scratch.add("tools", [(number, *tool.values()) for tool in tools])
        scratch.add("lines", [(number, *line) for line in lines])
        scratch.add("usage", [(number, *row) for row in sums])
        scratch.slots = self.turns.last
        return Ready(
            number=number,
            session_id=self.file.session_id,
            threads=list({(item.session_id or "", item.agent_id) for item in items}),
            slots=[(slot, what) for what, slot in self.turns.slot_of.items()],
            turns=self.turns.new,
            skipped=list(chain.skipped.items()),
            open_parents=[
                (item.id, item.parent_uuid)
                for item in items
                if item.parent_uuid is not None and item.parent_uuid not in own
            ],
            told=tally.told_of(items),
            belong=list({s for event in events if (s := event.session_id or self.file.session_id)}),
            telling=[
                (n, pack(replace(event, data="")))
                for n, event in enumerate(events, scratch.counts["events"] + 1)
                if event.summary or event.facts or event.snapshots or event.type in _TELLING
            ],
            files=[row for tool in tools if (row := file_row(tool)) is not None],
            git=[row for tool in tools for row in join.git_rows(tool, tool.git or [])],
            loose=loose,
            unsure=unsure,
            mentions=mentions,
            facts=[(item.id, [tuple(fact) for fact in said]) for item, said in facts],
            speakers=[_speaker(items[n - first]) for n in sorted(speaking)],
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

    def _requests(
        self, items: list[Placed]
    ) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]], list[str]]:
        """(lines, sums, keys of requests that need more than this chunk to be summed up)."""
        lines, told, keys_of = usage.requests_of(items)
        known = self.seen.api_messages
        sums: list[tuple[Any, ...]] = []
        unsure: list[str] = []
        for key, tellers in told.items():
            api_message_id = tellers[0][1][2]
            if (
                api_message_id is None
                or len(keys_of.get(api_message_id, ())) > 1
                or hash(api_message_id) in known
                or usage.is_mixed(tellers)
            ):
                unsure.append(key)
            else:
                slot, *values = usage.sum_up(key, tellers)
                sums.append((slot or 0, *values))
        return lines, sums, unsure


_TELLING = ("pr-link", "queue-operation")


def _speaker(item: Placed) -> tuple[Any, ...]:
    rec = item.rec
    slot = item.turn_id or 0
    return item.id, rec.uuid, item.session_id, item.agent_id, rec.timestamp, slot


def _join(join: ToolJoin, items: list[Placed], pairs: set[str]) -> list[tuple[Any, ...]]:
    """Join calls with their results; says which stand alone, or not for sure together."""
    loose: list[tuple[Any, ...]] = []
    for item in items:
        rec = item.rec
        if not rec.calls and not rec.results:
            continue
        for call in rec.calls or ():
            if call.tool_use_id in pairs:
                join.add_call(call, item)
            else:
                loose.append((item.id, tuple(call), None))
        for result in rec.results or ():
            if result.tool_use_id in pairs:
                join.add_result(result, item)
            else:
                loose.append((item.id, None, tuple(result)))
    return loose
