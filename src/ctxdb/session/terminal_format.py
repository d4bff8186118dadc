"""Lay out a session for a terminal, line by line.

Everything from the transcript goes through ctxdb.escape first. So no escape sequence and no
direction mark is printed, whatever a web page or a file made the model write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.escape import one_line, safe, width
from ctxdb.formatting import clock, day_and_time
from ctxdb.render.ansi import without_graphics
from ctxdb.session import captions
from ctxdb.session.call_inputs import inputs_of
from ctxdb.session.conversation import Agent, Call, Passage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctxdb.output import Painter
    from ctxdb.session.conversation import Conversation, Exchange, Item
    from ctxdb.session.load import Detail

MAX_DEPTH = 12  # of agents inside agents
NAME_COLUMNS = 6
PROMPT_SIGN = "❯ "
MIN_COLUMNS = 40
UNCUT_COLUMNS = 1000  # in a pipe: one line, but nearly all of it
_SIGN_COLOURS = {"+": "green", "-": "red"}
_MARK_COLOURS = {"ok": "green", "error": "red", "rejected": "yellow", "interrupted": "yellow"}


class TerminalFormat:
    """How to lay out a session: colours, width and how much of it."""

    def __init__(self, paint: Painter, columns: int, detail: Detail, *, cut: bool = True) -> None:
        self.paint = paint
        self.columns = max(columns, MIN_COLUMNS)
        self.room = self.columns if cut else UNCUT_COLUMNS  # for a text that is put into one line
        self.detail = detail

    def lines(
        self, conversation: Conversation, exchanges: Sequence[Exchange] | None = None
    ) -> Iterator[str]:
        """The session, or these exchanges of it."""
        yield self.paint("bold", one_line(captions.session_title(conversation)))
        for name, value in captions.session_facts(conversation):
            yield f"{self.paint('dim', f'{name:<10}')}{one_line(value)}"
        day = day_and_time(conversation.started_at)[:10]
        for exchange in conversation.exchanges if exchanges is None else exchanges:
            yield ""
            today = day_and_time(exchange.started_at)[:10]
            yield from self._exchange(exchange, today if today != day else "")
            day = today or day
        if conversation.others and exchanges is None:
            yield ""
            yield self.paint("dim", f"Other agents: {captions.others_line(conversation.others)}")
            if self.detail.agents:
                for agent in conversation.others:
                    yield from self._agent(agent, "", 0)

    def _exchange(self, exchange: Exchange, day: str) -> Iterator[str]:
        number = exchange.number or "before the first request"
        at = " ".join(filter(None, (day, clock(exchange.started_at))))
        head = " · ".join(filter(None, (number, at, captions.exchange_facts(exchange))))
        rule = "─" * max(self.columns - width(head) - 4, 2)
        yield self.paint("dim", "── ") + self.paint("bold", head) + self.paint("dim", f" {rule}")
        if exchange.prompt:
            yield from self._prompt(exchange.prompt, "")
        yield from self._items(exchange.items, "", 0)

    def _items(self, items: Sequence[Item], lead: str, depth: int) -> Iterator[str]:
        after_call = False
        for item in items:
            is_row = not isinstance(item, Passage)
            if not (after_call and is_row):
                yield lead.rstrip()
            after_call = is_row
            if isinstance(item, Call):
                yield from self._call(item, lead, depth)
            elif isinstance(item, Agent):
                yield from self._agent(item, lead, depth)
            else:
                yield from self._passage(item, lead)

    def _passage(self, item: Passage, lead: str) -> Iterator[str]:
        if item.thinking:
            yield lead + self.paint("dim", "Thinking:")
            for line in safe(item.thinking).split("\n"):
                yield f"{lead}{self.paint('dim', line)}".rstrip()
            if item.text:
                yield lead.rstrip()
        match item.role:
            case "prompt":
                yield from self._prompt(item.text, lead)
            case "note":
                room = self.room - width(lead) - width(item.label) - 4
                label = self.paint("yellow", one_line(item.label))
                yield f"{lead}· {label} {captions.short_line(item.text, max(room, 20))}"
            case "context":
                size = f"{len(item.text):,} characters"
                first = captions.short_line(item.text, 60)
                label = one_line(item.label)
                yield lead + self.paint("dim", f"· {label}: {first} ({size})")
            case "output":
                for line in safe(without_graphics(item.text)).split("\n"):
                    yield f"{lead}{self.paint('dim', line)}".rstrip()
            case _:
                if item.text:
                    for line in safe(item.text).split("\n"):
                        yield (lead + line).rstrip()

    def _prompt(self, text: str, lead: str) -> Iterator[str]:
        sign = PROMPT_SIGN
        for line in safe(text).split("\n"):
            yield f"{lead}{self.paint('prompt', sign + line)}".rstrip()
            sign = " " * len(PROMPT_SIGN)

    def _call(self, call: Call, lead: str, depth: int) -> Iterator[str]:
        mark_colour = _MARK_COLOURS.get(call.status, "dim")
        mark = self.paint(mark_colour, captions.MARKS.get(call.status, "?"))
        name = one_line(call.name)
        ending = captions.call_facts(call)
        room = self.room - width(lead) - max(width(name), NAME_COLUMNS) - width(ending) - 8
        target = captions.short_line(call.target, max(room, 20))
        colour = "red" if call.status == "error" else "dim"
        padding = " " * (NAME_COLUMNS - width(name))
        row = f"{lead}  {mark} {self.paint('cyan', name)}{padding}  {target}"
        yield (row + (f"  {self.paint(colour, ending)}" if ending else "")).rstrip()
        if self.detail.tools:
            yield from self._details(call, lead + "      ")
        elif answer := captions.answer(call):
            yield from self._prompt(answer, lead + "    ")
        for agent in call.agents:
            yield from self._agent(agent, lead + "    ", depth + 1)

    def _details(self, call: Call, lead: str) -> Iterator[str]:
        for name, value, is_diff in inputs_of(call):
            lines = safe(value).split("\n")
            if is_diff:
                yield lead + self.paint("dim", f"{one_line(name)}:")
                for line in lines:
                    yield f"{lead}{self.paint(_SIGN_COLOURS.get(line[:1], 'dim'), line)}".rstrip()
                continue
            first, *rest = lines
            label = self.paint("dim", f"{one_line(name)}: ") if name else ""
            yield f"{lead}{label}{first}".rstrip()
            for line in rest:
                yield f"{lead}  {line}".rstrip()
        if call.result:
            yield lead + self.paint("dim", "result:")
            for line in safe(without_graphics(call.result).strip("\n")).split("\n"):
                yield f"{lead}{self.paint('dim', '│ ')}{line}".rstrip()
        if call.result_path:
            yield lead + self.paint("dim", f"full output: {one_line(call.result_path)}")

    def _agent(self, agent: Agent, lead: str, depth: int) -> Iterator[str]:
        ending = captions.agent_facts(agent)
        room = self.room - width(lead) - width(ending) - 6
        title = captions.short_line(captions.agent_title(agent), max(room, 20))
        yield f"{lead}{self.paint('cyan', '↳')} {title}  {self.paint('dim', ending)}".rstrip()
        if depth > MAX_DEPTH:
            return
        below = lead + self.paint("dim", "  │ ")
        if self.detail.agents:
            yield from self._items(agent.items, below, depth)
        for inner in agent.agents:
            yield from self._agent(inner, below if self.detail.agents else lead + "  ", depth + 1)
