"""The page of a session, and the parts of it that are fetched when they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from markupsafe import Markup

from ctxdb.formatting import moment, period
from ctxdb.query.candidates import Wanted
from ctxdb.query.guard import naming_damaged_index
from ctxdb.query.hits import gather
from ctxdb.query.search import search
from ctxdb.session import captions, html_parts
from ctxdb.session.call_html import call_body
from ctxdb.session.load_parts import load_agent, load_calls
from ctxdb.web import session_html
from ctxdb.web.conversations import conversation, reading, version, whole_id
from ctxdb.web.page import Missing, Page, Redirect
from ctxdb.web.session_facts import CHILDREN, RELATIONS, facts_of
from ctxdb.web.session_html import Addresses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctxdb.session.conversation import Conversation, Exchange
    from ctxdb.web.page import Answer, Question

MOST_CALLS = 100  # in one answer
MOST_FOUND = 60  # hits of a search in the session
SNIPPET = 160  # characters
# How long the page waits between two looks for news, in milliseconds.
LIVE_WAIT = 2_000
IDLE_WAIT = 20_000
LIVE_SECONDS = 1800  # after its last line, a session is probably over


def page(question: Question) -> Answer:
    """The page: first turns, table of contents, facts."""
    named = _named(question)
    session_id = whole_id(question.db.path, named)
    if session_id != named:
        return Redirect(question.links.session(session_id))
    now_version = version(question.db.path, session_id)
    found = conversation(question.db.path, session_id)
    where = Addresses(question.links, session_id)
    values = {
        **_about(question, found),
        "turns": Markup(session_html.first_turns(found.exchanges, where)),  # noqa: S704
        "version": now_version,
        "wait": _wait(question, found),
        "live": where.part("live", part=1),
        "find": where.part("find"),
        "calls": where.part("calls", part=1),
        "others": Markup(_others(found, where)),  # noqa: S704
    }
    return Page("session.html", values)


def _named(question: Question) -> str:
    return unquote(question.parts["id"].replace("~", "%"))  # Datasette writes % as ~


def _about(question: Question, found: Conversation) -> Mapping[str, Any]:
    """What the page, and each answer to a live page, says about the whole session."""
    return {
        "title": captions.session_title(found),
        "session": found,
        "period": period(found.started_at, found.ended_at),
        "totals": captions.session_totals(found),
        "contents": session_html.contents(found.exchanges),
        "errors": sum(one.errors for one in found.exchanges),
        "facts": facts_of(question, found),
        "relations": RELATIONS,
        "child_relations": CHILDREN,
    }


def _wait(question: Question, found: Conversation) -> int:
    ended = moment(found.ended_at)
    is_over = ended is None or (question.now - ended).total_seconds() > LIVE_SECONDS
    return IDLE_WAIT if is_over else LIVE_WAIT


def _others(found: Conversation, where: Addresses) -> str:
    return "".join(
        piece for agent in found.others for piece in html_parts.agent(agent, where.later)
    )


def turn(question: Question) -> Answer:
    """One turn; with `start`, what comes after its first items; with `prompt`, its prompt."""
    found, where = _load(question)
    exchange = _turn_of(found, question.parts["turn"])
    if question.args.get("prompt"):
        html = session_html.prompt(exchange, where, whole=True)
    elif start := question.args.number("start", 0, len(exchange.items)):
        html = session_html.part(exchange, start, where)
    else:
        html = session_html.turn(exchange, where)
    return _part(question, found, html)


def calls(question: Question) -> Answer:
    """Input and result of some calls; with `all`, however long they are."""
    found, where = _load(question)
    given = question.args.get("ids").split(",")[:MOST_CALLS]
    ids = [int(one) for one in given if one.isascii() and one.isdecimal() and len(one) < 19]
    with reading(question.db.path) as conn:
        loaded = load_calls(conn, found.id, ids)
    if not loaded:
        raise Missing("There is no such call.")
    is_whole = bool(question.args.get("all"))
    is_part = bool(question.args.get("part"))
    html = ""
    for call in loaded:
        body = call_body(call, "" if is_whole else where.whole_call(call))
        if not is_part:
            html += f'<div class="call call-{call.status}">{html_parts.call_line(call)}</div>\n'
        body = body or '<p class="note">no input and no result</p>'
        html += f'<div class="body" id="call-{call.id}-body">{body}</div>\n'
    return _part(question, found, html)


def agent(question: Question) -> Answer:
    """The conversation of an agent; with `start`, what comes after its first items."""
    found, where = _load(question)
    with reading(question.db.path) as conn:
        one = load_agent(conn, found.id, question.args.get("id"))
    if one is None:
        raise Missing("There is no such agent in this session.")
    start = question.args.number("start", 0, len(one.items))
    html = session_html.agent_part(one, start, where)
    title = f"Agent {captions.agent_title(one)}"
    return _part(question, found, html, title)


def live(question: Question) -> Answer:
    """What is new in a session since a page has looked: nothing, or the parts to replace and add.

    `turn` is the last turn that the page has, `start` the first item of the last part of it; -1 if
    the page has only a place for it.
    """
    found_id = whole_id(question.db.path, _named(question))
    now_version = version(question.db.path, found_id)
    if now_version == question.args.get("version"):
        return Page("session_live.html", {"version": now_version, "is_new": False, "wait": 0})
    found = conversation(question.db.path, found_id)
    where = Addresses(question.links, found.id)
    values = {
        **_about(question, found),
        "is_new": True,
        "version": now_version,
        "wait": _wait(question, found),
        "turns": Markup(_news(question, found, where)),  # noqa: S704
    }
    return Page("session_live.html", values)


def _news(question: Question, found: Conversation, where: Addresses) -> str:
    last, start = question.args.get("turn"), question.args.get("start")
    numbers = [one.number or "0" for one in found.exchanges]
    at = numbers.index(last) if last in numbers else -1
    made = ""
    if at >= 0:
        exchange = found.exchanges[at]
        if start.isdecimal():
            made += session_html.turn_head(exchange, where)
            made += session_html.part(exchange, min(int(start), len(exchange.items)), where)
        else:
            made += session_html.place_of_turn(exchange, where)
    return made + session_html.first_turns(found.exchanges[at + 1 :], where)


def find(question: Question) -> Answer:
    """The places of a session that have some words."""
    found, where = _load(question)
    words = question.args.get("q")
    hits: list[dict[str, Any]] = []
    if words:
        with (
            reading(question.db.path) as conn,
            naming_damaged_index(question.db.path, by_index=True),
        ):
            answer = search(conn, words, Wanted(session=found.id))
            for session in gather(conn, answer, SNIPPET):
                hits += map(_hit, session.hits[:MOST_FOUND])
    values = {
        "title": f"Search in {captions.session_title(found)}",
        "session": found,
        "words": words,
        "hits": hits,
        "address": where.part(),
        "is_part": bool(question.args.get("part")),
    }
    return Page("session_find.html", values)


def _hit(shown: Any) -> dict[str, Any]:
    hit, snippet = shown.hit, shown.snippet
    return {
        "turn": hit.turn,
        "what": hit.tool or hit.kind or hit.source,
        "call": hit.id if hit.source == "tool" and not hit.agent_id else None,
        "timestamp": hit.timestamp,
        "snippet": snippet,
    }


def _load(question: Question) -> tuple[Conversation, Addresses]:
    session_id = whole_id(question.db.path, _named(question))
    found = conversation(question.db.path, session_id)
    return found, Addresses(question.links, session_id)


def _turn_of(found: Conversation, number: str) -> Exchange:
    for exchange in found.exchanges:
        if (exchange.number or "0") == number:
            return exchange
    raise Missing(f"The session has no turn {number}.")


def _part(question: Question, found: Conversation, html: str, title: str = "") -> Page:
    """A part for the script of the page, or a page of its own for people without script."""
    values = {
        "title": title or captions.session_title(found),
        "session": found,
        "html": Markup(html),  # noqa: S704
        "is_part": bool(question.args.get("part")),
    }
    return Page("session_part.html", values)
