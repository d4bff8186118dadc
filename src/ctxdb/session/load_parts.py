"""Load one part of a session: some calls with input and result, or one agent's conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.session.agents import load_agents
from ctxdb.session.conversation import Call
from ctxdb.session.load import CALL_COLUMNS, Detail, read_agent, rows_if_there, shorten_targets
from ctxdb.session.passages import image_names

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from ctxdb.session.conversation import Agent

_CWD = (
    "SELECT coalesce(s.cwd, p.path) FROM sessions s LEFT JOIN projects p ON p.id = s.project_id"
    " WHERE s.id = ?"
)


def load_calls(conn: sqlite3.Connection, session_id: str, ids: Iterable[int]) -> list[Call]:
    """Calls by number, with input and result. A session also shows calls that it was copied with.

    So `session_id` only says which folder the targets of calls are shown in.
    """
    columns = CALL_COLUMNS.format(input="u.input", result="u.result_text")
    sql = (
        f"SELECT {columns}, (SELECT m.data FROM messages m WHERE m.id = u.result_message_id)"
        " FROM tool_uses u WHERE u.id = ?"
    )
    found: list[Call] = []
    for number in ids:
        for *fields, _, data in conn.execute(sql, (number,)):
            call = Call(*fields)
            call.images = image_names(data)
            found.append(call)
    shorten_targets(found, _folder(conn, session_id))
    return found


def load_agent(conn: sqlite3.Connection, session_id: str, agent_id: str) -> Agent | None:
    """An agent with its conversation, without inputs and results, and the agents it started."""
    agents = load_agents(conn, session_id, ())
    one = next((agent for agent in agents if agent.agent_id == agent_id), None)
    if one is None:
        return None
    read_agent(conn, one, [], {}, Detail(thinking=True, agents=True))
    calls = {item.tool_use_id: item for item in one.items if isinstance(item, Call)}
    for agent in agents:
        if agent is one:
            continue
        if (call := calls.get(agent.tool_use_id or "")) is not None:
            call.agents.append(agent)
        elif agent.parent_agent_id == agent_id:
            one.agents.append(agent)
    costs = rows_if_there(
        conn,
        "SELECT agent_id, sum(cost) FROM _costs WHERE session_id = ? GROUP BY agent_id",
        session_id,
    )
    by_agent = dict(costs)
    for agent in agents:
        agent.cost = by_agent.get(agent.agent_id)
    shorten_targets(list(calls.values()), _folder(conn, session_id))
    return one


def _folder(conn: sqlite3.Connection, session_id: str) -> str | None:
    row = conn.execute(_CWD, (session_id,)).fetchone()
    if row is None:
        return None
    (folder,) = row
    return str(folder) if folder is not None else None
