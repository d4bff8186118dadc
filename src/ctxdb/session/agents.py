"""Load the agents of a session and put each below the call that started it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.claude.names import STARTS_AGENTS, is_unique_id
from ctxdb.session.conversation import Agent, Call

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from ctxdb.session.conversation import Conversation, Item

_AGENT = (
    "SELECT a.session_id, a.agent_id, a.kind, coalesce(a.agent_type, ''),"
    " coalesce(a.description, ''), a.status, coalesce(a.model, ''), a.tool_use_id,"
    " a.parent_agent_id, a.turn_id, a.started_at, a.ended_at,"
    " (SELECT count(*) FROM tool_uses u WHERE u.session_id = a.session_id"
    "   AND u.agent_id = a.agent_id),"
    " (SELECT count(*) FROM tool_uses u WHERE u.session_id = a.session_id"
    "   AND u.agent_id = a.agent_id AND u.status = 'error')"
    " FROM agents a WHERE "
)


def load_agents(conn: sqlite3.Connection, session_id: str, calls: Iterable[Call]) -> list[Agent]:
    """The agents of the session, and those that its copied calls started in another session."""
    rows = conn.execute(_AGENT + "a.session_id = ? ORDER BY a.started_at, a.id", (session_id,))
    agents = [Agent(*row) for row in rows]
    known = {agent.tool_use_id for agent in agents}
    for call in calls:
        if call.name not in STARTS_AGENTS or call.tool_use_id in known:
            continue
        if is_unique_id(call.tool_use_id):  # others repeat between sessions
            sql = _AGENT + "a.tool_use_id = ? ORDER BY a.started_at, a.id"
            agents += [Agent(*row) for row in conn.execute(sql, (call.tool_use_id,))]
    return agents


def place_agents(conversation: Conversation, agents: list[Agent], hidden: tuple[str, ...]) -> None:
    """Put each agent where it began; agents of a hidden kind go to the end."""
    shown = [agent for agent in agents if agent.kind not in hidden]
    conversation.others = [agent for agent in agents if agent.kind in hidden]
    by_call: dict[str, Call] = {}
    for exchange in conversation.exchanges:
        by_call |= _calls_in(exchange.items)
    for agent in shown:
        by_call |= _calls_in(agent.items)
    by_id = {agent.agent_id: agent for agent in shown}
    by_turn = {exchange.turn_id: exchange for exchange in conversation.exchanges}
    for agent in shown:
        parent = by_id.get(agent.parent_agent_id or "")
        call = by_call.get(agent.tool_use_id or "")
        if call is not None and not _is_inside(call, agent):
            call.agents.append(agent)
        elif parent is not None and not _descends(parent, agent, by_id):
            parent.agents.append(agent)
        elif agent.turn_id in by_turn:
            by_turn[agent.turn_id].items.append(agent)
        else:
            conversation.others.append(agent)


def _calls_in(items: list[Item]) -> Iterator[tuple[str, Call]]:
    return ((item.tool_use_id, item) for item in items if isinstance(item, Call))


def _is_inside(call: Call, agent: Agent) -> bool:
    # A broken transcript may say that an agent started itself.
    return any(item is call for item in agent.items)


def _descends(agent: Agent, ancestor: Agent, by_id: dict[str, Agent]) -> bool:
    """Whether `agent` is `ancestor` or below it. Agents in a circle would never be shown."""
    seen: set[str] = set()
    at: Agent | None = agent
    while at is not None and at.agent_id not in seen:
        if at is ancestor:
            return True
        seen.add(at.agent_id)
        at = by_id.get(at.parent_agent_id or "")
    return at is not None
