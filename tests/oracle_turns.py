"""Turns: what people asked, the turn of every message, and how long the agent worked on each.

Part of the oracle (see ``oracle.py``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import oracle_rules as rules
from oracle_copies import LAST, Entry, Key, Message, Model, Session
from oracle_rules import Json, as_dict
from oracle_tools import milliseconds

WORK = ("assistant", "synthetic", "tool_result", "command_output", "interruption")
LONGEST_GAP_MS = 60_000


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
    give_caveats(model)
    starters = {use.id: use.message for use in model.tools if use.message}
    for message in model.messages:
        seen = set()
        start: Message | None = message
        while start and start.agent and start not in seen:
            seen.add(start)
            agent = model.agents.get((start.session, start.agent), {})
            start = starters.get(agent.get("tool_use_id") or "")
        message.turn = start.turn if start and not start.agent else None
    measure_turns(model)


def reading_order(session: Session, item: Message | Entry) -> Key:
    entry = item.entry if isinstance(item, Message) else item
    return entry.file.session != session, entry.place


def turns_of(items: list[Message | Entry], begun: dict[Entry, tuple[str, str]]) -> list[Json]:
    turns: list[Json] = []
    removed: Counter[str] = Counter()  # texts that began a turn at `remove`, without attachment yet
    attached: Counter[str] = Counter()  # the other way round: newer versions write both
    for item in items:
        turn = None
        if isinstance(item, Entry):
            turn = once(begun.get(item), attached, removed)
        elif item.entry.type == "user":
            turn = rules.turn_of_user_line(item.entry.body)
        elif item.entry.type == "system":
            turn = rules.turn_of_local_command(item.entry.body)
        elif item.subtype == "queued_command":
            said = turn_of_attachment(as_dict(item.entry.body.get("attachment")))
            turn = once(said, removed, attached)
        if turn:
            entry = item.entry if isinstance(item, Message) else item
            turns.append({"kind": turn[0], "prompt": turn[1], "started_at": entry.timestamp})
        if isinstance(item, Message):
            item.turn = len(turns) or None
    return turns


def once(
    turn: tuple[str, str] | None, other: Counter[str], own: Counter[str]
) -> tuple[str, str] | None:
    """The turn, unless the other of the two lines that tell of it has begun it."""
    if turn and other[turn[1]]:
        other[turn[1]] -= 1
        return None
    if turn:
        own[turn[1]] += 1
    return turn


def give_caveats(model: Model) -> None:
    """A caveat belongs to the turn of the line that hangs on it: the first, where several do."""
    below: dict[Message, Message] = {}
    for message in sorted(model.messages, key=lambda m: reading_order(m.session, m)):
        if message.parent and message.agent is None:
            below.setdefault(message.parent, message)
    for message in model.messages:
        if message.agent is None and is_caveat(message):
            end: Message | None = message
            seen = set()
            while end and end not in seen and is_caveat(end):
                seen.add(end)
                end = below.get(end)
            message.turn = end.turn if end and not is_caveat(end) else None


def is_caveat(message: Message) -> bool:
    if message.entry.type != "user":
        return False
    said = [text.lstrip() for text in rules.texts(message.entry.blocks)]
    if not said:
        return False
    old = message.entry.body.get("isMeta") and said[0].startswith("Caveat: The messages below")
    return bool(old) or said[0].startswith("<local-command-caveat")


# -- queued prompts --------------------------------------------------------------------------------


def turns_of_queues(
    threads: dict[Session, list[Message | Entry]], model: Model
) -> dict[Entry, tuple[str, str]]:
    """The turn that each `remove` begins; one that a fork or replay copied begins none there."""
    found: dict[Key, list[tuple[Key, Entry, tuple[str, str]]]] = defaultdict(list)
    entries = [entry for m in model.messages for entry in [m.entry, *m.copies]]
    forks = {entry.session for entry in entries if entry.body.get("forkedFrom")}
    family = sharing_sessions(model)
    for session, items in threads.items():
        waiting: list[Any] = []
        for event in items:
            turn = queue_operation(event.whole, waiting) if isinstance(event, Entry) else None
            if turn and isinstance(event, Entry):
                age = (session in forks, model.ages.get(session, ""), session or LAST)
                rank = (*age, reading_order(session, event))
                same = (event.timestamp or event, turn, family.get(session, session))
                found[same].append((rank, event, turn))
    owned = (min(each, key=lambda one: one[0]) for each in found.values())
    return {event: turn for _, event, turn in owned}


def sharing_sessions(model: Model) -> dict[Session, Session]:
    """A name for all sessions that share entries with each other, by session."""
    family: dict[Session, Session] = {}
    for message in model.messages:
        together = {message.session, *(copy.session for copy in message.copies)}
        old = {family.get(session, session) for session in together}
        name = min(old, key=str)
        for session in [*together, *(s for s, known in family.items() if known in old)]:
            family[session] = name
    return family


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


# -- time ------------------------------------------------------------------------------------------


def measure_turns(model: Model) -> None:
    """ended_at, agent_ms and active_ms of every turn."""
    work: dict[Key, list[str]] = defaultdict(list)
    runs: dict[Session, list[tuple[int, int]]] = defaultdict(list)
    for message in model.messages:
        at = message.entry.timestamp
        if message.turn and at and (message.agent or message.kind in WORK):
            work[message.session, message.turn].append(at)
        ended, length = milliseconds(at), message.entry.body.get("durationMs")
        counted = isinstance(length, int) and not isinstance(length, bool)
        if message.subtype == "turn_duration" and message.agent is None and ended and counted:
            runs[message.session].append((ended - length, ended))
    for session, turns in model.turns.items():
        reported = share_runs(turns, runs[session])
        for n, turn in enumerate(turns, 1):
            times = work[session, n]
            turn["ended_at"] = max(times, default=turn["started_at"])
            turn["agent_ms"] = reported.get(n)
            turn["active_ms"] = reported.get(n, estimate(times))


def share_runs(turns: list[Json], runs: list[tuple[int, int]]) -> dict[int, int]:
    """Milliseconds of the reported runs by turn: a run is cut where a turn begins inside it."""
    begins = [(ms, n) for n, t in enumerate(turns, 1) if (ms := milliseconds(t["started_at"]))]
    begins.sort()
    shares: dict[int, int] = {}
    for place, (begin, n) in enumerate(begins):
        end = begins[place + 1][0] if place + 1 < len(begins) else None
        covered = 0
        upto = begin
        for start, stop in sorted(runs):
            first = max(start, upto)
            last = stop if end is None else min(stop, end)
            if last > first:
                covered += last - first
                upto = last
        if covered:
            shares[n] = covered
    return shares


def estimate(times: list[str]) -> int:
    """The gaps between lines of work, each counted as at most a minute."""
    at = sorted(ms for time in times if (ms := milliseconds(time)) is not None)
    return sum(min(b - a, LONGEST_GAP_MS) for a, b in pairwise(at))
