"""The facts that stand above a session, a turn, a call or an agent, in words; for every format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from ctxdb.escape import clip, one_line
from ctxdb.formatting import amount, counted, duration, milliseconds_between, money, period
from ctxdb.session.line_changes import diff
from ctxdb.session.objects import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxdb.session.parts import Agent, Call, Reading, Turn

TITLE_COLUMNS = 160
PICODOLLARS = 10**12
SHORT_TARGET = 60  # characters of a target that every format shows whole
MARKS = {"ok": "✓", "error": "✗", "rejected": "⊘", "interrupted": "!", "pending": "…"}
_OPENING = {
    "command": "command",
    "shell": "shell",
    "queued": "queued",
    "sdk": "by a program",
}


def session_title(reading: Reading) -> str:
    """What to call it, in a line: without a title of its own it is the whole first prompt."""
    return short_line(reading.title, TITLE_COLUMNS) or f"Session {reading.id}"


def short_line(text: str, columns: int) -> str:
    """The beginning of a text in one line; the rest of a long one is not even looked at."""
    return clip(one_line(text[: columns * 4]), columns)


def session_facts(reading: Reading) -> list[tuple[str, str]]:
    """Names and values, in the order to show them."""
    found = [
        ("Session", reading.id),
        ("Project", " · ".join(filter(None, (reading.project, reading.cwd, reading.branch)))),
        ("When", period(reading.started_at, reading.ended_at)),
        ("Model", ", ".join(reading.models)),
        ("Version", f"Claude Code {reading.version}" if reading.version else ""),
        ("Came from", _origin(reading)),
        ("Totals", session_totals(reading)),
    ]
    if reading.deleted_at:
        found.append(("Note", "its transcript is deleted; this is what the database kept"))
    return [(name, value) for name, value in found if value]


def _origin(reading: Reading) -> str:
    if not reading.relation or not reading.parent_id:
        return ""
    title = f" ({short_line(reading.parent_title, 80)})" if reading.parent_title else ""
    how = {"clear": "/clear in", "resume": "resumed from", "fork": "fork of"}[reading.relation]
    return f"{how} {reading.parent_id}{title}"


def session_totals(reading: Reading) -> str:
    """Turns, calls, agents, tokens and cost."""
    own = sum(turn.ordinal is not None and not turn.is_copied for turn in reading.turns)
    copied = sum(turn.is_copied for turn in reading.turns)
    parts = [counted(own, "turn") + (f" (and {copied:,} copied)" if copied else "")]
    if reading.calls:
        failed = f" ({reading.failed:,} failed)" if reading.failed else ""
        parts.append(counted(reading.calls, "tool call") + failed)
    if reading.tokens:
        parts.append(f"{amount(reading.tokens)} tokens")
    if reading.cost is not None:
        parts.append(("at least " if reading.is_lower_bound else "") + _cost(reading.cost))
    return " · ".join(parts)


def turn_facts(turn: Turn) -> str:
    """How it was asked, how long it took, what it cost."""
    took = milliseconds_between(turn.started_at, turn.ended_at)
    parts = [
        _OPENING.get(turn.kind, ""),
        "copied" if turn.is_copied else "",
        _took(took) if took else "",
        _cost(turn.cost),
    ]
    return " · ".join(filter(None, parts))


def call_facts(call: Call) -> str:
    """How it ended, where that is worth a word, and how long it took."""
    ending = "" if call.status == "ok" else call.status
    if call.exit_code:
        ending = f"exit {call.exit_code}"
    return " · ".join(filter(None, (ending, _took(call.ms))))


def _cost(picodollars: int | None) -> str:
    return "" if picodollars is None else money(picodollars / PICODOLLARS)


def _took(ms: int | None) -> str:
    return "" if ms is None or ms < 0 else duration(ms / 1000)


def answer(call: Call) -> str:
    """What a person answered to a question, or said when refusing; empty for other calls."""
    text = call.result or ""
    if call.name == "AskUserQuestion" and call.status == "ok":
        text = text.removeprefix("User has answered your questions: ")
        text = text.removeprefix("Your questions have been answered: ")
        return text.partition(" You can now continue with the user's answers in mind")[0]
    if call.status == "rejected":
        _, found, said = text.partition("the user said:")
        return said.partition("\n\nNote: The user's next message")[0].strip() if found else ""
    return ""


def agent_title(agent: Agent) -> str:
    """What it is and what it was asked."""
    name = agent.type or {"task": "agent"}.get(agent.kind, agent.kind.replace("_", " "))
    return f"{name}: {agent.description}" if agent.description else name


def agent_facts(agent: Agent) -> str:
    """How it went."""
    failed = f" ({agent.failed:,} failed)" if agent.failed else ""
    parts = [
        agent.status if agent.status != "unknown" else "",
        counted(agent.calls, "call") + failed if agent.calls else "",
        _took(milliseconds_between(agent.started_at, agent.ended_at)),
        _cost(agent.cost),
    ]
    return " · ".join(filter(None, parts))


def others_line(agents: list[Agent]) -> str:
    """What ran besides, in a line."""
    kinds: dict[str, int] = {}
    for agent in agents:
        kinds[agent.kind] = kinds.get(agent.kind, 0) + 1
    return ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in sorted(kinds.items()))


class Given(NamedTuple):
    """One value that a call was given."""

    name: str  # empty where the input is not an object
    text: str
    is_diff: bool = False  # what an edit changes, as lines with signs


def given_to(call: Call) -> list[Given]:
    """What a call was given and its title does not say; of an edit, what it changes."""
    fields = parsed(call.input or "{}")
    try:
        if isinstance(fields, dict):
            found = [Given(name, _as_text(value)) for name, value in _without_edits(fields)]
            found = [one for one in found if not _is_title(call, one.text)]
            return found + list(_edits(fields))
    except RecursionError:
        pass
    return [Given("", call.input or "")]


def _is_title(call: Call, text: str) -> bool:
    is_line = "\n" not in text and 0 < len(call.target) < SHORT_TARGET
    return is_line and f"/{text}".endswith(f"/{call.target}")


def _without_edits(fields: dict[str, object]) -> Iterator[tuple[str, object]]:
    left_out = {"replace_all"} if fields.get("replace_all") is False else set()
    if _is_edit(fields):
        left_out |= {"old_string", "new_string"}
    edits = fields.get("edits")
    if isinstance(edits, list) and edits and all(map(_is_edit, edits)):
        left_out.add("edits")
    return ((name, value) for name, value in fields.items() if name not in left_out)


def _edits(fields: dict[str, object]) -> Iterator[Given]:
    edits = fields.get("edits")
    for one in (fields, *(edits if isinstance(edits, list) else ())):
        if _is_edit(one):
            yield Given("change", diff(one["old_string"], one["new_string"]), is_diff=True)


def _is_edit(value: object) -> TypeGuard[dict[str, str]]:
    return (
        isinstance(value, dict)
        and isinstance(value.get("old_string"), str)
        and isinstance(value.get("new_string"), str)
    )


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
