"""Small files beside transcripts: meta.json of an agent, sessions-index.json of a project folder.

They are only hints: a file may be missing, old or broken, and then it says nothing.
"""

from __future__ import annotations

import os
from typing import Any

import orjson

from ctxdb.claude.values import int_of, text_of
from ctxdb.files.identity import open_regular
from ctxdb.files.parse import tame
from ctxdb.rows import AgentFact

MAX_BYTES = 4 << 20


def _read(path: str) -> dict[str, Any]:
    try:
        fd = open_regular(path)
    except OSError:
        return {}
    try:
        found = orjson.loads(os.pread(fd, MAX_BYTES, 0))
    except (OSError, orjson.JSONDecodeError):
        return {}
    finally:
        os.close(fd)
    found = tame(found)
    return found if isinstance(found, dict) else {}


def read_meta(path: str, agent_id: str, run_id: str | None) -> list[AgentFact]:
    """What is known of an agent from its file's place and from the meta.json beside it."""
    kind = "workflow" if run_id else "task"
    facts = [AgentFact(agent_id, "file", kind=kind, run_id=run_id)]
    meta = _read(path.removesuffix(".jsonl") + ".meta.json")
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


def read_sessions_index(folder: str) -> str | None:
    """The project's path, as its folder's index says."""
    index = _read(os.path.join(folder, "sessions-index.json"))
    if path := text_of(index.get("originalPath")):
        return path
    entries = index.get("entries")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and (path := text_of(entry.get("projectPath"))):
            return path
    return None
