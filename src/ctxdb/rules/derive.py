"""What follows from the new lines of a chunk, before their ids are known.

A worker derives it assuming that every line is new, which nearly always holds. Where some lines
repeat stored entries, the process that writes derives it again from the others.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ctxdb.claude.names import STARTS_AGENTS
from ctxdb.row_transport import pack_all, unpack_all
from ctxdb.rows import FileTouch, GitOperation, Message, Request, SessionFile, ToolUse
from ctxdb.rules.calls import (
    file_touch,
    git_operations,
    give_back,
    halves_of,
    join_lines,
)
from ctxdb.rules.requests import name_request, sum_up_lines
from ctxdb.rules.seen import sessions_seen

LineKey = tuple[str, str, str, str]  # type, version, outcome, reason


@dataclass(slots=True)
class Derived:
    """Rows that name messages by their numbers in the chunk."""

    tools: list[ToolUse] = field(default_factory=list)  # calls with their results
    halves: list[ToolUse] = field(default_factory=list)  # the messages' own, to be joined later
    files: list[FileTouch] = field(default_factory=list)  # of tools; tool_id: its number in tools
    git: list[GitOperation] = field(default_factory=list)  # likewise
    requests: list[Request] = field(default_factory=list)  # turn_id: number of the message
    unsure: list[str] = field(default_factory=list)  # keys of requests to sum up from stored rows
    seen: list[SessionFile] = field(default_factory=list)
    counts: Counter[LineKey] = field(default_factory=Counter)  # lines of stored messages

    def take_apart(self, tool_use_ids: set[str], messages: list[Message]) -> None:
        """Make halves of calls whose id other rows have."""
        apart = [tool for tool in self.tools if tool.tool_use_id in tool_use_ids]
        if not apart:
            return
        gone = {tool.id for tool in apart}
        self.tools = [tool for tool in self.tools if tool.id not in gone]
        self.files = [touch for touch in self.files if touch.tool_id not in gone]
        self.git = [operation for operation in self.git if operation.tool_id not in gone]
        give_back(apart, messages)
        self.take_halves(messages)

    def take_halves(self, messages: list[Message]) -> None:
        """The halves of new messages, as of the ids and turns that these have now."""
        kept = (one for one in messages if (one.calls or one.results) and one.is_new)
        self.halves = [half for one in kept for half in halves_of(one)]

    def pack(self) -> tuple[Any, ...]:
        """As a tuple that marshal can carry."""
        rows = [pack_all(getattr(self, name), kind) for name, kind in _ROWS.items()]
        return *rows, self.unsure, list(self.counts.items())

    @property
    def calls_that_start_agents(self) -> list[ToolUse]:
        """Of the rows with both halves."""
        return [tool for tool in self.tools if tool.name in STARTS_AGENTS]


_ROWS: dict[str, type[Any]] = {
    "tools": ToolUse,
    "files": FileTouch,
    "git": GitOperation,
    "requests": Request,
    "seen": SessionFile,
}


def unpack_derived(packed: tuple[Any, ...]) -> Derived:
    """What `Derived.pack` was given."""
    *rows, unsure, counts = packed
    found = Derived(unsure=unsure, counts=Counter(dict(counts)))
    for (name, kind), values in zip(_ROWS.items(), rows, strict=True):
        setattr(found, name, unpack_all(values, kind))
    return found


def derive(messages: list[Message]) -> Derived:
    """Derive from the new ones among the messages of a chunk, whose ids are their numbers."""
    found = Derived()
    new = [message for message in messages if message.is_new]
    for message in new:
        message.turn_id = message.id  # so that what belongs to its turn can be told the turn later
        name_request(message)
    found.tools, found.halves = join_lines(new)
    for number, tool in enumerate(found.tools, 1):
        tool.id = number
        if (touch := file_touch(tool)) is not None:
            found.files.append(touch)
        found.git += git_operations(tool, tool.git)
    found.requests, found.unsure = sum_up_lines(new)
    found.seen = sessions_seen(messages)
    found.counts.update(
        (message.line_type, message.version or "", "stored", message.note)
        for message in new
        if message.note is not None
    )
    return found
