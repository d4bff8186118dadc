"""What one batch brings to the store."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ctxdb.normalize import Fact, Message, Record

LineKey = tuple[str, str, str, str]  # type, version, outcome, reason


def is_uuid(text: str) -> bool:
    """Other ids repeat between sessions, so they are unique within their session only."""
    return len(text) == 36 and text[8] == text[13] == text[18] == text[23] == "-"


def are_uuids(texts: list[str]) -> bool:
    """Whether is_uuid says so of each; the dashes of all of them are looked at together."""
    if not set(map(len, texts)) <= {36}:
        return False
    joined, dashes = "".join(texts), "-" * len(texts)
    return all(joined[at::36] == dashes for at in (8, 13, 18, 23))


def entry_key(uuid: str, session_id: str | None) -> str:
    """What an entry is known by."""
    return uuid if is_uuid(uuid) else f"{session_id}|{uuid}"


def line_key(file_session: str | None, line_hash: int | None, nth: int | None) -> str:
    """What an entry without uuid is known by: its file's session, its bytes, equal ones before."""
    return f"line {file_session} {line_hash} {nth}"


@dataclass(slots=True)
class SourceFile:
    """A transcript file as the database knows it."""

    id: int
    path: str
    session_id: str | None
    agent_id: str | None
    workflow_run: str | None = None
    generation: int = 0
    offset: int = 0
    root: str = ""
    mark: bytes | None = None  # of what was read up to the offset
    fresh: bool = False  # no line of it has been stored before this pass
    facts: list[Fact] = field(default_factory=list)  # of its agent, by its place and meta.json


@dataclass(slots=True)
class Stat:
    """How a file looked when it was read."""

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int


class Ready(NamedTuple):
    """What a chunk tells in which every line is new, beside its rows, which are in a Scratch.

    Made of builtin values only (it is carried between processes). Messages, calls and events are
    named by their numbers in the Scratch. A slot names a turn: 0 is none, the others are listed.
    """

    number: int  # of the chunk, in its batch
    session_id: str | None  # of the file
    threads: list[tuple[str, str | None]]  # (session, agent) that its messages are of
    slots: list[tuple[int, tuple[Any, ...]]]  # slot; (turn,), (session, None) or (session, agent)
    turns: list[tuple[Any, ...]]  # session, kind, prompt, time, message, event, byte
    skipped: list[tuple[str, str | None]]  # uuid, parent
    open_parents: list[tuple[int, str]]  # message, parent that is not in this chunk
    told: list[tuple[Any, ...]]  # tally.told_of
    belong: list[str]  # sessions of its events
    telling: list[tuple[int, tuple[Any, ...]]]  # events that tell more: number, packed
    files: list[tuple[Any, ...]]  # tools.file_row
    git: list[tuple[Any, ...]]
    loose: list[tuple[Any, ...]]  # message, and a call or a result that may belong elsewhere
    unsure: list[str]  # request keys to be summed up over everything
    mentions: list[tuple[int, str]]  # message, path
    facts: list[tuple[int, list[tuple[Any, ...]]]]  # message, facts of agents
    speakers: list[tuple[Any, ...]]  # of these, message: number, uuid, session, agent, time, slot
    links: list[tuple[str | None, str, str]]  # session, agent, call
    starting: list[str]  # calls that start agents
    pulls: list[str]  # sessions with pull requests
    counts: list[tuple[LineKey, int]]  # all lines


@dataclass(slots=True)
class Chunk:
    """Consecutive lines of one file, from `start` up to `end`, which is just after a newline."""

    file: SourceFile
    start: int
    end: int
    records: list[Record]
    notes: list[str | None]  # what was mended in each record's line; None: not a line of its own
    counts: Counter[LineKey]  # lines that no record stands for: blank and bad ones; then all
    errors: list[tuple[int, int, str, str]]  # byte_start, byte_length, reason, excerpt
    lines: int
    stat: Stat
    mark: bytes
    at_end: bool  # no complete line follows: the file has been read as it is
    ready: Ready | None = None  # in place of the records

    def first_session(self) -> str | None:
        """The first session that a line names."""
        return next((r.session_id for r in self.records if r.session_id is not None), None)


@dataclass(slots=True)
class Placed:
    """A message with everything the batch has found out about it."""

    rec: Message
    file: SourceFile
    note: str | None
    session_id: str | None
    agent_id: str | None
    id: int = 0
    turn_id: int | None = None
    parent_uuid: str | None = None
    nth: int | None = None
    fresh: bool = False  # a new entry, not another place of a stored one


def place_line(rec: Message, file: SourceFile, note: str | None) -> Placed:
    """A line with what it and its file say of where it belongs."""
    agent_id = rec.agent_id
    if agent_id is None and not rec.nested:
        agent_id = file.agent_id
    return Placed(rec, file, note, rec.session_id or file.session_id, agent_id)


@dataclass(slots=True)
class Touched:
    """What must be made anew at the end of a batch, because something under it has changed."""

    sessions: set[str] = field(default_factory=set)
    agents: set[tuple[str, str]] = field(default_factory=set)
    turns: set[int] = field(default_factory=set)
    renumber: set[str] = field(default_factory=set)  # sessions whose turns need new ordinals
    retell: set[int] = field(default_factory=set)  # files whose turns must be worked out again
    requests: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)  # sessions that share entries with others
    pulls: set[str] = field(default_factory=set)  # sessions with new pull requests
    calls: set[str] = field(default_factory=set)  # tool_use_ids of calls that start agents
    # (session, tool_use_id) of ids that repeat, whose calls and results must be paired again
    pairs: set[tuple[str | None, str]] = field(default_factory=set)
    tellings: set[str] = field(default_factory=set)  # tool_use_ids that several messages tell of


WRAPPED, FORKED, FOREIGN, BACKGROUND = 8, 4, 2, 1


def owner_flags(rec: Message, session_id: str | None, file: SourceFile) -> int:
    """What counts against a line as the owner of its entry."""
    flags = 0 if session_id == file.session_id else FOREIGN
    if rec.nested:
        flags |= WRAPPED
    if rec.forked_from or rec.forked_session:
        flags |= FORKED
    if rec.background:
        flags |= BACKGROUND
    return flags


def owner_rank(flags: int, timestamp: str | None) -> tuple[int, str, int]:
    """Sort key of a line among the copies of its entry; the smallest owns it.

    An agent's own file before an agent_progress line that wraps the same entry; a line without
    forkedFrom; a line in its own session's file; the earliest; one not of a background session.
    """
    return flags & ~BACKGROUND, timestamp or "~", flags & BACKGROUND
