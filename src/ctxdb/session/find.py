"""Which session is meant: an id or its beginning, a slug, a transcript's path, or `last`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.errors import CtxdbError, UsageError
from ctxdb.escape import clip, one_line
from ctxdb.output import note

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

CANDIDATES = 12
SHORT = 8  # characters of an id that are nearly always enough
LAST = "\U0010ffff"


class Candidate(NamedTuple):
    """A session that may be meant."""

    id: str
    title: str
    project: str
    started_at: str

    def line(self, columns: int = 100) -> str:
        """One line for people."""
        title = clip(one_line(self.title[:400]), max(columns - 66, 20))
        return f"{self.id}  {self.started_at[:10]:<10}  {one_line(self.project)[:16]:<16} {title}"


class NoSuchSession(UsageError):
    """Nothing is known by that name, or too much; the candidates are those that are near."""

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
    """The id of the session that is meant."""
    wanted = text.strip()
    if wanted == "last":
        row = conn.execute(
            "SELECT id FROM sessions WHERE ended_at IS NOT NULL ORDER BY ended_at DESC, id LIMIT 1"
        ).fetchone()
        if row is None:
            raise CtxdbError("no session is in the database yet")
        return str(row[0])
    if wanted.endswith(".jsonl"):
        wanted = wanted.rpartition("/")[2].removesuffix(".jsonl")
    found: list[Candidate] = []
    for condition, values in _ways(wanted):
        found = _candidates(conn, condition, values)
        if len(found) == 1:
            return found[0].id
        if found:
            many = f"{CANDIDATES} or more" if len(found) >= CANDIDATES else str(len(found))
            raise NoSuchSession(f"{text!r} fits {many} sessions; give more of the id", found)
    found = _candidates(conn, "instr(lower(s.title), lower(?))", (wanted,)) if wanted else []
    hint = "these have it in their title" if found else "`ctxdb search` finds sessions by content"
    raise NoSuchSession(f"no session begins with {text!r}; {hint}", found)


def _ways(wanted: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if not wanted:
        return
    yield "s.id = ?", (wanted,)
    prefix = wanted.lower()
    yield "s.id >= ? AND s.id < ?", (prefix, prefix + LAST)
    if prefix != wanted:
        yield "s.id >= ? AND s.id < ?", (wanted, wanted + LAST)
    yield "s.slug = ?", (wanted,)
    yield "s.slug >= ? AND s.slug < ?", (prefix, prefix + LAST)


def _candidates(
    conn: sqlite3.Connection, condition: str, values: tuple[str, ...]
) -> list[Candidate]:
    sql = f"{_CANDIDATE}{condition} ORDER BY s.started_at DESC, s.id LIMIT {CANDIDATES}"
    return [Candidate(*row) for row in conn.execute(sql, values)]


def short_id(conn: sqlite3.Connection, session_id: str) -> str:
    """As much of an id as tells it from all others."""
    prefix = session_id[:SHORT]
    others = conn.execute(
        "SELECT count(*) FROM (SELECT 1 FROM sessions WHERE id >= ? AND id < ? LIMIT 2)",
        (prefix, prefix + LAST),
    ).fetchone()
    return prefix if others[0] < 2 else session_id


def resume_command(session_id: str, cwd: str | None) -> str:
    """What to type into a shell to go on with a session, safe whatever the folder is called."""
    command = f"claude --resume {shell_word(session_id)}"
    if not cwd:
        return command
    return f"cd {shell_word(f'./{cwd}' if cwd.startswith('-') else cwd)} && {command}"


def shell_word(text: str) -> str:
    """One word of a shell, in characters that can be seen."""
    if text and all(c.isascii() and (c.isalnum() or c in "@%+=:,./-_") for c in text):
        return text
    if text.isprintable():
        return "'" + text.replace("'", "'\"'\"'") + "'"
    # What cannot be seen is spelt out, as bash, zsh and ksh understand it.
    spelt = "".join(
        "\\" + c
        if c in "\\'"
        else c
        if c.isprintable()
        else "".join(f"\\{byte:03o}" for byte in c.encode("utf-8", "surrogatepass"))
        for c in text
    )
    return f"$'{spelt}'"
