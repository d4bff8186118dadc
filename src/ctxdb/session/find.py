"""Find the session that a person means: by id, its beginning, a slug, a path or `last`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.claude.layout import session_in_path
from ctxdb.errors import CtxdbError, UsageError
from ctxdb.escape import clip, one_line
from ctxdb.output import note

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

MOST_CANDIDATES = 12
SHORT_ID = 8  # characters of an id that are nearly always enough
AFTER_ALL_TEXT = "\U0010ffff"  # sorts after every text that a prefix can begin


class Candidate(NamedTuple):
    """A session that a person may mean."""

    id: str
    title: str
    project: str
    started_at: str

    def line(self, columns: int = 100) -> str:
        """One line for people."""
        title = clip(one_line(self.title[:400]), max(columns - 66, 20))
        return f"{self.id}  {self.started_at[:10]:<10}  {one_line(self.project)[:16]:<16} {title}"


class NoSuchSession(UsageError):
    """No session has that name, or several have it; `candidates` are the nearest ones."""

    def __init__(self, why: str, candidates: list[Candidate]) -> None:
        super().__init__(why)
        self.candidates = candidates


@contextmanager
def telling_candidates() -> Iterator[None]:
    """If no session is found, print the candidates before the error is printed."""
    try:
        yield
    except NoSuchSession as e:
        for candidate in e.candidates:
            note(candidate.line())
        raise


_CANDIDATE = (
    "SELECT s.id, coalesce(s.title, ''), coalesce(p.name, ''), coalesce(s.started_at, '')"
    " FROM sessions s LEFT JOIN projects p ON p.id = s.project_id WHERE "
)


def find_session(conn: sqlite3.Connection, text: str) -> str:
    """The id of the session that is meant. Raises NoSuchSession unless it is exactly one."""
    wanted = text.strip()
    if wanted == "last":
        row = conn.execute(
            "SELECT id FROM sessions WHERE ended_at IS NOT NULL ORDER BY ended_at DESC, id LIMIT 1"
        ).fetchone()
        if row is None:
            raise CtxdbError("no session is in the database yet")
        (session_id,) = row
        return str(session_id)
    wanted = session_in_path(wanted) or wanted
    for condition, values in _ways(wanted):
        found = _candidates(conn, condition, values)
        match found:
            case [only]:
                return only.id
            case [_, *_]:
                many = str(len(found)) + (" or more" if len(found) >= MOST_CANDIDATES else "")
                raise NoSuchSession(f"{text!r} fits {many} sessions; give more of the id", found)
    found = _candidates(conn, "instr(lower(s.title), lower(?))", (wanted,)) if wanted else []
    hint = "these have it in their title" if found else "`ctxdb search` finds sessions by content"
    raise NoSuchSession(f"no session begins with {text!r}; {hint}", found)


def _ways(wanted: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if not wanted:
        return
    yield "s.id = ?", (wanted,)
    prefix = wanted.lower()
    yield "s.id >= ? AND s.id < ?", (prefix, prefix + AFTER_ALL_TEXT)
    if prefix != wanted:
        yield "s.id >= ? AND s.id < ?", (wanted, wanted + AFTER_ALL_TEXT)
    yield "s.slug = ?", (wanted,)
    yield "s.slug >= ? AND s.slug < ?", (prefix, prefix + AFTER_ALL_TEXT)


def _candidates(
    conn: sqlite3.Connection, condition: str, values: tuple[str, ...]
) -> list[Candidate]:
    sql = f"{_CANDIDATE}{condition} ORDER BY s.started_at DESC, s.id LIMIT {MOST_CANDIDATES}"
    return [Candidate(*row) for row in conn.execute(sql, values)]


def short_id(conn: sqlite3.Connection, session_id: str) -> str:
    """The beginning of an id, if no other session's id begins with it; else the whole id."""
    prefix = session_id[:SHORT_ID]
    (found,) = conn.execute(
        "SELECT count(*) FROM (SELECT 1 FROM sessions WHERE id >= ? AND id < ? LIMIT 2)",
        (prefix, prefix + AFTER_ALL_TEXT),
    ).fetchone()
    return prefix if found < 2 else session_id
