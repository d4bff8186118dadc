"""Which sessions a person wants to forget, and what else holds copies of their entries."""

from __future__ import annotations

import re
import signal
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import NamedTuple, Self

from ctxdb.errors import UsageError
from ctxdb.store.lookup import first_column, json_list, look_up

MATCH_SECONDS = 10.0  # for one text: an unlucky pattern can take forever
MATCH_CHARACTERS = 4 << 20  # of one text that are searched
# Every text of a session, as (session, text).
_TEXTS = (
    "SELECT session_id, text FROM messages WHERE text IS NOT NULL",
    "SELECT session_id, thinking FROM messages WHERE thinking IS NOT NULL",
    "SELECT session_id, data FROM messages WHERE data IS NOT NULL",
    "SELECT session_id, extra FROM messages WHERE extra IS NOT NULL",
    "SELECT session_id, input FROM tool_uses WHERE input IS NOT NULL",
    "SELECT session_id, result_text FROM tool_uses WHERE result_text IS NOT NULL",
    "SELECT session_id, result_data FROM tool_uses WHERE result_data IS NOT NULL",
    "SELECT session_id, prompt FROM turns",
    "SELECT session_id, data FROM events",
    "SELECT id, coalesce(title, '') || char(10) || coalesce(names, '') FROM sessions",
    "SELECT session_id, coalesce(subject, '') || char(10) || coalesce(description, '') FROM todos",
    "SELECT session_id, text FROM plans",
    "SELECT session_id, path FROM files_touched",
    (
        "SELECT coalesce(h.session_id, t.session_id), h.prompt FROM history h"
        " LEFT JOIN turns t ON t.id = h.turn_id"
    ),
)


class Chosen(NamedTuple):
    """A session to forget, for people."""

    id: str
    title: str | None
    project: str | None
    started_at: str | None
    ended_at: str | None
    messages: int
    is_copy: bool  # it was not asked for, but holds copies
    is_only_there: bool  # it was not asked for, but all its lines are in files of the others


class Holder(NamedTuple):
    """Another session that holds copies of entries of a session to forget."""

    session_id: str
    of_session: str
    relation: str  # how it continues the other one, as far as is known
    entries: int


@dataclass(slots=True)
class Choice:
    """What would be forgotten."""

    sessions: list[Chosen] = field(default_factory=list)
    holders: list[Holder] = field(default_factory=list)  # that stay

    @property
    def ids(self) -> list[str]:
        """The ids of the sessions."""
        return [session.id for session in self.sessions]


@dataclass(slots=True)
class Wanted:
    """What a person has asked for. A session must fit all that is given."""

    sessions: Sequence[str] | None = None
    projects: Sequence[int] | None = None
    before: str | None = None  # UTC: ended before this
    pattern: str | None = None
    with_copies: bool = False


def choose(conn: sqlite3.Connection, wanted: Wanted) -> Choice:
    """The sessions that fit, those that go with them, and those that hold copies of them."""
    asked = _fitting(conn, wanted)
    only_there = _only_in_files_of(conn, asked)
    found = asked | only_there
    holders = _holders(conn, found)
    while wanted.with_copies and (more := {one.session_id for one in holders} - found):
        found |= more
        found |= _only_in_files_of(conn, found)
        holders = _holders(conn, found)
    staying = [one for one in holders if one.session_id not in found]
    return Choice([*_described(conn, found, asked, only_there)], staying)


def _fitting(conn: sqlite3.Connection, wanted: Wanted) -> set[str]:
    found: set[str] | None = None if wanted.sessions is None else set(wanted.sessions)
    if wanted.projects is not None:
        sql = "SELECT s.id FROM j CROSS JOIN sessions s ON s.project_id = j.value"
        found = _both(found, first_column(look_up(conn, wanted.projects, sql)))
    if wanted.before is not None:
        sql = "SELECT id FROM sessions WHERE ended_at < ?"
        found = _both(found, first_column(conn.execute(sql, (wanted.before,))))
    if wanted.pattern is not None:
        found = _matching(conn, wanted.pattern, found)
    return found or set()


def _both(one: set[str] | None, other: Iterable[str]) -> set[str]:
    return set(other) if one is None else one & set(other)


def _matching(conn: sqlite3.Connection, pattern: str, among: set[str] | None) -> set[str]:
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as e:
        raise UsageError(f"--match {pattern!r} is no regular expression: {e}") from e
    found: set[str] = set()
    with _Limit() as limit:
        for sql in _TEXTS:
            for session_id, text in conn.execute(sql):
                if session_id is None or session_id in found or not isinstance(text, str):
                    continue
                if among is None or session_id in among:
                    with limit.each():
                        if compiled.search(text[:MATCH_CHARACTERS]):
                            found.add(session_id)
    return found


class _TooLong(Exception):
    """One text takes too long."""


class _Limit:
    """Ends the search of a text that takes too long: `re` looks for signals while it searches."""

    def __enter__(self) -> Self:
        self.before = signal.signal(signal.SIGALRM, self._ring)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.before)

    def _ring(self, _number: int, _frame: FrameType | None) -> None:
        raise _TooLong

    @contextmanager
    def each(self) -> Iterator[None]:
        signal.setitimer(signal.ITIMER_REAL, MATCH_SECONDS)
        try:
            yield
        except _TooLong:
            why = f"takes over {MATCH_SECONDS:.0f} s on one text; make the pattern simpler"
            raise UsageError(f"--match {why}") from None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _only_in_files_of(conn: sqlite3.Connection, sessions: set[str]) -> set[str]:
    """Other sessions that no file but those of these sessions has lines of.

    A transcript is forgotten as a whole, so they go with it. There are such sessions if a resumed
    session repeats lines of one whose own transcript is gone, or if a transcript was renamed: then
    it belongs to the first session that it names.
    """
    rows = look_up(
        conn,
        sorted(sessions),
        "SELECT DISTINCT s.session_id FROM j CROSS JOIN source_files f ON f.session_id = j.value"
        " CROSS JOIN _session_files s ON s.source_file_id = f.id"
        " CROSS JOIN sessions known ON known.id = s.session_id"
        " WHERE NOT EXISTS (SELECT 1 FROM _session_files o JOIN source_files g"
        "  ON g.id = o.source_file_id WHERE o.session_id = s.session_id"
        "  AND (g.session_id IS NULL OR g.session_id NOT IN (SELECT value FROM j)))",
    )
    return set(first_column(rows)) - sessions


def _holders(conn: sqlite3.Connection, sessions: set[str]) -> list[Holder]:
    """Sessions that hold copies of entries of these, or lines that name them."""
    rows = look_up(
        conn,
        sorted(sessions),
        "SELECT of_session, holder, count(*), (SELECT relation FROM sessions WHERE id = holder)"
        " FROM (SELECT j.value AS of_session, f.session_id AS holder, m.id FROM j"
        "  CROSS JOIN messages m ON m.session_id = j.value"
        "  CROSS JOIN message_copies c ON c.message_id = m.id"
        "  CROSS JOIN source_files f ON f.id = c.source_file_id"
        " UNION SELECT j.value, f.session_id, m.id FROM j"
        "  CROSS JOIN messages m ON m.session_id = j.value"
        "  CROSS JOIN source_files f ON f.id = m.source_file_id"
        # entries that another session owns, and these hold the copies
        " UNION SELECT j.value, m.session_id, m.id FROM j"
        "  CROSS JOIN message_copies c ON c.session_id = j.value"
        "  CROSS JOIN messages m ON m.id = c.message_id)"
        " WHERE holder IS NOT NULL AND holder <> of_session GROUP BY 1, 2 ORDER BY 1, 2",
    )
    return [
        Holder(holder, of_session, relation or "copy", count)
        for of_session, holder, count, relation in rows
    ]


def _described(
    conn: sqlite3.Connection, sessions: set[str], asked: set[str], only_there: set[str]
) -> Iterator[Chosen]:
    known = {
        session_id: rest
        for session_id, *rest in conn.execute(
            "SELECT s.id, s.title, p.name, s.started_at, s.ended_at,"
            " (SELECT count(*) FROM messages m WHERE m.session_id = s.id)"
            " FROM sessions s LEFT JOIN projects p ON p.id = s.project_id"
            " WHERE s.id IN (SELECT value FROM json_each(?))",
            (json_list(sessions),),
        )
    }
    for session_id in sorted(sessions, key=lambda one: str(known.get(one, [""])[-2:])):
        title, project, started_at, ended_at, messages = known.get(
            session_id, [None, None, None, None, 0]
        )
        is_only_there = session_id in only_there
        yield Chosen(
            session_id,
            title,
            project,
            started_at,
            ended_at,
            messages,
            is_copy=session_id not in asked and not is_only_there,
            is_only_there=is_only_there,
        )
