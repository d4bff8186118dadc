"""Billed requests from the lines that told of them (docs/costs.md R1 to R6, R11, R13).

Which line wins, who a request belongs to and whether a replayed line counts at all can only be
said over all lines of a request, so the lines are kept (`_usage_lines`) and the requests that a
batch touched are made anew, in one statement. The result does not depend on the order of arrival.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import orjson

from ctxdb.claude.token_counts import request_key
from ctxdb.store import model_names
from ctxdb.store.chunk import Placed, Touched, entry_key, line_key

_COUNTED = (
    "input_tokens",
    "output_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "cache_read_tokens",
    "prompt_tokens",
    "thinking_tokens",
    "web_search_requests",
    "service_tier",
    "speed",
    "inference_geo",
)
LINE_COLUMNS = (  # of _usage_lines, after message_id: see line_rows
    "request_key",
    "api_message_id",
    "request_id",
    "part",
    "is_background",
    "model",
    *_COUNTED,
    "has_stop_reason",
    "cost_reported_usd",
)
USAGE_COLUMNS = (  # after id and turn_id: see sum_up
    "request_key",
    "api_message_id",
    "request_id",
    "session_id",
    "agent_id",
    "model",
    "timestamp",
    *_COUNTED,
    "output_is_final",
    "is_sidechain",
    "cost_reported_usd",
    "lines",
)
_INSERT_LINE = (
    f"INSERT OR REPLACE INTO _usage_lines (message_id, {', '.join(LINE_COLUMNS)})"
    f" VALUES ({', '.join('?' * (1 + len(LINE_COLUMNS)))})"
)
# Ids can be made up so that two requests have one key: `recompute` then says what is told of it.
KNOWN_ARE_LEFT = "ON CONFLICT (request_key) DO NOTHING"
_INSERT_USAGE = (
    f"INSERT INTO usage (turn_id, {', '.join(USAGE_COLUMNS)})"
    f" VALUES ({', '.join('?' * (1 + len(USAGE_COLUMNS)))}) {KNOWN_ARE_LEFT}"
)

# R3: a sidechain line is dropped when its session also has that API message outside a sidechain,
# be it as a copy: a forked session's history belongs to its parent.
_COUNTS = """
(m.is_sidechain = 0 OR l.api_message_id IS NULL OR NOT EXISTS (
  SELECT 1 FROM _usage_lines o JOIN messages n ON n.id = o.message_id
  WHERE o.api_message_id = l.api_message_id AND n.is_sidechain = 0 AND (
    n.session_id IS m.session_id OR EXISTS (SELECT 1 FROM message_copies c
      WHERE c.message_id = n.id AND c.session_id = m.session_id))))
"""
# R4: the winner is a whole record. R5: the first line says whose and when.
_RECOMPUTE = f"""
WITH touched AS (SELECT value AS request_key FROM json_each(:keys)),
counted AS (
  SELECT l.*, m.uuid, m.session_id, m.agent_id, m.turn_id, m.timestamp, m.is_sidechain,
    l.input_tokens + l.output_tokens + l.cache_write_5m_tokens + l.cache_write_1h_tokens
      + l.cache_read_tokens AS total
  FROM touched CROSS JOIN _usage_lines l ON l.request_key = touched.request_key
  JOIN messages m ON m.id = l.message_id
  WHERE {_COUNTS}
),
ranked AS (
  SELECT *,
    row_number() OVER (PARTITION BY request_key ORDER BY is_sidechain, output_tokens DESC,
      total DESC, speed IS NULL, timestamp DESC, uuid) AS place,
    first_value(session_id) OVER first AS first_session,
    first_value(agent_id) OVER first AS first_agent,
    first_value(turn_id) OVER first AS first_turn,
    first_value(timestamp) OVER first AS first_at,
    max(web_search_requests) OVER whole AS searches,
    max(has_stop_reason) OVER whole AS final,
    max(cost_reported_usd) OVER whole AS reported,
    count(*) OVER whole AS told
  FROM counted
  WINDOW whole AS (PARTITION BY request_key),
    first AS (PARTITION BY request_key
      ORDER BY timestamp IS NULL, timestamp, is_background, session_id, uuid)
)
INSERT INTO usage (request_key, api_message_id, request_id, session_id, agent_id, turn_id, model,
  timestamp, input_tokens, output_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
  cache_read_tokens, prompt_tokens, thinking_tokens, web_search_requests, service_tier, speed,
  inference_geo, output_is_final, is_sidechain, cost_reported_usd, lines)
SELECT request_key, api_message_id, request_id, first_session, first_agent, first_turn, model,
  first_at, input_tokens, output_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
  cache_read_tokens, prompt_tokens, thinking_tokens, searches, service_tier, speed,
  inference_geo, final, is_sidechain, reported, told
FROM ranked WHERE place = 1
ON CONFLICT (request_key) DO UPDATE SET
  api_message_id = excluded.api_message_id, request_id = excluded.request_id,
  session_id = excluded.session_id, agent_id = excluded.agent_id, turn_id = excluded.turn_id,
  model = excluded.model, timestamp = excluded.timestamp, input_tokens = excluded.input_tokens,
  output_tokens = excluded.output_tokens,
  cache_write_5m_tokens = excluded.cache_write_5m_tokens,
  cache_write_1h_tokens = excluded.cache_write_1h_tokens,
  cache_read_tokens = excluded.cache_read_tokens, prompt_tokens = excluded.prompt_tokens,
  thinking_tokens = excluded.thinking_tokens, web_search_requests = excluded.web_search_requests,
  service_tier = excluded.service_tier, speed = excluded.speed,
  inference_geo = excluded.inference_geo, output_is_final = excluded.output_is_final,
  is_sidechain = excluded.is_sidechain, cost_reported_usd = excluded.cost_reported_usd,
  lines = excluded.lines
"""


def line_rows(placed: Placed) -> list[tuple[Any, ...]]:
    """The _usage_lines rows of a message."""
    rec = placed.rec
    if not rec.usage:
        return []
    api, request = rec.api_message_id, rec.request_id
    line = (placed.file.session_id, rec.line_hash, placed.nth)
    key = _key(placed.session_id, api, request, rec.timestamp, rec.uuid, line)
    first, *advisors = rec.usage
    rows = [(placed.id, key, api, request, *first)]
    for row in advisors:
        rows.append((placed.id, _part(key, row[0]), api, request, *row))  # noqa: PERF401
    return rows


def _key(
    session: str | None,
    api: str | None,
    request: str | None,
    at: str | None,
    uuid: str | None,
    line: tuple[str | None, int | None, int | None],
) -> str:
    if api is not None:
        return request_key(session, api, request, at)
    return line_key(*line) if uuid is None else entry_key(uuid, session)


def _part(key: str, part: int) -> str:
    return f"{key}|adv {part}" if part else key


def add_lines(conn: sqlite3.Connection, rows: list[tuple[Any, ...]], touched: Touched) -> None:
    """Keep the lines and remember which requests they touch."""
    _keep(conn, rows)
    touched.requests.update(row[1] for row in rows)


def _keep(conn: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
    conn.executemany(_INSERT_LINE, rows)
    model_names.know(conn, {row[6] for row in rows})


Teller = tuple[Placed, tuple[Any, ...]]  # a message and its row of _usage_lines


def requests_of(
    placed: list[Placed],
) -> tuple[list[tuple[Any, ...]], dict[str, list[Teller]], dict[str | None, set[str]]]:
    """(rows of _usage_lines, the tellers of each request, the requests of each API message)."""
    rows: list[tuple[Any, ...]] = []
    told: dict[str, list[Teller]] = {}
    keys_of: dict[str | None, set[str]] = {}
    for item in placed:
        if item.rec.usage:
            for row in line_rows(item):
                rows.append(row)
                tellers = told.get(row[1])
                if tellers is not None:
                    tellers.append((item, row))
                    continue
                told[row[1]] = [(item, row)]
                if row[4] == 0:
                    keys_of.setdefault(row[2], set()).add(row[1])
    return rows, told, keys_of


def add_new(conn: sqlite3.Connection, placed: list[Placed], touched: Touched) -> None:
    """Keep the lines of new messages.

    Requests that only this batch tells of, and whose API message nobody else names, are the rule:
    they are summed up here, all others by `recompute`.
    """
    rows, told, keys_of = requests_of(placed)
    if not rows:
        return
    sums = [(key, lines[0][1][2], lines) for key, lines in told.items()]
    known = {
        api_message_id
        for (api_message_id,) in conn.execute(
            "SELECT DISTINCT l.api_message_id FROM json_each(?) j"
            " CROSS JOIN _usage_lines l ON l.api_message_id = j.value",
            (orjson.dumps([i for i in keys_of if i is not None]).decode(),),
        )
    }
    known.update(api for api, keys in keys_of.items() if len(keys) > 1)
    known.add(None)
    _keep(conn, rows)
    # A touched request may have a row already, whose lines were taken away in this batch.
    unsure = touched.requests
    unsure.update(key for key, api, lines in sums if api in known or is_mixed(lines))
    sure = {key: sum_up(key, lines) for key, _, lines in sums if key not in unsure}
    if conn.executemany(_INSERT_USAGE, sure.values()).rowcount < len(sure):
        unsure.update(sure)


def is_mixed(lines: list[Teller]) -> bool:
    """Whether a sidechain replays what the main thread tells too (R3)."""
    return len(lines) > 1 and len({item.rec.is_sidechain for item, _ in lines}) > 1


def sum_up(key: str, lines: list[Teller]) -> tuple[Any, ...]:
    """What `_RECOMPUTE` says, for lines that are all at hand, and all in sidechains or none."""
    if len(lines) == 1:
        (item, row), first = lines[0], lines[0][0]
        final, searches, reported = row[18], row[14], row[19]
    else:
        first = min(lines, key=_first)[0]
        item, row = _winner(lines)
        final = max(line[18] for _, line in lines)
        searches = max(line[14] for _, line in lines)
        reported = max((line[19] for _, line in lines if line[19] is not None), default=None)
    rec = item.rec
    return (
        first.turn_id,
        key,
        row[2],
        row[3],
        first.session_id,
        first.agent_id,
        row[6],
        first.rec.timestamp,
        *row[7:14],
        searches,
        row[15],
        row[16],
        row[17],
        final,
        rec.is_sidechain,
        reported,
        len(lines),
    )


def _first(line: Teller) -> tuple[Any, ...]:
    item, row = line
    at = item.rec.timestamp
    return at is None, at or "", row[5], item.session_id or "", item.rec.uuid or ""


def _winner(lines: list[Teller]) -> Teller:
    """The line whose record counts (R4), as `_RECOMPUTE` ranks them."""
    best = lines[0]
    best_rank = _rank(best)
    for line in lines[1:]:
        rank = _rank(line)
        if rank < best_rank or (rank == best_rank and _is_later(line[0], best[0])):
            best, best_rank = line, rank
    return best


def _rank(line: Teller) -> tuple[int, int, int, bool]:
    item, row = line
    total = row[7] + row[8] + row[9] + row[10] + row[11]
    return item.rec.is_sidechain, -row[8], -total, row[16] is None


def _is_later(one: Placed, other: Placed) -> bool:
    at, before = one.rec.timestamp or "", other.rec.timestamp or ""
    return at > before or (at == before and (one.rec.uuid or "") < (other.rec.uuid or ""))


def drop_lines(conn: sqlite3.Connection, message_id: int, touched: Touched) -> None:
    """Forget what a message told, before it is told anew.

    Other requests of the same API message may have been left out because of it (R3).
    """
    touched.requests.update(
        key
        for (key,) in conn.execute(
            "SELECT request_key FROM _usage_lines WHERE message_id = ?1"
            " UNION SELECT o.request_key FROM _usage_lines l JOIN _usage_lines o"
            "  ON o.api_message_id = l.api_message_id WHERE l.message_id = ?1",
            (message_id,),
        )
    )
    conn.execute("DELETE FROM _usage_lines WHERE message_id = ?", (message_id,))


def adopt(conn: sqlite3.Connection, file_id: int, session_id: str | None, touched: Touched) -> None:
    """The lines of a file that were of no session turn out to be of this one.

    To be called before their messages are: only these lines are of no session now.
    """
    told = conn.execute(
        "SELECT l.message_id, l.part, l.request_key, l.api_message_id, l.request_id, m.timestamp,"
        " m.uuid, m.line_hash, m.nth FROM messages m JOIN _usage_lines l ON l.message_id = m.id"
        " WHERE m.source_file_id = ? AND m.session_id IS NULL",
        (file_id,),
    ).fetchall()
    for message_id, part, before, api, request, at, uuid, *line in told:
        key = _part(_key(session_id, api, request, at, uuid, (session_id, *line)), part)
        conn.execute(
            "UPDATE _usage_lines SET request_key = ? WHERE message_id = ? AND part = ?",
            (key, message_id, part),
        )
        touched.requests.update((before, key))


def touch(conn: sqlite3.Connection, message_id: int, touched: Touched) -> None:
    """A message stands in one more session: what that one replays no longer counts (R3)."""
    touched.requests.update(
        key
        for (key,) in conn.execute(
            "SELECT request_key FROM _usage_lines WHERE message_id = ?", (message_id,)
        )
    )


def recompute(conn: sqlite3.Connection, keys: set[str]) -> None:
    """Make the touched requests anew, and those whose replayed lines they decide about (R3)."""
    if not keys:
        return
    wanted = orjson.dumps(sorted(keys)).decode()
    # Requests of the same API message under another key: only a sidechain replay makes these.
    others = [
        key
        for (key,) in conn.execute(
            "SELECT DISTINCT o.request_key FROM json_each(?) j"
            " CROSS JOIN _usage_lines l ON l.request_key = j.value"
            " JOIN _usage_lines o ON o.api_message_id = l.api_message_id"
            " WHERE o.request_key <> l.request_key AND o.part = l.part",
            (wanted,),
        )
    ]
    if others:
        wanted = orjson.dumps(sorted(keys.union(others))).decode()
    conn.execute(
        "DELETE FROM usage WHERE request_key IN (SELECT value FROM json_each(:keys))"
        " AND NOT EXISTS (SELECT 1 FROM _usage_lines l JOIN messages m ON m.id = l.message_id"
        f"  WHERE l.request_key = usage.request_key AND {_COUNTS})",
        {"keys": wanted},
    )
    conn.execute(_RECOMPUTE, {"keys": wanted})
