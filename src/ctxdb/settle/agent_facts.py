"""Facts about agents: each is what one line, or one file beside the transcripts, says of an agent.

They are kept in `_agent_facts`, so that an agent can be derived again when another fact comes, in
any order.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from hashlib import blake2b
from typing import NamedTuple

from ctxdb.columns import all_columns, insert_sql, values_of
from ctxdb.rows import AgentFact
from ctxdb.settle.touched import Touched
from ctxdb.store.lookup import look_up

# The sources that name the call which started an agent, the surest first.
LINK_ORDER = ("meta", "progress", "result")
_INSERT_FACT = (
    f"{insert_sql(AgentFact)} ON CONFLICT DO UPDATE SET"
    " agent_type = coalesce(agent_type, excluded.agent_type),"
    " prompt_hash = coalesce(prompt_hash, excluded.prompt_hash), model = excluded.model,"
    " description = excluded.description, depth = excluded.depth,"
    " parent_agent_id = excluded.parent_agent_id"
)


# Rows of the agents in a look-up. There a value is a pair: a session, and an agent of it.
OF_AGENT = (
    "{0}.session_id = json_extract(j.value, '$[0]')"
    " AND {0}.agent_id = json_extract(j.value, '$[1]')"
)


class Successor(NamedTuple):
    """The message, and its session, that takes over what another one said."""

    session_id: str | None
    message_id: int


class Facts:
    """Collects what lines say of agents, and stores it in one go."""

    def __init__(self, conn: sqlite3.Connection, touched: Touched) -> None:
        self.conn = conn
        self.touched = touched
        self.facts: list[AgentFact] = []
        self.prompts: dict[int, str] = {}  # each prompt is stored once

    def add(self, session_id: str | None, facts: list[AgentFact], message_id: int | None) -> None:
        """Add what a line says of agents."""
        if session_id is None:
            return
        touched = self.touched
        for fact in facts:
            fact.session_id, fact.message_id = session_id, message_id
            if fact.prompt:
                fact.prompt_hash = text_hash(fact.prompt)
                self.prompts[fact.prompt_hash] = fact.prompt
            self.facts.append(fact)
            if fact.tool_use_id and fact.source in (*LINK_ORDER, "notice"):
                # No other agent can have this call now. A notice about a workflow names its call.
                touched.calls.add(fact.tool_use_id)
            if fact.source != "workflow":
                touched.agents.add((session_id, fact.agent_id))

    def write(self) -> None:
        """Store them."""
        if not self.facts:
            return
        self.conn.executemany(
            "INSERT OR IGNORE INTO _agent_prompts VALUES (?, ?)", list(self.prompts.items())
        )
        self.conn.executemany(_INSERT_FACT, map(values_of(AgentFact), self.facts))
        for fact in self.facts:
            if fact.source == "workflow" and fact.session_id is not None:
                self.touched.agents.update(
                    (fact.session_id, agent_id)
                    for (agent_id,) in self.conn.execute(
                        "SELECT agent_id FROM _agent_facts WHERE session_id = ? AND run_id = ?",
                        (fact.session_id, fact.agent_id),
                    )
                )
        self.facts.clear()


def add_facts(
    conn: sqlite3.Connection,
    session_id: str | None,
    facts: list[AgentFact],
    message_id: int | None,
    touched: Touched,
) -> None:
    """Store what one line, or a file beside the transcripts, says of agents."""
    found = Facts(conn, touched)
    found.add(session_id, facts, message_id)
    found.write()


def text_hash(text: str) -> int:
    """63 bits of a text."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def drop_facts(
    conn: sqlite3.Connection, message_id: int, touched: Touched, successor: Successor
) -> None:
    """Remove the facts of a message, before they are added again.

    The progress line around an entry says which call started the agent; the entry itself does not.
    So that fact stays true whichever line owns the entry, and goes to the successor.
    """
    for session_id, agent_id, tool_use_id in conn.execute(
        "SELECT session_id, agent_id, tool_use_id FROM _agent_facts WHERE message_id = ?",
        (message_id,),
    ).fetchall():
        touched.agents.add((session_id, agent_id))
        touched.calls.add(tool_use_id)
        if successor.session_id is not None:
            touched.agents.add((successor.session_id, agent_id))
    if successor.session_id is not None:
        conn.execute(
            "UPDATE OR REPLACE _agent_facts SET session_id = ?, message_id = ?"
            " WHERE message_id = ? AND source = 'progress'",
            (*successor, message_id),
        )
    conn.execute(
        "DELETE FROM _agent_facts WHERE message_id = ? AND (source <> 'progress' OR ?)",
        (message_id, successor.message_id != message_id),
    )


_FACTS = (
    f"SELECT {', '.join(f'f.{name}' for name in all_columns(AgentFact))}, p.prompt"
    " FROM _agent_facts f LEFT JOIN _agent_prompts p ON p.hash = f.prompt_hash"
)


def facts_of(conn: sqlite3.Connection, session_id: str, agent_id: str) -> list[AgentFact]:
    """All facts about an agent, in the order of time."""
    rows = conn.execute(
        f"{_FACTS} WHERE f.session_id = ? AND f.agent_id = ? ORDER BY f.at, f.tool_use_id",
        (session_id, agent_id),
    )
    return [AgentFact(*values) for values in rows]


_FACTS_OF_ALL = (
    f"{_FACTS.replace('FROM _agent_facts f', 'FROM j CROSS JOIN _agent_facts f', 1)}"
    f" WHERE {OF_AGENT.format('f')} ORDER BY j.key, f.at, f.tool_use_id"
)


def facts_of_all(
    conn: sqlite3.Connection, agents: Collection[tuple[str, str]]
) -> dict[tuple[str | None, str], list[AgentFact]]:
    """The facts of each of some agents, as `facts_of` gives them."""
    found: dict[tuple[str | None, str], list[AgentFact]] = {}
    for values in look_up(conn, agents, _FACTS_OF_ALL):
        fact = AgentFact(*values)
        found.setdefault((fact.session_id, fact.agent_id), []).append(fact)
    return found


def facts_of_run(
    conn: sqlite3.Connection, session_id: str, facts: list[AgentFact], tool_use_id: str | None
) -> list[AgentFact]:
    """Facts about the workflow that an agent works for. No line says how its agents ended."""
    run = next((fact.run_id for fact in facts if fact.run_id), None)
    if run is None or tool_use_id is None:
        return []
    rows = conn.execute(
        f"{_FACTS} WHERE f.session_id = ? AND f.tool_use_id = ?"
        "  AND (f.source = 'notice' OR (f.source = 'workflow' AND f.agent_id = ?)) ORDER BY f.at",
        (session_id, tool_use_id, run),
    )
    return [AgentFact(*values) for values in rows]
