"""Agents: who they are, which call started them, and which human request they belong to.

An agent is known from its own file, from agent_progress lines, from the result of the call that
started it, or (version 1.0) from a sidechain's root. Each source is kept as a fact, so that the
agent can be made anew whenever another comes, in any order. The call is found, in this order, by
the agent's meta.json, by progress lines, by the result's agentId, by the workflow's run, and by the
words of its first prompt.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from ctxdb.claude import Fact
from ctxdb.store.chunk import Touched

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


def add_facts(
    conn: sqlite3.Connection,
    session_id: str | None,
    facts: list[Fact],
    message_id: int | None,
    touched: Touched,
) -> None:
    """Keep what a line says of agents."""
    if session_id is None:
        return
    for fact in facts:
        conn.execute(
            "INSERT INTO _agent_facts (session_id, agent_id, source, tool_use_id, at, kind,"
            " agent_type, description, model, status, parent_agent_id, depth, run_id, prompt,"
            " message_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET agent_type = coalesce(agent_type, excluded.agent_type),"
            "  prompt = coalesce(prompt, excluded.prompt), model = excluded.model,"
            "  description = excluded.description, depth = excluded.depth,"
            "  parent_agent_id = excluded.parent_agent_id",
            (session_id, *fact, message_id),
        )
        if fact.tool_use_id and fact.source in (*_LINK_ORDER, "notice"):
            # It is no longer free for others; the end of a workflow is told of its call.
            touched.calls.add(fact.tool_use_id)
        if fact.source == "workflow":
            for (agent_id,) in conn.execute(
                "SELECT agent_id FROM _agent_facts WHERE session_id = ? AND run_id = ?",
                (session_id, fact.agent_id),
            ):
                touched.agents.add((session_id, agent_id))
        else:
            touched.agents.add((session_id, fact.agent_id))


def drop_facts(
    conn: sqlite3.Connection, message_id: int, touched: Touched, heir: tuple[str | None, int] | None
) -> None:
    """Forget what a message said, before it is said anew.

    Which call started an agent is said by the progress line around an entry, not by the entry: that
    stays true whoever owns it, and goes to the `heir`, (session, message).
    """
    for session_id, agent_id, tool_use_id in conn.execute(
        "SELECT session_id, agent_id, tool_use_id FROM _agent_facts WHERE message_id = ?",
        (message_id,),
    ).fetchall():
        touched.agents.add((session_id, agent_id))
        touched.calls.add(tool_use_id)
        if heir is not None and heir[0] is not None:
            touched.agents.add((heir[0], agent_id))
    if heir is not None and heir[0] is not None:
        conn.execute(
            "UPDATE OR REPLACE _agent_facts SET session_id = ?, message_id = ?"
            " WHERE message_id = ? AND source = 'progress'",
            (*heir, message_id),
        )
    conn.execute(
        "DELETE FROM _agent_facts WHERE message_id = ? AND (source <> 'progress' OR ?)",
        (message_id, heir is None or heir[1] != message_id),
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


def _refresh_one(
    conn: sqlite3.Connection, session_id: str, agent_id: str, touched: Touched
) -> None:
    facts = conn.execute(
        "SELECT source, tool_use_id, at, kind, agent_type, description, model, status,"
        " parent_agent_id, depth, run_id, prompt FROM _agent_facts"
        " WHERE session_id = ? AND agent_id = ? ORDER BY at, tool_use_id",
        (session_id, agent_id),
    ).fetchall()
    lines = conn.execute(
        "SELECT min(timestamp), max(timestamp), count(*) FROM messages"
        " WHERE session_id = ? AND agent_id = ?",
        (session_id, agent_id),
    ).fetchone()
    if lines[2] == 0 and all(fact[0] in _NOT_ENOUGH for fact in facts):
        conn.execute(
            "DELETE FROM agents WHERE session_id = ? AND agent_id = ?", (session_id, agent_id)
        )
        return
    prompt = _first_prompt(conn, session_id, agent_id)
    tool_use_id = _find_call(conn, session_id, agent_id, facts, prompt, touched)
    words = prompt or next((fact[11] for fact in facts if fact[11]), None)
    told = next((fact[2] for fact in facts if fact[1] == tool_use_id and fact[2]), None)
    call = _call(conn, (session_id, agent_id), tool_use_id, words, lines[0] or told)

    def said(column: int, sources: tuple[str, ...]) -> Any:
        for source in sources:
            for fact in facts:
                if fact[0] == source and fact[column] is not None:
                    return fact[column]
        return None

    call_input = call[3] if call else None
    row = {
        "kind": _kind(agent_id, facts, prompt),
        "agent_type": said(4, ("meta", "file"))
        or (call_input and call_input[0])
        or said(4, ("result", "progress")),
        "description": said(5, ("meta",)) or (call_input and call_input[1]) or said(5, ("result",)),
        "tool_use_id": tool_use_id,
        "parent_agent_id": said(8, ("meta",)) or (call[1] if call else None),
        "depth": None,
        "turn_id": call[0] if call else None,
        "model": _model(conn, session_id, agent_id) or said(6, ("meta", "result")),
        "status": _status(
            [*facts, *_facts_of_runs(conn, session_id, facts, tool_use_id)], tool_use_id, call
        ),
        "started_at": lines[0],
        "ended_at": lines[1],
    }
    row["depth"] = said(9, ("meta",)) or _depth(conn, session_id, row["parent_agent_id"], call)
    before = conn.execute(
        "SELECT turn_id FROM agents WHERE session_id = ? AND agent_id = ?", (session_id, agent_id)
    ).fetchone()
    names = ", ".join(row)
    conn.execute(
        f"INSERT INTO agents (session_id, agent_id, {names})"
        f" VALUES (?, ?, {', '.join('?' * len(row))}) ON CONFLICT (session_id, agent_id)"
        f" DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in row)}",
        (session_id, agent_id, *row.values()),
    )
    if before is None or before[0] != row["turn_id"]:
        _move(conn, session_id, agent_id, row["turn_id"], touched)


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
    return row[0] if row else None


def _find_call(
    conn: sqlite3.Connection,
    session_id: str,
    agent_id: str,
    facts: list[Any],
    prompt: str | None,
    touched: Touched,
) -> str | None:
    for source in _LINK_ORDER:
        for fact in facts:
            if fact[0] == source and fact[1]:
                return str(fact[1])
    runs = [fact[10] for fact in facts if fact[10]]
    for run in runs:
        row = conn.execute(
            "SELECT tool_use_id FROM _agent_facts WHERE session_id = ? AND agent_id = ?"
            " AND source = 'workflow' ORDER BY at LIMIT 1",
            (session_id, run),
        ).fetchone()
        if row:
            return str(row[0])
    if runs or agent_id.startswith(("acompact", "aprompt_suggestion")):
        return None
    words = prompt or next((fact[11] for fact in facts if fact[11]), None)
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
        calls = [c for c in calls if c[0] != call]
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
    row = conn.execute(
        "SELECT prompt FROM _agent_facts WHERE session_id = ? AND agent_id = ?"
        " AND prompt IS NOT NULL ORDER BY at, tool_use_id LIMIT 1",
        (session_id, agent_id),
    ).fetchone()
    return row[0] if row else None


def _call(
    conn: sqlite3.Connection,
    agent: tuple[str, str],
    tool_use_id: str | None,
    words: str | None,
    at: str | None,
) -> Any:
    """(turn_id, agent_id, status, (agent type, description)) of the call that started it.

    Other providers repeat their ids, for commands and in agents too: of several calls it is the one
    that asks the agent's words, and the last before the agent began.
    """
    if tool_use_id is None:
        return None
    row = conn.execute(
        "SELECT turn_id, agent_id, status, json_extract(input, '$.subagent_type'),"
        " json_extract(input, '$.description'), message_id FROM tool_uses WHERE tool_use_id = ?1"
        " ORDER BY session_id IS NOT ?2, agent_id IS ?3,"
        "  coalesce(name, '') NOT IN ('Agent', 'Workflow'),"
        "  json_extract(input, '$.prompt') IS NOT ?4,"
        "  iif(started_at > ?5, started_at, NULL), started_at DESC, target, id LIMIT 1",
        (tool_use_id, *agent, words, at),
    ).fetchone()
    if row is None or row[5] is None:
        return None
    return row[0], row[1], row[2], (row[3], row[4])


def _kind(agent_id: str, facts: list[Any], prompt: str | None) -> str:
    if agent_id.startswith("side-"):
        return "sidechain"
    if agent_id.startswith("acompact"):
        return "compact"
    if agent_id.startswith("aprompt_suggestion"):
        return "prompt_suggestion"
    if any(fact[10] for fact in facts):
        return "workflow"
    if any(fact[3] == "teammate" for fact in facts):
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
    return row[0] if row else None


def _facts_of_runs(
    conn: sqlite3.Connection, session_id: str, facts: list[Any], tool_use_id: str | None
) -> list[Any]:
    """What is said of the workflow that an agent works for: nothing says how its agents ended."""
    runs = [fact[10] for fact in facts if fact[10]]
    if not runs or tool_use_id is None:
        return []
    return conn.execute(
        "SELECT source, tool_use_id, at, kind, agent_type, description, model, status"
        " FROM _agent_facts WHERE session_id = ? AND tool_use_id = ?"
        "  AND (source = 'notice' OR (source = 'workflow' AND agent_id = ?)) ORDER BY at",
        (session_id, tool_use_id, runs[0]),
    ).fetchall()


def _status(facts: list[Any], tool_use_id: str | None, call: Any) -> str:
    # That it was launched counts from the call that launched it: others may quote it.
    notices = [
        fact[7]
        for fact in facts
        if fact[0] == "notice" and fact[7] and (fact[7] != "launched" or fact[1] == tool_use_id)
    ]
    if notices:
        return str(notices[-1])
    results = [fact[7] for fact in facts if fact[0] in ("result", "workflow") and fact[7]]
    if results:
        return "completed" if "completed" in results else str(results[-1])
    if call is None:
        return "unknown"
    known = {"pending": "running", "ok": "completed", "error": "failed"}
    return known.get(call[2], "failed" if call[2] == "interrupted" else "unknown")


def _depth(conn: sqlite3.Connection, session_id: str, parent: str | None, call: Any) -> int | None:
    if parent is not None:
        row = conn.execute(
            "SELECT depth FROM agents WHERE session_id = ? AND agent_id = ?", (session_id, parent)
        ).fetchone()
        return row[0] + 1 if row and row[0] else 2
    return 1 if call is not None else None


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
