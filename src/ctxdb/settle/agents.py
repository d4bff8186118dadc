"""Agents: what each one is, which call started it, and which turn it belongs to.

An agent is known from its own file, from agent_progress lines, from the result of the call that
started it, or (version 1.0) from the first line of a sidechain. Each of these is kept as a fact
(agent_facts.py). An agent's row is derived from all its facts again whenever one is added.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Any, NamedTuple

from ctxdb.claude.names import (
    AGENT,
    SYNTHETIC_MODEL,
    WORKFLOW,
    kind_by_prompt,
    kind_of_own_agent,
)
from ctxdb.columns import columns, insert_sql, values_of
from ctxdb.rows import Agent, AgentFact
from ctxdb.settle.agent_calls import (
    FIRST_PROMPT,
    NO_LINK,
    StartingCall,
    find_call,
    prompt_of_shared_file,
    starting_call,
)
from ctxdb.settle.agent_facts import OF_AGENT, facts_of_all, facts_of_run
from ctxdb.settle.touched import Touched
from ctxdb.store.lookup import look_up

# These facts alone make no agent: other tasks have notices too, and a file may have no line yet.
_NOT_ENOUGH = ("notice", "workflow", "file", "meta")


_OF_CALLS = (
    "SELECT a.session_id, a.agent_id FROM j CROSS JOIN agents a ON a.tool_use_id = j.value"
    " UNION SELECT f.session_id, f.agent_id FROM j CROSS JOIN _agent_facts f"
    "  ON f.tool_use_id = j.value"
    " UNION SELECT a.session_id, a.agent_id FROM j CROSS JOIN tool_uses t"
    "  ON t.tool_use_id = j.value CROSS JOIN agents a ON a.session_id = t.session_id"
    f"  WHERE {NO_LINK}"
)


def agents_of_calls(conn: sqlite3.Connection, touched: Touched) -> None:
    """Touch the agents that calls may have started, where the calls are new or have changed."""
    touched.agents.update(look_up(conn, touched.calls, _OF_CALLS))
    touched.calls.clear()


def refresh(conn: sqlite3.Connection, touched: Touched) -> set[str]:
    """Derive the touched agents again; return their sessions.

    A change of turn goes down to the agents that they started.
    """
    sessions: set[str] = set()
    for _ in range(20):  # agents start agents a few levels deep; a loop in damaged data must end
        agents_of_calls(conn, touched)
        if not touched.agents:
            break
        batch, touched.agents = sorted(touched.agents), set()
        lines = lines_of(conn, batch)
        facts = facts_of_all(conn, batch)
        for agent in batch:
            session_id, _ = agent
            sessions.add(session_id)
            _refresh_one(conn, agent, lines[agent], facts.get(agent, []), touched)
    return sessions


class AgentLines(NamedTuple):
    """What the lines of an agent say of it."""

    number: int
    began: str | None
    ended: str | None
    has_prompt: bool  # one of them asks the agent something
    prompt: str | None  # the first thing that it was asked
    model: str | None  # the first that it ran on


_LINES = (
    "SELECT json_extract(j.value, '$[0]'), json_extract(j.value, '$[1]'), count(m.id),"
    " min(m.timestamp), max(m.timestamp),"
    f" EXISTS ({FIRST_PROMPT.format(OF_AGENT.format('messages'))}),"
    f" ({FIRST_PROMPT.format(OF_AGENT.format('messages'))}),"
    f" (SELECT model FROM messages WHERE {OF_AGENT.format('messages')} AND model IS NOT NULL"
    "   AND model <> ? ORDER BY timestamp, uuid LIMIT 1)"
    f" FROM j LEFT JOIN messages m ON {OF_AGENT.format('m')} GROUP BY j.key"
)


def lines_of(
    conn: sqlite3.Connection, agents: Collection[tuple[str, str]]
) -> dict[tuple[str, str], AgentLines]:
    """What their lines say of each of some agents."""
    return {
        (session_id, agent_id): AgentLines(*said)
        for session_id, agent_id, *said in look_up(conn, agents, _LINES, (SYNTHETIC_MODEL,))
    }


_UPSERT = f"{insert_sql(Agent)} ON CONFLICT (session_id, agent_id) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in columns(Agent)
)


def _said(facts: list[AgentFact], name: str, *sources: str) -> Any:
    """What the facts of these sources say, in the order of the sources."""
    for source in sources:
        for fact in facts:
            if fact.source == source and (value := getattr(fact, name)) is not None:
                return value
    return None


def _refresh_one(
    conn: sqlite3.Connection,
    who: tuple[str, str],
    lines: AgentLines,
    facts: list[AgentFact],
    touched: Touched,
) -> None:
    session_id, agent_id = who
    touched.changed.add(session_id)
    if lines.number == 0 and all(fact.source in _NOT_ENOUGH for fact in facts):
        conn.execute("DELETE FROM agents WHERE session_id = ? AND agent_id = ?", who)
        return
    prompt = lines.prompt if lines.has_prompt else prompt_of_shared_file(conn, agent_id)
    tool_use_id = find_call(conn, session_id, agent_id, facts, prompt, touched)
    words = prompt or next((fact.prompt for fact in facts if fact.prompt), None)
    told = next((fact.at for fact in facts if fact.tool_use_id == tool_use_id and fact.at), None)
    call = starting_call(conn, who, tool_use_id, words, lines.began or told)
    agent = Agent(
        session_id,
        agent_id,
        kind=_kind(agent_id, facts, prompt),
        agent_type=_said(facts, "agent_type", "meta", "file")
        or call.agent_type
        or _said(facts, "agent_type", "result", "progress"),
        description=_said(facts, "description", "meta")
        or call.description
        or _said(facts, "description", "result"),
        tool_use_id=tool_use_id,
        parent_agent_id=_said(facts, "parent_agent_id", "meta") or call.agent_id,
        turn_id=call.turn_id,
        model=lines.model or _said(facts, "model", "meta", "result"),
        status=_status(
            [*facts, *facts_of_run(conn, session_id, facts, tool_use_id)], tool_use_id, call
        ),
        started_at=lines.began,
        ended_at=lines.ended,
    )
    agent.depth = _said(facts, "depth", "meta") or _depth(
        conn, session_id, agent.parent_agent_id, call
    )
    before = conn.execute(
        "SELECT turn_id FROM agents WHERE session_id = ? AND agent_id = ?", (session_id, agent_id)
    ).fetchone()
    conn.execute(_UPSERT, values_of(Agent)(agent))
    if before is None or before != (agent.turn_id,):
        _move(conn, session_id, agent_id, agent.turn_id, touched)


def _kind(agent_id: str, facts: list[AgentFact], prompt: str | None) -> str:
    if agent_id.startswith("side-"):
        return "sidechain"
    if (own := kind_of_own_agent(agent_id)) is not None:
        return own
    if any(fact.run_id for fact in facts):
        return "workflow"
    if any(fact.kind == "teammate" for fact in facts):
        return "teammate"
    return "task" if prompt is None else kind_by_prompt(prompt)


def _status(facts: list[AgentFact], tool_use_id: str | None, call: StartingCall) -> str:
    # Only the call that launched it can say that it was launched: other calls may quote that.
    notices = [
        fact.status
        for fact in facts
        if fact.source == "notice"
        and fact.status
        and (fact.status != "launched" or fact.tool_use_id == tool_use_id)
    ]
    if notices:
        return notices[-1]
    results = [f.status for f in facts if f.source in ("result", "workflow") and f.status]
    if results:
        return "completed" if "completed" in results else results[-1]
    if not call.is_known:
        return "unknown"
    known = {"pending": "running", "ok": "completed", "error": "failed", "interrupted": "failed"}
    return known.get(call.status, "unknown")


def _depth(
    conn: sqlite3.Connection, session_id: str, parent: str | None, call: StartingCall
) -> int | None:
    if parent is None:
        return 1 if call.is_known else None
    row = conn.execute(
        "SELECT depth FROM agents WHERE session_id = ? AND agent_id = ?", (session_id, parent)
    ).fetchone()
    (depth,) = row or (None,)
    return depth + 1 if depth else 2


def _move(
    conn: sqlite3.Connection,
    session_id: str,
    agent_id: str,
    turn_id: int | None,
    touched: Touched,
) -> None:
    """Give an agent's lines, and the rows derived from them, to the turn of its starting call."""
    who = {"turn": turn_id, "session": session_id, "agent": agent_id}
    old = conn.execute(
        "SELECT DISTINCT turn_id FROM messages WHERE session_id = :session AND agent_id = :agent"
        " AND turn_id IS NOT :turn",
        who,
    ).fetchall()
    if not old:
        return
    touched.turns.update(t for (t,) in [*old, (turn_id,)] if t is not None)
    touched.lists.add(session_id)
    for table in ("messages", "tool_uses", "files_touched"):
        conn.execute(
            f"UPDATE {table} SET turn_id = :turn WHERE session_id = :session"
            " AND agent_id = :agent AND turn_id IS NOT :turn",
            who,
        )
    conn.execute(
        "UPDATE git_operations SET turn_id = :turn WHERE tool_id IN (SELECT id FROM tool_uses"
        " WHERE session_id = :session AND agent_id = :agent)",
        who,
    )
    touched.requests.update(
        key
        for (key,) in conn.execute(
            "SELECT l.request_key FROM messages m JOIN _usage_lines l ON l.message_id = m.id"
            " WHERE m.session_id = :session AND m.agent_id = :agent",
            who,
        )
    )
    touched.calls.update(
        call
        for (call,) in conn.execute(
            "SELECT tool_use_id FROM tool_uses WHERE session_id = :session AND agent_id = :agent"
            " AND name IN (:started_by, :or_by)",
            {**who, "started_by": AGENT, "or_by": WORKFLOW},
        )
    )
