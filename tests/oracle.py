"""A second, slow reading of a transcripts folder: what the database must hold.

Everything is read at once and kept in plain Python objects; no step depends on the order of files,
on offsets or on earlier runs, and nothing is imported from ctxdb. The steps follow the contract:

    files -> lines -> entries -> groups of copies -> messages                    (oracle_copies.py)
          -> tool calls with results -> files touched, git operations, agents    (oracle_tools.py)
          -> turns -> sessions;  usage from the messages;  events from all other entries

``read_folder(root)`` returns a ``Model``. Rules about a single entry are in ``oracle_rules.py``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import oracle_rules as rules
from oracle_copies import (
    LAST,
    Entry,
    Key,
    Message,
    Model,
    Session,
    describe,
    grouped,
    load,
    mark,
    mark_agent_prompts,
    session_ages,
)
from oracle_rules import Json, as_dict, as_text
from oracle_tools import find_agents, find_git, join_tools, touch_files

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
    touch_files(model)
    find_git(model)
    find_agents(model)
    find_turns(model)
    count_usage(model)
    describe_sessions(model)
    return model


# -- turns -----------------------------------------------------------------------------------------


def find_turns(model: Model) -> None:
    """Turns of each session in reading order, and the turn of every message."""
    threads: dict[Session, list[Message | Entry]] = defaultdict(list)
    for message in model.messages:
        if message.agent is None:
            threads[message.session].append(message)
    for event in model.events:
        if event.type == "queue-operation":
            threads[event.session].append(event)
    for session, items in threads.items():
        items.sort(key=lambda item: reading_order(session, item))
    begun = turns_of_queues(threads, model)
    for session, items in threads.items():
        model.turns[session] = turns_of(items, begun)
    starters = {use.id: use.message for use in model.tools if use.message}
    for message in model.messages:
        seen = set()
        start: Message | None = message
        while start and start.agent and start not in seen:
            seen.add(start)
            agent = model.agents.get((start.session, start.agent), {})
            start = starters.get(agent.get("tool_use_id") or "")
        message.turn = start.turn if start and not start.agent else None


def reading_order(session: Session, item: Message | Entry) -> Key:
    entry = item.entry if isinstance(item, Message) else item
    return entry.file.session != session, entry.place


def turns_of(items: list[Message | Entry], begun: dict[Entry, tuple[str, str]]) -> list[Json]:
    turns: list[Json] = []
    removed = Counter(begun[item][1] for item in items if item in begun)
    for item in items:
        turn = None
        if isinstance(item, Entry):
            turn = begun.get(item)
        elif item.entry.type == "user":
            turn = rules.turn_of_user_line(item.entry.body)
        elif item.subtype == "queued_command":
            turn = turn_of_attachment(as_dict(item.entry.body.get("attachment")))
            if turn and removed[turn[1]]:  # it stands at `remove` already
                removed[turn[1]] -= 1
                turn = None
        if turn:
            turns.append({"kind": turn[0], "prompt": turn[1]})
        if isinstance(item, Message):
            item.turn = len(turns) or None
    return turns


def turns_of_queues(
    threads: dict[Session, list[Message | Entry]], model: Model
) -> dict[Entry, tuple[str, str]]:
    """The turn that each `remove` begins; one that a fork or replay copied begins none there."""
    found: dict[Key, list[tuple[Key, Entry, tuple[str, str]]]] = defaultdict(list)
    for session, items in threads.items():
        waiting: list[Any] = []
        for event in items:
            turn = queue_operation(event.whole, waiting) if isinstance(event, Entry) else None
            if turn and isinstance(event, Entry):
                rank = (model.ages.get(session, ""), session or LAST, reading_order(session, event))
                found[event.timestamp or event, turn].append((rank, event, turn))
    owned = (min(each, key=lambda one: one[0]) for each in found.values())
    return {event: turn for _, event, turn in owned}


def queue_operation(whole: Json, waiting: list[Any]) -> tuple[str, str] | None:
    """Keep the queue of waiting texts; the turn that a `remove` begins."""
    operation, content = whole.get("operation"), whole.get("content")
    if operation == "enqueue":
        waiting.append(content)
    elif operation == "popAll" and content is None:
        waiting.clear()
    elif operation in ("remove", "dequeue", "popAll"):
        if content is None:
            content = waiting.pop(0) if waiting else None
        elif content in waiting:
            waiting.remove(content)
        if operation == "remove":
            return rules.turn_of_queued_text(content)
    return None


def turn_of_attachment(attachment: Json) -> tuple[str, str] | None:
    origin = as_dict(attachment.get("origin")).get("kind")
    if attachment.get("commandMode") not in (None, "prompt") or origin not in (None, "human"):
        return None
    return rules.turn_of_queued_text(attachment.get("prompt"))


# -- usage -----------------------------------------------------------------------------------------


def count_usage(model: Model) -> None:
    """One row per billed request: docs/costs.md R0 to R7, R10 to R17."""
    lines = [m for m in model.messages if m.entry.type == "assistant" and eligible(m)]
    spoken = {
        (session, api(m).get("id"))
        for m in lines
        if not m.entry.sidechain
        for session in (m.session, *(copy.session for copy in m.copies))
    }
    requests: dict[Key, list[Message]] = defaultdict(list)
    for message in lines:
        if message.entry.sidechain and (message.session, api(message).get("id")) in spoken:
            continue  # R3: a replay of what the main thread said
        requests[request_key(message)].append(message)
    for key, group in requests.items():
        winner, first = max(group, key=winning), min(group, key=attributed)
        usage = api(winner)["usage"]
        searches = [as_dict(api(m)["usage"].get("server_tool_use")) for m in group]
        row = {
            "session": first.session,
            "agent": first.agent,
            "timestamp": first.entry.timestamp,
            "output_is_final": any(api(m).get("stop_reason") is not None for m in group),
            "lines": len(group),
        }
        web = max(rules.counter(s.get("web_search_requests")) for s in searches)
        thinking = as_dict(usage.get("output_tokens_details")).get("thinking_tokens")
        model.usage[key] = row | {
            **rules.token_counts(usage),
            "model": api(winner)["model"],
            "prompt_tokens": rules.largest_prompt(usage),
            "thinking_tokens": thinking,
            "web_search_requests": web,
            "cost_reported_usd": winner.entry.body.get("costUSD"),
            "is_sidechain": winner.entry.sidechain,
        }
        for n, advice in enumerate(rules.iterations(usage, "advisor_message"), 1):
            counts = rules.token_counts(advice)
            model.usage[*key, f"adv {n}"] = row | {
                **counts,
                "model": advice.get("model"),
                "prompt_tokens": rules.prompt_size(counts),
            }


def api(message: Message) -> Json:
    return as_dict(message.entry.body.get("message"))


def eligible(message: Message) -> bool:
    said = api(message)
    return isinstance(said.get("usage"), dict) and said.get("model") not in (
        None,
        "",
        "<synthetic>",
    )


def request_key(message: Message) -> Key:
    """R2: global where the API names the request, else as narrow as it must be."""
    id_, request = as_text(api(message).get("id")), as_text(message.entry.body.get("requestId"))
    if id_ is None:
        return "d", message.entry.identity
    if request:
        return "a", id_, request
    if id_.startswith("msg_"):
        return "b", message.session, id_
    return "c", message.session, id_, message.entry.timestamp


def winning(message: Message) -> Key:
    usage = api(message)["usage"]
    counts = rules.token_counts(usage)
    return (
        not message.entry.sidechain,
        counts["output_tokens"],
        sum(counts.values()),
        usage.get("speed") is not None,
        message.entry.timestamp or "",
    )


def attributed(message: Message) -> Key:
    bg = message.entry.whole.get("sessionKind") == "bg"
    return message.entry.timestamp or LAST, bg, message.session or LAST


# -- sessions --------------------------------------------------------------------------------------


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
        prompts = first_prompts(model.turns.get(session, []))
        titles = [
            (as_text(event.whole.get(name)), source)
            for kind, name, source in (
                ("ai-title", "aiTitle", "ai"),
                ("custom-title", "customTitle", "custom"),
            )
            for event in events
            if event.type == kind
        ]
        summary = summary_of(session, model)
        titles = [(prompts[0] if prompts else None, "prompt"), (summary, "summary"), *titles]
        title, source = next(((t, s) for t, s in reversed(titles) if t), (None, None))
        relation, parent = relation_of(session, main, model)
        model.sessions[session] = {
            "title": title,
            "title_source": source,
            "first_prompts": prompts,
            "cwd": next(values(main, "cwd"), None),
            "git_branch": next(values(reversed(main or messages), "gitBranch"), None),
            "version": next(values(reversed(main or messages), "version"), None),
            "slug": model.slugs.get(session),
            "started_at": times[0] if times else None,
            "ended_at": times[-1] if times else None,
            "relation": relation,
            "parent_session_id": parent,
        }


def first_prompts(turns: list[Json]) -> list[str]:
    """What can stand for the first prompt: any command before the first words, or these."""
    prompts = []
    for turn in turns:
        prompts.append(turn["prompt"])
        if turn["kind"] != "command":
            break
    return prompts


def values(messages: Any, name: str) -> Any:
    """What each line says under a name (a wrapped one by its wrapper), where it says anything."""
    each = (as_text(m.entry.body.get(name)) or as_text(m.entry.whole.get(name)) for m in messages)
    return (value for value in each if value)


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


def relation_of(session: str, main: list[Message], model: Model) -> tuple[str | None, str | None]:
    """How a session began: a fork or a resume of one it shares entries with, or after /clear."""
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
    for message in main:
        turn = rules.turn_of_user_line(message.entry.body) if message.entry.type == "user" else None
        if turn:
            cleared = turn[0] == "command" and turn[1].split()[0] == "/clear"
            parent = next((p for p in values(main, "session_id") if p != session), None)
            return ("clear", parent) if cleared else (None, None)
    return None, None
