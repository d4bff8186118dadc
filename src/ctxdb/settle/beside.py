"""What follows from transcripts and from files beside them: to-dos, plans, matched prompts."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from ctxdb.rows import Turn
from ctxdb.settle.history import refresh_history
from ctxdb.settle.plans import refresh_plans
from ctxdb.settle.todos import refresh_todos
from ctxdb.settle.touched import Touched


def refresh_beside(conn: sqlite3.Connection, touched: Touched, begun: Collection[Turn]) -> None:
    """Work out again what follows from what the batch has changed. `begun` are its new turns."""
    # Where turns of files were found again, calls and turns of any of the sessions may have moved.
    moved = touched.sessions if touched.turns_of_files else set()
    planned = {turn.session_id for turn in begun if turn.kind == "plan" and turn.session_id}
    refresh_todos(conn, moved | touched.lists)
    refresh_plans(conn, moved | touched.lists | touched.placed | planned)
    refresh_history(conn, moved | touched.placed | touched.renumber, [turn.id for turn in begun])
