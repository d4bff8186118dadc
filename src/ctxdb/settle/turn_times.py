"""When turns end and how long the agent worked on them, from stored rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from ctxdb.claude.stored_data import RUN_DURATION
from ctxdb.rows import Message
from ctxdb.rules.working_time import (
    WORK,
    Begin,
    Run,
    epoch_ms,
    estimated_ms,
    iso_of_epoch_ms,
    reported_ms,
    run_of,
)
from ctxdb.settle.touched import Touched
from ctxdb.store.lookup import first_column, look_up

# As Claude Code writes times: such texts compare like the moments that they name. These are the
# words of the indexes messages_odd_durations and turns_odd_times, else SQLite would not use them.
_ODD = "NOT GLOB '????-??-??T??:??:??.???Z'"
_TURN = "SELECT t.session_id, t.id, t.ordinal, t.started_at, t.agent_ms FROM j CROSS JOIN turns t"
_RUN = (
    f"SELECT m.session_id, m.timestamp, json_extract(m.data, '{RUN_DURATION}')"
    " FROM j CROSS JOIN messages m"
)
_IS_RUN = "m.subtype = 'turn_duration' AND m.type = 'system' AND m.agent_id IS NULL"
_OF_SESSION = "{0}.session_id = j.value"
# Here a value is a pair: a session, and from when on it is looked at.
_SINCE = "{0}.session_id = json_extract(j.value, '$[0]') AND {1} >= json_extract(j.value, '$[1]')"
_FIRST_TURNS = (
    "SELECT t.session_id, min(t.started_at) FROM j CROSS JOIN turns t ON t.id = j.value"
    " WHERE t.session_id IS NOT NULL AND t.started_at IS NOT NULL GROUP BY 1"
)
_TURN_BEFORE = "SELECT max(started_at) FROM turns WHERE session_id = ? AND started_at < ?"
_WITH_ODD_TIMES = (
    "SELECT m.session_id FROM j CROSS JOIN messages m INDEXED BY messages_odd_durations"
    " ON m.session_id = j.value"
    f" AND m.subtype = 'turn_duration' AND m.timestamp {_ODD}"
    " UNION SELECT t.session_id FROM j CROSS JOIN turns t INDEXED BY turns_odd_times"
    " ON t.session_id = j.value"
    f" AND t.started_at {_ODD}"
)
_WORK_TIMES = (
    "SELECT m.turn_id, m.timestamp FROM j CROSS JOIN messages m ON m.turn_id = j.value"
    " WHERE m.timestamp IS NOT NULL"
    f" AND (m.agent_id IS NOT NULL OR m.kind IN ({', '.join(repr(kind) for kind in WORK)}))"
)


def settle_times(conn: sqlite3.Connection, touched: Touched, filled: Iterable[Message]) -> None:
    """Work out the times of touched turns, and of those whose reported time has changed.

    `filled` are the messages that are new or have changed.
    """
    whole = touched.renumber | (touched.sessions if touched.turns_of_files else set())
    since = _first_changes(conn, touched.turns, filled)
    whole.update(first_column(look_up(conn, sorted(since), _WITH_ODD_TIMES)))
    places = [
        (session_id, _turn_before(conn, session_id, at))
        for session_id, at in sorted(since.items())
        if session_id not in whole
    ]
    begins: dict[str, list[Begin]] = {}
    before: dict[int, int | None] = {}
    for session_id, turn_id, ordinal, started_at, agent_ms in (
        *look_up(conn, sorted(whole), f"{_TURN} ON {_OF_SESSION.format('t')}"),
        *look_up(conn, places, f"{_TURN} ON {_SINCE.format('t', 't.started_at')}"),
    ):
        before[turn_id] = agent_ms
        at = epoch_ms(started_at)
        if at is not None:
            begins.setdefault(session_id, []).append(Begin(at, ordinal, turn_id))
    reported: dict[int, int] = {}
    for session_id, found in _runs(conn, whole, places).items():
        reported.update(reported_ms(begins.get(session_id, []), found))
    changed = {turn_id for turn_id, ms in before.items() if reported.get(turn_id) != ms}
    times: dict[int, list[str]] = {turn_id: [] for turn_id in sorted(touched.turns | changed)}
    for turn_id, at in look_up(conn, times, _WORK_TIMES):
        times[turn_id].append(at)
    conn.executemany(
        "UPDATE turns SET ended_at = coalesce(?, started_at), agent_ms = ?, active_ms = ?"
        " WHERE id = ?",
        [
            (max(worked, default=None), *_worked_ms(reported.get(turn_id), worked), turn_id)
            for turn_id, worked in times.items()
        ],
    )


def _worked_ms(reported: int | None, times: list[str]) -> tuple[int | None, int]:
    """How long the agent worked on a turn: as Claude Code reports it, and as far as is known."""
    return reported, estimated_ms(times) if reported is None else reported


def _first_changes(
    conn: sqlite3.Connection, turns: set[int], filled: Iterable[Message]
) -> dict[str, str]:
    """When the first of these turns, or of the runs that these messages report, began."""
    first: dict[str, str] = dict(look_up(conn, sorted(turns), _FIRST_TURNS))
    reports = [message.id for message in filled if message.subtype == "turn_duration"]
    for session_id, timestamp, duration in look_up(
        conn, reports, f"{_RUN} ON m.id = j.value WHERE {_IS_RUN} AND m.session_id IS NOT NULL"
    ):
        run = run_of(timestamp, duration)
        if run is not None:
            began = iso_of_epoch_ms(run.begin)
            first[session_id] = min(first.get(session_id, began), began)
    return first


def _turn_before(conn: sqlite3.Connection, session_id: str, at: str) -> str:
    """When the turn before a change began: the change may cut its run. Earlier turns stay."""
    (found,) = conn.execute(_TURN_BEFORE, (session_id, at)).fetchone()
    return at if found is None else str(found)


def _runs(
    conn: sqlite3.Connection, whole: set[str], places: list[tuple[str, str]]
) -> dict[str, list[Run]]:
    """What Claude Code reports of the time it worked, by session."""
    found: dict[str, list[Run]] = {}
    for session_id, timestamp, duration in (
        *look_up(conn, sorted(whole), f"{_RUN} ON {_OF_SESSION.format('m')} WHERE {_IS_RUN}"),
        *look_up(conn, places, f"{_RUN} ON {_SINCE.format('m', 'm.timestamp')} WHERE {_IS_RUN}"),
    ):
        run = run_of(timestamp, duration)
        if run is not None:
            found.setdefault(session_id, []).append(run)
    return found
