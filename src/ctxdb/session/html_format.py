"""Lay out a session as one HTML page that runs no script and loads nothing.

`_text` escapes every text of the transcript, and nothing else does. The page also has a
Content-Security-Policy that tells the browser to run and to load nothing.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb.escape import safe
from ctxdb.formatting import clock
from ctxdb.session import captions
from ctxdb.session.call_inputs import inputs_of
from ctxdb.session.conversation import Agent, Call, Passage
from ctxdb.session.markdown_blocks import blocks, without_graphics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctxdb.session.conversation import Conversation, Exchange, Item

MAX_DEPTH = 12  # of agents inside agents
CONTENTS_FROM = 4  # exchanges: fewer need no table of contents
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
# No pattern may take more than linear time, whatever a line holds.
_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*)")
_TABLE_RULE = re.compile(r"[\s:|-]+\Z")
_CODE_SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)(.+?)(?<!`)\1(?!`)")
_STRONG_BEGINS = re.compile(r"\*\*(?=\S)")
_STRONG_ENDS = re.compile(r"(?<=\S)\*\*")
_STATUS = frozenset({"ok", "error", "rejected", "interrupted", "pending"})


def html_page(conversation: Conversation) -> Iterator[str]:
    """The page, piece by piece."""
    style = Path(__file__).with_name("html_format.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    title = _text(captions.session_title(conversation))
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
        yield f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>\n"
    yield "</dl>\n</header>\n"
    yield from _contents(conversation.exchanges)
    yield "<main>\n"
    for exchange in conversation.exchanges:
        yield from _exchange(exchange)
    if conversation.others:
        others = _text(captions.others_line(conversation.others))
        yield f"<section>\n<h2>Other agents: {others}</h2>\n"
        for agent in conversation.others:
            yield from _agent(agent, 0)
        yield "</section>\n"
    yield "</main>\n<footer>Made from a Claude Code transcript by ctxdb.</footer>\n"
    yield "</body>\n</html>\n"


def _contents(exchanges: Sequence[Exchange]) -> Iterator[str]:
    if len(exchanges) < CONTENTS_FROM:
        return
    yield f"<nav><details><summary>{len(exchanges)} requests</summary>\n<ul>\n"
    for exchange in exchanges:
        prompt = captions.short_line(exchange.prompt, 90) or "Before the first request"
        name = f"{exchange.number} {prompt}".strip()
        yield f'<li><a href="#{_anchor(exchange)}">{_text(name)}</a></li>\n'
    yield "</ul>\n</details></nav>\n"


def _anchor(exchange: Exchange) -> str:
    return f"turn-{exchange.number or 0}"


def _exchange(exchange: Exchange) -> Iterator[str]:
    number = exchange.number or "Before the first request"
    parts = (clock(exchange.started_at), captions.exchange_facts(exchange))
    about = " · ".join(filter(None, parts))
    copied = " copied" if exchange.is_copied else ""
    yield f'<section id="{_anchor(exchange)}" class="turn{copied}">\n'
    yield f"<h2>{_text(number)} <small>{_text(about)}</small></h2>\n"
    if exchange.prompt:
        yield f'<div class="prompt">{_markdown(exchange.prompt)}</div>\n'
    yield from _items(exchange.items, 0)
    yield "</section>\n"


def _items(items: Sequence[Item], depth: int) -> Iterator[str]:
    for item in items:
        if isinstance(item, Call):
            yield from _call(item, depth)
        elif isinstance(item, Agent):
            yield from _agent(item, depth)
        else:
            yield from _passage(item)


def _passage(item: Passage) -> Iterator[str]:
    if item.thinking:
        yield _details("thinking", "Thinking", _markdown(item.thinking))
    if not item.text:
        return
    match item.role:
        case "note":
            text = captions.short_line(item.text, 500)
            yield f'<p class="note"><b>{_text(item.label)}</b> {_text(text)}</p>\n'
        case "context":
            size = f"{item.label} ({len(item.text):,} characters)"
            yield _details("context", _text(size), _markdown(item.text))
        case "output":
            yield _code(item.text)
        case role:
            yield f'<div class="{role}">{_markdown(item.text)}</div>\n'


def _call(call: Call, depth: int) -> Iterator[str]:
    status = call.status if call.status in _STATUS else "pending"
    summary = (
        f'<span class="mark">{captions.MARKS[status]}</span> <b>{_text(call.name)}</b>'
        f" <code>{_text(captions.short_line(call.target, 200))}</code>"
        f" <small>{_text(captions.call_facts(call))}</small>"
    )
    body = ""
    for name, value, is_diff in inputs_of(call):
        shown = _diff(value) if is_diff else _code(value)
        body += f"<h3>{_text(name or 'input')}</h3>{shown}"
    if call.result:
        body += f"<h3>result</h3>{_code(call.result)}"
    if call.result_path:
        body += f"<p>full output: {_text(call.result_path)}</p>"
    if body:
        yield _details(f"call {status}", summary, body)
    else:
        yield f'<div class="call {status}">{summary}</div>\n'
    for agent in call.agents:
        yield from _agent(agent, depth + 1)


def _agent(agent: Agent, depth: int) -> Iterator[str]:
    about = _text(captions.agent_facts(agent))
    title = f"Agent <b>{_text(captions.agent_title(agent))}</b> <small>{about}</small>"
    yield f'<details class="agent"><summary>{title}</summary>\n'
    if depth <= MAX_DEPTH:
        yield from _items(agent.items, depth)
        for inner in agent.agents:
            yield from _agent(inner, depth + 1)
    yield "</details>\n"


def _details(kind: str, summary: str, body: str) -> str:
    return f'<details class="{kind}"><summary>{summary}</summary>\n{body}</details>\n'


# -- text ----------------------------------------------------------------------------------------


def _text(text: str) -> str:
    """Escape a text: it has no tag, no entity and no invisible character."""
    return safe(text).translate(_ESCAPES)


def _code(text: str) -> str:
    return f"<pre>{_text(without_graphics(text).strip(chr(10)))}</pre>\n"


def _diff(text: str) -> str:
    lines = safe(without_graphics(text)).split("\n")
    kinds = {"+": "ins", "-": "del"}
    tags = (kinds.get(line[:1], "span") for line in lines)
    made = (f"<{tag}>{_text(line)}</{tag}>" for tag, line in zip(tags, lines, strict=True))
    return f'<pre class="diff">{"".join(made)}</pre>\n'


def _markdown(text: str) -> str:
    """Render the parts of Markdown that models use most: code, headings, tables, bold."""
    found = []
    for block in blocks(safe(without_graphics(text))):
        if block.is_code:
            found.append(_code(block.text))
        else:
            found += _paragraphs(block.text.split("\n"))
    return "".join(found)


def _paragraphs(lines: list[str]) -> Iterator[str]:
    waiting: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        heading = _HEADING.match(line)
        is_table = (
            "|" in line
            and at + 1 < len(lines)
            and "|" in lines[at + 1]
            and "-" in lines[at + 1]
            and _TABLE_RULE.match(lines[at + 1])
        )
        if waiting and (heading or is_table or not line.strip()):
            yield _paragraph(waiting)
            waiting = []
        if heading:
            yield f"<h4>{_inline(heading[1].rstrip('#').rstrip())}</h4>\n"
        elif is_table:
            rows = [line]
            at += 2
            while at < len(lines) and "|" in lines[at]:
                rows.append(lines[at])
                at += 1
            yield _table(rows)
            continue
        elif line.strip():
            waiting.append(line)
        at += 1
    if waiting:
        yield _paragraph(waiting)


def _paragraph(lines: list[str]) -> str:
    return "<p>" + "\n".join(map(_inline, lines)) + "</p>\n"


def _table(rows: list[str]) -> str:
    head, *body = ([cell.strip() for cell in row.strip().strip("|").split("|")] for row in rows)
    cells = "".join(f"<th>{_inline(cell)}</th>" for cell in head)
    made = f'<div class="wide"><table><tr>{cells}</tr>\n'
    for row in body:
        made += "<tr>" + "".join(f"<td>{_inline(cell)}</td>" for cell in row) + "</tr>\n"
    return made + "</table></div>\n"


def _inline(line: str) -> str:
    """Render code and bold text. The text is escaped first, so it cannot hold a tag."""
    parts = _CODE_SPAN.split(line)
    found = []
    for n in range(0, len(parts), 3):
        found.append(_strong(_text(parts[n])))
        if n + 2 < len(parts):
            found.append(f"<code>{_text(parts[n + 2])}</code>")
    return "".join(found)


def _strong(text: str) -> str:
    found: list[str] = []
    at = 0
    while begin := _STRONG_BEGINS.search(text, at):
        end = _STRONG_ENDS.search(text, begin.end() + 1)
        if end is None:  # then no later beginning has an end either
            break
        inside = text[begin.end() : end.start()]
        found.append(f"{text[at : begin.start()]}<strong>{inside}</strong>")
        at = end.end()
    return "".join(found) + text[at:]
