"""The columns of the tables for files beside the transcripts, declared as in rows.py.

To-dos and plans come from calls in transcripts too.
"""

from __future__ import annotations

from dataclasses import dataclass

from ctxdb.columns import FULL, METADATA, USAGE, Row, column


@dataclass(slots=True, eq=False)
class Todo(Row):
    """The latest state of a to-do."""

    table = "todos"

    id: int | None = column()
    session_id: str = column("", level=USAGE)
    agent_id: str | None = column(level=USAGE)
    turn_id: int | None = column()
    item_id: str | None = column(level=METADATA)
    subject: str | None = column(level=FULL)
    description: str | None = column(level=FULL)
    status: str = column("pending", level=METADATA)
    created_at: str | None = column(level=USAGE)
    updated_at: str | None = column(level=USAGE)
    source: str = column("", level=METADATA)


@dataclass(slots=True, eq=False)
class HistoryLine(Row):
    """A line of history.jsonl."""

    table = "history"
    beside = "_history_lines"
    beside_key = "history_id"

    id: int | None = column()
    timestamp: str | None = column(level=USAGE)
    project_path: str | None = column(level=METADATA)
    session_id: str | None = column(level=USAGE)
    prompt: str = column("", level=FULL)
    pasted_bytes: int = column(0, level=USAGE)
    turn_id: int | None = column()
    line_hash: int = column(0, table="_history_lines")
    nth: int = column(0, table="_history_lines")
    text_hash: int = column(0, table="_history_lines")


@dataclass(slots=True, eq=False)
class Plan(Row):
    """A plan that a session made, began with, or left in a file."""

    table = "plans"

    id: int | None = column()
    session_id: str | None = column(level=USAGE)
    slug: str | None = column(level=METADATA)
    path: str | None = column(level=METADATA)
    text: str = column("", level=FULL)
    updated_at: str | None = column(level=USAGE)
    source: str = column("", level=METADATA)


@dataclass(slots=True, eq=False)
class SideFile(Row):
    """A file beside the transcripts, what was read of it, and how it looked then."""

    table = "_side_files"

    id: int | None = column()
    path: str = column("")
    path_bytes: bytes | None = column()
    kind: str = column("")
    session_id: str | None = column()
    agent_id: str | None = column()
    slug: str | None = column()
    stat: bytes | None = column()
    size: int | None = column()
    offset: int = column(0)
    mark: bytes | None = column()
    lines: int = column(0)
    bad_lines: int = column(0)
    state: str = column("ok")
    problem: str | None = column()
    read_at: str | None = column()
    at: str | None = column()
    content: str | bytes | None = column()
