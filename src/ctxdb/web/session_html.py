"""The turns of a session in pieces that a page can fetch one by one.

A page holds the first turns, and a place for each of the others with its heading. A place has the
id of what belongs there and a link to it. The script of the page fetches the link and puts the
answer, which has the same id, in the place of the place. Without script, the link leads to a page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from ctxdb.formatting import counted
from ctxdb.progress import human_bytes
from ctxdb.render.html_text import text
from ctxdb.render.markdown import words_and_code
from ctxdb.session import captions, html_parts
from ctxdb.session.call_html import later

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctxdb.session.conversation import Agent, Call, Exchange, Item
    from ctxdb.web.links import Links

FIRST_BYTES = 70_000  # of HTML that the page holds at first
PART_BYTES = 80_000  # of HTML of one turn, or one agent, that is sent at once
PART_ITEMS = 150
LONG_PROMPT = 6_000  # characters; of a longer prompt the page shows the beginning
FIRST_WORDS = 70  # columns


class Addresses:
    """Where the parts of a session are."""

    def __init__(self, links: Links, session_id: str) -> None:
        self._links = links
        self._id = session_id
        self.later = html_parts.Later(call=self.call, agent=self.agent)

    def part(self, path: str = "", **args: object) -> str:
        """A page below that of the session."""
        name = f"session/{quote(self._id, safe='')}"
        return self._links.page(f"{name}/{path}" if path else name, **args)

    def turn(self, exchange: Exchange, **args: object) -> str:
        """A turn, or what comes after its first items."""
        return self.part(f"turn/{exchange.number or 0}", **args)

    def call(self, call: Call) -> str:
        """The input and result of a call."""
        return self.part("calls", ids=call.id)

    def whole_call(self, call: Call) -> str:
        """The input and result of a call, however long."""
        return self.part("calls", ids=call.id, all=1)

    def agent(self, agent: Agent, **args: object) -> str:
        """The conversation of an agent, which may belong to the session this one is a copy of."""
        name = f"session/{quote(agent.session_id, safe='')}/agent"
        return self._links.page(name, id=agent.agent_id, **args)

    def rows(self, exchange: Exchange) -> str:
        """Links to the rows of a turn and to the SQL that reads them."""
        if exchange.turn_id is None:
            return ""
        rows = self._links.table("messages", turn_id=exchange.turn_id)
        sql = self._links.sql(_TURN_SQL, {"turn_id": exchange.turn_id})
        return f'<a href="{text(rows)}">rows</a> <a href="{text(sql)}">SQL</a>'


_TURN_SQL = (
    "SELECT timestamp, kind, text, model, agent_id FROM messages"
    " WHERE turn_id = :turn_id ORDER BY source_file_id, byte_start"
)


class Entry(NamedTuple):
    """A turn in the table of contents."""

    anchor: str
    number: str
    words: str
    facts: str
    errors: int


def contents(exchanges: Iterable[Exchange]) -> list[Entry]:
    """The table of contents."""
    return [
        Entry(
            html_parts.turn_anchor(one),
            one.number or "0",
            captions.short_line(one.prompt, FIRST_WORDS) or "Before the first request",
            captions.cost(one.cost) if one.cost else "",
            one.errors,
        )
        for one in exchanges
    ]


def first_turns(exchanges: Sequence[Exchange], where: Addresses) -> str:
    """As many turns as a page holds at first, and places for the others."""
    made: list[str] = []
    size = 0
    for exchange in exchanges:
        one = turn(exchange, where) if size < FIRST_BYTES else place_of_turn(exchange, where)
        size += len(one)
        made.append(one)
    return "".join(made)


def turn(exchange: Exchange, where: Addresses) -> str:
    """A turn, or the first part of a long one."""
    anchor = html_parts.turn_anchor(exchange)
    copied = " copied" if exchange.is_copied else ""
    return (
        f'<section id="{anchor}" class="turn{copied}">\n{turn_head(exchange, where)}'
        f"{prompt(exchange, where)}{part(exchange, 0, where)}</section>\n"
    )


def turn_head(exchange: Exchange, where: Addresses) -> str:
    """The heading of a turn, in an element that a live page replaces."""
    anchor = html_parts.turn_anchor(exchange)
    head = html_parts.turn_head(exchange, where.rows(exchange))
    return f'<div class="head" id="{anchor}-head">{head}</div>\n'


def place_of_turn(exchange: Exchange, where: Addresses) -> str:
    """The heading and first words of a turn, and the link to it."""
    anchor = html_parts.turn_anchor(exchange)
    words = captions.short_line(exchange.prompt, 200)
    said = f'<div class="prompt"><p>{text(words)}</p></div>' if words else ""
    link = later(where.turn(exchange), "Show this turn", "visible")
    return (
        f'<section id="{anchor}" class="turn waiting">\n{turn_head(exchange, where)}{said}'
        f'<p class="more">{link}</p></section>\n'
    )


def prompt(exchange: Exchange, where: Addresses, *, whole: bool = False) -> str:
    """What was asked; of a long text the beginning, and a link to all of it."""
    said = exchange.prompt
    anchor = f"{html_parts.turn_anchor(exchange)}-prompt"
    if whole or len(said) <= LONG_PROMPT:
        return f'<div id="{anchor}">{html_parts.prompt(exchange)}</div>\n'
    size = human_bytes(len(said.encode(errors="replace")))
    link = later(where.turn(exchange, prompt=1), f"Show all ({size})")
    return (
        f'<div id="{anchor}"><div class="prompt">{words_and_code(said[:LONG_PROMPT])}'
        f'<p class="more">{link}</p></div></div>\n'
    )


def part(exchange: Exchange, start: int, where: Addresses) -> str:
    """What came of a request, from an item on; what is too long for one part follows later."""
    anchor = html_parts.turn_anchor(exchange)
    inside, left = _some(exchange.items, start, where)
    more = ""
    if left:
        address = where.turn(exchange, start=len(exchange.items) - left)
        more = _place(f"{anchor}-from-{len(exchange.items) - left}", address, left)
    return f'<div class="part" id="{anchor}-from-{start}">{inside}</div>\n{more}'


def agent_part(agent: Agent, start: int, where: Addresses) -> str:
    """The conversation of an agent, or the part of a long one that begins at an item."""
    anchor = html_parts.agent_anchor(agent)
    inside, left = _some(agent.items, start, where)
    name = f"{anchor}-body" if start == 0 else f"{anchor}-from-{start}"
    if not left:
        inside += "".join(
            piece for one in agent.agents for piece in html_parts.agent(one, where.later)
        )
        return f'<div class="body" id="{name}">{inside}</div>\n'
    at = len(agent.items) - left
    more = _place(f"{anchor}-from-{at}", where.agent(agent, start=at), left)
    return f'<div class="body" id="{name}">{inside}{more}</div>\n'


def _some(items: Sequence[Item], start: int, where: Addresses) -> tuple[str, int]:
    """The items from one on that fit into a part, and how many are left after them."""
    made: list[str] = []
    size = 0
    for nth, item in enumerate(items[start:]):
        if nth >= PART_ITEMS or size > PART_BYTES:
            return "".join(made), len(items) - start - nth
        one = "".join(html_parts.items([item], where.later))
        size += len(one)
        made.append(one)
    return "".join(made), 0


def _place(anchor: str, address: str, left: int) -> str:
    link = later(address, f"Show the next of {counted(left, 'more step')}", "visible")
    return f'<div class="part waiting" id="{anchor}"><p class="more">{link}</p></div>\n'
