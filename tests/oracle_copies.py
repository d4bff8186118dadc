"""From files to messages: lines, entries, groups of copies and the owner of each group.

The middle of the oracle (see ``oracle.py``): the contract's paragraphs on copies, on owners and on
the session of a line.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import oracle_rules as rules
from oracle_rules import Json, as_dict, as_text

if TYPE_CHECKING:
    from pathlib import Path

    from oracle_tools import ToolUse

LAST = "\uffff"  # sorts after every timestamp and id
Key = tuple[Any, ...]
Session = str | None


@dataclass(eq=False, repr=False)
class File:
    path: str  # relative to the root
    session: str | None = None
    agent: str | None = None
    workflow: str | None = None
    meta: Json = field(default_factory=dict)
    outcomes: list[str] = field(default_factory=list)  # of each line: stored, copy, skipped, bad

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.outcomes)


@dataclass(eq=False, repr=False)
class Entry:
    """One JSON object in one place; of an agent_progress line, the message inside it."""

    file: File
    line: int
    start: int
    length: int
    raw: bytes
    nth: int  # equal lines before it in its file
    whole: Json  # the object as it stands in the file
    body: Json  # the threaded entry: the object itself, or its data.message
    wrapped: bool

    @property
    def type(self) -> str:
        return str(self.body.get("type"))

    @property
    def session(self) -> str | None:
        return as_text(self.whole.get("sessionId")) or self.file.session

    @property
    def agent(self) -> str | None:
        if self.wrapped:
            call = as_text(self.whole.get("parentToolUseID"))
            named = as_text(as_dict(self.whole.get("data")).get("agentId"))
            return named or (f"side-{call}" if call else None)
        return as_text(self.body.get("agentId")) or self.file.agent

    @property
    def sidechain(self) -> bool:
        return self.wrapped or self.body.get("isSidechain") is True

    @property
    def uuid(self) -> str | None:
        return as_text(self.body.get("uuid"))

    @property
    def timestamp(self) -> str | None:
        return as_text(self.body.get("timestamp"))

    @property
    def blocks(self) -> list[Json]:
        return rules.entry_blocks(self.body)

    @property
    def place(self) -> tuple[str, int]:
        return self.file.path, self.start

    @property
    def identity(self) -> Key:
        if self.uuid is None or self.type not in rules.THREADED:
            return "line", self.file.session, self.raw, self.nth
        return uuid_key(self.uuid, self.session)


@dataclass(eq=False, repr=False)
class Message:
    """A threaded entry once, with the other places it stands in."""

    entry: Entry
    copies: list[Entry]
    agent: str | None = None
    kind: str = ""
    subtype: str | None = None
    text: str | None = None
    parent: Message | None = None
    turn: int | None = None  # ordinal in its session

    @property
    def session(self) -> str | None:
        return self.entry.session


@dataclass(repr=False)
class Model:
    files: list[File] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)  # in reading order
    events: list[Entry] = field(default_factory=list)
    tools: list[ToolUse] = field(default_factory=list)
    files_touched: list[Json] = field(default_factory=list)
    git: list[Json] = field(default_factory=list)
    agents: dict[tuple[Session, str], Json] = field(default_factory=dict)
    turns: dict[Session, list[Json]] = field(default_factory=dict)
    usage: dict[Key, Json] = field(default_factory=dict)
    sessions: dict[str, Json] = field(default_factory=dict)
    projects: dict[str, Json] = field(default_factory=dict)  # by path
    todos: dict[Key, Json] = field(default_factory=dict)  # by session, agent, id or text
    plans: set[tuple[Session, str]] = field(default_factory=set)
    hooks: dict[Key, Json] = field(default_factory=dict)  # by session, toolUseID, command
    history: list[Json] = field(default_factory=list)
    by_uuid: dict[Key, Message] = field(default_factory=dict)  # copies too
    skipped: dict[Key, str | None] = field(default_factory=dict)  # progress uuid -> its parent
    slugs: dict[str, str] = field(default_factory=dict)  # the last of any line, copies included
    ages: dict[Session, str] = field(default_factory=dict)  # first entry that is not shared
    born: dict[Session, str] = field(default_factory=dict)  # first timestamp of all its lines
    main_files: dict[Session, set[File]] = field(default_factory=lambda: defaultdict(set))

    def find(self, uuid: str | None, session: Session) -> Message | None:
        """The message a uuid names; of a skipped line, its nearest stored ancestor."""
        seen = set()
        while uuid and uuid not in seen:
            seen.add(uuid)
            key = uuid_key(uuid, session)
            if key in self.by_uuid:
                return self.by_uuid[key]
            uuid = self.skipped.get(key)
        return None


def uuid_key(uuid: str, session: str | None) -> Key:
    """A uuid that is not a UUID is unique within its session only."""
    if rules.UUID.fullmatch(uuid):
        return "uuid", uuid.lower()
    return "uuid", uuid, session


# -- files and lines -------------------------------------------------------------------------------


def load(root: Path) -> tuple[list[File], list[Entry], dict[Key, str | None]]:
    """Files, the objects of their complete lines, and the parents of progress lines by uuid."""
    files: list[File] = []
    entries: list[Entry] = []
    parents: dict[Key, str | None] = {}
    superseded = re.compile(r".+\.jsonl\.superseded-\d+")
    for path in sorted(root.rglob("*.jsonl*")):
        if path.suffix != ".jsonl" and not superseded.fullmatch(path.name):
            continue
        if path.name == "journal.jsonl" or path.is_symlink() or not path.is_file():
            continue
        file = File(path.relative_to(root).as_posix())
        found = read_lines(path.read_bytes(), file, parents)
        name_file(file, path)
        files.append(file)
        entries += found
    return files, entries, parents


def read_lines(data: bytes, file: File, parents: dict[Key, str | None]) -> list[Entry]:
    found: list[Entry] = []
    times: Counter[bytes] = Counter()
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        objects = rules.parse_line(data[at:end])
        file.outcomes.append("bad" if isinstance(objects, str) else "skipped")
        for start, length, whole in objects if isinstance(objects, list) else []:
            body, wrapped = whole, False
            file.session = file.session or as_text(whole.get("sessionId"))
            uuid = as_text(whole.get("uuid"))
            if uuid and "parentUuid" in whole and whole.get("type") not in rules.THREADED:
                parent = as_text(whole.get("parentUuid"))
                key = uuid_key(uuid, as_text(whole.get("sessionId")))
                said = [p for p in (parent, parents.get(key)) if p]
                parents[key] = min(said, default=None)  # if lines differ, the smallest
            if whole.get("type") == "progress":
                inner = as_dict(whole.get("data"))
                body, wrapped = as_dict(inner.get("message")), True
                if inner.get("type") != "agent_progress" or body.get("type") not in rules.THREADED:
                    continue
            place = at + start
            raw = data[place : place + length]
            line = len(file.outcomes) - 1
            found.append(Entry(file, line, place, length, raw, times[raw], whole, body, wrapped))
            times[raw] += 1
        at = end + 1
    return found


def name_file(file: File, path: Path) -> None:
    """Session and agent of a file, by its name and place, else by what it says."""
    stem = path.name.partition(".jsonl")[0]
    if rules.UUID.fullmatch(stem):
        file.session = stem
    if agent := re.fullmatch(r"agent[-_](.+)", stem):
        file.agent = agent[1]
        folders = [p for p in path.parts if rules.UUID.fullmatch(p)]
        file.session = file.session or (folders[-1] if folders else None)
        file.workflow = next((p for p in path.parts if p.startswith("wf_")), None)
        meta = path.with_name(stem + ".meta.json")
        if meta.is_file():
            file.meta = as_dict(json.loads(meta.read_text(encoding="utf-8")))


def mark(groups: list[list[Entry]]) -> None:
    """Note what became of each line: the first entry of a group is stored, the others copies."""
    for group in groups:
        for n, entry in enumerate(group):
            outcomes = entry.file.outcomes
            if outcomes[entry.line] != "stored":  # glued objects: the line counts once
                outcomes[entry.line] = "copy" if n else "stored"


# -- copies ----------------------------------------------------------------------------------------


def grouped(entries: list[Entry]) -> list[list[Entry]]:
    """Groups of copies, the owner first in each."""
    groups: dict[Key, list[Entry]] = defaultdict(list)
    forks: dict[Key, Key] = {}
    for entry in entries:
        groups[entry.identity].append(entry)
        origin = as_dict(entry.body.get("forkedFrom"))
        if uuid := as_text(origin.get("messageUuid")):
            key = uuid_key(uuid, as_text(origin.get("sessionId")))
            if key != entry.identity:
                forks[entry.identity] = key
    for identity, origin_key in forks.items():
        key, hops = origin_key, {identity}
        while key in forks and key not in hops:
            hops.add(key)
            key = forks[key]
        if key not in hops:
            groups[key] += groups.pop(identity)
    merged = merge_replays(list(groups.values()))
    ages = session_ages(merged)
    for group in merged:
        group.sort(key=lambda e: (-len(rules.signature(e.body)), owner_order(e, ages)))
    return merged


def session_ages(groups: list[list[Entry]]) -> dict[str | None, str]:
    """The earliest timestamp of each session's entries that no other session shares."""
    ages: dict[str | None, str] = {}
    for group in groups:
        if len({e.session for e in group}) == 1:
            for entry in group:
                if entry.timestamp:
                    ages[entry.session] = min(entry.timestamp, ages.get(entry.session, LAST))
    return ages


def owner_order(entry: Entry, ages: dict[str | None, str]) -> Key:
    return (
        entry.wrapped,  # the agent's own file before the progress lines that quote it
        bool(entry.body.get("forkedFrom")),
        entry.session != entry.file.session,
        entry.timestamp or LAST,
        entry.whole.get("sessionKind") == "bg",
        ages.get(entry.session, ""),  # a session with no entry of its own comes first
        entry.session or LAST,
        entry.place,
    )


def merge_replays(groups: list[list[Entry]]) -> list[list[Entry]]:
    """Copies by the third rule: session, type and timestamp agree, all blocks stand elsewhere.

    "Elsewhere" is one other entry of the same agent. The entry with more blocks is the stored one,
    so the order in which lines are met does not matter.
    """
    pending = sorted(groups, key=lambda g: (-len(rules.signature(g[0].body)), g[0].place))
    before = 0
    while len(pending) != before:  # a merge can bring two more groups together
        before = len(pending)
        places: dict[Key, list[list[Entry]]] = defaultdict(list)
        kept: list[list[Entry]] = []
        for group in pending:
            blocks = rules.signature(group[0].body)
            keys = {(e.session, e.agent or e.sidechain, e.type, e.timestamp) for e in group}
            near = (k for key in keys if key[3] and blocks for k in places[key])
            home = next((k for k in near if blocks <= rules.signature(k[0].body)), None)
            if home is None:
                kept.append(group)
            else:
                home += group
            for key in keys:
                places[key].append(home or group)
        pending = kept
    return pending


# -- messages --------------------------------------------------------------------------------------


def describe(message: Message, model: Model) -> None:
    entry, body = message.entry, message.entry.body
    message.agent = entry.agent
    if entry.sidechain and message.agent is None:
        message.agent = f"side-{side_root(message, model).entry.uuid}"
    message.parent = model.find(as_text(body.get("parentUuid")), entry.session)
    message.text = rules.message_text(body)
    if entry.type == "user":
        message.kind = rules.user_kind(body)
    elif entry.type == "assistant":
        model_name = as_dict(body.get("message")).get("model")
        made_up = model_name == "<synthetic>" or body.get("isApiErrorMessage") is True
        message.kind = "synthetic" if made_up else "assistant"
        message.subtype = rules.assistant_subtype(body)
    elif entry.type == "system":
        message.kind, message.subtype = "system", as_text(body.get("subtype"))
    else:
        message.kind = "attachment"
        message.subtype = as_text(as_dict(body.get("attachment")).get("type"))


def side_root(message: Message, model: Model) -> Message:
    """The first line of the sidechain that a line of an old main file belongs to."""
    seen = {message}
    while True:
        above = model.find(as_text(message.entry.body.get("parentUuid")), message.session)
        if above is None or above in seen or not above.entry.sidechain:
            return message
        seen.add(above)
        message = above


def mark_agent_prompts(model: Model) -> None:
    seen = set()
    for message in sorted(model.messages, key=lambda m: m.entry.timestamp or LAST):
        if message.agent and message.entry.type == "user":
            if (message.session, message.agent) not in seen and message.kind != "tool_result":
                message.kind = "agent_prompt"
            seen.add((message.session, message.agent))
