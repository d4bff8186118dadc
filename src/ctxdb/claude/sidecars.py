"""Small files beside transcripts: meta.json of an agent, sessions-index.json of a project folder.

They are only hints: a file may be missing, old or broken, and then it says nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import orjson

from ctxdb.claude.values import int_of, text_of
from ctxdb.files.identity import open_regular
from ctxdb.files.parse import tame
from ctxdb.rows import AgentFact

MAX_BYTES = 4 << 20
ReadFile = Callable[[str], bytes]  # the first MAX_BYTES of a file; raises OSError
INDEX_NAME = "sessions-index.json"  # in a project's folder


def meta_path(path: str) -> str:
    """The small file beside an agent's transcript that says what the agent is."""
    return path.removesuffix(".jsonl") + ".meta.json"


def _as_it_is(path: str) -> bytes:
    fd = open_regular(path)
    try:
        return os.pread(fd, MAX_BYTES, 0)
    finally:
        os.close(fd)


def _read(path: str, read: ReadFile) -> dict[str, Any]:
    try:
        found = tame(orjson.loads(read(path)))
    except (OSError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def read_meta(path: str, agent_id: str, run_id: str | None, read: ReadFile) -> list[AgentFact]:
    """What is known of an agent from its file's place and from the meta.json beside it."""
    kind = "workflow" if run_id else "task"
    facts = [AgentFact(agent_id, "file", kind=kind, run_id=run_id)]
    meta = _read(meta_path(path), read)
    if meta:
        facts.append(
            AgentFact(
                agent_id,
                "meta",
                text_of(meta.get("toolUseId")) or "",
                "",
                agent_type=text_of(meta.get("agentType")),
                description=text_of(meta.get("description")),
                model=text_of(meta.get("model")),
                parent_agent_id=text_of(meta.get("parentAgentId")),
                depth=int_of(meta.get("spawnDepth")),
            )
        )
    return facts


def sessions_in_index(path: str) -> list[str]:
    """The sessions that an index names."""
    return _sessions_named(_read(path, _as_it_is))


def sessions_named(data: bytes) -> list[str]:
    """The sessions that the bytes of an index name."""
    try:
        found = tame(orjson.loads(data))
    except orjson.JSONDecodeError:
        return []
    return _sessions_named(found if isinstance(found, dict) else {})


def _sessions_named(index: dict[str, Any]) -> list[str]:
    entries = index.get("entries")
    named = [
        text_of(entry.get("sessionId"))
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict)
    ]
    return [session_id for session_id in named if session_id]


def read_sessions_index(folder: str, read: ReadFile) -> str | None:
    """The project's path, as its folder's index says."""
    index = _read(os.path.join(folder, INDEX_NAME), read)
    if path := text_of(index.get("originalPath")):
        return path
    entries = index.get("entries")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and (path := text_of(entry.get("projectPath"))):
            return path
    return None
