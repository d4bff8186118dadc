"""Lay out a session as Markdown that loads and runs nothing when it is rendered.

Text from the transcript keeps its Markdown, without what could do harm: no HTML, no image (the
program that renders it would fetch its address), no fence that takes in the text after it. Its
headings become smaller than those of this page. Code gets a fence that is longer than any in it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctxdb.escape import one_line, safe
from ctxdb.formatting import clock
from ctxdb.render.ansi import without_graphics
from ctxdb.render.markdown import blocks
from ctxdb.session import captions
from ctxdb.session.call_inputs import inputs_of
from ctxdb.session.conversation import Agent, Call, Passage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctxdb.session.conversation import Conversation, Exchange, Item

MAX_DEPTH = 12  # of agents inside agents
_HEADING = re.compile(r"^\s{0,3}(#{1,6})(?=\s|$)")
_UNDERLINE = re.compile(r"^\s{0,3}(=+|-+)\s*$")
# A fence at any indent, also in a list or a quote.
_FENCE = re.compile(r"^(\s*(?:>\s*|(?:[-*+]|\d{1,9}[.)])\s+)*)(?:`{3,}[^`]*|~{3,}.*)$")
_SPECIAL = re.compile(r"([\\`*_\[\]#!|~])")


def markdown(conversation: Conversation) -> Iterator[str]:
    """The session, line by line."""
    yield f"# {plain(captions.session_title(conversation))}"
    yield ""
    for name, value in captions.session_facts(conversation):
        yield f"- **{name}**: {plain(value)}"
    for exchange in conversation.exchanges:
        yield from _exchange(exchange)
    if conversation.others:
        yield ""
        yield f"## Other agents: {plain(captions.others_line(conversation.others))}"
        for agent in conversation.others:
            yield from _agent(agent, 0)


def _exchange(exchange: Exchange) -> Iterator[str]:
    number = exchange.number or "Before the first request"
    parts = (number, clock(exchange.started_at), captions.exchange_facts(exchange))
    yield ""
    yield f"## {plain(' · '.join(filter(None, parts)))}"
    if exchange.prompt:
        yield ""
        yield from _quoted(exchange.prompt)
    yield from _images(exchange.images)
    yield from _items(exchange.items, 0)


def _items(items: Sequence[Item], depth: int) -> Iterator[str]:
    for item in items:
        yield ""
        if isinstance(item, Call):
            yield from _call(item, depth)
        elif isinstance(item, Agent):
            yield from _agent(item, depth)
        else:
            yield from _passage(item)


def _passage(item: Passage) -> Iterator[str]:
    if item.thinking:
        yield from _folded("Thinking", harmless(item.thinking))
        if item.text:
            yield ""
    match item.role:
        case "prompt":
            yield from _quoted(item.text)
        case "note":
            yield f"*{plain(item.label)}: {plain(captions.short_line(item.text, 300))}*"
        case "context":
            size = f"{len(item.text):,} characters"
            yield from _folded(f"{item.label} ({size})", harmless(item.text))
        case "output":
            yield from code(item.text)
        case _:
            yield from harmless(item.text)
    yield from _images(item.images)


def _images(images: Sequence[str]) -> Iterator[str]:
    for image in images:
        yield from ("", f"*image: {plain(image)}*")


def _call(call: Call, depth: int) -> Iterator[str]:
    ending = captions.call_facts(call)
    mark = captions.MARKS.get(call.status, "?")
    target = captions.short_line(call.target, 160)
    title = " ".join(filter(None, (mark, one_line(call.name), target)))
    body: list[str] = []
    for name, value, is_diff in inputs_of(call):
        shown = code(value, "diff" if is_diff else "")
        body += ["", f"**{plain(name)}**" if name else "**input**", *shown]
    if call.result:
        body += ["", "**result**", *code(call.result.strip("\n"))]
    body += _images(call.images)
    if call.result_path:
        body += ["", f"full output: {plain(call.result_path)}"]
    if body:
        yield from _folded(f"{title}  {ending}".rstrip(), body[1:])
    else:
        yield f"- {plain(title)}  {plain(ending)}".rstrip()
    for agent in call.agents:
        yield ""
        yield from _agent(agent, depth + 1)


def _agent(agent: Agent, depth: int) -> Iterator[str]:
    title = " · ".join(filter(None, (captions.agent_title(agent), captions.agent_facts(agent))))
    body: list[str] = []
    if depth <= MAX_DEPTH:
        body += _items(agent.items, depth)
        for inner in agent.agents:
            body += ["", *_agent(inner, depth + 1)]
    yield from _folded(f"Agent {title}", body)


def _folded(title: str, body: Sequence[str] | Iterator[str]) -> Iterator[str]:
    # This is the only HTML in the file, and none of it comes from a transcript.
    yield f"<details><summary>{html_text(one_line(title))}</summary>"
    yield ""
    yield from body
    yield ""
    yield "</details>"


def _quoted(text: str) -> Iterator[str]:
    for line in harmless(text):
        yield f"> {line}".rstrip()


def code(text: str, language: str = "") -> Iterator[str]:
    """A text as code: nothing in it is read as Markdown."""
    text = safe(without_graphics(text))
    fence = fence_for(text)
    yield fence + re.sub(r"[^\w+#.-]", "", language)
    yield from text.split("\n")
    yield fence


def fence_for(text: str) -> str:
    """A fence that is longer than any in the text."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    return "`" * max(3, longest + 1)


def harmless(text: str) -> Iterator[str]:
    """Markdown of a transcript with smaller headings, and without HTML or images."""
    for nth, block in enumerate(blocks(safe(without_graphics(text)))):
        if nth:
            yield ""
        if block.is_code:
            if block.lead:
                yield from (_harmless_line(block.lead), "")
            yield from code(block.text, block.language)
        else:
            yield from map(_harmless_line, block.text.split("\n"))


def _harmless_line(line: str) -> str:
    heading = _HEADING.match(line)
    if heading:
        line = "#" * min(len(heading[1]) + 3, 6) + line[heading.end() :]
    elif _UNDERLINE.match(line):
        line = "\\" + line.strip()  # else it would turn the line before it into a heading
    line = "".join(_span(part, is_code) for part, is_code in _spans(line))
    # A line of backticks may have become a fence when a span in it was replaced.
    match = _FENCE.match(line)
    if match is None:
        return line
    before, *_ = match.groups()
    return f"{before}\\{line[len(before) :]}"


def _span(text: str, is_code: bool) -> str:  # noqa: FBT001
    if not is_code:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace("![", "!\\[")
    if "<" not in text and "&" not in text and "![" not in text:
        return text
    # Nothing can be escaped inside backticks, and earlier lines decide whether these two are a
    # pair. So this is written in a form that is harmless in both cases.
    return f"<code>{plain(text.strip('`'))}</code>"


def _spans(line: str) -> Iterator[tuple[str, bool]]:
    """The text and the `code` of a line. Code that is not closed in its line is text."""
    at = 0
    for match in re.finditer(r"(?<![\\`])(`+)(?!`)(.+?)(?<!`)\1(?!`)", line):
        yield line[at : match.start()], False
        yield match.group(), True
        at = match.end()
    yield line[at:], False


def plain(text: str) -> str:
    """A text in which nothing is Markdown."""
    return html_text(_SPECIAL.sub(r"\\\1", one_line(without_graphics(text))))


def html_text(text: str) -> str:
    """A text in which nothing is HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
