"""A session as pages of a site: as many as keep each of them quick to open."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctxdb.render.html_text import text
from ctxdb.session import captions, html_parts
from ctxdb.web.site_links import session_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxdb.session.conversation import Conversation, Exchange

PAGE_BYTES = 400_000  # of HTML, after which a new page begins
_LATER = html_parts.Later()  # without addresses: the pages hold everything


class Entry(NamedTuple):
    """A turn in the table of contents."""

    address: str
    number: str
    words: str
    facts: str
    errors: int


class SplitSession:
    """The pages of a session, and where each turn begins."""

    def __init__(self, found: Conversation) -> None:
        self._found = found
        self.bodies: list[str] = []
        self.contents: list[Entry] = []
        self._made: list[str] = []
        self._size = 0
        for exchange in found.exchanges:
            self._add_turn(exchange)
        if found.others:
            self._add(f"<h2>Other agents: {text(captions.others_line(found.others))}</h2>\n")
            for agent in found.others:
                self._add("".join(html_parts.agent(agent, _LATER)))
        self._close()
        if not self.bodies:
            self.bodies.append("")

    def _add_turn(self, exchange: Exchange) -> None:
        if self._size > PAGE_BYTES:
            self._close()
        anchor = html_parts.turn_anchor(exchange)
        file = session_file(self._found.id, len(self.bodies) + 1)
        words = captions.short_line(exchange.prompt, 70) or "Before the first request"
        facts = captions.cost(exchange.cost) if exchange.cost else ""
        self.contents.append(
            Entry(f"{file}#{anchor}", exchange.number or "0", words, facts, exchange.errors)
        )
        opened = f'<section id="{anchor}" class="turn">\n'
        self._add(f"{opened}{html_parts.turn_head(exchange)}{html_parts.prompt(exchange)}")
        for piece in self._pieces(exchange):
            if self._size > PAGE_BYTES:
                self._add("</section>\n")
                self._close()
                head = f"<h2>Turn {text(exchange.number or '0')}, continued</h2>\n"
                self._add(f'<section class="turn">\n{head}')
            self._add(piece)
        self._add("</section>\n")

    def _pieces(self, exchange: Exchange) -> Iterator[str]:
        for item in exchange.items:
            yield "".join(html_parts.items([item], _LATER))

    def _add(self, html: str) -> None:
        self._made.append(html)
        self._size += len(html)

    def _close(self) -> None:
        if self._made:
            self.bodies.append("".join(self._made))
        self._made, self._size = [], 0
