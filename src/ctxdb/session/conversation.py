"""A session as it is read: turns, what was said in them, calls, and agents inside of calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

# How something said is shown. prompt: to an agent, or a person's words outside of a turn;
# reply: the model's; output: of a command a person ran; note: one line about what happened;
# context: text that the client put in (skills, plans, summaries), long and seldom read.
Role = Literal["prompt", "reply", "output", "note", "context"]


@dataclass(slots=True)
class Said:
    """A text in the conversation."""

    role: Role
    text: str
    uuid: str | None = None
    timestamp: str | None = None
    thinking: str = ""
    label: str = ""  # of a note or context: what it is


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
    agents: list[Agent] = field(default_factory=list)


@dataclass(slots=True)
class Agent:
    """A subagent, its conversation where that is wanted, and the agents it started itself."""

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
    agents: list[Agent] = field(default_factory=list)  # that no call of it is known for


Item = Said | Call | Agent


@dataclass(slots=True)
class Turn:
    """What a person asked, and everything it led to."""

    id: int | None  # None for what stands before the first request
    ordinal: int | None
    kind: str
    prompt: str
    started_at: str | None
    ended_at: str | None
    is_copied: bool = False  # the session that this one came from owns it
    cost: int | None = None  # 10^-12 USD, agents included
    items: list[Item] = field(default_factory=list)
    nth_copy: int = 0  # of the copied ones, in reading order: their ordinals are another session's

    @property
    def number(self) -> str:
        """What it is called in this session: 1, 2, and c1, c2 for copied ones; '' before the first.

        No two turns of a session have the same.
        """
        if self.ordinal is None:
            return ""
        return f"c{self.nth_copy}" if self.is_copied else str(self.ordinal)


@dataclass(slots=True)
class Reading:
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
    turns: list[Turn] = field(default_factory=list)
    others: list[Agent] = field(default_factory=list)  # warm-ups, compactions and the like
    calls: int = 0
    failed: int = 0
    tokens: int = 0
    cost: int | None = None  # 10^-12 USD, agents included
    is_lower_bound: bool = False  # some output counts are not final, or a model has no price
