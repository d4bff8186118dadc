"""The parent chain: lines that are no messages are stepped over, and sidechains get their names.

In versions 2.1.11 to 2.1.63 messages hang on progress lines, which are not stored. Later versions
may make them hang on entries of a type that is not known yet, which are events. So the chain of
such lines is remembered, and parent_uuid always names the nearest ancestor that is a message.

What a uuid means follows from the set of lines alone:

1. If any line is a message with that uuid, it means that message, whatever other lines have it.
2. Otherwise it is stepped over, to the parent that its line says. Of several lines with this uuid
   that say different parents, the smallest counts (`first_parent`).
3. If no line has it, there is no parent, until a line comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.rows import AgentFact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctxdb.rows import Message

MAX_STEPS = 100_000  # a loop in damaged data must end


def first_parent(one: str | None, other: str | None) -> str | None:
    """Which parent counts if two lines with one uuid say different ones: the smallest."""
    if one is None or other is None:
        return one or other
    return min(one, other)


class Chain:
    """Lines that are no messages, with their parents."""

    def __init__(self, skipped: Iterable[tuple[str, str | None]] = ()) -> None:
        self.skipped: dict[str, str | None] = dict(skipped)

    def ancestor(self, uuid: str | None) -> str | None:
        """The nearest ancestor that is not skipped, as far as is known."""
        passed: list[str] = []
        while uuid is not None and uuid in self.skipped and len(passed) < MAX_STEPS:
            following = self.skipped[uuid]
            if following == uuid:
                break
            passed.append(uuid)
            uuid = following
        for step in passed:
            self.skipped[step] = uuid  # so that a long run of progress is walked once
        return uuid


def name_sidechains(
    messages: Iterable[Message], agent_of: Callable[[str], str | None]
) -> list[Message]:
    """Version 1.0 keeps agents inside the main file: one agent per sidechain root.

    `agent_of` says whose an entry is that is not among these lines, and may raise LookupError if
    it cannot say; those lines are returned.
    """
    named: dict[str, str | None] = {}
    unknown: list[Message] = []
    for message in messages:
        if message.is_sidechain and message.agent_id is None:
            parent = message.parent_uuid
            agent_id = None
            if parent is not None:
                try:
                    agent_id = named[parent] if parent in named else agent_of(parent)
                except LookupError:
                    unknown.append(message)
                    continue
            if agent_id is None:
                agent_id = f"side-{message.uuid or message.line_hash}"
                at = message.timestamp or ""
                fact = AgentFact(agent_id, "root", "", at, kind="sidechain", prompt=message.text)
                message.facts = [*(message.facts or ()), fact]
            message.agent_id = agent_id
        if message.uuid is not None:
            named[message.uuid] = message.agent_id
    return unknown
