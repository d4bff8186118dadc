"""Suggest words for the shell's completion: views, queries, columns, projects and sessions.

Titles of sessions come from transcripts, and a shell interprets what it is given: zsh takes a colon
for the end of the word, and expands $(...) in descriptions. So only letters, digits, spaces and a
few harmless signs of a title are passed on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctxdb.store import sql_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LATEST = 50  # sessions that are suggested
PROJECTS = 500
LONGEST_CHARS = 60  # of a description
_HARMFUL = re.compile(r"[^\w ,.-]+")


def names(incomplete: str) -> Iterator[tuple[str, str]]:
    """Return views and queries, each with its question."""
    for one in [*sql_files.all_views(), *sql_files.all_queries()]:
        if one.name.startswith(incomplete):
            yield one.name, harmless(one.question)


def sessions(incomplete: str) -> Iterator[tuple[str, str]]:
    """Return the latest sessions whose ids begin so, with their titles."""
    for session_id, title in _ask(
        "SELECT id, title FROM sessions WHERE instr(id, ?) = 1 ORDER BY ended_at DESC LIMIT ?",
        (incomplete.lower(), LATEST),
    ):
        short = str(session_id)[: max(8, len(incomplete))]
        if harmless(short) == short:
            yield short, harmless(str(title or ""))


def projects(incomplete: str) -> Iterator[tuple[str, str]]:
    """Return projects whose names begin so; the one with the latest session is first."""
    for name, path in _ask(
        "SELECT p.name, min(p.path) FROM projects p JOIN sessions s ON s.project_id = p.id"
        " GROUP BY p.name ORDER BY max(s.ended_at) DESC LIMIT ?",
        (PROJECTS,),
    ):
        text = str(name or "")
        if text.startswith(incomplete) and harmless(text) == text:
            yield text, harmless(str(path or "").replace("/", " "))


def parameters(incomplete: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Return what `-p` takes for the view or query on the command line: parameters, columns."""
    file = _file_among(words)
    if file is not None:
        meanings = {param.name: param.words for param in file.params} | dict(file.columns)
        for name, meaning in meanings.items():
            if name.startswith(incomplete):
                yield name, harmless(meaning)


def columns(incomplete: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Return columns for `--columns`: the last word of a comma list is completed."""
    before, comma, last = incomplete.rpartition(",")
    chosen = set(before.split(","))
    for name, meaning in _columns(words):
        if name.startswith(last) and name not in chosen:
            yield f"{before}{comma}{name}", meaning


def sort_columns(incomplete: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Return columns for `--sort`."""
    for name, meaning in _columns(words):
        if name.startswith(incomplete):
            yield name, meaning


def _columns(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    file = _file_among(words)
    if file is not None:
        for name, meaning in file.columns.items():
            yield name, harmless(meaning)


def _file_among(words: Sequence[str]) -> sql_files.SqlFile | None:
    """The view or query that the command line names."""
    found = (sql_files.find(word.replace("-", "_")) for word in words)
    return next((file for file in found if file is not None), None)


def harmless(text: str) -> str:
    """Return text without any character that a shell interprets."""
    return " ".join(_HARMFUL.sub(" ", text).split())[:LONGEST_CHARS].strip()


def _ask(sql: str, values: tuple[object, ...]) -> list[tuple[object, ...]]:
    """Return rows, or none if anything fails: a completion cannot print errors."""
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
