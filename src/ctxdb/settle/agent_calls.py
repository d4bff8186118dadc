"""Find the call that started an agent.

It is found, in this order, by the agent's meta.json, by progress lines, by the agent's id in the
call's result, by the workflow's run, and by the words of the agent's first prompt.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from ctxdb.claude.names import AGENT, STARTS_AGENTS, is_unique_id, kind_of_own_agent
from ctxdb.claude.stored_data import AGENT_DESCRIPTION, AGENT_PROMPT, AGENT_TYPE
from ctxdb.rows import AgentFact
from ctxdb.settle.agent_facts import LINK_ORDER, facts_of
from ctxdb.settle.touched import Touched

# Agents (a) whose call no fact names: it can only be found by the words of their prompt.
NO_LINK = (
    "a.kind NOT IN ('compact', 'prompt_suggestion')"
    " AND NOT EXISTS (SELECT 1 FROM _agent_facts f WHERE f.session_id = a.session_id"
    "  AND f.agent_id = a.agent_id AND (f.run_id IS NOT NULL OR (f.tool_use_id <> ''"
    "   AND f.source IN ('meta', 'progress', 'result'))))"
)


FIRST_PROMPT = (
    "SELECT text FROM messages WHERE {} AND type = 'user' AND kind <> 'tool_result'"
    " ORDER BY timestamp LIMIT 1"
)


def first_prompt(conn: sqlite3.Connection, session_id: str, agent_id: str) -> str | None:
    """The first thing that an agent was asked."""
    of_agent = FIRST_PROMPT.format("session_id = ? AND agent_id = ?")
    row = conn.execute(of_agent, (session_id, agent_id)).fetchone()
    if row is None:
        return prompt_of_shared_file(conn, agent_id)
    (prompt,) = row
    return None if prompt is None else str(prompt)


def prompt_of_shared_file(conn: sqlite3.Connection, agent_id: str) -> str | None:
    """The first thing an agent was asked, if its file is shared by two sessions.

    The prompt is then in one of them.
    """
    row = conn.execute(
        "SELECT (SELECT m.text FROM messages m INDEXED BY messages_source_file_id"
        "  WHERE m.source_file_id = f.id AND m.type = 'user' AND m.kind <> 'tool_result'"
        "  ORDER BY m.byte_start LIMIT 1) AS prompt FROM source_files f"
        " WHERE f.agent_id = ? AND prompt IS NOT NULL ORDER BY f.path, f.machine LIMIT 1",
        (agent_id,),
    ).fetchone()
    (prompt,) = row or (None,)
    return prompt


def find_call(
    conn: sqlite3.Connection,
    session_id: str,
    agent_id: str,
    facts: list[AgentFact],
    prompt: str | None,
    touched: Touched,
) -> str | None:
    """The tool_use_id of the call that started an agent, or None."""
    for source in LINK_ORDER:
        for fact in facts:
            if fact.source == source and fact.tool_use_id:
                return fact.tool_use_id
    runs = [fact.run_id for fact in facts if fact.run_id]
    for run in runs:
        row = conn.execute(
            "SELECT tool_use_id FROM _agent_facts WHERE session_id = ? AND agent_id = ?"
            " AND source = 'workflow' ORDER BY at LIMIT 1",
            (session_id, run),
        ).fetchone()
        if row is not None:
            (tool_use_id,) = row
            return str(tool_use_id)
    if runs or kind_of_own_agent(agent_id) is not None:
        return None
    words = prompt or next((fact.prompt for fact in facts if fact.prompt), None)
    if not words:
        return None
    return _call_by_words(conn, session_id, agent_id, words, touched)


def _call_by_words(
    conn: sqlite3.Connection, session_id: str, agent_id: str, words: str, touched: Touched
) -> str | None:
    """The call that asks these words.

    Several agents may be asked the same. Then the first call started the first of these agents, and
    so on. Agents whose call changes by that are derived again.
    """
    found = conn.execute(
        # The + keeps to the session's index: that of names would go over the calls of all sessions.
        "SELECT tool_use_id, agent_id, EXISTS (SELECT 1 FROM _agent_facts f"
        "  WHERE f.session_id = t.session_id AND f.tool_use_id = t.tool_use_id"
        "  AND f.source IN ('meta', 'progress', 'result'))"
        " FROM tool_uses t WHERE session_id = :session AND +name = :tool"
        " AND json_extract(input, :prompt) = :words ORDER BY started_at, tool_use_id",
        {"session": session_id, "tool": AGENT, "prompt": AGENT_PROMPT, "words": words},
    ).fetchall()
    calls = [(call, by) for call, by, taken in found if not (taken and is_unique_id(call))]
    if not calls:
        return None
    asked = []
    linked = {call for call, _ in calls}
    for other, before in conn.execute(
        f"SELECT a.agent_id, a.tool_use_id FROM agents a WHERE a.session_id = ?1 AND {NO_LINK}"
        " UNION SELECT ?2, NULL WHERE NOT EXISTS"
        "  (SELECT 1 FROM agents WHERE session_id = ?1 AND agent_id = ?2)",
        (session_id, agent_id),
    ).fetchall():
        if before is not None and before not in linked and other != agent_id:
            continue
        if _words(conn, session_id, other) == words:
            (began,) = conn.execute(
                "SELECT min(timestamp) FROM messages WHERE session_id = ? AND agent_id = ?",
                (session_id, other),
            ).fetchone()
            asked.append((began or "~", other, before))
    own = None
    for _, other, before in sorted(asked):
        call = next((c for c, by in calls if by != other), None)
        calls = [(c, by) for c, by in calls if c != call]
        if other == agent_id:
            own = call
        elif call != before:
            touched.agents.add((session_id, other))
    return own


def _words(conn: sqlite3.Connection, session_id: str, agent_id: str) -> str | None:
    """What an agent was asked, by its first line or by a fact about it."""
    prompt = first_prompt(conn, session_id, agent_id)
    if prompt:
        return prompt
    facts = facts_of(conn, session_id, agent_id)
    return next((fact.prompt for fact in facts if fact.prompt is not None), None)


_ABOUT_AGENT = (AGENT_TYPE, AGENT_DESCRIPTION)


class StartingCall(NamedTuple):
    """The call that started an agent; all fields are empty if it is not known."""

    is_known: bool = False
    turn_id: int | None = None
    agent_id: str | None = None
    status: str = ""
    agent_type: str | None = None
    description: str | None = None


def starting_call(
    conn: sqlite3.Connection,
    agent: tuple[str, str],
    tool_use_id: str | None,
    words: str | None,
    at: str | None,
) -> StartingCall:
    """The call that started an agent.

    Other providers repeat their ids, also for commands and in agents. Of several calls with this id
    it is the one that asks the agent's words, and the last before the agent began.
    """
    if tool_use_id is None:
        return StartingCall()
    found = conn.execute(
        "SELECT message_id IS NOT NULL, turn_id, agent_id, status,"
        " json_extract(input, ?6), json_extract(input, ?7)"
        " FROM tool_uses WHERE tool_use_id = ?1"
        " ORDER BY session_id IS NOT ?2, agent_id IS ?3, coalesce(name, '') NOT IN (?8, ?9),"
        "  json_extract(input, ?10) IS NOT ?4,"
        "  iif(started_at > ?5, started_at, NULL), started_at DESC, target, id LIMIT 1",
        (tool_use_id, *agent, words, at, *_ABOUT_AGENT, *STARTS_AGENTS, AGENT_PROMPT),
    ).fetchone()
    call = StartingCall() if found is None else StartingCall(*found)
    return call if call.is_known else StartingCall()
