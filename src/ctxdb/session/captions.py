"""The short texts that every format shows with a session, an exchange, a call or an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.claude.names import QUESTION
from ctxdb.claude.shown_text import answer_text, refusal_text
from ctxdb.escape import clip, one_line
from ctxdb.formatting import amount, counted, duration, milliseconds_between, money, period

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctxdb.session.conversation import Agent, Call, Conversation, Exchange

TITLE_COLUMNS = 160
PICODOLLARS = 10**12  # in a dollar
MARKS = {"ok": "✓", "error": "✗", "rejected": "⊘", "interrupted": "!", "pending": "…"}
_KINDS_OF_REQUEST = {
    "command": "command",
    "shell": "shell",
    "queued": "queued",
    "sdk": "by a program",
}
_RELATIONS = {
    "clear": "/clear in",
    "resume": "resumed from",
    "fork": "fork of",
    "plan": "planned in",
}


def session_title(conversation: Conversation) -> str:
    """The title in one line; a session without one has its first prompt as the title."""
    return short_line(conversation.title, TITLE_COLUMNS) or f"Session {conversation.id}"


def short_line(text: str, columns: int) -> str:
    """The beginning of a text in one line. The rest of a long text is not even looked at."""
    return clip(one_line(text[: columns * 4]), columns)


def session_facts(conversation: Conversation) -> list[tuple[str, str]]:
    """Names and values, in the order to show them."""
    place = (conversation.project, conversation.cwd, conversation.branch)
    version = conversation.version
    found = [
        ("Session", conversation.id),
        ("Project", " · ".join(filter(None, place))),
        ("When", period(conversation.started_at, conversation.ended_at)),
        ("Model", ", ".join(conversation.models)),
        ("Version", f"Claude Code {version}" if version else ""),
        ("Came from", _origin(conversation)),
        ("Totals", session_totals(conversation)),
    ]
    if conversation.deleted_at:
        found.append(("Note", "its transcript is deleted; this is what the database kept"))
    return [(name, value) for name, value in found if value]


def _origin(conversation: Conversation) -> str:
    if not conversation.relation or not conversation.parent_id:
        return ""
    title = f" ({short_line(conversation.parent_title, 80)})" if conversation.parent_title else ""
    relation = _RELATIONS.get(conversation.relation, conversation.relation)
    return f"{relation} {conversation.parent_id}{title}"


def session_totals(conversation: Conversation) -> str:
    """Turns, calls, tokens and cost."""
    exchanges = conversation.exchanges
    own = sum(one.ordinal is not None and not one.is_copied for one in exchanges)
    copied = sum(one.is_copied for one in exchanges)
    parts = [counted(own, "turn") + (f" (and {copied:,} copied)" if copied else "")]
    if conversation.calls:
        failed = f" ({conversation.failed:,} failed)" if conversation.failed else ""
        parts.append(counted(conversation.calls, "tool call") + failed)
    if conversation.tokens:
        parts.append(f"{amount(conversation.tokens)} tokens")
    if conversation.cost is not None:
        at_least = "at least " if conversation.is_lower_bound else ""
        parts.append(at_least + cost(conversation.cost))
    return " · ".join(parts)


def exchange_facts(exchange: Exchange, write: Callable[[float], str] = duration) -> str:
    """How a person asked, how long it took and what it cost."""
    ms = milliseconds_between(exchange.started_at, exchange.ended_at)
    parts = [
        _KINDS_OF_REQUEST.get(exchange.kind, ""),
        "copied" if exchange.is_copied else "",
        took(ms, write) if ms else "",
        cost(exchange.cost),
    ]
    return " · ".join(filter(None, parts))


def call_facts(call: Call) -> str:
    """How the call ended, if it did not succeed, and how long it took."""
    ending = "" if call.status == "ok" else call.status
    if call.exit_code:
        ending = f"exit {call.exit_code}"
    return " · ".join(filter(None, (ending, took(call.ms))))


def cost(picodollars: int | None) -> str:
    """An amount of money, or "" if it is not known."""
    return "" if picodollars is None else money(picodollars / PICODOLLARS)


def took(ms: int | None, write: Callable[[float], str] = duration) -> str:
    """How long something took, or "" if that is not known."""
    return "" if ms is None or ms < 0 else write(ms / 1000)


def answer(call: Call) -> str:
    """What a person answered to a question, or wrote to refuse a call; else ""."""
    text = call.result or ""
    if call.name == QUESTION and call.status == "ok":
        return answer_text(text)
    return refusal_text(text) if call.status == "rejected" else ""


def agent_title(agent: Agent) -> str:
    """What kind of agent it is and what it was asked."""
    name = agent.type or {"task": "agent"}.get(agent.kind, agent.kind.replace("_", " "))
    return f"{name}: {agent.description}" if agent.description else name


def agent_facts(agent: Agent, write: Callable[[float], str] = duration) -> str:
    """How the agent ended, its calls, how long it took and what it cost."""
    failed = f" ({agent.failed:,} failed)" if agent.failed else ""
    parts = [
        agent.status if agent.status != "unknown" else "",
        counted(agent.calls, "call") + failed if agent.calls else "",
        took(milliseconds_between(agent.started_at, agent.ended_at), write),
        cost(agent.cost),
    ]
    return " · ".join(filter(None, parts))


def others_line(agents: list[Agent]) -> str:
    """The agents that no request started, counted by kind."""
    kinds: dict[str, int] = {}
    for agent in agents:
        kinds[agent.kind] = kinds.get(agent.kind, 0) + 1
    return ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in sorted(kinds.items()))


def resume_command(session_id: str, cwd: str | None) -> str:
    """The command to resume a session in its folder, safe for any name of the folder."""
    command = f"claude --resume {shell_word(session_id)}"
    if not cwd:
        return command
    return f"cd {shell_word(f'./{cwd}' if cwd.startswith('-') else cwd)} && {command}"


def shell_word(text: str) -> str:
    """Quote a text as one word of a shell, in visible characters only."""
    if text and all(c.isascii() and (c.isalnum() or c in "@%+=:,./-_") for c in text):
        return text
    if text.isprintable():
        return "'" + text.replace("'", "'\"'\"'") + "'"
    # Invisible characters are escaped in the way that bash, zsh and ksh understand.
    escaped = "".join(
        "\\" + c
        if c in "\\'"
        else c
        if c.isprintable()
        else "".join(f"\\{byte:03o}" for byte in c.encode("utf-8", "surrogatepass"))
        for c in text
    )
    return f"$'{escaped}'"
