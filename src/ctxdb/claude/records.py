"""What one transcript line says, as plain data between the pure core and the store.

Every record is made of builtin values only, so that a first sync can normalize in one process and
write in another: `pack` turns a record into a tuple that `marshal` can carry, `unpack` turns it
back. Nothing here knows of the database; `session_id` and `agent_id` are what the line itself says
(None where it says nothing), and the store fills in what only the whole can tell.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, NamedTuple

Json = dict[str, Any]

# Plain tuples, one per row: (columns in the order the store inserts them).
UsageRow = tuple[Any, ...]
Snapshot = tuple[str, int, str | None]  # path, version, time


class Call(NamedTuple):
    """A tool call as the assistant wrote it."""

    tool_use_id: str
    name: str
    raw_name: str
    mcp_server: str | None
    input: str
    target: str | None
    path: str | None  # file it touches, None for tools that touch none
    operation: str | None
    lines_added: int | None  # by the strings of the call alone
    lines_removed: int | None
    prompt: str | None  # what an Agent call asks, to find its agent by


class Result(NamedTuple):
    """A tool result as the user line wrote it; what depends on the call is left to the store."""

    tool_use_id: str
    status: str
    is_error: int
    exit_code: int | None
    ended_cleanly: int
    text: str | None
    size: int
    path: str | None
    tool_ms: int | None
    file: str | None  # JSON [path, operation, added, removed]
    git: list[tuple[str, str | None, str | None, int | None, str | None]] | None


class Fact(NamedTuple):
    """Something a line says of an agent."""

    agent_id: str
    source: str
    tool_use_id: str
    at: str
    kind: str | None = None
    agent_type: str | None = None
    description: str | None = None
    model: str | None = None
    status: str | None = None
    parent_agent_id: str | None = None
    depth: int | None = None
    run_id: str | None = None
    prompt: str | None = None


@dataclass(slots=True)
class Message:
    """A threaded entry: user, assistant, system or attachment, or one wrapped in agent_progress."""

    start: int
    length: int
    line_type: str
    version: str
    uuid: str | None
    parent_uuid: str | None
    session_id: str | None
    agent_id: str | None
    timestamp: str | None
    nested: bool
    forked_from: str | None
    forked_session: str | None
    background: bool
    type: str
    subtype: str | None
    kind: str
    is_sidechain: int
    model: str | None = None
    api_message_id: str | None = None
    request_id: str | None = None
    stop_reason: str | None = None
    text: str | None = None
    thinking: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    data: str | None = None
    slug: str | None = None
    entrypoint: str | None = None
    process_session: str | None = None  # session_id where it is not the line's own sessionId
    block_keys: str | None = None
    line_hash: int | None = None
    calls: list[Call] | None = None
    results: list[Result] | None = None
    usage: list[UsageRow] | None = None
    mentions: list[str] | None = None
    turn: tuple[str, str] | None = None  # (kind, prompt) where a human speaks
    queued: str | None = None  # text of a queued_command that a human typed
    facts: list[Fact] | None = None
    wrapper: tuple[str, str | None] | None = None  # (uuid, parent) of the progress line around it


@dataclass(slots=True)
class Event:
    """Any other entry, kept whole."""

    start: int
    length: int
    line_type: str
    version: str
    session_id: str | None
    type: str | None
    subtype: str | None
    timestamp: str | None
    data: str
    line_hash: int
    summary: tuple[str, str] | None = None  # (leaf uuid, text)
    snapshots: list[Snapshot] | None = None
    uuid: str | None = None  # of one that stands in the parent chain, as unknown types may
    parent_uuid: str | None = None
    facts: list[Fact] | None = None


@dataclass(slots=True)
class Skip:
    """A line left out on purpose; its place in the parent chain is remembered."""

    line_type: str
    version: str
    reason: str
    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None


Record = Message | Event | Skip

_KINDS: tuple[type[Message | Event | Skip], ...] = (Message, Event, Skip)
_GETTERS = {kind: attrgetter(*(f.name for f in fields(kind))) for kind in _KINDS}
_TAGS = {kind: tag for tag, kind in enumerate(_KINDS)}


def pack(record: Record) -> tuple[Any, ...]:
    """The record as a tuple that marshal can carry."""
    kind = type(record)
    values = list(_GETTERS[kind](record))
    if kind is Message:
        for i in _MESSAGE_LISTS:
            if values[i] is not None:
                values[i] = [tuple(item) for item in values[i]]
    elif kind is Event and values[-1] is not None:
        values[-1] = [tuple(fact) for fact in values[-1]]
    return (_TAGS[kind], *values)


def unpack(packed: tuple[Any, ...]) -> Record:
    """What `pack` was given."""
    tag = packed[0]
    if tag == 2:
        return Skip(*packed[1:])
    if tag == 1:
        event = Event(*packed[1:])
        if event.facts is not None:
            event.facts = [Fact._make(fact) for fact in event.facts]
        return event
    record = Message(*packed[1:])
    if record.calls is not None:
        record.calls = [Call._make(call) for call in record.calls]
    if record.results is not None:
        record.results = [Result._make(result) for result in record.results]
    if record.facts is not None:
        record.facts = [Fact._make(fact) for fact in record.facts]
    return record


_NAMES = [f.name for f in fields(Message)]
_MESSAGE_LISTS = [_NAMES.index(name) for name in ("calls", "results", "usage", "facts")]
