"""What a session is called: by its titles, summaries, plan, first prompt or first reply."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from ctxdb.claude.plan_lines import plan_heading
from ctxdb.rules.titles import first_line, one_line
from ctxdb.settle.session_facts import Prompt, SessionFacts, Summary
from ctxdb.store.lookup import look_up

# Commands that say nothing of what a session is about: the first prompt is what comes after them.
_HOUSEKEEPING = (
    "/clear",
    "/compact",
    "/config",
    "/exit",
    "/help",
    "/login",
    "/logout",
    "/mcp",
    "/model",
    "/resume",
    "/status",
)


def first_prompt(seen: SessionFacts) -> Prompt | None:
    """The first thing that was asked, but for commands that say nothing of the session."""
    asked = [prompt for prompt in seen.prompts if prompt.text not in _HOUSEKEEPING]
    return next(iter(asked or seen.prompts), None)


def title_of(
    conn: sqlite3.Connection, session_id: str, seen: SessionFacts, prompt: Prompt | None
) -> tuple[str | None, str | None]:
    """(title, where it is from): the first of these that says something."""
    for source, text in _names(conn, session_id, seen, prompt):
        if title := one_line(text or ""):
            return title, source
    return None, None


def _names(
    conn: sqlite3.Connection, session_id: str, seen: SessionFacts, prompt: Prompt | None
) -> Iterator[tuple[str, str | None]]:
    for source in ("custom", "ai"):
        for file in reversed(seen.files):
            yield source, seen.titles.get((file.source_file_id, source))
    yield "summary", _summary(seen)
    if prompt is None:
        yield "reply", first_line(_first_reply(conn, session_id, seen) or "")
        yield "reply", _first_task(conn, session_id)
    elif prompt.kind == "plan":
        yield "plan", plan_heading(prompt.text)
    else:
        yield "prompt", prompt.text


def _first_reply(conn: sqlite3.Connection, session_id: str, seen: SessionFacts) -> str | None:
    """The first text of the model in the main thread."""
    for file in seen.files:
        row = conn.execute(
            "SELECT text FROM messages WHERE session_id = ? AND source_file_id = ?"
            " AND kind = 'assistant' AND agent_id IS NULL"
            " AND trim(text, char(9, 10, 13, 32)) <> '' ORDER BY byte_start LIMIT 1",
            (session_id, file.source_file_id),
        ).fetchone()
        if row is not None:
            (text,) = row
            return str(text)
    return None


def _first_task(conn: sqlite3.Connection, session_id: str) -> str | None:
    """What the first agent was to do."""
    row = conn.execute(
        "SELECT description FROM agents WHERE session_id = ? AND description IS NOT NULL"
        " ORDER BY started_at IS NULL, started_at, agent_id LIMIT 1",
        (session_id,),
    ).fetchone()
    (description,) = row or (None,)
    return description


def named_by_agents(conn: sqlite3.Connection, sessions: set[str]) -> set[str]:
    """Those of the sessions whose title can come from an agent."""
    sql = (
        "SELECT s.id FROM j CROSS JOIN sessions s ON s.id = j.value"
        " WHERE s.title_source IS NULL OR s.title_source = 'reply'"
    )
    return {session_id for (session_id,) in look_up(conn, sorted(sessions), sql)}


def _summary(seen: SessionFacts) -> str | None:
    """The summary whose leaf is last in the session; ties: own file, then smallest text."""
    rank = {file.source_file_id: n for n, file in enumerate(seen.files)}

    def place(summary: Summary) -> tuple[int, int]:
        return rank.get(summary.file_id, -1), summary.byte_start

    last = max(map(place, seen.summaries), default=None)
    tied = [summary for summary in seen.summaries if place(summary) == last]
    first = min(tied, key=lambda one: (not one.is_in_own_file, one.text), default=None)
    return None if first is None else first.text
