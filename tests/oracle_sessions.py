"""Sessions and projects: title, relation to other sessions, who ran them, where.

Part of the oracle (see ``oracle.py``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import oracle_rules as rules
from oracle_copies import LAST, Entry, Key, Message, Model
from oracle_rules import Json, as_dict, as_text, folded, heading
from oracle_turns import reading_order

CI_FOLDERS = ("/home/runner/", "/builds/", "/github/workspace/")
WORKTREE = re.compile(
    r"(?P<repo>.+?)(?:/\.worktrees/|/\.claude/worktrees/|/worktrees/|-worktrees/)[^/]+.*"
)
HOME = re.compile(r"(?:[A-Za-z]:)?/(?:home|Users)(?:/[^/]+)?|/root|/|")
TRANSCRIPT = re.compile(r"read the full transcript at:\s*(\S.*?\.jsonl)")


def describe_sessions(model: Model) -> None:
    own: dict[str, list[Message]] = defaultdict(list)
    for message in model.messages:
        if message.session:
            own[message.session].append(message)
    said: dict[str, list[Entry]] = defaultdict(list)
    for event in model.events:
        if event.session:
            said[event.session].append(event)
    copied = {copy.session for message in model.messages for copy in message.copies}
    for session in filter(None, {*own, *said, *copied}):
        messages = sorted(own[session], key=lambda m: m.entry.timestamp or LAST)
        main = [m for m in messages if m.agent is None]
        main.sort(key=lambda m: reading_order(session, m))
        events = sorted(said[session], key=lambda e: reading_order(session, e))
        times = sorted(m.entry.timestamp for m in messages if m.entry.timestamp)
        turns = model.turns.get(session, [])
        relation, parent = relation_of(session, main, model)
        cwd = next(values(main, "cwd"), None)
        entrypoint = next(values(reversed(main or messages), "entrypoint"), None)
        model.sessions[session] = {
            "titles": titles_of(session, turns, main, events, model),
            "first_prompts": [turn["prompt"] for turn in first_turns(turns)],
            "cwd": cwd,
            "git_branch": next(values(reversed(main or messages), "gitBranch"), None),
            "version": next(values(reversed(main or messages), "version"), None),
            "slug": model.slugs.get(session),
            "entrypoint": entrypoint,
            "is_automated": is_automated(entrypoint, cwd, turns),
            "started_at": times[0] if times else None,
            "ended_at": times[-1] if times else None,
            "relation": relation,
            "parent_session_id": parent,
        }
    find_projects(model)


def values(messages: Any, name: str) -> Any:
    """What each line says under a name (a wrapped one by its wrapper), where it says anything."""
    each = (as_text(m.entry.body.get(name)) or as_text(m.entry.whole.get(name)) for m in messages)
    return (value for value in each if value)


def is_automated(entrypoint: str | None, cwd: str | None, turns: list[Json]) -> int | None:
    if entrypoint and entrypoint.startswith("sdk-"):
        return 1
    if entrypoint is None and turns and all(turn["kind"] == "sdk" for turn in turns):
        return 1
    if cwd and f"{cwd}/".startswith(CI_FOLDERS):
        return 1
    return 0 if turns else None


# -- titles ----------------------------------------------------------------------------------------


def titles_of(
    session: str, turns: list[Json], main: list[Message], events: list[Entry], model: Model
) -> list[tuple[str, str]]:
    """(whole title, source): the best first; the others say the same thing as well."""
    for kind, name, source in (
        ("custom-title", "customTitle", "custom"),
        ("ai-title", "aiTitle", "ai"),
    ):
        said = [t for e in events if e.type == kind and (t := folded(e.whole.get(name)))]
        if said:
            return [(said[-1], source)]
    if summary := summary_of(session, model):
        return [(folded(summary), "summary")]
    if turns:
        return [
            (heading(t["prompt"]), "plan")
            if t["kind"] == "plan"
            else (folded(t["prompt"]), "prompt")
            for t in first_turns(turns)
        ]
    replies = [m.text for m in main if m.kind == "assistant" and m.text and m.text.strip()]
    if replies:
        return [(folded(replies[0].strip().splitlines()[0]), "reply")]
    agents = [a["description"] for key, a in first_agents(session, model) if a["description"]]
    return [(folded(agents[0]), "reply")] if agents else []


def first_turns(turns: list[Json]) -> list[Json]:
    """What can stand for the first prompt: any command before the first words, or these."""
    found = []
    for turn in turns:
        found.append(turn)
        if turn["kind"] != "command":
            break
    return found


def first_agents(session: str, model: Model) -> list[tuple[Key, Json]]:
    began: dict[Key, str] = {}
    for message in model.messages:
        if message.agent:
            key = (message.session, message.agent)
            began[key] = min(began.get(key, LAST), message.entry.timestamp or LAST)
    agents = [(key, agent) for key, agent in model.agents.items() if key[0] == session]
    return sorted(agents, key=lambda pair: (began.get(pair[0], LAST), pair[0]))


def summary_of(session: str, model: Model) -> str | None:
    """The summary whose leaf is last in the session; ties: own file, then smallest text."""
    best: list[tuple[Key, str]] = []
    for event in model.events:
        text = as_text(event.whole.get("summary"))
        leaf = model.find(as_text(event.whole.get("leafUuid")), event.session)
        if event.type == "summary" and text and leaf and leaf.session == session:
            best.append(((reading_order(session, leaf), event.file.session == session), text))
    if not best:
        return None
    top = max(rank for rank, _ in best)
    return min(text for rank, text in best if rank == top)


# -- relations -------------------------------------------------------------------------------------


def relation_of(session: str, main: list[Message], model: Model) -> tuple[str | None, str | None]:
    """How a session began: a fork or resume of one it shares entries with, /clear, or a plan."""
    beside = [
        (entry, message)
        for message in model.messages
        for entry in [message.entry, *message.copies]
        if entry.file in model.main_files[session] and message.agent is None
    ]
    beside.sort(key=lambda pair: pair[0].place)
    forked = [e for e, _ in beside if e.session == session and e.body.get("forkedFrom")]
    if forked:
        return "fork", as_text(as_dict(forked[-1].body["forkedFrom"]).get("sessionId"))
    kept = [e.session for e, _ in beside if e.type == "user" and e.session != session]
    if older := [old for old in kept if model.born[old] < model.born[session]]:
        return "resume", older[-1]
    renamed = [m.session for e, m in beside if e.session == session and m.session != session]
    if renamed:
        return "fork", renamed[-1]
    turns = [
        (turn, message)
        for message in main
        if message.entry.type == "user" and (turn := rules.turn_of_user_line(message.entry.body))
    ]
    for (kind, prompt), _ in turns[:1]:
        if kind == "command" and prompt.split()[0] == "/clear":
            return "clear", next((p for p in values(main, "session_id") if p != session), None)
    plans = [message for (kind, _), message in turns if kind == "plan"]
    return planned_by(session, plans[0]) if plans else (None, None)


def planned_by(session: str, message: Message) -> tuple[str | None, str | None]:
    """The session whose transcript the line of a plan names; the name may be unreadable."""
    named = TRANSCRIPT.search(message.text or "")
    stem = re.split(r"[/\\]", named[1])[-1].removesuffix(".jsonl") if named else ""
    parent = stem.lower() if rules.UUID.fullmatch(stem) else None
    return (None, None) if parent == session else ("plan", parent)


# -- projects --------------------------------------------------------------------------------------


def find_projects(model: Model) -> None:
    """The repository of every folder that a session began in."""
    states: dict[str, str] = {}
    for event in model.events:
        state = as_dict(event.whole.get("worktreeSession"))
        home = model.sessions.get(event.session or "", {}).get("cwd")
        original = as_text(state.get("originalCwd"))
        if event.type == "worktree-state" and home and original:
            states[home] = original
    for session in model.sessions.values():
        if path := session["cwd"]:
            repo = repo_path(path, states.get(path))
            name = re.split(r"[/\\]", repo.rstrip("/\\"))[-1] or repo
            model.projects[path] = {"repo_path": repo, "name": name}


def repo_path(path: str, original: str | None) -> str:
    found = WORKTREE.fullmatch(path.replace("\\", "/"))
    if found and not HOME.fullmatch(found["repo"]):
        return path[: len(found["repo"])]
    return original or path
