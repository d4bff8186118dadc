"""What follows from transcripts and from files beside them: to-dos, plans, matched prompts."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from ctxdb.settle.history import refresh_history
from ctxdb.settle.plans import refresh_plans
from ctxdb.settle.todos import refresh_todos


def refresh_beside(conn: sqlite3.Connection, sessions: Collection[str]) -> None:
    """Calls or turns of these sessions have changed."""
    if sessions:
        refresh_todos(conn, sessions)
        refresh_plans(conn, sessions)
        refresh_history(conn, sessions)
