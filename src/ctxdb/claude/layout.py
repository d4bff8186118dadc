"""What Claude Code calls its transcripts, and what the name and place of one say about it.

The layout has changed five times since 1.0 and will change again, so the walk goes to any depth and
only names count: a file that ends in ``.jsonl`` is a transcript, except a workflow's own log. So is
an older copy of one, ``<session>.jsonl.superseded-<milliseconds>``: its lines are the session's.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.files.walk import text_of

if TYPE_CHECKING:
    from ctxdb.files.walk import FoundFile

_SUFFIX = ".jsonl"
_JOURNAL = "journal.jsonl"  # a workflow's log: started and result records, no conversation
_AGENT_PREFIXES = ("agent-", "agent_")
_AGENT_PREFIX_LENGTH = 6  # of either
_WORKFLOW_PREFIX = "wf_"
# What Claude Code adds to the name of a transcript that another one replaces.
_SUPERSEDED = re.compile(r"(?<=\.jsonl)\.superseded-\d+\Z", re.ASCII)

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


class Role(NamedTuple):
    """What a transcript's name and place say about it, before a line of it is read."""

    session_id: str | None  # a uuid file name, or the uuid folder an agent's file is in
    agent_id: str | None  # the <id> of agent-<id>.jsonl or agent_<id>.jsonl
    workflow_run: str | None  # the name of the wf_... folder


def is_transcript(name: str) -> bool:
    """True for the file name of a transcript."""
    return _usual_name(name).endswith(_SUFFIX) and name != _JOURNAL


def _usual_name(name: str) -> str:
    """The name that an older copy of a transcript had."""
    return _SUPERSEDED.sub("", name) if ".superseded-" in name else name


def is_uuid(text: str) -> bool:
    """True for a text that is a UUID and nothing else, as session ids are."""
    return _UUID.fullmatch(text) is not None


def session_in_path(path: str) -> str | None:
    """The session that a path of a transcript names, as a person gives it; None for other texts."""
    name = _usual_name(os.path.basename(path))
    return name.removesuffix(_SUFFIX) if name.endswith(_SUFFIX) else None


@lru_cache(maxsize=8)  # it is asked several times for each file
def role_of(path: str, root: str) -> Role:
    """The role of a transcript by its place below ``root``."""
    root = root.rstrip(os.sep)
    folders = path[len(root) :].strip(os.sep).split(os.sep)
    stem = _usual_name(folders.pop()).removesuffix(_SUFFIX)
    agent = stem[_AGENT_PREFIX_LENGTH:] if stem.startswith(_AGENT_PREFIXES) else ""
    session: str | None = None
    run: str | None = None
    if agent:
        for folder in reversed(folders):
            if run is None and folder.startswith(_WORKFLOW_PREFIX):
                run = folder
            if _UUID.fullmatch(folder):
                session = folder
                break
    elif _UUID.fullmatch(stem):
        session = stem
    return Role(
        session_id=session,
        agent_id=text_of(agent) if agent else None,
        workflow_run=text_of(run) if run else None,
    )


def reading_order(file: FoundFile) -> tuple[str, bool, str]:
    """Sort key: by project folder, main transcripts before agents' files, then by path.

    So a session is known before its agents.
    """
    below = file.path[len(file.root) :].lstrip(os.sep)
    project, slash, _ = below.partition(os.sep)
    name = os.path.basename(file.path)
    return (project if slash else "", name.startswith(_AGENT_PREFIXES), file.path)
