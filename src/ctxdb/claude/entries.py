"""One parsed object -> one record: the dispatch over entry types.

Pure: the same bytes in the same file always give the same record, so a line can be read again
later (verify, a change of owner) and means the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ctxdb.claude.api_errors import error_in_text
from ctxdb.claude.blocks import block_key, block_keys, images_in
from ctxdb.claude.extra import extra_of
from ctxdb.claude.human_text import (
    content_text,
    human_parts,
    local_command,
    queued_turn,
    turn_kind,
    user_kind,
)
from ctxdb.claude.side_data import attachment_parts, event_record, side_data, system_parts
from ctxdb.claude.token_counts import usage_lines
from ctxdb.claude.tools import notice_facts, read_call, read_result, result_facts
from ctxdb.claude.values import dict_of, text_of, time_of
from ctxdb.privacy.digests import UNKEYED, Digest
from ctxdb.rows import AgentFact, Message, Record, Skip, ToolUse

THREADED = frozenset(("user", "assistant", "system", "attachment"))


def _one_block(block: Any, record: Message) -> bool:
    """The usual assistant line: one block of a usual kind. False leaves it to the careful way."""
    if type(block) is not dict:
        return False
    what = block.get("type")
    if what == "text":
        record.text = text_of(block.get("text"))
    elif what == "thinking":
        record.thinking = text_of(block.get("thinking"))
    elif what == "tool_use":
        call = read_call(block)
        record.calls = [call] if call is not None else None
    else:
        return False
    record.subtype = what
    return True


def _assistant(entry: dict[str, Any], record: Message, digest: Digest) -> None:
    message = dict_of(entry.get("message"))
    get = message.get
    record.model = model = text_of(get("model"))
    record.api_message_id = text_of(get("id"))
    record.stop_reason = text_of(get("stop_reason"))
    record.request_id = text_of(entry.get("requestId"))
    content = get("content")
    synthetic = model == "<synthetic>" or entry.get("isApiErrorMessage") is True
    record.kind = "synthetic" if synthetic else "assistant"
    if type(content) is list and len(content) == 1 and _one_block(content[0], record):
        record.usage = usage_lines(entry, message)
        record.block_keys = block_key(content[0], digest)
        record.data = side_data(entry, message, [], _error(record))
        return
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolUse] = []
    results: list[ToolUse] = []
    subtypes: set[str] = set()
    if type(content) is str:
        texts.append(content)
        subtypes.add("text")
    for block in content if type(content) is list else ():
        if type(block) is not dict:
            continue
        what = block.get("type")
        if what == "text":
            subtypes.add("text")
            if found := text_of(block.get("text")):
                texts.append(found)
        elif what in ("thinking", "redacted_thinking"):
            subtypes.add("thinking")
            if found := text_of(block.get("thinking")):
                thoughts.append(found)
        elif what in ("tool_use", "server_tool_use", "mcp_tool_use"):
            subtypes.add("server_tool_use" if what == "server_tool_use" else "tool_use")
            if call := read_call(block):
                calls.append(call)
        elif type(what) is str and what.endswith("_tool_result"):
            subtypes.add("server_tool_use")
            if result := read_result(block, None, None):
                results.append(result)
    record.subtype = subtypes.pop() if len(subtypes) == 1 else ("mixed" if subtypes else None)
    record.text = "\n\n".join(texts) or None
    record.thinking = "\n\n".join(thoughts) or None
    record.calls = calls or None
    record.results = results or None
    record.usage = usage_lines(entry, message)
    record.block_keys = block_keys(content, digest)
    record.data = side_data(entry, message, images_in(content), _error(record))


def _error(record: Message) -> dict[str, int | str] | None:
    return error_in_text(record.text) if record.kind == "synthetic" else None


def _one_result(
    entry: dict[str, Any], message: dict[str, Any], block: dict[str, Any], record: Message
) -> None:
    """The usual user line: one result and nothing else."""
    record.kind = "tool_result"
    detail = entry.get("toolUseResult")
    result = read_result(block, detail, entry.get("toolDenialKind"))
    if result is not None:
        record.results = [result]
        record.facts = result_facts(result, detail, record.timestamp or "")
    record.block_keys = f"r{block.get('tool_use_id')}"
    record.data = side_data(entry, message, images_in(block.get("content")))


def _user(entry: dict[str, Any], record: Message, digest: Digest) -> None:
    message = dict_of(entry.get("message"))
    content = message.get("content")
    if content is None and "content" in entry:
        content = entry["content"]
    if type(content) is list and len(content) == 1:
        block = content[0]
        if type(block) is dict and block.get("type") == "tool_result":
            _one_result(entry, message, block, record)
            return
    results: list[ToolUse] = []
    facts: list[AgentFact] = []
    has_result = False
    at = record.timestamp or ""
    blocks = content if type(content) is list else []
    for block in blocks:
        if type(block) is dict and block.get("type") == "tool_result":
            has_result = True
            detail = entry.get("toolUseResult")
            if result := read_result(block, detail, entry.get("toolDenialKind")):
                results.append(result)
                facts += result_facts(result, detail, at) or ()
    record.text = content_text(content) or None
    in_agent = record.is_sidechain == 1
    if has_result:
        record.kind = "tool_result"
        beside = [b for b in blocks if type(b) is dict and b.get("type") != "tool_result"]
        if beside and not in_agent and entry.get("isMeta") is not True:
            record.turn = queued_turn(beside)
    elif entry.get("toolUseResult") is not None:
        record.kind = "tool_result"  # of a call that it does not name: all of it is in extra
    else:
        record.kind, prompt = user_kind(entry, content, in_agent=in_agent)
        if prompt:
            source = entry.get("promptSource")
            kind = turn_kind(record.kind, prompt, source, queued=source == "queued")
            record.turn = (kind, prompt)
    if record.kind == "notification" or (record.kind == "meta" and record.text):
        facts += notice_facts(record.text, at) or ()
    record.results = results or None
    record.facts = facts or None
    record.block_keys = block_keys(content, digest)
    record.data = side_data(entry, message, images_in(content))


def _system(entry: dict[str, Any], record: Message, _digest: Digest) -> None:
    record.kind = "system"
    record.subtype = text_of(entry.get("subtype"))
    record.text, record.data = system_parts(entry)
    if record.is_sidechain == 0:
        record.turn = local_command(entry)


def _attachment(entry: dict[str, Any], record: Message, _digest: Digest) -> None:
    record.kind = "attachment"
    parts = attachment_parts(entry)
    record.subtype, record.text, record.data, mention, human = parts
    if mention:
        record.mentions = [mention]
    if record.subtype == "queued_command":
        at = record.timestamp or ""
        record.facts = notice_facts(record.text, at)
        if human and record.is_sidechain == 0 and queued_turn(human):
            record.queued = human_parts(human)[1]


_READERS: dict[str, Callable[[dict[str, Any], Message, Digest], None]] = {
    "assistant": _assistant,
    "user": _user,
    "system": _system,
    "attachment": _attachment,
}


REMEMBERED_BYTES = 64 << 10  # of a longer line nothing is remembered: it may all be its cwd


@lru_cache(maxsize=64)
def _texts(*values: Any) -> tuple[str | None, ...]:
    """What text_of says of each. Equal values of other types than text all say nothing."""
    return tuple(map(text_of, values))


def _common(entry: dict[str, Any], length: int) -> tuple[str | None, ...]:
    """What a line says that most lines of its file say too: looked at once for all of them."""
    get = entry.get
    values = (
        get("agentId"),
        get("version"),
        get("sessionId"),
        get("cwd"),
        get("gitBranch"),
        get("slug"),
        get("entrypoint"),
        get("session_id"),
    )
    try:
        return _texts(*values) if length <= REMEMBERED_BYTES else tuple(map(text_of, values))
    except TypeError:  # a list or an object
        return tuple(map(text_of, values))


def _threaded(
    entry: dict[str, Any],
    start: int,
    length: int,
    in_agent_file: bool,
    wrapper: dict[str, Any] | None,
    digest: Digest,
) -> Message:
    get = entry.get
    at = time_of(get("timestamp"))
    outer = entry if wrapper is None else wrapper
    agent, version, session, cwd, branch, slug, entrypoint, process = _common(outer, length)
    if wrapper is not None:
        agent = _agent_of(wrapper, entry)
        at = at or time_of(wrapper.get("timestamp"))
    forked = dict_of(entry["forkedFrom"]) if "forkedFrom" in entry else None
    sidechain = (
        wrapper is not None or in_agent_file or agent is not None or get("isSidechain") is True
    )
    what = entry["type"]
    line_type = outer["type"]
    record = Message(
        uuid=text_of(get("uuid")),
        session_id=session,
        agent_id=agent,
        type=what,
        timestamp=at,
        is_sidechain=1 if sidechain else 0,
        version=version,
        byte_start=start,
        byte_length=length,
        line_type=line_type,
        said_session=session,
        said_parent=text_of(get("parentUuid")),
        is_background=get("sessionKind") == "bg",
    )
    if forked:
        record.forked_from = text_of(forked.get("messageUuid"))
        record.forked_session = text_of(forked.get("sessionId"))
    record.cwd = cwd
    record.git_branch = branch
    record.slug = slug
    record.entrypoint = entrypoint
    if process != session:
        record.process_session = process
    if "logicalParentUuid" in entry:
        record.logical_parent_uuid = text_of(entry["logicalParentUuid"])
    _READERS[what](entry, record, digest)
    record.extra = extra_of(entry, what)
    return record


def _progress(entry: dict[str, Any], start: int, length: int, digest: Digest) -> Record:
    data = dict_of(entry.get("data"))
    inner = dict_of(data.get("message"))
    uuid = text_of(entry.get("uuid"))
    parent = text_of(entry.get("parentUuid"))
    version = text_of(entry.get("version")) or ""
    what = text_of(data.get("type")) or "progress"
    inner_type = text_of(inner.get("type"))
    if what != "agent_progress" or inner_type not in THREADED:
        session = text_of(entry.get("sessionId"))
        return Skip("progress", version, what, uuid, parent, session)
    record = _threaded(inner, start, length, False, entry, digest)
    if uuid is not None and uuid != record.uuid:
        record.wrapper = (uuid, parent)
    agent = record.agent_id
    if agent is None:
        return record
    call = text_of(entry.get("parentToolUseID")) or ""
    prompt = text_of(data.get("prompt"))
    # With its time: an agent that is resumed has lines below several calls, the first started it.
    fact = AgentFact(agent, "progress", call, record.timestamp or "", kind="task", prompt=prompt)
    record.facts = [*(record.facts or ()), fact]
    return record


def _agent_of(wrapper: dict[str, Any], entry: dict[str, Any]) -> str | None:
    """The agent of an entry inside a progress line; without an id, it is known by its call.

    If not even the call is named, its thread is a sidechain as in version 1.0.
    """
    data = dict_of(wrapper.get("data"))
    agent = text_of(data.get("agentId")) or text_of(entry.get("agentId"))
    call = text_of(wrapper.get("parentToolUseID"))
    return agent or (f"side-{call}" if call else None)


def read_entry(
    entry: dict[str, Any],
    start: int,
    length: int,
    line: bytes,
    in_agent_file: bool,
    digest: Digest = UNKEYED,
) -> Record:
    """The row of one object of a transcript. `line` is the object's own bytes."""
    what = entry.get("type")
    if type(what) is str:
        if what in THREADED:
            record = _threaded(entry, start, length, in_agent_file, None, digest)
            if record.uuid is None:
                record.line_hash = digest(line)
            return record
        if what == "progress":
            record_or_skip = _progress(entry, start, length, digest)
            if isinstance(record_or_skip, Message) and record_or_skip.uuid is None:
                record_or_skip.line_hash = digest(line)
            return record_or_skip
    return event_record(entry, start, length, digest(line))
