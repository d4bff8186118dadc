"""Lines of history.jsonl and the turns they became, matched again when either changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from typing import NamedTuple

from ctxdb.rules.history import AskedTurn, Line, match, text_hash, turn_text
from ctxdb.store.changes import stamp
from ctxdb.store.lookup import first_column, json_list, look_up

_TURNS = (
    "SELECT t.id, t.session_id, p.path, t.started_at, t.ordinal, t.kind, t.prompt FROM j"
    " CROSS JOIN turns t ON t.{column} = j.value LEFT JOIN sessions s ON s.id = t.session_id"
    " LEFT JOIN projects p ON p.id = s.project_id WHERE t.session_id IS NOT NULL"
)
_KNOWN = (
    "SELECT turn_id, session_id, project_path, started_at, ordinal, text_hash FROM j"
    " CROSS JOIN _turn_texts t ON t.{column} = j.value"
)
_LINES = (
    "SELECT l.text_hash, h.id, l.line_hash, l.nth, h.timestamp, h.session_id, h.project_path FROM j"
    " CROSS JOIN _history_lines l ON l.text_hash = j.value JOIN history h ON h.id = l.history_id"
)
_ASKED = (
    "SELECT t.text_hash, t.turn_id, t.session_id, t.project_path, t.started_at, t.ordinal FROM j"
    " CROSS JOIN _turn_texts t ON t.text_hash = j.value"
)


class _TurnText(NamedTuple):
    """A row of _turn_texts."""

    turn_id: int
    session_id: str
    project_path: str | None
    started_at: str | None
    ordinal: int
    text_hash: int


def refresh_history(
    conn: sqlite3.Connection, sessions: Collection[str], turns: Collection[int | None] = ()
) -> None:
    """These turns, and any of the turns of these sessions, may have changed."""
    if not sessions and not turns:
        return
    if conn.execute("SELECT 1 FROM history LIMIT 1").fetchone() is None:
        return
    before: set[_TurnText] = set()
    now: set[_TurnText] = set()
    of_sessions = (sorted(sessions), "session_id", "session_id")
    for wanted, known_by, column in (of_sessions, (turns, "turn_id", "id")):
        known = look_up(conn, wanted, _KNOWN.format(column=known_by))
        before.update(_TurnText(*values) for values in known)
        now.update(
            _TurnText(turn, session, project, at, ordinal, text_hash(turn_text(kind, prompt)))
            for turn, session, project, at, ordinal, kind, prompt in look_up(
                conn, wanted, _TURNS.format(column=column)
            )
        )
    if before == now:
        return
    conn.executemany(
        "DELETE FROM _turn_texts WHERE turn_id = ?", [(one.turn_id,) for one in before - now]
    )
    conn.executemany(
        "INSERT OR REPLACE INTO _turn_texts VALUES (?, ?, ?, ?, ?, ?)", sorted_texts(now - before)
    )
    match_texts(conn, {one.text_hash for one in before ^ now})


def sorted_texts(texts: Iterable[_TurnText]) -> list[_TurnText]:
    """In a stable order."""
    return sorted(texts, key=lambda one: one.turn_id)


def begin_matching(conn: sqlite3.Connection) -> None:
    """The first lines have come: all turns are looked at."""
    refresh_history(conn, first_column(conn.execute("SELECT id FROM sessions")))


def match_texts(conn: sqlite3.Connection, hashes: Iterable[int]) -> None:
    """Match all lines and turns that have one of these texts again."""
    wanted = json_list(hashes)
    lines: dict[int, list[Line]] = {}
    turns: dict[int, list[AskedTurn]] = {}
    given = "WITH j AS (SELECT key, value FROM json_each(?)) "
    for of_text, *values in conn.execute(given + _LINES, (wanted,)):
        lines.setdefault(of_text, []).append(Line(*values))
    for of_text, *values in conn.execute(given + _ASKED, (wanted,)):
        turns.setdefault(of_text, []).append(AskedTurn(*values))
    changes = []
    for of_text, same in lines.items():
        found = match(same, turns.get(of_text, ()))
        changes += [(found.get(line.id), line.id, found.get(line.id)) for line in same]
    changed = conn.executemany(
        "UPDATE history SET turn_id = ? WHERE id = ? AND turn_id IS NOT ?", changes
    )
    if changed.rowcount > 0:
        stamp(conn, {line.session_id for same in lines.values() for line in same})
