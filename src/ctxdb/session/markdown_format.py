"""A session as Markdown that can be read anywhere and does nothing when it is rendered.

Text from the transcript keeps its Markdown but not its teeth: no HTML, no image (an address in one
would be fetched by whoever reads), no fence that swallows what comes after, and headings below
ours. Code gets fences that are longer than any inside of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctxdb.escape import one_line, safe
from ctxdb.formatting import clock
from ctxdb.session import facts
from ctxdb.session.parts import Agent, Call, Said
from ctxdb.session.prose import blocks, fence_for, opens_fence, without_graphics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctxdb.session.parts import Item, Reading, Turn

MAX_DEPTH = 12  # of agents inside of agents
_HEADING = re.compile(r"^\s{0,3}(#{1,6})(?=\s|$)")
_UNDERLINE = re.compile(r"^\s{0,3}(=+|-+)\s*$")
_SPECIAL = re.compile(r"([\\`*_\[\]#!|~])")


def markdown(reading: Reading) -> Iterator[str]:
    """The session, line by line."""
    yield f"# {plain(facts.session_title(reading))}"
    yield ""
    for name, value in facts.session_facts(reading):
        yield f"- **{name}**: {plain(value)}"
    for turn in reading.turns:
        yield from _turn(turn)
    if reading.others:
        yield ""
        yield f"## Besides: {plain(facts.others_line(reading.others))}"
        for agent in reading.others:
            yield from _agent(agent, 0)


def _turn(turn: Turn) -> Iterator[str]:
    number = turn.number or "Before the first request"
    head = " · ".join(filter(None, (number, clock(turn.started_at), facts.turn_facts(turn))))
    yield ""
    yield f"## {plain(head)}"
    if turn.prompt:
        yield ""
        yield from _quoted(turn.prompt)
    yield from _items(turn.items, 0)


def _items(items: Sequence[Item], depth: int) -> Iterator[str]:
    for item in items:
        yield ""
        if isinstance(item, Call):
            yield from _call(item, depth)
        elif isinstance(item, Agent):
            yield from _agent(item, depth)
        else:
            yield from _said(item)


def _said(item: Said) -> Iterator[str]:
    if item.thinking:
        yield from _folded("Thinking", tame(item.thinking))
        if item.text:
            yield ""
    match item.role:
        case "prompt":
            yield from _quoted(item.text)
        case "note":
            yield f"*{plain(item.label)}: {plain(facts.short_line(item.text, 300))}*"
        case "context":
            size = f"{len(item.text):,} characters"
            yield from _folded(f"{item.label} ({size})", tame(item.text))
        case "output":
            yield from code(item.text)
        case _:
            yield from tame(item.text)


def _call(call: Call, depth: int) -> Iterator[str]:
    ending = facts.call_facts(call)
    mark = facts.MARKS.get(call.status, "?")
    title = " ".join(filter(None, (mark, one_line(call.name), facts.short_line(call.target, 160))))
    body: list[str] = []
    for name, value, is_diff in facts.given_to(call):
        shown = code(value, "diff" if is_diff else "")
        body += ["", f"**{plain(name)}**" if name else "**input**", *shown]
    if call.result:
        body += ["", "**result**", *code(call.result.strip("\n"))]
    if call.result_path:
        body += ["", f"whole output: {plain(call.result_path)}"]
    if body:
        yield from _folded(f"{title}  {ending}".rstrip(), body[1:])
    else:
        yield f"- {plain(title)}  {plain(ending)}".rstrip()
    for agent in call.agents:
        yield ""
        yield from _agent(agent, depth + 1)


def _agent(agent: Agent, depth: int) -> Iterator[str]:
    title = " · ".join(filter(None, (facts.agent_title(agent), facts.agent_facts(agent))))
    body: list[str] = []
    if depth <= MAX_DEPTH:
        body += _items(agent.items, depth)
        for inner in agent.agents:
            body += ["", *_agent(inner, depth + 1)]
    yield from _folded(f"Agent {title}", body)


def _folded(title: str, body: Sequence[str] | Iterator[str]) -> Iterator[str]:
    # The only HTML in the file is this, and none of it is from a transcript.
    yield f"<details><summary>{html_text(one_line(title))}</summary>"
    yield ""
    yield from body
    yield ""
    yield "</details>"


def _quoted(text: str) -> Iterator[str]:
    for line in tame(text):
        yield f"> {line}".rstrip()


def code(text: str, language: str = "") -> Iterator[str]:
    """A text as code: whatever is in it is shown, never read as Markdown."""
    text = safe(without_graphics(text))
    fence = fence_for(text)
    yield fence + re.sub(r"[^\w+#.-]", "", language)
    yield from text.split("\n")
    yield fence


def tame(text: str) -> Iterator[str]:
    """Markdown of a transcript with its headings below ours, and without HTML or images."""
    for nth, block in enumerate(blocks(safe(without_graphics(text)))):
        if nth:
            yield ""
        if block.is_code:
            if block.lead:
                yield from (_harmless(block.lead), "")
            yield from code(block.text, block.language)
        else:
            yield from map(_harmless, block.text.split("\n"))


def _harmless(line: str) -> str:
    heading = _HEADING.match(line)
    if heading:
        line = "#" * min(len(heading[1]) + 3, 6) + line[heading.end() :]
    elif _UNDERLINE.match(line):
        line = "\\" + line.strip()  # it would make a heading of the line before
    line = "".join(_span(part, is_code) for part, is_code in _spans(line))
    # Without a span that stood in it, a line of backticks may have become a fence.
    fence = opens_fence(line)
    return line if fence is None else f"{fence[1]}\\{line[len(fence[1]) :]}"


def _span(text: str, is_code: bool) -> str:  # noqa: FBT001
    if not is_code:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace("![", "!\\[")
    if "<" not in text and "&" not in text and "![" not in text:
        return text
    # Inside of backticks nothing can be escaped, and whether these are a pair is decided by lines
    # that come before: so it is written in a way that is harmless however it is read.
    return f"<code>{plain(text.strip('`'))}</code>"


def _spans(line: str) -> Iterator[tuple[str, bool]]:
    """Text and `code` of a line. Code that is not closed in its line is text."""
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
