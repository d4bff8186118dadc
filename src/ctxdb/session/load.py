"""Read one session out of the database.

Reading order is file and byte, never time: timestamps go back. A fork or an old resume holds its
history as copies that another session owns; they are read where they stand in its own file, so it
reads whole.
"""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

from ctxdb.session.agents import load_agents, place_agents
from ctxdb.session.parts import Agent, Call, Item, Reading, Said, Turn
from ctxdb.session.said import RETRY_LABEL, said

HIDDEN_AGENTS = ("warmup", "compact", "prompt_suggestion")  # no one asked for these


class Wish(NamedTuple):
    """How much of it to read."""

    tools: bool = False  # inputs and results of calls
    thinking: bool = False
    agents: bool = False  # conversations of agents


class Row(NamedTuple):
    """A message, where it stands in this session."""

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
    " m.timestamp, m.text, {thinking}, CASE WHEN m.type IN ('system', 'attachment') THEN m.data END"
)
_OWN = (
    "SELECT coalesce(m.source_file_id, 0), coalesce(m.byte_start, 0), {columns} FROM messages m"
    " WHERE m.session_id = ?{more}"
)
_SHARED = (
    "SELECT l.source_file_id, l.byte_start, {columns} FROM _shared_lines l"
    " CROSS JOIN messages m ON m.id = l.message_id WHERE l.session_id = ?{more}"
)


def load(conn: sqlite3.Connection, session_id: str, wish: Wish) -> Reading:
    """The session with this id, which must be there."""
    conn.execute("BEGIN")  # one moment for all of it
    try:
        reading = _header(conn, session_id)
        rows = _messages(conn, session_id, wish)
        calls = _calls(conn, session_id, rows, wish)
        every = [call for found in calls.values() for call in found]
        agents = load_agents(conn, session_id, every)
        if wish.agents:
            by_agent: dict[str | None, list[Row]] = {}
            for row in rows:
                by_agent.setdefault(row.agent_id, []).append(row)
            for agent in agents:
                _read_agent(conn, agent, by_agent.get(agent.agent_id, []), calls, wish)
        reading.turns = _turns(conn, session_id, rows, calls)
        _count(conn, reading, agents)
        place_agents(reading, agents, HIDDEN_AGENTS)
        _shorten(every, reading.cwd)
    finally:
        conn.execute("COMMIT")
    return reading


def _header(conn: sqlite3.Connection, session_id: str) -> Reading:
    row = conn.execute(
        "SELECT s.id, coalesce(s.title, ''), coalesce(p.name, ''), coalesce(s.cwd, p.path),"
        " s.git_branch, s.version, s.started_at, s.ended_at, s.relation, s.parent_session_id,"
        " parent.title, s.source_deleted_at FROM sessions s"
        " LEFT JOIN projects p ON p.id = s.project_id"
        " LEFT JOIN sessions parent ON parent.id = s.parent_session_id WHERE s.id = ?",
        (session_id,),
    ).fetchone()
    return Reading(*row)


def _messages(conn: sqlite3.Connection, session_id: str, wish: Wish) -> list[Row]:
    more = "" if wish.agents else " AND m.agent_id IS NULL"
    thinking = "m.thinking" if wish.thinking else "NULL"
    found = []
    for sql, copy in ((_OWN, "0"), (_SHARED, "1")):
        columns = _COLUMNS.format(copy=copy, thinking=thinking)
        found += _if_there(conn, sql.format(columns=columns, more=more), session_id)
    found.sort(key=lambda row: row[:2])
    rows: dict[int, Row] = {}
    for row in found:
        rows.setdefault(row[2], Row(*row))  # of two places the first
    return list(rows.values())


def _if_there(conn: sqlite3.Connection, sql: str, session_id: str) -> list[Any]:
    """What a view says of a session; nothing in a database from before it, until the next sync."""
    try:
        return conn.execute(sql, (session_id,)).fetchall()
    except sqlite3.OperationalError as e:
        if "no such table" not in str(e):
            raise
        return []


_ANSWER = "CASE WHEN u.name = 'AskUserQuestion' OR u.status = 'rejected' THEN u.result_text END"
_CALL = (
    "u.id, u.tool_use_id, coalesce(u.name, '?'), coalesce(u.target, ''), u.status,"
    " coalesce(u.tool_ms, u.duration_ms), u.exit_code, {input}, {result}, u.result_path,"
    " u.started_at, coalesce(u.message_id, u.result_message_id)"
)


def _calls(
    conn: sqlite3.Connection, session_id: str, rows: list[Row], wish: Wish
) -> dict[int, list[Call]]:
    """Calls by the message that made them, or that holds the result where the call is missing."""
    columns = _CALL.format(
        input="u.input" if wish.tools else "NULL",
        # What a person answered, or said when refusing, belongs to the conversation.
        result="u.result_text" if wish.tools else _ANSWER,
    )
    more = "" if wish.agents else " AND u.agent_id IS NULL"
    sql = f"SELECT {columns} FROM tool_uses u WHERE u.session_id = ?{more} ORDER BY u.id"
    found = conn.execute(sql, (session_id,)).fetchall()
    sql = f"SELECT {columns} FROM tool_uses u WHERE u.message_id = ? ORDER BY u.id"
    for row in rows:
        if row.is_copy and row.type == "assistant":
            found += conn.execute(sql, (row.id,)).fetchall()
    calls: dict[int, list[Call]] = {}
    for *fields, message_id in found:
        calls.setdefault(message_id, []).append(Call(*fields))
    return calls


def _shorten(calls: list[Call], cwd: str | None) -> None:
    """Leave the session's own folder out of what calls are about."""
    folder = cwd.rstrip("/") + "/" if cwd else ""
    for call in calls:
        call.target = call.target.removeprefix(folder) or call.target


def _items(rows: list[Row], calls: dict[int, list[Call]], prompts: set[int | None]) -> list[Item]:
    found: list[Item] = []
    for row in rows:
        if row.id not in prompts and (text := said(row)) is not None:
            found.append(text)
        found += calls.get(row.id, ())
    return found


def _goes_on(last: Item, new: Item) -> bool:
    """Whether both tell of one failure: of ten tries the last says it all."""
    return (
        isinstance(last, Said) and isinstance(new, Said) and last.label == new.label == RETRY_LABEL
    )


def _read_agent(
    conn: sqlite3.Connection,
    agent: Agent,
    own: list[Row],
    calls: dict[int, list[Call]],
    wish: Wish,
) -> None:
    if not own:  # an agent of the session this one came from
        columns = _COLUMNS.format(copy="1", thinking="m.thinking" if wish.thinking else "NULL")
        sql = _OWN.format(columns=columns, more=" AND m.agent_id = ?")
        found = conn.execute(
            sql + " ORDER BY m.source_file_id, m.byte_start", (agent.session_id, agent.agent_id)
        )
        own = [Row(*row) for row in found]
        calls = calls | _calls(conn, "", own, wish)
    agent.items = _items(own, calls, set())


def _turns(
    conn: sqlite3.Connection,
    session_id: str,
    rows: list[Row],
    calls: dict[int, list[Call]],
) -> list[Turn]:
    """Turns in reading order, each with what stands between it and the next."""
    waiting = [
        _TurnRow(*row)
        for row in conn.execute(
            f"{_TURN} WHERE session_id = ? ORDER BY source_file_id DESC, byte_start DESC",
            (session_id,),
        )
    ]
    current = Turn(None, None, "", "", None, None)
    turns = [current]
    by_id: dict[int, Turn] = {}
    prompts = {row.message_id for row in waiting}

    def begin(row: _TurnRow, *, is_copied: bool) -> Turn:
        turn = Turn(
            row.id, row.ordinal, row.kind, row.prompt, row.started_at, row.ended_at, is_copied
        )
        turns.append(turn)
        by_id[row.id] = turn
        return turn

    for row in rows:
        if row.agent_id is not None:
            continue
        while waiting and (waiting[-1].file, waiting[-1].start) <= (row.file, row.start):
            current = begin(waiting.pop(), is_copied=False)
        if row.turn_id is not None and row.turn_id not in by_id and row.is_copy:
            found = conn.execute(f"{_TURN} WHERE id = ?", (row.turn_id,)).fetchone()
            if found is not None:
                copied = _TurnRow(*found)
                prompts.add(copied.message_id)
                current = begin(copied, is_copied=True)
        turn = by_id.get(row.turn_id or 0, current)
        if row.subtype == "queued_command" and (row.text or "").strip() == turn.prompt.strip():
            continue  # the turn began when the queue said so; this tells it once more
        new = _items([row], calls, prompts)
        if new and turn.items and _goes_on(turn.items[-1], new[0]):
            turn.items.pop()
        turn.items += new
    for left in reversed(waiting):
        begin(left, is_copied=False)
    for nth, turn in enumerate((turn for turn in turns if turn.is_copied), 1):
        turn.nth_copy = nth
    return turns if turns[0].items else turns[1:]


def _count(conn: sqlite3.Connection, reading: Reading, agents: list[Agent]) -> None:
    """Numbers of the whole session; of its own requests only, as the views count."""
    reading.calls, reading.failed = conn.execute(
        "SELECT count(*), coalesce(sum(status = 'error'), 0) FROM tool_uses WHERE session_id = ?",
        (reading.id,),
    ).fetchone()
    models = conn.execute(
        "SELECT model, sum(input_tokens + output_tokens + cache_write_5m_tokens"
        " + cache_write_1h_tokens + cache_read_tokens), count(*), min(output_is_final) FROM usage"
        " WHERE session_id = ? GROUP BY model ORDER BY 3 DESC, 1",
        (reading.id,),
    ).fetchall()
    reading.models = [model for model, *_ in models if model]
    reading.tokens = sum(tokens for _, tokens, _, _ in models)
    reading.is_lower_bound = any(not is_final for *_, is_final in models)
    costs = _if_there(
        conn,
        "SELECT turn_id, agent_id, sum(cost), count(*) - count(cost) FROM _costs"
        " WHERE session_id = ? GROUP BY turn_id, agent_id",
        reading.id,
    )
    by_turn = {turn.id: turn for turn in reading.turns if not turn.is_copied}
    by_agent = {agent.agent_id: agent for agent in agents if agent.session_id == reading.id}
    for turn_id, agent_id, cost, unpriced in costs:
        reading.is_lower_bound |= bool(unpriced)
        for part in (reading, by_turn.get(turn_id), by_agent.get(agent_id)):
            if part is not None and cost is not None:
                part.cost = (part.cost or 0) + cost
