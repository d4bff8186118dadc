"""Each table's columns, once: a class per table whose fields are its columns.

Inserts, updates, look-ups and copies are generated from these classes (columns.py), so a column
that is added to one of them, and to the schema, passes through every path. A row is filled in two
steps: `claude` fills in what a line says, the store and `settle` fill in the ids and what follows
from other rows. Until a row is stored, a column that names another row of the same chunk holds that
row's number in the chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ctxdb.columns import CALL, FULL, METADATA, RESULT, USAGE, Row, column, working
from ctxdb.elsewhere import name_elsewhere

# -- what one line says -------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class ToolUse(Row):
    """A tool call with its result, or one of the two."""

    table = "tool_uses"
    beside = "_tool_results"
    beside_key = "tool_id"

    id: int = column(0)
    tool_use_id: str = column("", level=USAGE)
    message_id: int | None = column()
    session_id: str | None = column(level=USAGE)
    agent_id: str | None = column(level=USAGE)
    turn_id: int | None = column()
    name: str | None = column(said_by=CALL, level=METADATA)
    raw_name: str | None = column(said_by=CALL, level=METADATA)
    mcp_server: str | None = column(said_by=CALL, level=METADATA)
    input: str | None = column(said_by=CALL, level=FULL)
    target: str | None = column(said_by=CALL, level=FULL)
    started_at: str | None = column(said_by=CALL, level=USAGE)
    finished_at: str | None = column(said_by=RESULT, level=USAGE)
    duration_ms: int | None = column(level=USAGE)
    tool_ms: int | None = column(said_by=RESULT, level=USAGE)
    status: str = column("pending", said_by=RESULT, level=METADATA)
    is_error: int | None = column(said_by=RESULT, level=USAGE)
    exit_code: int | None = column(said_by=RESULT, level=USAGE)
    result_text: str | None = column(said_by=RESULT, level=FULL)
    result_bytes: int | None = column(said_by=RESULT, level=USAGE)
    result_path: str | None = column(said_by=RESULT, level=METADATA)
    result_data: str | None = column(said_by=RESULT, level=FULL)
    result_message_id: int | None = column()
    exit_code_unknown: int | None = column(table="_tool_results", said_by=RESULT)
    file_path: str | None = column(table="_tool_results", said_by=RESULT)
    file_operation: str | None = column(table="_tool_results", said_by=RESULT)
    file_lines_added: int | None = column(table="_tool_results", said_by=RESULT)
    file_lines_removed: int | None = column(table="_tool_results", said_by=RESULT)
    plan: str | None = column(table="_tool_results", said_by=RESULT)
    line_text: str | None = column(table="_tool_results", said_by=RESULT)
    # (path, operation, lines added, lines removed) by the call alone; () for no file
    call_file: tuple[Any, ...] | None = working(said_by=CALL)
    git: list[tuple[Any, ...]] | None = working(said_by=RESULT)  # what the result reports of git
    is_stored: bool = working(False)


@dataclass(slots=True, eq=False)
class UsageLine(Row):
    """What one line says of a billed request, or of one advisor call in it."""

    table = "_usage_lines"

    message_id: int = column(0)
    part: int = column(0)
    request_key: str = column("")
    is_background: int = column(0)
    model: str = column("")
    input_tokens: int = column(0)
    output_tokens: int = column(0)
    cache_write_5m_tokens: int = column(0)
    cache_write_1h_tokens: int = column(0)
    cache_read_tokens: int = column(0)
    prompt_tokens: int = column(0)
    thinking_tokens: int | None = column()
    web_search_requests: int = column(0)
    service_tier: str | None = column()
    speed: str | None = column()
    inference_geo: str | None = column()
    has_stop_reason: int = column(0)
    cost_reported_usd: float | None = column()


@dataclass(slots=True, eq=False)
class AgentFact(Row):
    """Something a line or a file says of an agent."""

    table = "_agent_facts"

    agent_id: str = column("")
    source: str = column("")  # file, meta, progress, result, notice, root, workflow
    tool_use_id: str = column("")
    at: str = column("")
    kind: str | None = column()
    agent_type: str | None = column()
    description: str | None = column()
    model: str | None = column()
    status: str | None = column()
    parent_agent_id: str | None = column()
    depth: int | None = column()
    run_id: str | None = column()
    prompt_hash: int | None = column()
    session_id: str | None = column()
    message_id: int | None = column()
    prompt: str | None = working()  # kept once, in _agent_prompts


@dataclass(slots=True, eq=False)
class Message(Row):
    """A threaded entry: user, assistant, system or attachment, or one inside agent_progress."""

    table = "messages"
    beside = "_message_lines"
    beside_key = "message_id"

    id: int = column(0)
    uuid: str | None = column(level=USAGE)
    session_id: str | None = column(level=USAGE)
    agent_id: str | None = column(level=USAGE)
    turn_id: int | None = column()
    parent_uuid: str | None = column(level=USAGE)
    logical_parent_uuid: str | None = column(level=USAGE)
    type: str = column("", level=METADATA)
    subtype: str | None = column(level=METADATA)
    kind: str = column("", level=METADATA)
    timestamp: str | None = column(level=USAGE)
    model: str | None = column(level=USAGE)
    api_message_id: str | None = column(level=USAGE)
    request_id: str | None = column(level=USAGE)
    stop_reason: str | None = column(level=METADATA)
    text: str | None = column(level=FULL)
    thinking: str | None = column(level=FULL)
    is_sidechain: int = column(0, level=USAGE)
    cwd: str | None = column(level=METADATA)
    git_branch: str | None = column(level=METADATA)
    version: str | None = column(level=USAGE)
    data: str | None = column(level=FULL)
    extra: str | None = column(level=FULL)
    source_file_id: int = column(0)
    byte_start: int = column(0, level=USAGE)
    byte_length: int = column(0)
    owner_flags: int = column(0, table="_message_lines")
    block_keys: str | None = column(table="_message_lines")
    line_hash: int | None = column(table="_message_lines")
    nth: int | None = column(table="_message_lines")
    # What else the line says, for rows of other tables.
    line_type: str = working("")  # progress, where the entry is inside one
    note: str | None = working("")  # what was mended in the line; None: not a line of its own
    said_session: str | None = working()  # the sessionId of the line itself
    said_parent: str | None = working()  # the parentUuid of the line itself
    file_session: str | None = working()  # the session of its file
    forked_from: str | None = working()
    forked_session: str | None = working()
    is_background: bool = working(False)
    slug: str | None = working()
    entrypoint: str | None = working()
    process_session: str | None = working()  # session_id where it is not the line's sessionId
    turn: tuple[str, str] | None = working()  # (kind, prompt) where a human speaks
    queued: str | None = working()  # text of a queued_command that a human typed
    wrapper: tuple[str, str | None] | None = working()  # (uuid, parent) of the progress line
    mentions: list[str] | None = working()  # paths of @-mentioned files
    is_new: bool = working(False)  # a new entry, not another place of a stored one
    calls: list[ToolUse] | None = working()
    results: list[ToolUse] | None = working()
    usage: list[UsageLine] | None = working()
    facts: list[AgentFact] | None = working()

    @property
    def is_wrapped(self) -> bool:
        """Whether the entry is inside a progress line."""
        return self.line_type == "progress"


@dataclass(slots=True, eq=False)
class Event(Row):
    """Any other entry, kept whole."""

    table = "events"
    beside = "_event_lines"
    beside_key = "event_id"

    id: int = column(0)
    session_id: str | None = column(level=USAGE)
    type: str | None = column(level=METADATA)
    subtype: str | None = column(level=METADATA)
    timestamp: str | None = column(level=USAGE)
    data: str = column("", level=FULL)
    source_file_id: int = column(0)
    byte_start: int = column(0)
    byte_length: int = column(0)
    line_hash: int = column(0, table="_event_lines")
    file_session: str = column("", table="_event_lines")
    nth: int = column(0, table="_event_lines")
    is_unknown: int = column(0, table="_event_lines")
    version: str = working("")
    note: str | None = working("")
    said_session: str | None = working()
    summary: tuple[str, str] | None = working()  # (leaf uuid, text)
    snapshots: list[tuple[Any, ...]] | None = working()  # as snapshots_of gives them
    uuid: str | None = working()  # of one in the parent chain, as unknown types may be
    said_parent: str | None = working()
    facts: list[AgentFact] | None = working()

    @property
    def line_type(self) -> str:
        """The type its line is counted under."""
        return self.type or ""


@dataclass(slots=True, eq=False)
class Skip:
    """A line left out on purpose; its place in the parent chain is remembered."""

    line_type: str
    version: str
    reason: str
    uuid: str | None = None
    said_parent: str | None = None
    said_session: str | None = None
    note: str | None = ""


# -- what follows from several lines ------------------------------------------------------------


@dataclass(slots=True, eq=False)
class MessageCopy(Row):
    """Another place where an entry occurs."""

    table = "message_copies"
    beside = "_copy_lines"
    beside_key = "copy_id"

    id: int | None = column()
    message_id: int = column(0)
    uuid: str | None = column(level=USAGE)
    session_id: str | None = column(level=USAGE)
    source_file_id: int = column(0)
    byte_start: int = column(0)
    byte_length: int = column(0)
    type: str | None = column(table="_copy_lines")
    timestamp: str | None = column(table="_copy_lines")
    version: str | None = column(table="_copy_lines")
    owner_flags: int = column(0, table="_copy_lines")
    block_keys: str | None = column(table="_copy_lines")
    line_hash: int | None = column(table="_copy_lines")


@dataclass(slots=True, eq=False)
class FileTouch(Row):
    """A file that a call, an @-mention or a snapshot names."""

    table = "files_touched"

    tool_id: int | None = column()
    tool_use_id: str | None = column(level=USAGE)
    session_id: str | None = column(level=USAGE)
    agent_id: str | None = column(level=USAGE)
    turn_id: int | None = column()
    project_id: int | None = column()
    path: str = column("", level=METADATA)
    relative_path: str | None = column(level=METADATA)
    operation: str = column("", level=METADATA)
    succeeded: int | None = column(level=USAGE)
    lines_added: int | None = column(level=USAGE)
    lines_removed: int | None = column(level=USAGE)
    timestamp: str | None = column(level=USAGE)
    message_id: int | None = column()
    snapshot_version: int | None = column(level=USAGE)
    backup_name: str | None = column(level=METADATA)


@dataclass(slots=True, eq=False)
class GitOperation(Row):
    """A commit, push or pull request."""

    table = "git_operations"

    tool_id: int | None = column()
    session_id: str | None = column(level=USAGE)
    turn_id: int | None = column()
    kind: str = column("", level=METADATA)
    sha: str | None = column(level=USAGE)
    branch: str | None = column(level=METADATA)
    subject: str | None = column(level=FULL)
    pr_number: int | None = column(level=METADATA)
    pr_url: str | None = column(level=METADATA)
    source: str = column("", level=METADATA)
    timestamp: str | None = column(level=USAGE)


@dataclass(slots=True, eq=False)
class Request(Row):
    """A billed request."""

    table = "usage"

    request_key: str = column("", level=USAGE)
    api_message_id: str | None = column(level=USAGE)
    request_id: str | None = column(level=USAGE)
    session_id: str | None = column(level=USAGE)
    agent_id: str | None = column(level=USAGE)
    turn_id: int | None = column()
    model: str | None = column(level=USAGE)
    timestamp: str | None = column(level=USAGE)
    input_tokens: int = column(0, level=USAGE)
    output_tokens: int = column(0, level=USAGE)
    cache_write_5m_tokens: int = column(0, level=USAGE)
    cache_write_1h_tokens: int = column(0, level=USAGE)
    cache_read_tokens: int = column(0, level=USAGE)
    prompt_tokens: int = column(0, level=USAGE)
    thinking_tokens: int | None = column(level=USAGE)
    web_search_requests: int = column(0, level=USAGE)
    service_tier: str | None = column(level=USAGE)
    speed: str | None = column(level=USAGE)
    inference_geo: str | None = column(level=USAGE)
    output_is_final: int = column(0, level=USAGE)
    is_sidechain: int = column(0, level=USAGE)
    cost_reported_usd: float | None = column(level=USAGE)
    lines: int = column(0, level=USAGE)
    is_repeated: int = column(0, level=USAGE)


@dataclass(slots=True, eq=False)
class Turn(Row):
    """One thing a person asked."""

    table = "turns"

    id: int | None = column()
    session_id: str | None = column(level=USAGE)
    ordinal: int = column(0, level=USAGE)
    kind: str = column("", level=METADATA)
    prompt: str = column("", level=FULL)
    started_at: str | None = column(level=USAGE)
    ended_at: str | None = column(level=USAGE)
    agent_ms: int | None = column(level=USAGE)
    active_ms: int | None = column(level=USAGE)
    message_id: int | None = column()
    event_id: int | None = column()
    source_file_id: int | None = column()
    byte_start: int | None = column()


@dataclass(slots=True, eq=False)
class SessionFile(Row):
    """What one file says of one session."""

    table = "_session_files"

    session_id: str = column("")
    source_file_id: int = column(0)
    main_lines: int = column(0)
    first_cwd: str | None = column()
    agent_cwd: str | None = column()
    git_branch: str | None = column()
    version: str | None = column()
    slug: str | None = column()
    entrypoint: str | None = column()
    first_at: str | None = column()
    last_at: str | None = column()
    first_user_at: int | None = column()
    last_user_at: int | None = column()
    forked_session: str | None = column()
    process_session: str | None = column()


@dataclass(slots=True, eq=False)
class Agent(Row):
    """A subagent, sidechain or other helper of a session."""

    table = "agents"

    session_id: str = column("", level=USAGE)
    agent_id: str = column("", level=USAGE)
    kind: str = column("", level=METADATA)
    agent_type: str | None = column(level=METADATA)
    description: str | None = column(level=FULL)
    tool_use_id: str | None = column(level=USAGE)
    parent_agent_id: str | None = column(level=USAGE)
    depth: int | None = column(level=USAGE)
    turn_id: int | None = column()
    model: str | None = column(level=USAGE)
    status: str = column("unknown", level=METADATA)
    started_at: str | None = column(level=USAGE)
    ended_at: str | None = column(level=USAGE)


@dataclass(slots=True, eq=False)
class Session(Row):
    """A session, but for source_deleted_at, which only the files decide."""

    table = "sessions"

    id: str = column("", level=USAGE)
    project_id: int | None = column()
    title: str | None = column(level=FULL)
    title_source: str | None = column(level=METADATA)
    names: str | None = column(level=FULL)
    slug: str | None = column(level=METADATA)
    first_prompt: str | None = column(level=FULL)
    cwd: str | None = column(level=METADATA)
    git_branch: str | None = column(level=METADATA)
    version: str | None = column(level=USAGE)
    entrypoint: str | None = column(level=METADATA)
    is_automated: int | None = column(level=USAGE)
    started_at: str | None = column(level=USAGE)
    ended_at: str | None = column(level=USAGE)
    parent_session_id: str | None = column(level=USAGE)
    relation: str | None = column(level=METADATA)


@dataclass(slots=True, eq=False)
class SourceFile(Row):
    """A transcript file, and how it looked when it was last read."""

    table = "source_files"
    beside = "_file_marks"
    beside_key = "source_file_id"

    id: int = column(0)
    path: str = column("")
    session_id: str | None = column()
    agent_id: str | None = column()
    size: int = column(0)
    offset: int = column(0)
    lines: int = column(0)
    bad_lines: int = column(0)
    skipped_lines: int = column(0)
    state: str = column("new")
    first_seen_at: str | None = column()
    last_read_at: str | None = column()
    missing_since: str | None = column()
    machine: str = column("")
    path_bytes: bytes | None = column(table="_file_marks")
    root: str | None = column(table="_file_marks")
    workflow_run: str | None = column(table="_file_marks")
    stat: bytes | None = column(table="_file_marks")  # walk.pack makes and walk.unpack reads it
    ino: int | None = column(table="_file_marks")
    mark: bytes | None = column(table="_file_marks")
    generation: int = column(0, table="_file_marks")
    attempting: int | None = column(table="_file_marks")
    searched: int | None = column(table="_file_marks")
    searched_mark: bytes | None = column(table="_file_marks")
    is_new: bool = working(False)  # no line of it has been stored before this pass
    facts: list[AgentFact] | None = working()  # of its agent, by its place and meta.json

    @property
    def name(self) -> str:
        """What the archive knows it by, and `load_some`: its path, on this machine or another."""
        return name_elsewhere(self.machine, self.path)

    @property
    def unfinished(self) -> tuple[int, bytes] | None:
        """The searched part of a long unfinished last line: up to which byte, and its hash."""
        if self.searched is None or self.searched_mark is None:
            return None
        return self.searched, self.searched_mark

    @unfinished.setter
    def unfinished(self, found: tuple[int, bytes] | None) -> None:
        self.searched, self.searched_mark = found or (None, None)


Record = Message | Event | Skip
