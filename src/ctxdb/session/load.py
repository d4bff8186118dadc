"""Load one session from the database as a Conversation.

Messages are read in the order of file and byte, never of time, because timestamps go backwards. A
fork, or a session resumed by an old version, holds its history as copies of messages that belong to
another session. These are read at their place in its own file, so the conversation is complete.
"""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

from ctxdb.claude.names import QUESTION, QUEUED_COMMAND
from ctxdb.session.agents import load_agents, place_agents
from ctxdb.session.conversation import Agent, Call, Conversation, Exchange, Item, Passage
from ctxdb.session.passages import RETRY_LABEL, images_of, passage_of

HIDDEN_AGENTS = ("warmup", "compact", "prompt_suggestion")  # the client starts these by itself


class Detail(NamedTuple):
    """How much of the session to load."""

    tools: bool = False  # inputs and results of calls
    thinking: bool = False
    agents: bool = False  # conversations of agents


class MessageRow(NamedTuple):
    """A message at its place in this session."""

    file: int
    start: int
    id: int
    is_copy: int
    session_id: str
    uuid: str | None
    agent_id: str | None
    turn_id: int | None
    type: str
    subtype: str | None
    kind: str
    timestamp: str | None
    text: str | None
    thinking: str | None
    data: str | None


class _TurnRow(NamedTuple):
    file: int
    start: int
    id: int
    ordinal: int
    kind: str
    prompt: str
    started_at: str | None
    ended_at: str | None
    message_id: int | None


_TURN = (
    "SELECT coalesce(source_file_id, 0), coalesce(byte_start, 0), id, ordinal, kind, prompt,"
    " started_at, ended_at, message_id FROM turns"
)
_COLUMNS = (
    "m.id, {copy}, m.session_id, m.uuid, m.agent_id, m.turn_id, m.type, m.subtype, m.kind,"
    " m.timestamp, m.text, {thinking}, CASE WHEN m.type <> 'assistant' THEN m.data END"
)
_OWN = (
    "SELECT coalesce(m.source_file_id, 0), coalesce(m.byte_start, 0), {columns} FROM messages m"
    " WHERE m.session_id = ?{more}"
)
_SHARED = (
    "SELECT l.source_file_id, l.byte_start, {columns} FROM _shared_lines l"
    " CROSS JOIN messages m ON m.id = l.message_id WHERE l.session_id = ?{more}"
)


def load_conversation(conn: sqlite3.Connection, session_id: str, detail: Detail) -> Conversation:
    """Load the session with this id, which must exist."""
    conn.execute("BEGIN")  # so that all of it is from one moment
    try:
        conversation = _header(conn, session_id)
        rows = _messages(conn, session_id, detail)
        calls = _calls(conn, session_id, rows, detail)
        every = [call for found in calls.values() for call in found]
        agents = load_agents(conn, session_id, every)
        if detail.agents:
            by_agent: dict[str | None, list[MessageRow]] = {}
            for row in rows:
                by_agent.setdefault(row.agent_id, []).append(row)
            for agent in agents:
                read_agent(conn, agent, by_agent.get(agent.agent_id, []), calls, detail)
        conversation.exchanges = _exchanges(conn, session_id, rows, calls)
        _count(conn, conversation, agents)
        place_agents(conversation, agents, HIDDEN_AGENTS)
        shorten_targets(every, conversation.cwd)
        add_images(rows, every)
    finally:
        conn.execute("COMMIT")
    return conversation


def _header(conn: sqlite3.Connection, session_id: str) -> Conversation:
    row = conn.execute(
        "SELECT s.id, coalesce(s.title, ''), coalesce(p.name, ''), coalesce(s.cwd, p.path),"
        " s.git_branch, s.version, s.started_at, s.ended_at, s.relation, s.parent_session_id,"
        " parent.title, s.source_deleted_at FROM sessions s"
        " LEFT JOIN projects p ON p.id = s.project_id"
        " LEFT JOIN sessions parent ON parent.id = s.parent_session_id WHERE s.id = ?",
        (session_id,),
    ).fetchone()
    return Conversation(*row)


def _messages(conn: sqlite3.Connection, session_id: str, detail: Detail) -> list[MessageRow]:
    more = "" if detail.agents else " AND m.agent_id IS NULL"
    thinking = "m.thinking" if detail.thinking else "NULL"
    found: list[MessageRow] = []
    for sql, copy in ((_OWN, "0"), (_SHARED, "1")):
        columns = _COLUMNS.format(copy=copy, thinking=thinking)
        rows = rows_if_there(conn, sql.format(columns=columns, more=more), session_id)
        found += (MessageRow(*row) for row in rows)
    found.sort(key=lambda row: (row.file, row.start))
    first_places: dict[int, MessageRow] = {}
    for row in found:
        first_places.setdefault(row.id, row)
    return list(first_places.values())


def rows_if_there(conn: sqlite3.Connection, sql: str, session_id: str) -> list[Any]:
    """The rows of a view for a session, or none in a database that is older than the view."""
    try:
        return conn.execute(sql, (session_id,)).fetchall()
    except sqlite3.OperationalError as e:
        if "no such table" not in str(e):
            raise
        return []


_ANSWER = "CASE WHEN u.name = :question OR u.status = 'rejected' THEN u.result_text END"
CALL_COLUMNS = (
    "u.id, u.tool_use_id, coalesce(u.name, '?'), coalesce(u.target, ''), u.status,"
    " coalesce(u.tool_ms, u.duration_ms), u.exit_code, {input}, {result}, u.result_path,"
    " u.started_at, u.result_message_id, coalesce(u.message_id, u.result_message_id)"
)


def _calls(
    conn: sqlite3.Connection, session_id: str, rows: list[MessageRow], detail: Detail
) -> dict[int, list[Call]]:
    """Calls by the message that made them, or by the message of the result without a call."""
    columns = CALL_COLUMNS.format(
        input="u.input" if detail.tools else "NULL",
        # What a person answered, or wrote to refuse a call, is part of the conversation.
        result="u.result_text" if detail.tools else _ANSWER,
    )
    more = "" if detail.agents else " AND u.agent_id IS NULL"
    values = {"session": session_id, "question": QUESTION}
    sql = f"SELECT {columns} FROM tool_uses u WHERE u.session_id = :session{more} ORDER BY u.id"
    found = conn.execute(sql, values).fetchall()
    sql = f"SELECT {columns} FROM tool_uses u WHERE u.message_id = :message ORDER BY u.id"
    for row in rows:
        if row.is_copy and row.type == "assistant":
            found += conn.execute(sql, {**values, "message": row.id}).fetchall()
    calls: dict[int, list[Call]] = {}
    for *fields, message_id in found:
        calls.setdefault(message_id, []).append(Call(*fields))
    return calls


def shorten_targets(calls: list[Call], cwd: str | None) -> None:
    """Remove the session's own folder from the targets of calls."""
    folder = cwd.rstrip("/") + "/" if cwd else ""
    for call in calls:
        call.target = call.target.removeprefix(folder) or call.target


def add_images(rows: list[MessageRow], calls: list[Call]) -> None:
    """Name the images in the results of calls."""
    found = {row.id: images for row in rows if (images := images_of(row))}
    for call in calls if found else ():
        call.images = found.get(call.result_message_id or 0, [])


def _items(
    rows: list[MessageRow], calls: dict[int, list[Call]], prompts: set[int | None]
) -> list[Item]:
    found: list[Item] = []
    for row in rows:
        if row.id not in prompts and (passage := passage_of(row)) is not None:
            found.append(passage)
        found += calls.get(row.id, ())
    return found


def _repeats(last: Item, new: Item) -> bool:
    """Whether both are tries of one failing request: only the last try is shown."""
    return (
        isinstance(last, Passage)
        and isinstance(new, Passage)
        and last.label == new.label == RETRY_LABEL
    )


def read_agent(
    conn: sqlite3.Connection,
    agent: Agent,
    own: list[MessageRow],
    calls: dict[int, list[Call]],
    detail: Detail,
) -> None:
    """Read the conversation of an agent, from these rows of it or from the database."""
    if not own:  # an agent of the session that this one was copied from
        columns = _COLUMNS.format(copy="1", thinking="m.thinking" if detail.thinking else "NULL")
        sql = _OWN.format(columns=columns, more=" AND m.agent_id = ?")
        found = conn.execute(
            sql + " ORDER BY m.source_file_id, m.byte_start", (agent.session_id, agent.agent_id)
        )
        own = [MessageRow(*row) for row in found]
        calls = calls | _calls(conn, "", own, detail)
        add_images(own, [call for found in calls.values() for call in found])
    agent.items = _items(own, calls, set())


def _exchanges(
    conn: sqlite3.Connection,
    session_id: str,
    rows: list[MessageRow],
    calls: dict[int, list[Call]],
) -> list[Exchange]:
    """The exchanges in reading order, each with what comes between its turn and the next."""
    waiting = [
        _TurnRow(*row)
        for row in conn.execute(
            f"{_TURN} WHERE session_id = ? ORDER BY source_file_id DESC, byte_start DESC",
            (session_id,),
        )
    ]
    before_first = Exchange(None, None, "", "", None, None)
    current = before_first
    exchanges: list[Exchange] = []
    by_turn: dict[int, Exchange] = {}
    prompts = {turn.message_id for turn in waiting}

    def begin(turn: _TurnRow, *, is_copied: bool) -> Exchange:
        exchange = Exchange(
            turn.id, turn.ordinal, turn.kind, turn.prompt, turn.started_at, turn.ended_at, is_copied
        )
        exchanges.append(exchange)
        by_turn[turn.id] = exchange
        return exchange

    for row in rows:
        if row.agent_id is not None:
            continue
        while waiting and (waiting[-1].file, waiting[-1].start) <= (row.file, row.start):
            current = begin(waiting.pop(), is_copied=False)
        if row.turn_id is not None and row.turn_id not in by_turn and row.is_copy:
            found = conn.execute(f"{_TURN} WHERE id = ?", (row.turn_id,)).fetchone()
            if found is not None:
                copied = _TurnRow(*found)
                prompts.add(copied.message_id)
                current = begin(copied, is_copied=True)
        exchange = by_turn.get(row.turn_id or 0, current)
        if row.id in prompts:
            exchange.images += images_of(row)
        if row.subtype == QUEUED_COMMAND and (row.text or "").strip() == exchange.prompt.strip():
            continue  # the turn began at an earlier line of the queue; this line repeats its prompt
        match _items([row], calls, prompts):
            case [first, *_] as new:
                if exchange.items and _repeats(exchange.items[-1], first):
                    exchange.items.pop()
                exchange.items += new
    for left in reversed(waiting):
        begin(left, is_copied=False)
    for nth, exchange in enumerate((one for one in exchanges if one.is_copied), 1):
        exchange.nth_copy = nth
    return [before_first, *exchanges] if before_first.items else exchanges


def _count(conn: sqlite3.Connection, conversation: Conversation, agents: list[Agent]) -> None:
    """Add the numbers of the whole session. As in the views, only its own requests count."""
    conversation.calls, conversation.failed = conn.execute(
        "SELECT count(*), coalesce(sum(status = 'error'), 0) FROM tool_uses WHERE session_id = ?",
        (conversation.id,),
    ).fetchone()
    models = conn.execute(
        "SELECT model, sum(input_tokens + output_tokens + cache_write_5m_tokens"
        " + cache_write_1h_tokens + cache_read_tokens), count(*), min(output_is_final) FROM usage"
        " WHERE session_id = ? GROUP BY model ORDER BY 3 DESC, 1",
        (conversation.id,),
    ).fetchall()
    conversation.models = [model for model, *_ in models if model]
    conversation.tokens = sum(tokens for _, tokens, _, _ in models)
    conversation.is_lower_bound = any(not is_final for *_, is_final in models)
    costs = rows_if_there(
        conn,
        "SELECT turn_id, agent_id, sum(cost), count(*) - count(cost), sum(input_tokens"
        " + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens)"
        " FROM _costs WHERE session_id = ? GROUP BY turn_id, agent_id",
        conversation.id,
    )
    by_turn = {one.turn_id: one for one in conversation.exchanges if not one.is_copied}
    by_agent = {agent.agent_id: agent for agent in agents if agent.session_id == conversation.id}
    for turn_id, agent_id, cost, unpriced, tokens in costs:
        conversation.is_lower_bound |= bool(unpriced)
        exchange = by_turn.get(turn_id)
        if exchange is not None:
            exchange.tokens += tokens or 0
        for part in (conversation, exchange, by_agent.get(agent_id)):
            if part is not None and cost is not None:
                part.cost = (part.cost or 0) + cost
    errors = conn.execute(
        "SELECT turn_id, count(*) FROM tool_uses WHERE session_id = ? AND status = 'error'"
        " GROUP BY turn_id",
        (conversation.id,),
    )
    for turn_id, count in errors:
        if (exchange := by_turn.get(turn_id)) is not None:
            exchange.errors = count
