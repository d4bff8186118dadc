"""Rows that come before the time is over: a part of an answer now is worth more than all late."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

STEPS = 20_000  # of SQLite, between two looks at the clock: some milliseconds


def rows_within(
    conn: sqlite3.Connection, sql: str, values: Iterable[object], seconds: float
) -> tuple[list[Any], bool]:
    """The rows, and whether time was over before all had come."""
    until = time.monotonic() + seconds
    conn.set_progress_handler(lambda: time.monotonic() > until, STEPS)
    rows: list[Any] = []
    try:
        for row in conn.execute(sql, tuple(values)):
            rows.append(row)  # noqa: PERF402 - what came before an interruption is kept
    except sqlite3.OperationalError as e:
        if e.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        if time.monotonic() < until:  # Ctrl-C, which sqlite3 swallows while the clock is asked
            raise KeyboardInterrupt from e
        return rows, True
    finally:
        conn.set_progress_handler(None, 0)
    return rows, False
