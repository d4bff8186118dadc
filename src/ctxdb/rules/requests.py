"""Billed requests from the lines that say something of them (accounting.md R1 to R6, R11, R13).

Which line wins, who a request belongs to and whether a replayed line counts at all can only be
said over all lines of a request. `sum_up` says it, for the lines of a chunk and for stored ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctxdb.claude.token_counts import request_key
from ctxdb.rows import Request, UsageLine
from ctxdb.rules.owners import entry_key, line_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctxdb.rows import Message


class Teller(NamedTuple):
    """A line and the message it is of: whose it is, and when."""

    line: UsageLine
    session_id: str | None
    agent_id: str | None
    turn_id: int | None
    timestamp: str | None
    entry: str  # what the message is known by
    is_sidechain: int
    api_message_id: str | None = None
    request_id: str | None = None


def known_by(message: Message) -> str:
    """What a message is known by."""
    if message.uuid is not None:
        return entry_key(message.uuid, message.session_id)
    return line_key(message.file_session, message.line_hash, message.nth)


def teller(line: UsageLine, message: Message) -> Teller:
    """A line of a message."""
    return Teller(
        line,
        message.session_id,
        message.agent_id,
        message.turn_id,
        message.timestamp,
        known_by(message),
        message.is_sidechain,
        message.api_message_id,
        message.request_id,
    )


def name_request(message: Message) -> None:
    """Write the key of its request into each usage line of a message (R2)."""
    for line in message.usage or ():
        line.message_id = message.id
        line.request_key = key_of(line, message)


def key_of(line: UsageLine, message: Message) -> str:
    """What makes a request one request (R2); without an API message, it is the line's entry."""
    api, session_id = message.api_message_id, message.session_id
    if api is not None:
        key = request_key(session_id, api, message.request_id, message.timestamp)
    else:
        key = known_by(message)
    return f"{key}|adv {line.part}" if line.part else key


def counts(one: Teller, main_sessions: Iterable[str | None]) -> bool:
    """Whether a line counts (R3).

    A sidechain line does not where its session also has that API message outside a sidechain, as
    an entry of its own or as a copy: `main_sessions` are the sessions that have it so.
    """
    return not one.is_sidechain or one.session_id not in main_sessions


def sum_up(tellers: list[Teller]) -> Request:
    """The request that these lines, all of which count, say something of."""
    if len(tellers) == 1:
        (best,) = (first,) = tellers
    else:
        best = max(sorted(tellers, key=_entry), key=_rank)  # of equal ones, the smallest entry
        first = min(tellers, key=_first)
    line = best.line
    reported = [t.line.cost_reported_usd for t in tellers if t.line.cost_reported_usd is not None]
    return Request(
        request_key=line.request_key,
        api_message_id=best.api_message_id,
        request_id=best.request_id,
        session_id=first.session_id,
        agent_id=first.agent_id,
        turn_id=first.turn_id,
        model=line.model,
        timestamp=first.timestamp,
        input_tokens=line.input_tokens,
        output_tokens=line.output_tokens,
        cache_write_5m_tokens=line.cache_write_5m_tokens,
        cache_write_1h_tokens=line.cache_write_1h_tokens,
        cache_read_tokens=line.cache_read_tokens,
        prompt_tokens=line.prompt_tokens,
        thinking_tokens=line.thinking_tokens,
        web_search_requests=max(t.line.web_search_requests for t in tellers),
        service_tier=line.service_tier,
        speed=line.speed,
        inference_geo=line.inference_geo,
        output_is_final=max(t.line.has_stop_reason for t in tellers),
        is_sidechain=best.is_sidechain,
        cost_reported_usd=max(reported, default=None),
        lines=len(tellers),
        is_repeated=int(any(_is_elsewhere(one, first) for one in tellers)),
    )


def _is_elsewhere(one: Teller, first: Teller) -> bool:
    """Whether a line is of another session, or of another agent than the first one.

    If the main thread of a session has a request, an agent of the session only replays it.
    """
    if one.session_id != first.session_id:
        return True
    return first.agent_id is not None and one.agent_id != first.agent_id


def _rank(one: Teller) -> tuple[bool, int, int, bool, str]:
    """The order in which lines win (R4): the largest wins, and its whole record counts.

    A line of the main thread, then most output, most tokens, one with a speed, the last.
    """
    line = one.line
    total = (
        line.input_tokens
        + line.output_tokens
        + line.cache_write_5m_tokens
        + line.cache_write_1h_tokens
        + line.cache_read_tokens
    )
    has_speed = line.speed is not None
    return not one.is_sidechain, line.output_tokens, total, has_speed, one.timestamp or ""


def _entry(one: Teller) -> str:
    return one.entry


def _first(one: Teller) -> tuple[bool, str, int, str, str]:
    """The order of lines by which a request is attributed (R5): the smallest is the first.

    One with a time, the earliest, one that is not of a background session.
    """
    at = one.timestamp
    return at is None, at or "", one.line.is_background, one.session_id or "", one.entry


class ChunkRequests(NamedTuple):
    """What the lines of a chunk say of requests."""

    requests: list[Request]  # those that only these lines say something of, as far as they know
    unsure: list[str]  # keys of requests that need more than these lines


def sum_up_lines(messages: Iterable[Message]) -> ChunkRequests:
    """Sum up the requests of some lines; those that rule R3 may concern are left to stored rows."""
    told: dict[str, list[Teller]] = {}
    advisors: dict[str, str] = {}  # key of an advisor call -> key of its request
    keys: dict[str, str] = {}  # API message -> its request here
    unsure: set[str] = set()
    for message in messages:
        if not message.usage:
            continue
        api = message.api_message_id
        key = ""
        for line in message.usage:
            told.setdefault(line.request_key, []).append(teller(line, message))
            if line.part:
                advisors[line.request_key] = key
                continue
            key = line.request_key
            if api is None:
                unsure.add(key)
            elif keys.setdefault(api, key) != key:
                unsure.update((keys[api], key))
    for key, tellers in told.items():
        if len(tellers) > 1 and len({one.is_sidechain for one in tellers}) > 1:
            unsure.add(key)
    unsure.update(key for key, request in advisors.items() if request in unsure)
    requests = [sum_up(tellers) for key, tellers in told.items() if key not in unsure]
    return ChunkRequests(requests, sorted(unsure))
