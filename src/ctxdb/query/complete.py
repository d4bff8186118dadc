"""What could come next, for the shell's completion: names, projects, and sessions by their titles.

Titles come from transcripts, and a shell makes something of what it is given: zsh takes a colon for
the end of the word and expands $(...) in descriptions. So of a title only letters, digits, spaces
and a few harmless signs are left.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctxdb.store import sql_files

if TYPE_CHECKING:
    from collections.abc import Iterator

LATEST = 50  # sessions to choose from
LONGEST = 60  # characters of a description
_HARMFUL = re.compile(r"[^\w ,.-]+")


def names(incomplete: str) -> Iterator[tuple[str, str]]:
    """Views and queries, each with its question."""
    for one in [*sql_files.all_views(), *sql_files.all_queries()]:
        if one.name.startswith(incomplete):
            yield one.name, harmless(one.question)


def sessions(incomplete: str) -> Iterator[tuple[str, str]]:
    """The latest sessions by the beginning of their ids, with their titles."""
    for session_id, title in _ask(
        "SELECT id, title FROM sessions WHERE instr(id, ?) = 1 ORDER BY ended_at DESC LIMIT ?",
        (incomplete.lower(), LATEST),
    ):
        short = str(session_id)[: max(8, len(incomplete))]
        if harmless(short) == short:
            yield short, harmless(str(title or ""))


def projects(incomplete: str) -> Iterator[tuple[str, str]]:
    """Projects by name, those that were worked on last first."""
    for name, path in _ask(
        "SELECT p.name, min(p.path) FROM projects p JOIN sessions s ON s.project_id = p.id"
        " GROUP BY p.name ORDER BY max(s.ended_at) DESC LIMIT ?",
        (500,),
    ):
        text = str(name or "")
        if text.startswith(incomplete) and harmless(text) == text:
            yield text, harmless(str(path or "").replace("/", " "))


def harmless(text: str) -> str:
    """Text in which no shell finds anything to do."""
    return " ".join(_HARMFUL.sub(" ", text).split())[:LONGEST].strip()


def _ask(sql: str, values: tuple[object, ...]) -> list[tuple[object, ...]]:
    """Rows, or none: a completion has nobody to tell what went wrong."""
    import sqlite3

    from ctxdb.config import load
    from ctxdb.errors import CtxdbError
    from ctxdb.query.guard import Guarded

    try:
        guarded = Guarded(load().db_path, seconds=1.0)
        try:
            with guarded.asking() as conn:
                return conn.execute(sql, values).fetchall()
        finally:
            guarded.close()
    except (CtxdbError, sqlite3.Error, OSError):
        return []
