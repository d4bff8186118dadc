"""One chunk of lines as rows: the only way from what lines say to rows, for one line or 4 MB.

`fill_chunk` is pure: the same lines of the same file always give the same rows. It may run in any
process. Ids are numbers within the chunk until the chunk is stored. What needs more than the chunk
(turns, copies, parents and calls elsewhere) is settled when it is stored.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctxdb.privacy.json_bytes import Place
from ctxdb.row_transport import pack_all, unpack_all
from ctxdb.rows import Event, Message, Skip, SourceFile
from ctxdb.rules.calls import give_back
from ctxdb.rules.derive import Derived, LineKey, derive, unpack_derived
from ctxdb.rules.owners import owner_flags
from ctxdb.rules.parent_chain import Chain, first_parent, name_sidechains

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctxdb.rows import Record


class Stat(NamedTuple):
    """How a file looked when it was read."""

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int


class LineError(NamedTuple):
    """A line that could not be read, or only after mending."""

    byte_start: int
    byte_length: int
    reason: str
    excerpt: str


@dataclass(slots=True)
class Chunk:
    """Consecutive lines of one file, from `start` up to `end`, which is just after a newline."""

    start: int
    end: int
    lines: int
    stat: Stat
    mark: bytes
    at_end: bool  # no complete line follows: the file has been read as it is
    is_large: bool = False  # the next line is so long that it must be announced before it is parsed
    unfinished: tuple[int, bytes] | None = None  # the searched part of a long unfinished line
    errors: list[LineError] = field(default_factory=list)
    counts: Counter[LineKey] = field(default_factory=Counter)  # blank, bad and skipped lines
    session_id: str | None = None  # of the file: by its name, else the first that a line names
    messages: list[Message] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    skipped: list[tuple[str, str | None]] = field(default_factory=list)  # uuid, parent
    derived: Derived = field(default_factory=Derived)
    needs_stored_rows: bool = False  # a line's agent or key cannot be told without the database
    masked: list[Place] = field(default_factory=list)  # secrets, by their bytes in the file
    file: SourceFile = field(default_factory=SourceFile)  # set by the process that stores it

    def derive(self) -> None:
        """Derive again, from the messages that are new."""
        for number, message in enumerate(self.messages, 1):
            message.id = number
        give_back(self.derived.tools, self.messages)
        self.derived = derive(self.messages)

    def belong_to(self, session_id: str | None) -> None:
        """Give rows the session of the file where their lines name none."""
        self.session_id = session_id
        for message in self.messages:
            message.session_id = message.said_session or session_id
            message.file_session = session_id
            message.owner_flags = owner_flags(message)
        for event in self.events:
            event.session_id = event.said_session or session_id
            event.file_session = session_id or ""

    def pass_on(self, is_forgotten: Callable[[str | None], bool]) -> None:
        """Give lines that name a forgotten session to the session of their file."""
        rows: list[Message | Event] = [*self.messages, *self.events]
        named = {row.said_session for row in rows}
        gone = {session_id for session_id in named if is_forgotten(session_id)}
        if not gone:
            return
        for row in rows:
            if row.said_session in gone:
                row.said_session = None
        left = (row.said_session for row in rows)
        if self.session_id in gone:
            self.session_id = next((session_id for session_id in left if session_id), None)
        self.belong_to(self.session_id)
        self.derive()

    def pack(self) -> tuple[Any, ...]:
        """As a tuple that marshal can carry."""
        return (
            (self.start, self.end, self.lines, tuple(self.stat), self.mark, self.at_end),
            (
                self.is_large,
                self.unfinished and tuple(self.unfinished),
                [tuple(e) for e in self.errors],
            ),
            list(self.counts.items()),
            (self.session_id, self.skipped, self.needs_stored_rows, [*map(tuple, self.masked)]),
            pack_all(self.messages, Message),
            pack_all(self.events, Event),
            self.derived.pack(),
        )


def unpack_chunk(packed: tuple[Any, ...]) -> Chunk:
    """What `Chunk.pack` was given."""
    place, more, counts, known, messages, events, derived = packed
    start, end, lines, stat, mark, at_end = place
    is_large, unfinished, errors = more
    session_id, skipped, needs_stored_rows, masked = known
    chunk = Chunk(
        start,
        end,
        lines,
        Stat(*stat),
        mark,
        at_end,
        is_large,
        unfinished,
        [LineError(*error) for error in errors],
        Counter(dict(counts)),
        session_id,
        unpack_all(messages, Message),
        unpack_all(events, Event),
        skipped,
        unpack_derived(derived),
        needs_stored_rows,
        [Place(*place) for place in masked],
    )
    chunk.derived.take_halves(chunk.messages)
    return chunk


def fill_chunk(
    chunk: Chunk, records: Iterable[Record], session_id: str | None, agent_id: str | None
) -> None:
    """Fill a chunk with the rows of its lines.

    `session_id` and `agent_id` are those of the file, as far as they are known before this chunk.
    """
    records = list(records)
    if session_id is None:
        session_id = next((r.said_session for r in records if r.said_session is not None), None)
    steps: list[tuple[str, str | None]] = []  # of lines that are no messages: uuid, parent
    for record in records:
        if type(record) is Message:
            if record.agent_id is None and not record.is_wrapped:
                record.agent_id = agent_id
            record.is_new = True
            chunk.messages.append(record)
            record.id = len(chunk.messages)
            if record.wrapper is not None:
                steps.append(record.wrapper)
        elif type(record) is Event:
            chunk.events.append(record)
            if record.uuid:
                steps.append((record.uuid, record.said_parent))
        elif type(record) is Skip:
            if record.uuid:
                steps.append((record.uuid, record.said_parent))
            if record.note is not None:
                reason = f"{record.reason},{record.note}" if record.note else record.reason
                chunk.counts[record.line_type, record.version, "skipped", reason] += 1
    chunk.belong_to(session_id)
    _step_over(chunk, steps)
    unnamed: list[Message] = []
    if any(one.is_sidechain and one.agent_id is None for one in chunk.messages):
        unnamed = name_sidechains(chunk.messages, _not_here)
    chunk.needs_stored_rows = bool(unnamed) or any(one.uuid is None for one in chunk.messages)
    chunk.derive()


def _step_over(chunk: Chunk, steps: list[tuple[str, str | None]]) -> None:
    """Find the parents of messages, as far as the lines of this chunk say."""
    parents = dict(steps)
    if len(parents) < len(steps):
        parents = {}
        for uuid, parent in steps:
            parents[uuid] = first_parent(parents.get(uuid), parent)
    chunk.skipped = list(parents.items())
    if not parents:
        for message in chunk.messages:
            message.parent_uuid = message.said_parent
        return
    for message in chunk.messages:
        if message.uuid in parents:
            del parents[message.uuid]
    chain = Chain(parents.items())
    for message in chunk.messages:
        message.parent_uuid = chain.ancestor(message.said_parent)


def _not_here(uuid: str) -> str | None:
    raise LookupError(uuid)
