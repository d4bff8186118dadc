"""The parts of a session as HTML: turns, what was said, tool calls, agents.

The exported page holds all of them at once. A web page holds some, and for the others the address
to get them from (`Later`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxdb.formatting import amount, counted, spaced_duration
from ctxdb.render.ansi import with_colours
from ctxdb.render.html_text import text
from ctxdb.render.markdown import markdown, words_and_code
from ctxdb.render.times import time_tag
from ctxdb.session import captions
from ctxdb.session.call_html import call_body, later
from ctxdb.session.conversation import Agent, Call, Passage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctxdb.session.conversation import Exchange, Item

MAX_DEPTH = 12  # of agents inside agents
NOTE_COLUMNS = 500
# A mark for how a call ended, and the word for people who do not see the mark.
WORDS = {
    "ok": "ok",
    "error": "failed",
    "rejected": "refused",
    "interrupted": "interrupted",
    "pending": "no result",
}
_PLAIN_ID = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Later:
    """The addresses of parts that a page does not hold. Without one, the page holds the part."""

    call: Callable[[Call], str] | None = None
    agent: Callable[[Agent], str] | None = None


def turn_anchor(exchange: Exchange) -> str:
    """The id of an exchange on a page: turn-3, turn-c1 if it is copied, turn-0 before the first."""
    return f"turn-{exchange.number or 0}"


def turn_head(exchange: Exchange, links: str = "") -> str:
    """The heading of an exchange: number, time, how it was asked, how long, what it cost."""
    number = f"Turn {exchange.number}" if exchange.number else "Before the first request"
    anchor = turn_anchor(exchange)
    parts = [
        time_tag(exchange.started_at),
        text(captions.exchange_facts(exchange, spaced_duration)),
        f"{amount(exchange.tokens)} tokens" if exchange.tokens else "",
        f'<span class="bad">{counted(exchange.errors, "error")}</span>' if exchange.errors else "",
    ]
    about = " · ".join(filter(None, parts))
    return (
        f'<h2><a href="#{anchor}">{number}</a> <small>{about}</small>'
        f"{f' <small>{links}</small>' if links else ''}</h2>\n"
    )


def prompt(exchange: Exchange) -> str:
    """What was asked."""
    if not exchange.prompt and not exchange.images:
        return ""
    said = words_and_code(exchange.prompt) if exchange.prompt else ""
    return f'<div class="prompt">{said}{_images(exchange.images)}</div>\n'


def turn(exchange: Exchange, where: Later | None = None, links: str = "") -> Iterator[str]:
    """A whole exchange."""
    copied = " copied" if exchange.is_copied else ""
    yield f'<section id="{turn_anchor(exchange)}" class="turn{copied}">\n'
    yield turn_head(exchange, links)
    yield prompt(exchange)
    yield from items(exchange.items, where or Later())
    yield "</section>\n"


def items(found: Sequence[Item], where: Later, depth: int = 0) -> Iterator[str]:
    """What came of a request, in order."""
    for item in found:
        if isinstance(item, Call):
            yield from _call(item, where, depth)
        elif isinstance(item, Agent):
            yield from agent(item, where, depth)
        else:
            yield from _passage(item)


def _passage(item: Passage) -> Iterator[str]:
    if item.thinking:
        yield _details("thinking", "Thinking", markdown(item.thinking))
    if item.text:
        match item.role:
            case "note":
                said = captions.short_line(item.text, NOTE_COLUMNS)
                yield f'<p class="note"><b>{text(item.label)}</b> {text(said)}</p>\n'
            case "context":
                size = f"{item.label} ({len(item.text):,} characters)"
                yield _details("context", text(size), markdown(item.text))
            case "output":
                yield f'<pre class="terminal">{with_colours(item.text)}</pre>\n'
            case "prompt":
                yield f'<div class="prompt">{words_and_code(item.text)}</div>\n'
            case _:
                yield f'<div class="reply">{markdown(item.text)}</div>\n'
    yield _images(item.images)


def _images(images: Sequence[str]) -> str:
    return "".join(f'<p class="image">image: {text(image)}</p>\n' for image in images)


def _call(call: Call, where: Later, depth: int) -> Iterator[str]:
    status = call.status if call.status in WORDS else "pending"
    body = body_later(call, where.call) if where.call else call_body(call)
    answer = captions.answer(call) if where.call else ""
    if body:
        yield _details(f"call call-{status}", call_line(call), body, f"call-{call.id}")
    else:
        yield f'<div class="call call-{status}" id="call-{call.id}">{call_line(call)}</div>\n'
    if answer:
        yield f'<div class="prompt answer">{words_and_code(answer)}</div>\n'
    for one in call.agents:
        yield from agent(one, where, depth + 1)


def call_line(call: Call) -> str:
    """A call in one line: a mark for how it ended, name, target, how long it took."""
    status = call.status if call.status in WORDS else "pending"
    word = WORDS[status]
    facts = [f"exit {call.exit_code}" if call.exit_code else ""]
    facts += [word] if status != "ok" and not call.exit_code else []
    facts.append(captions.took(call.ms, spaced_duration))
    return (
        f'<span class="mark" title="{word}" aria-hidden="true">{captions.MARKS[status]}</span>'
        f'<span class="seen-by-readers">{word}: </span>'
        f" <b>{text(call.name)}</b>"
        f" <code>{text(captions.short_line(call.target, 200))}</code>"
        f" <small>{text(' · '.join(filter(None, facts)))}</small>"
    )


def body_later(call: Call, address: Callable[[Call], str]) -> str:
    """The place of the input and the result of a call, with the address to get them from."""
    link = later(address(call), "Show input and result", "open")
    return f'<div class="body" id="call-{call.id}-body">{link}</div>\n'


def agent(one: Agent, where: Later, depth: int = 0) -> Iterator[str]:
    """An agent: its task, its cost, and its conversation."""
    about = text(captions.agent_facts(one, spaced_duration))
    title = f"Agent <b>{text(captions.agent_title(one))}</b> <small>{about}</small>"
    anchor = agent_anchor(one)
    yield f'<details class="agent" id="{anchor}"><summary>{title}</summary>\n'
    if where.agent:
        link = later(where.agent(one), "Show its conversation", "open")
        yield f'<div class="body" id="{anchor}-body">{link}</div>\n'
    elif depth <= MAX_DEPTH:
        yield from agent_body(one, where, depth)
    yield "</details>\n"


def agent_body(one: Agent, where: Later, depth: int = 0) -> Iterator[str]:
    """The conversation of an agent, and the agents whose starting call is not known."""
    yield from items(one.items, where, depth)
    for inner in one.agents:
        yield from agent(inner, where, depth + 1)


def agent_anchor(one: Agent) -> str:
    """The id of an agent on a page."""
    return f"agent-{_PLAIN_ID.sub('', one.agent_id)}"


def _details(kind: str, summary: str, body: str, anchor: str = "") -> str:
    name = f' id="{anchor}"' if anchor else ""
    return f'<details class="{kind}"{name}><summary>{summary}</summary>\n{body}</details>\n'
