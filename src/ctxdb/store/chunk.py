"""What one batch brings to the store."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ctxdb.claude import Fact, Message, Record
from ctxdb.files.tail import Unfinished

LineKey = tuple[str, str, str, str]  # type, version, outcome, reason


def is_uuid(text: str) -> bool:
    """Other ids repeat between sessions, so they are unique within their session only."""
    return len(text) == 36 and text[8] == text[13] == text[18] == text[23] == "-"


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
    unfinished: Unfinished | None = None  # what is known of the long line at the offset
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
    unfinished: Unfinished | None = None  # the long last line without a newline

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
