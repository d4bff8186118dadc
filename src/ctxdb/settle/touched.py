"""What must be derived again at the end of a batch, because something below it has changed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Touched:
    """Collected while a batch is stored."""

    sessions: set[str] = field(default_factory=set)
    agents: set[tuple[str, str]] = field(default_factory=set)
    turns: set[int] = field(default_factory=set)
    renumber: set[str] = field(default_factory=set)  # sessions whose turns need new ordinals
    turns_of_files: set[int] = field(default_factory=set)  # files whose turns are found again
    requests: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)  # sessions that share entries with others
    pull_requests: set[str] = field(default_factory=set)  # sessions with new pull requests
    snapshots: set[str] = field(default_factory=set)  # sessions with new snapshots
    lists: set[str] = field(default_factory=set)  # sessions whose calls of LIST_TOOLS have changed
    # sessions that are new, or have another project, slug or start
    placed: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)  # tool_use_ids of calls that start agents
    # (session, tool_use_id) of ids that repeat, whose calls and results must be paired again
    pairs: set[tuple[str | None, str]] = field(default_factory=set)
    repeated_calls: set[str] = field(default_factory=set)  # tool_use_ids that several messages have
    # sessions with rows that have changed, as far as no other set here names them
    changed: set[str | None] = field(default_factory=set)
