"""The numbers of a status line, from the database."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

WINDOW = timedelta(hours=5)


class Window(NamedTuple):
    """The 5-hour window that is open now."""

    cost: float
    minutes_used: float  # from its first request
    ends_at: datetime

    @property
    def per_hour(self) -> float:
        """The burn rate in USD an hour."""
        return self.cost / max(self.minutes_used, 1.0) * 60


class Numbers(NamedTuple):
    """What the database knows; None: nothing."""

    session_cost: float | None = None
    today_cost: float | None = None
    window: Window | None = None


def numbers_of(conn: sqlite3.Connection, session_id: str | None, now: datetime) -> Numbers:
    """Look them up; `now` has a time zone."""
    midnight = now.astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    return Numbers(
        None if session_id is None else _session_cost(conn, session_id),
        _cost_since(conn, _text(midnight)),
        _window(conn, now),
    )


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _session_cost(conn: sqlite3.Connection, session_id: str) -> float | None:
    """The cost of a session, agents included; None if it is not known yet."""
    row = conn.execute(
        "SELECT sum(cost) / 1e12, count(*) FROM _costs WHERE session_id = ?", (session_id,)
    ).fetchone()
    cost, requests = row
    return (cost or 0.0) if requests else None


def _cost_since(conn: sqlite3.Connection, since: str) -> float:
    (cost,) = conn.execute(
        "SELECT sum(cost) / 1e12 FROM _costs WHERE timestamp >= ?", (since,)
    ).fetchone()
    return float(cost or 0.0)


def _window(conn: sqlite3.Connection, now: datetime) -> Window | None:
    row = conn.execute(
        "SELECT block_start FROM _blocks ORDER BY block_start DESC LIMIT 1"
    ).fetchone()
    if row is None:
        return None
    (start,) = row
    try:
        begin = datetime.fromisoformat(start)
    except (TypeError, ValueError):
        return None
    if not begin <= now < begin + WINDOW:
        return None
    cost, first = conn.execute(
        "SELECT sum(cost) / 1e12, min(timestamp) FROM _costs WHERE timestamp >= ?", (_text(begin),)
    ).fetchone()
    try:
        minutes = (now - datetime.fromisoformat(first)).total_seconds() / 60
    except (TypeError, ValueError):
        minutes = 0.0
    return Window(cost or 0.0, minutes, begin + WINDOW)
