"""A second, slow reading of a transcripts folder: what the database must hold.

Everything is read at once and kept in plain Python objects; no step depends on the order of files,
on offsets or on earlier runs, and nothing is imported from ctxdb. The steps follow the contract:

    files -> lines -> entries -> groups of copies -> messages               (oracle_copies.py)
          -> tool calls with results -> files touched, agents               (oracle_tools.py)
          -> commits, pushes, pull requests                                 (oracle_git.py)
          -> turns and their time                                           (oracle_turns.py)
          -> sessions and projects                                          (oracle_sessions.py)
          -> to-dos, plans, hook runs                                       (oracle_todos.py)
          -> history.jsonl and its turns                                    (oracle_history.py)
    usage from the messages (oracle_usage.py);  events from all other entries

``read_folder(root)`` returns a ``Model``. Rules about a single entry are in ``oracle_rules.py``.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import oracle_rules as rules
from oracle_copies import (
    LAST,
    Entry,
    Key,
    Message,
    Model,
    describe,
    grouped,
    load,
    mark,
    mark_agent_prompts,
    session_ages,
)
from oracle_git import find_git
from oracle_history import find_history
from oracle_rules import as_text
from oracle_sessions import describe_sessions
from oracle_todos import find_hooks, find_plans, find_todos
from oracle_tools import find_agents, join_tools, read_persisted, touch_files
from oracle_turns import find_turns
from oracle_usage import count_usage

if TYPE_CHECKING:
    from pathlib import Path


def read_folder(root: Path) -> Model:
    files, entries, skipped = load(root)
    model = Model(files=files, skipped=skipped)
    groups = grouped([e for e in entries if e.type in rules.THREADED])
    model.ages = session_ages(groups)
    others: dict[Key, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.type not in rules.THREADED:
            others[entry.identity].append(entry)
    mark(groups + list(others.values()))
    model.events = [group[0] for group in others.values()]
    model.messages = [Message(group[0], group[1:]) for group in groups]
    model.messages.sort(key=lambda m: m.entry.place)
    for message in model.messages:
        for entry in [message.entry, *message.copies]:
            model.by_uuid[entry.identity] = message
            if not entry.sidechain and entry.agent is None:
                model.main_files[entry.session].add(entry.file)
            began = min(model.born.get(entry.session, LAST), entry.timestamp or LAST)
            model.born[entry.session] = began
    for entry in entries:
        if entry.session and (slug := as_text(entry.whole.get("slug"))):
            model.slugs[entry.session] = slug
    for message in model.messages:
        describe(message, model)
    mark_agent_prompts(model)
    join_tools(model)
    read_persisted(model, root)
    touch_files(model)
    find_git(model)
    find_agents(model)
    find_turns(model)
    count_usage(model)
    describe_sessions(model)
    find_todos(model, root.parent)
    find_plans(model, root.parent)
    find_hooks(model)
    find_history(model, root.parent)
    return model
