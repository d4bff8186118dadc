"""The parts of a session that the output formats show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

# How a passage is shown.
# prompt: what an agent was told, or what a person wrote outside of an exchange
# reply: what the model wrote
# output: what a command printed that a person ran
# note: one line about something that happened
# context: text that the client added (skills, plans, summaries); long and rarely read
Role = Literal["prompt", "reply", "output", "note", "context"]


@dataclass(slots=True)
class Passage:
    """A text in the conversation."""

    role: Role
    text: str
    uuid: str | None = None
    timestamp: str | None = None
    thinking: str = ""
    label: str = ""  # of a note or of context: what it is
    images: list[str] = field(default_factory=list)  # what is known of each


@dataclass(slots=True)
class Call:
    """A tool call and its result."""

    id: int
    tool_use_id: str
    name: str
    target: str
    status: str
    ms: int | None
    exit_code: int | None
    input: str | None = None  # JSON
    result: str | None = None
    result_path: str | None = None
    timestamp: str | None = None
    result_message_id: int | None = None
    agents: list[Agent] = field(default_factory=list)
    images: list[str] = field(default_factory=list)  # in the result: what is known of each


@dataclass(slots=True)
class Agent:
    """A subagent, the agents it started and, if they were asked for, its own items."""

    session_id: str
    agent_id: str
    kind: str
    type: str
    description: str
    status: str
    model: str
    tool_use_id: str | None
    parent_agent_id: str | None
    turn_id: int | None
    started_at: str | None
    ended_at: str | None
    calls: int = 0
    failed: int = 0
    cost: int | None = None  # 10^-12 USD, without the agents it started
    items: list[Item] = field(default_factory=list)
    agents: list[Agent] = field(default_factory=list)  # whose starting call is not known


Item = Passage | Call | Agent


@dataclass(slots=True)
class Exchange:
    """A turn (what a person asked) and everything that it led to.

    The first exchange may have no turn: it holds what comes before the first request.
    """

    turn_id: int | None
    ordinal: int | None
    kind: str
    prompt: str
    started_at: str | None
    ended_at: str | None
    is_copied: bool = False  # the turn belongs to the session that this one was copied from
    cost: int | None = None  # 10^-12 USD, agents included
    items: list[Item] = field(default_factory=list)
    images: list[str] = field(default_factory=list)  # with the prompt: what is known of each
    tokens: int = 0  # agents included
    errors: int = 0  # tool calls that failed, those of agents included
    nth_copy: int = 0  # 1 for the first copied exchange, and so on

    @property
    def number(self) -> str:
        """Its unique name in this session: 1, 2, or c1, c2 if it is copied, or "" without a turn.

        The ordinals of copied turns are those of another session, so they are not used.
        """
        if self.ordinal is None:
            return ""
        return f"c{self.nth_copy}" if self.is_copied else str(self.ordinal)


@dataclass(slots=True)
class Conversation:
    """A whole session."""

    id: str
    title: str
    project: str
    cwd: str | None
    branch: str | None
    version: str | None
    started_at: str | None
    ended_at: str | None
    relation: str | None
    parent_id: str | None
    parent_title: str | None
    deleted_at: str | None
    models: list[str] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    others: list[Agent] = field(default_factory=list)  # warm-ups, compactions and the like
    calls: int = 0
    failed: int = 0
    tokens: int = 0
    cost: int | None = None  # 10^-12 USD, agents included
    is_lower_bound: bool = False  # some output counts are not final, or a model has no price
