"""Billed requests from stored lines: the requests that a batch touched are summed up again.

The rules are in rules/requests.py. Requests that only the lines of one chunk say something of, and
whose API message no other line names, are summed up with the chunk; all others here. The result
does not depend on the order of arrival.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ctxdb.columns import columns, insert_sql, select_sql, values_of
from ctxdb.rows import Message, Request, UsageLine
from ctxdb.rules.requests import Teller, counts, key_of, sum_up, teller
from ctxdb.store.insert import insert, load
from ctxdb.store.lookup import first_column, look_up

if TYPE_CHECKING:
    from ctxdb.rules.derive import Derived
    from ctxdb.settle.touched import Touched

_REPLACE = f"{insert_sql(Request)} ON CONFLICT (request_key) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in columns(Request) if name != "request_key"
)
_LINES = (
    f"SELECT {select_sql(UsageLine)}, m.session_id, m.agent_id, m.turn_id, m.timestamp, m.uuid,"
    " m.is_sidechain, m.api_message_id, m.request_id, f.session_id, b.line_hash, b.nth"
    " FROM j CROSS JOIN _usage_lines t ON t.request_key = j.value"
    " JOIN messages m ON m.id = t.message_id"
    " LEFT JOIN source_files f ON m.uuid IS NULL AND f.id = m.source_file_id"
    " LEFT JOIN _message_lines b ON m.uuid IS NULL AND b.message_id = m.id"
)
_SESSIONS = "SELECT DISTINCT u.session_id FROM j CROSS JOIN usage u ON u.request_key = j.value"
# The lines of an API message, whose id all keys of its requests begin with. They are few: SQLite
# would take them for a quarter of all lines, and go over all messages first to make a filter.
_OF_API_MESSAGE = (
    "likelihood(t.request_key >= j.value || '|', 0.00001)"
    " AND likelihood(t.request_key < j.value || '}', 0.00001)"
)
# Sessions that have an API message outside a sidechain, as an entry of their own or as a copy: a
# forked session's history belongs to its parent.
_MAIN_SESSIONS = (
    f"SELECT j.value, m.session_id FROM j CROSS JOIN _usage_lines t ON {_OF_API_MESSAGE}"
    "  CROSS JOIN messages m ON m.id = t.message_id AND m.api_message_id = j.value"
    "  WHERE m.is_sidechain = 0"
    f" UNION SELECT j.value, c.session_id FROM j CROSS JOIN _usage_lines t ON {_OF_API_MESSAGE}"
    "  CROSS JOIN messages m ON m.id = t.message_id AND m.api_message_id = j.value"
    "  CROSS JOIN message_copies c ON c.message_id = m.id"
    "  WHERE m.is_sidechain = 0 AND c.session_id IS NOT NULL"
)


def add_new(conn: sqlite3.Connection, derived: list[Derived], touched: Touched) -> None:
    """Store the requests of new chunks, whose lines are stored; doubtful ones are touched."""
    sums = [request for one in derived for request in one.requests]
    touched.requests.update(key for one in derived for key in one.unsure)
    # Lines of one API message in two chunks, or stored before: more than one request may be meant.
    told: dict[str, int] = {}
    for request in sums:
        if request.api_message_id is not None:
            told[request.api_message_id] = max(request.lines, told.get(request.api_message_id, 0))
    unsure = {
        api_message_id
        for api_message_id, lines in look_up(
            conn,
            told,
            f"SELECT j.value, count(*) FROM j CROSS JOIN _usage_lines t ON {_OF_API_MESSAGE}"
            " WHERE t.part = 0 GROUP BY j.value",
        )
        if lines != told[api_message_id]
    }
    doubtful = touched.requests
    sure = []
    for request in sums:
        if request.api_message_id in unsure:
            doubtful.add(request.request_key)
        elif request.request_key not in doubtful:
            sure.append(request)
    # Ids can be made up so that two requests have one key: then all lines of the key decide.
    if insert(conn, Request, sure, conflict="ON CONFLICT (request_key) DO NOTHING") < len(sure):
        doubtful.update(request.request_key for request in sure)


def recompute(conn: sqlite3.Connection, keys: set[str]) -> set[str | None]:
    """Sum up the touched requests, and those whose replayed lines they decide about (R3).

    Returns the sessions that have or had these requests.
    """
    if not keys:
        return set()
    wanted = sorted(keys.union(_others(conn, keys)))
    told: dict[str, list[Teller]] = {key: [] for key in wanted}
    for row in look_up(conn, wanted, _LINES):
        *line_and_owner, api, request, of_file, hashed, nth = row
        *values, session_id, agent_id, turn_id, at, uuid, side = line_and_owner
        line = UsageLine(*values)
        message = Message(
            uuid=uuid,
            session_id=session_id,
            agent_id=agent_id,
            turn_id=turn_id,
            timestamp=at,
            api_message_id=api,
            request_id=request,
            is_sidechain=side,
            file_session=of_file,
            line_hash=hashed,
            nth=nth,
        )
        told[line.request_key].append(teller(line, message))
    main: dict[str, set[str | None]] = {}
    apis = {one.api_message_id for tellers in told.values() for one in tellers}
    for api_message_id, session_id in look_up(conn, apis - {None}, _MAIN_SESSIONS):
        main.setdefault(api_message_id, set()).add(session_id)
    sessions: set[str | None] = set(first_column(look_up(conn, wanted, _SESSIONS)))
    sums, gone = [], []
    for key, tellers in told.items():
        counted = [t for t in tellers if counts(t, main.get(t.api_message_id or "", ()))]
        if counted:
            sums.append(sum_up(counted))
        else:
            gone.append((key,))
    conn.executemany("DELETE FROM usage WHERE request_key = ?", gone)
    conn.executemany(_REPLACE, map(values_of(Request), sums))
    return sessions.union(request.session_id for request in sums)


def _others(conn: sqlite3.Connection, keys: Iterable[str]) -> list[str]:
    """Requests of the same API message under another key: only a sidechain replay makes these."""
    apis = {
        api_message_id
        for (api_message_id,) in look_up(
            conn,
            keys,
            "SELECT DISTINCT m.api_message_id FROM j"
            " CROSS JOIN _usage_lines t ON t.request_key = j.value"
            " JOIN messages m ON m.id = t.message_id WHERE m.api_message_id IS NOT NULL",
        )
    }
    return _requests_of(conn, apis)


def _requests_of(conn: sqlite3.Connection, api_message_ids: Iterable[str]) -> list[str]:
    """The keys of all requests of some API messages."""
    return first_column(
        look_up(
            conn,
            api_message_ids,
            f"SELECT DISTINCT t.request_key FROM j CROSS JOIN _usage_lines t ON {_OF_API_MESSAGE}",
        )
    )


def drop_lines(conn: sqlite3.Connection, message_id: int, touched: Touched) -> None:
    """Forget what a message said, before it is said again.

    Other requests of the same API message may have been left out because of it (R3).
    """
    keys = first_column(
        conn.execute("SELECT request_key FROM _usage_lines WHERE message_id = ?", (message_id,))
    )
    if keys:
        touched.requests.update(keys, _others(conn, keys))
        conn.execute("DELETE FROM _usage_lines WHERE message_id = ?", (message_id,))


def adopt(conn: sqlite3.Connection, file_id: int, session_id: str | None, touched: Touched) -> None:
    """The lines of a file that were of no session turn out to be of this one.

    To be called before their messages are: only these lines are of no session now.
    """
    messages = list(
        load(conn, Message, "WHERE t.source_file_id = ? AND t.session_id IS NULL", (file_id,))
    )
    for message in messages:
        message.session_id = message.file_session = session_id
        for line in load(conn, UsageLine, "WHERE t.message_id = ?", (message.id,)):
            key = key_of(line, message)
            conn.execute(
                "UPDATE _usage_lines SET request_key = ? WHERE message_id = ? AND part = ?",
                (key, line.message_id, line.part),
            )
            touched.requests.update((line.request_key, key))


def touch(conn: sqlite3.Connection, message_id: int, touched: Touched) -> None:
    """A message is in one more session: what that one replays no longer counts (R3)."""
    touched.requests.update(
        key
        for (key,) in conn.execute(
            "SELECT request_key FROM _usage_lines WHERE message_id = ?", (message_id,)
        )
    )
