"""Agents: who they are, which call started them, and which human request they belong to.

An agent is known from its own file, from agent_progress lines, from the result of the call that
started it, or (version 1.0) from a sidechain's root. Each source is kept as a fact, so that the
agent can be made anew whenever another comes, in any order. The call is found, in this order, by
the agent's meta.json, by progress lines, by the result's agentId, by the workflow's run, and by the
words of its first prompt.
"""

from __future__ import annotations

import sqlite3
from hashlib import blake2b
from typing import Any, NamedTuple

from ctxdb.columns import all_columns, columns, insert_sql, values_of
from ctxdb.rows import Agent, AgentFact
from ctxdb.settle.touched import Touched

_LINK_ORDER = ("meta", "progress", "result")
# Other tasks have notices too, and a file of which no line could be read is nobody's yet.
_NOT_ENOUGH = ("notice", "workflow", "file", "meta")
# Agents whose call nothing names: only the words of their prompt can.
_NO_LINK = (
    "a.agent_id NOT LIKE 'acompact%' AND a.agent_id NOT LIKE 'aprompt_suggestion%'"
    " AND NOT EXISTS (SELECT 1 FROM _agent_facts f WHERE f.session_id = a.session_id"
    "  AND f.agent_id = a.agent_id AND (f.run_id IS NOT NULL OR (f.tool_use_id <> ''"
    "   AND f.source IN ('meta', 'progress', 'result'))))"
)


_INSERT_FACT = (
    f"{insert_sql(AgentFact)} ON CONFLICT DO UPDATE SET"
    " agent_type = coalesce(agent_type, excluded.agent_type),"
    " prompt_hash = coalesce(prompt_hash, excluded.prompt_hash), model = excluded.model,"
    " description = excluded.description, depth = excluded.depth,"
    " parent_agent_id = excluded.parent_agent_id"
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
            if fact.tool_use_id and fact.source in (*_LINK_ORDER, "notice"):
                # It is no longer free for others; the end of a workflow is told of its call.
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
    """Forget what a message said, before it is said again.

    Which call started an agent is said by the progress line around an entry, not by the entry: that
    stays true whichever line owns it, and goes to the successor.
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


def agents_of_calls(conn: sqlite3.Connection, touched: Touched) -> None:
    """Agents that may hang on calls that have come or changed."""
    for tool_use_id in touched.calls:
        touched.agents.update(
            conn.execute(
                "SELECT session_id, agent_id FROM agents WHERE tool_use_id = ?"
                " UNION SELECT session_id, agent_id FROM _agent_facts WHERE tool_use_id = ?",
                (tool_use_id, tool_use_id),
            )
        )
        touched.agents.update(
            conn.execute(
                "SELECT a.session_id, a.agent_id FROM tool_uses t JOIN agents a"
                f" ON a.session_id = t.session_id WHERE t.tool_use_id = ? AND {_NO_LINK}",
                (tool_use_id,),
            )
        )
    touched.calls.clear()


def refresh(conn: sqlite3.Connection, touched: Touched) -> None:
    """Make the touched agents anew; a change of turn goes down to the agents they started."""
    for _ in range(20):  # nesting is a few deep; a loop in damaged data must end
        agents_of_calls(conn, touched)
        if not touched.agents:
            return
        batch, touched.agents = sorted(touched.agents), set()
        for session_id, agent_id in batch:
            _refresh_one(conn, session_id, agent_id, touched)


_FACTS = (
    f"SELECT {', '.join(f'f.{name}' for name in all_columns(AgentFact))}, p.prompt"
    " FROM _agent_facts f LEFT JOIN _agent_prompts p ON p.hash = f.prompt_hash"
)
_UPSERT = f"{insert_sql(Agent)} ON CONFLICT (session_id, agent_id) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in columns(Agent)
)


def _facts_of(conn: sqlite3.Connection, session_id: str, agent_id: str) -> list[AgentFact]:
    rows = conn.execute(
        f"{_FACTS} WHERE f.session_id = ? AND f.agent_id = ? ORDER BY f.at, f.tool_use_id",
        (session_id, agent_id),
    )
    return [AgentFact(*values) for values in rows]


def _said(facts: list[AgentFact], name: str, *sources: str) -> Any:
    """What the facts of these sources say, in the order of the sources."""
    for source in sources:
        for fact in facts:
            if fact.source == source and (value := getattr(fact, name)) is not None:
                return value
    return None


def _refresh_one(
    conn: sqlite3.Connection, session_id: str, agent_id: str, touched: Touched
) -> None:
    facts = _facts_of(conn, session_id, agent_id)
    began, ended, lines = conn.execute(
        "SELECT min(timestamp), max(timestamp), count(*) FROM messages"
        " WHERE session_id = ? AND agent_id = ?",
        (session_id, agent_id),
    ).fetchone()
    if lines == 0 and all(fact.source in _NOT_ENOUGH for fact in facts):
        conn.execute(
            "DELETE FROM agents WHERE session_id = ? AND agent_id = ?", (session_id, agent_id)
        )
        return
    prompt = _first_prompt(conn, session_id, agent_id)
    tool_use_id = _find_call(conn, session_id, agent_id, facts, prompt, touched)
    words = prompt or next((fact.prompt for fact in facts if fact.prompt), None)
    told = next((fact.at for fact in facts if fact.tool_use_id == tool_use_id and fact.at), None)
    call = _call(conn, (session_id, agent_id), tool_use_id, words, began or told)
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
        model=_model(conn, session_id, agent_id) or _said(facts, "model", "meta", "result"),
        status=_status(
            [*facts, *_facts_of_runs(conn, session_id, facts, tool_use_id)], tool_use_id, call
        ),
        started_at=began,
        ended_at=ended,
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


def _first_prompt(conn: sqlite3.Connection, session_id: str, agent_id: str) -> str | None:
    row = conn.execute(
        "SELECT text FROM messages WHERE session_id = ? AND agent_id = ? AND type = 'user'"
        " AND kind <> 'tool_result' ORDER BY timestamp LIMIT 1",
        (session_id, agent_id),
    ).fetchone()
    if row is None:  # two sessions can share an agent's file; the prompt is then in one of them
        row = conn.execute(
            "SELECT (SELECT m.text FROM messages m INDEXED BY messages_source_file_id"
            "  WHERE m.source_file_id = f.id AND m.type = 'user' AND m.kind <> 'tool_result'"
            "  ORDER BY m.byte_start LIMIT 1) AS prompt FROM source_files f"
            " WHERE f.agent_id = ? AND prompt IS NOT NULL ORDER BY f.path LIMIT 1",
            (agent_id,),
        ).fetchone()
    (prompt,) = row or (None,)
    return prompt


def _find_call(
    conn: sqlite3.Connection,
    session_id: str,
    agent_id: str,
    facts: list[AgentFact],
    prompt: str | None,
    touched: Touched,
) -> str | None:
    for source in _LINK_ORDER:
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
    if runs or agent_id.startswith(("acompact", "aprompt_suggestion")):
        return None
    words = prompt or next((fact.prompt for fact in facts if fact.prompt), None)
    if not words:
        return None
    return _call_by_words(conn, session_id, agent_id, words, touched)


def _call_by_words(
    conn: sqlite3.Connection, session_id: str, agent_id: str, words: str, touched: Touched
) -> str | None:
    """The call that asks these words.

    Several agents may be asked the same: then the first call is of the first of them, and so on;
    those whose call changes by that are made anew.
    """
    # By the session's index: that of names would go over the agents of all sessions.
    calls = conn.execute(
        "SELECT tool_use_id, agent_id FROM tool_uses WHERE session_id = ?1 AND +name = 'Agent'"
        " AND json_extract(input, '$.prompt') = ?2 AND (substr(tool_use_id, 1, 6) <> 'toolu_'"
        "  OR tool_use_id NOT IN (SELECT tool_use_id FROM _agent_facts WHERE session_id = ?1"
        "   AND source IN ('meta', 'progress', 'result')))"
        " ORDER BY started_at, tool_use_id",
        (session_id, words),
    ).fetchall()
    if not calls:
        return None
    asked = []
    linked = {call for call, _ in calls}
    for other, before in conn.execute(
        f"SELECT a.agent_id, a.tool_use_id FROM agents a WHERE a.session_id = ?1 AND {_NO_LINK}"
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
    """What an agent was asked, by its first line or by what is said of it."""
    prompt = _first_prompt(conn, session_id, agent_id)
    if prompt:
        return prompt
    facts = _facts_of(conn, session_id, agent_id)
    return next((fact.prompt for fact in facts if fact.prompt is not None), None)


class _Call(NamedTuple):
    """The call that started an agent; all empty where it is not known."""

    is_known: bool = False
    turn_id: int | None = None
    agent_id: str | None = None
    status: str = ""
    agent_type: str | None = None
    description: str | None = None


def _call(
    conn: sqlite3.Connection,
    agent: tuple[str, str],
    tool_use_id: str | None,
    words: str | None,
    at: str | None,
) -> _Call:
    """The call that started an agent.

    Other providers repeat their ids, for commands and in agents too: of several calls it is the one
    that asks the agent's words, and the last before the agent began.
    """
    if tool_use_id is None:
        return _Call()
    found = conn.execute(
        "SELECT message_id IS NOT NULL, turn_id, agent_id, status,"
        " json_extract(input, '$.subagent_type'), json_extract(input, '$.description')"
        " FROM tool_uses WHERE tool_use_id = ?1"
        " ORDER BY session_id IS NOT ?2, agent_id IS ?3,"
        "  coalesce(name, '') NOT IN ('Agent', 'Workflow'),"
        "  json_extract(input, '$.prompt') IS NOT ?4,"
        "  iif(started_at > ?5, started_at, NULL), started_at DESC, target, id LIMIT 1",
        (tool_use_id, *agent, words, at),
    ).fetchone()
    call = _Call() if found is None else _Call(*found)
    return call if call.is_known else _Call()


def _kind(agent_id: str, facts: list[AgentFact], prompt: str | None) -> str:
    if agent_id.startswith("side-"):
        return "sidechain"
    if agent_id.startswith("acompact"):
        return "compact"
    if agent_id.startswith("aprompt_suggestion"):
        return "prompt_suggestion"
    if any(fact.run_id for fact in facts):
        return "workflow"
    if any(fact.kind == "teammate" for fact in facts):
        return "teammate"
    if prompt is not None and prompt.startswith("<teammate-message"):
        return "teammate"
    return "warmup" if prompt is not None and prompt.strip() == "Warmup" else "task"


def _model(conn: sqlite3.Connection, session_id: str, agent_id: str) -> str | None:
    row = conn.execute(
        "SELECT model FROM messages WHERE session_id = ? AND agent_id = ?"
        " AND model IS NOT NULL AND model <> '<synthetic>' ORDER BY timestamp, uuid LIMIT 1",
        (session_id, agent_id),
    ).fetchone()
    (model,) = row or (None,)
    return model


def _facts_of_runs(
    conn: sqlite3.Connection, session_id: str, facts: list[AgentFact], tool_use_id: str | None
) -> list[AgentFact]:
    """What is said of the workflow that an agent works for: nothing says how its agents ended."""
    run = next((fact.run_id for fact in facts if fact.run_id), None)
    if run is None or tool_use_id is None:
        return []
    rows = conn.execute(
        f"{_FACTS} WHERE f.session_id = ? AND f.tool_use_id = ?"
        "  AND (f.source = 'notice' OR (f.source = 'workflow' AND f.agent_id = ?)) ORDER BY f.at",
        (session_id, tool_use_id, run),
    )
    return [AgentFact(*values) for values in rows]


def _status(facts: list[AgentFact], tool_use_id: str | None, call: _Call) -> str:
    # That it was launched counts from the call that launched it: others may quote it.
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
    conn: sqlite3.Connection, session_id: str, parent: str | None, call: _Call
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
    """Give an agent's lines, and all that came of them, to the turn of the call that started it."""
    who = {"turn": turn_id, "session": session_id, "agent": agent_id}
    old = conn.execute(
        "SELECT DISTINCT turn_id FROM messages WHERE session_id = :session AND agent_id = :agent"
        " AND turn_id IS NOT :turn",
        who,
    ).fetchall()
    if not old:
        return
    touched.turns.update(t for (t,) in [*old, (turn_id,)] if t is not None)
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
            " AND name IN ('Agent', 'Workflow')",
            who,
        )
    )
