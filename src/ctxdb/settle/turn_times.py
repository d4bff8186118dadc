"""When turns end and how long the agent worked on them, from stored rows."""

from __future__ import annotations

import sqlite3

from ctxdb.claude.stored_data import RUN_DURATION
from ctxdb.rules.working_time import (
    WORK,
    Begin,
    Run,
    epoch_ms,
    estimated_ms,
    reported_ms,
    run_of,
)
from ctxdb.settle.touched import Touched
from ctxdb.store.lookup import look_up

_RUNS = (
    f"SELECT m.session_id, m.timestamp, json_extract(m.data, '{RUN_DURATION}')"
    " FROM j CROSS JOIN messages m ON m.session_id = j.value AND m.subtype = 'turn_duration'"
    " WHERE m.agent_id IS NULL AND m.type = 'system'"
)
_TURNS = (
    "SELECT t.session_id, t.id, t.ordinal, t.started_at, t.agent_ms"
    " FROM j CROSS JOIN turns t ON t.session_id = j.value"
)
_WORK_TIMES = (
    "SELECT timestamp FROM messages WHERE turn_id = ? AND timestamp IS NOT NULL"
    f" AND (agent_id IS NOT NULL OR kind IN ({', '.join(repr(kind) for kind in WORK)}))"
    " ORDER BY timestamp"
)


def settle_times(conn: sqlite3.Connection, touched: Touched) -> None:
    """Work out the times of touched turns, and of those whose reported time has changed."""
    runs = _runs(conn, touched.sessions | touched.renumber | _sessions_of(conn, touched.turns))
    begins: dict[str, list[Begin]] = {}
    before: dict[int, int | None] = {}
    for session_id, turn_id, ordinal, started_at, agent_ms in look_up(
        conn, sorted(touched.renumber.union(runs)), _TURNS
    ):
        before[turn_id] = agent_ms
        at = epoch_ms(started_at)
        if at is not None:
            begins.setdefault(session_id, []).append(Begin(at, ordinal, turn_id))
    reported: dict[int, int] = {}
    for session_id, found in runs.items():
        reported.update(reported_ms(begins.get(session_id, []), found))
    changed = {turn_id for turn_id, ms in before.items() if reported.get(turn_id) != ms}
    for turn_id in sorted(touched.turns | changed):
        times = [at for (at,) in conn.execute(_WORK_TIMES, (turn_id,))]
        agent_ms = reported.get(turn_id)
        active_ms = estimated_ms(times) if agent_ms is None else agent_ms
        conn.execute(
            "UPDATE turns SET ended_at = coalesce(?, started_at), agent_ms = ?, active_ms = ?"
            " WHERE id = ?",
            (max(times, default=None), agent_ms, active_ms, turn_id),
        )


def _sessions_of(conn: sqlite3.Connection, turns: set[int]) -> set[str]:
    sql = "SELECT DISTINCT t.session_id FROM j CROSS JOIN turns t ON t.id = j.value"
    return {found for (found,) in look_up(conn, sorted(turns), sql) if found is not None}


def _runs(conn: sqlite3.Connection, sessions: set[str]) -> dict[str, list[Run]]:
    """What Claude Code reports of the time it worked, by session."""
    found: dict[str, list[Run]] = {}
    for session_id, timestamp, duration in look_up(conn, sorted(sessions), _RUNS):
        run = run_of(timestamp, duration)
        if run is not None:
            found.setdefault(session_id, []).append(run)
    return found
