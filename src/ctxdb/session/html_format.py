"""Lay out a session as one HTML page that runs no script and loads nothing.

The parts come from `html_parts`, in which all text of the transcript is inert. The page also has a
Content-Security-Policy that tells the browser to run and to load nothing.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb import render
from ctxdb.render.html_text import text
from ctxdb.session import captions, html_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctxdb.session.conversation import Conversation, Exchange

CONTENTS_FROM = 4  # exchanges: fewer need no table of contents


def html_page(conversation: Conversation) -> Iterator[str]:
    """The page, piece by piece."""
    style = page_style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    title = text(captions.session_title(conversation))
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
        f" style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'\">\n"
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
    )
    yield f"<header>\n<h1>{title}</h1>\n<dl>\n"
    for name, value in captions.session_facts(conversation):
        yield f"<dt>{text(name)}</dt><dd>{text(value)}</dd>\n"
    yield "</dl>\n</header>\n"
    yield from _contents(conversation.exchanges)
    yield "<main>\n"
    for exchange in conversation.exchanges:
        yield from html_parts.turn(exchange)
    if conversation.others:
        others = text(captions.others_line(conversation.others))
        yield f"<section>\n<h2>Other agents: {others}</h2>\n"
        for agent in conversation.others:
            yield from html_parts.agent(agent, html_parts.Later())
        yield "</section>\n"
    yield "</main>\n<footer>Made from a Claude Code transcript by ctxdb.</footer>\n"
    yield "</body>\n</html>\n"


def page_style() -> str:
    """The style sheet of the page: its own rules, and those of what is rendered in it."""
    own = Path(__file__).with_name("html_format.css")
    shared = Path(render.__file__).with_name("rendered.css")
    return "".join(path.read_text(encoding="utf-8") for path in (own, shared))


def _contents(exchanges: Sequence[Exchange]) -> Iterator[str]:
    if len(exchanges) < CONTENTS_FROM:
        return
    yield f"<nav><details><summary>{len(exchanges)} requests</summary>\n<ul>\n"
    for exchange in exchanges:
        prompt = captions.short_line(exchange.prompt, 90) or "Before the first request"
        name = f"{exchange.number} {prompt}".strip()
        yield f'<li><a href="#{html_parts.turn_anchor(exchange)}">{text(name)}</a></li>\n'
    yield "</ul>\n</details></nav>\n"
