"""A session for a terminal, line by line.

Everything from the transcript goes through ctxdb.escape first: no escape sequence and no direction
mark gets out, whatever a web page or a file talked the model into saying.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.escape import one_line, safe, width
from ctxdb.formatting import clock, day_and_time
from ctxdb.session import facts
from ctxdb.session.parts import Agent, Call, Said
from ctxdb.session.prose import without_graphics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctxdb.session.colours import Ink
    from ctxdb.session.load import Wish
    from ctxdb.session.parts import Item, Reading, Turn

MAX_DEPTH = 12  # of agents inside of agents
NAME_COLUMNS = 6
PROMPT_SIGN = "❯ "
MIN_COLUMNS = 40
UNCUT_COLUMNS = 1000  # where nobody looks but a program: one line, but nearly all of it
_SIGN_INK = {"+": "green", "-": "red"}
_MARK_INK = {"ok": "green", "error": "red", "rejected": "yellow", "interrupted": "yellow"}


class TerminalPage:
    """How to lay out: colours, width, and how much."""

    def __init__(self, ink: Ink, columns: int, wish: Wish, *, cut: bool = True) -> None:
        self.ink = ink
        self.columns = max(columns, MIN_COLUMNS)
        self.room = self.columns if cut else UNCUT_COLUMNS  # for what is put into one line
        self.wish = wish

    def lines(self, reading: Reading, turns: Sequence[Turn] | None = None) -> Iterator[str]:
        """The session, or these turns of it."""
        yield self.ink("bold", one_line(facts.session_title(reading)))
        for name, value in facts.session_facts(reading):
            yield f"{self.ink('dim', f'{name:<10}')}{one_line(value)}"
        day = day_and_time(reading.started_at)[:10]
        for turn in reading.turns if turns is None else turns:
            yield ""
            today = day_and_time(turn.started_at)[:10]
            yield from self._turn(turn, today if today != day else "")
            day = today or day
        if reading.others and turns is None:
            yield ""
            yield self.ink("dim", f"Besides: {facts.others_line(reading.others)}")
            if self.wish.agents:
                for agent in reading.others:
                    yield from self._agent(agent, "", 0)

    def _turn(self, turn: Turn, day: str) -> Iterator[str]:
        number = turn.number or "before the first request"
        at = " ".join(filter(None, (day, clock(turn.started_at))))
        head = " · ".join(filter(None, (number, at, facts.turn_facts(turn))))
        rule = "─" * max(self.columns - width(head) - 4, 2)
        yield self.ink("dim", "── ") + self.ink("bold", head) + self.ink("dim", f" {rule}")
        if turn.prompt:
            yield from self._prompt(turn.prompt, "")
        yield from self._items(turn.items, "", 0)

    def _items(self, items: Sequence[Item], lead: str, depth: int) -> Iterator[str]:
        after_call = False
        for item in items:
            is_row = not isinstance(item, Said)
            if not (after_call and is_row):
                yield lead.rstrip()
            after_call = is_row
            if isinstance(item, Call):
                yield from self._call(item, lead, depth)
            elif isinstance(item, Agent):
                yield from self._agent(item, lead, depth)
            else:
                yield from self._said(item, lead)

    def _said(self, item: Said, lead: str) -> Iterator[str]:
        if item.thinking:
            yield lead + self.ink("dim", "Thinking:")
            for line in safe(item.thinking).split("\n"):
                yield f"{lead}{self.ink('dim', line)}".rstrip()
            if item.text:
                yield lead.rstrip()
        match item.role:
            case "prompt":
                yield from self._prompt(item.text, lead)
            case "note":
                room = self.room - width(lead) - width(item.label) - 4
                label = self.ink("yellow", one_line(item.label))
                yield f"{lead}· {label} {facts.short_line(item.text, max(room, 20))}"
            case "context":
                size = f"{len(item.text):,} characters"
                first = facts.short_line(item.text, 60)
                label = one_line(item.label)
                yield lead + self.ink("dim", f"· {label}: {first} ({size})")
            case "output":
                for line in safe(without_graphics(item.text)).split("\n"):
                    yield f"{lead}{self.ink('dim', line)}".rstrip()
            case _:
                if item.text:
                    for line in safe(item.text).split("\n"):
                        yield (lead + line).rstrip()

    def _prompt(self, text: str, lead: str) -> Iterator[str]:
        sign = PROMPT_SIGN
        for line in safe(text).split("\n"):
            yield f"{lead}{self.ink('prompt', sign + line)}".rstrip()
            sign = " " * len(PROMPT_SIGN)

    def _call(self, call: Call, lead: str, depth: int) -> Iterator[str]:
        mark = self.ink(_MARK_INK.get(call.status, "dim"), facts.MARKS.get(call.status, "?"))
        name = one_line(call.name)
        ending = facts.call_facts(call)
        room = self.room - width(lead) - max(width(name), NAME_COLUMNS) - width(ending) - 8
        target = facts.short_line(call.target, max(room, 20))
        colour = "red" if call.status == "error" else "dim"
        row = (
            f"{lead}  {mark} {self.ink('cyan', name)}{' ' * (NAME_COLUMNS - width(name))}  {target}"
        )
        yield (row + (f"  {self.ink(colour, ending)}" if ending else "")).rstrip()
        if self.wish.tools:
            yield from self._details(call, lead + "      ")
        elif said := facts.answer(call):
            yield from self._prompt(said, lead + "    ")
        for agent in call.agents:
            yield from self._agent(agent, lead + "    ", depth + 1)

    def _details(self, call: Call, lead: str) -> Iterator[str]:
        for name, value, is_diff in facts.given_to(call):
            lines = safe(value).split("\n")
            if is_diff:
                yield lead + self.ink("dim", f"{one_line(name)}:")
                for line in lines:
                    yield f"{lead}{self.ink(_SIGN_INK.get(line[:1], 'dim'), line)}".rstrip()
                continue
            first, *rest = lines
            label = self.ink("dim", f"{one_line(name)}: ") if name else ""
            yield f"{lead}{label}{first}".rstrip()
            for line in rest:
                yield f"{lead}  {line}".rstrip()
        if call.result:
            yield lead + self.ink("dim", "result:")
            for line in safe(without_graphics(call.result).strip("\n")).split("\n"):
                yield f"{lead}{self.ink('dim', '│ ')}{line}".rstrip()
        if call.result_path:
            yield lead + self.ink("dim", f"whole output: {one_line(call.result_path)}")

    def _agent(self, agent: Agent, lead: str, depth: int) -> Iterator[str]:
        ending = facts.agent_facts(agent)
        room = self.room - width(lead) - width(ending) - 6
        title = facts.short_line(facts.agent_title(agent), max(room, 20))
        yield f"{lead}{self.ink('cyan', '↳')} {title}  {self.ink('dim', ending)}".rstrip()
        if depth > MAX_DEPTH:
            return
        below = lead + self.ink("dim", "  │ ")
        if self.wish.agents:
            yield from self._items(agent.items, below, depth)
        for inner in agent.agents:
            yield from self._agent(inner, below if self.wish.agents else lead + "  ", depth + 1)
