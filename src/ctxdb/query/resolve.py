"""Which project, which name: what a person writes, turned into what the database has.

A word that matches nothing is a mistake, not an empty answer: it is said, with what is near to it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ctxdb.errors import UsageError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    Row = tuple[int, str, str, str]  # id, name, path and repo_path of a project


def nearest(word: str, known: Iterable[str], how_many: int = 3) -> list[str]:
    """Return what the word may have been meant to be, best first."""
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), by_lower, how_many, 0.6)
    found += [name for name in by_lower if word.lower() in name and name not in found]
    return [by_lower[name] for name in found[:how_many]]


def unknown(what: str, word: str, known: Iterable[str], otherwise: str = "") -> UsageError:
    """The error for a word that is none of the known ones."""
    near = nearest(word, known)
    if near:
        return UsageError(f"no {what} {word!r}; did you mean {' or '.join(near)}?")
    return UsageError(f"no {what} {word!r}" + (f"; {otherwise}" if otherwise else ""))


def meant(error: str, conn: sqlite3.Connection) -> str:
    """What to add to an error of SQLite about a name: the names that are most like it."""
    kind, sign, name = error.removeprefix("SQL: ").partition(": ")
    if not sign or kind not in ("no such table", "no such column"):
        return ""
    import sqlite3

    what = "name" if kind == "no such table" else '"column"'
    sql = f"SELECT DISTINCT {what} FROM schema_docs WHERE {what} IS NOT NULL"  # noqa: S608
    try:
        known = [row[0] for row in conn.execute(sql)]
    except sqlite3.Error:  # a database of another version
        return ""
    near = nearest(name.rpartition(".")[2], known)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def check_model(conn: sqlite3.Connection, text: str) -> None:
    """Refuse a name that no model has; asked only where nothing was found."""
    wanted = text.lower()
    known: set[str] = set()
    for table in ("usage", "messages"):  # the first is small; the second has models without a bill
        sql = f"SELECT DISTINCT model FROM {table} WHERE model IS NOT NULL"  # noqa: S608
        known.update(row[0] for row in conn.execute(sql))
        if any(wanted in model.lower() for model in known):
            return
    raise unknown("model", text, sorted(known), "`ctxdb query usage_by_model` lists them")


def project_ids(conn: sqlite3.Connection, text: str) -> list[int]:
    """Ids of the projects meant by a name, a folder, or a part of a path.

    A name that is exactly right counts alone; so does a folder, with what is in it. Worktrees go
    with their repository.
    """
    if not text.strip():
        raise UsageError("which project? Give its name, its folder or a part of the path")
    rows = conn.execute("SELECT id, name, path, repo_path FROM projects").fetchall()
    lower = text.lower()
    found = [row for row in rows if (row[1] or "").lower() == lower]
    # .worktrees is a part of a path; ./lantern is a folder here.
    is_here = text in (".", "..") or text.startswith(("./", "../"))
    if not found and (text.startswith("~") or os.sep in text or is_here):
        folder = os.path.abspath(os.path.expanduser(text))  # noqa: PTH100, PTH111
        # Claude Code writes where a folder really is; people also come to it by a link.
        found = _of_folder(rows, folder, is_here=is_here) or _of_folder(
            rows, os.path.realpath(folder), is_here=is_here
        )
    if not found and not is_here and not text.startswith("~"):
        found = [row for row in rows if lower in (row[2] or "").lower()]
    if not found:
        names = dict.fromkeys(row[1] for row in rows if row[1])
        raise unknown("project", text, names, "`ctxdb query projects_overview` lists them")
    repos = {row[3] for row in found if row[3] and row[3] == row[2]}
    return sorted({row[0] for row in found} | {row[0] for row in rows if row[3] in repos})


def _of_folder(rows: list[Row], folder: str, *, is_here: bool) -> list[Row]:
    found = [row for row in rows if _is_in(row[2], folder) or row[3] == folder]
    if not found and is_here:
        # Deep in a project: the nearest one above.
        above = [row for row in rows if row[2] and _is_in(folder, row[2])]
        deepest = max((len(row[2]) for row in above), default=0)
        found = [row for row in above if len(row[2]) == deepest]
    return found


def _is_in(path: str | None, folder: str) -> bool:
    return path is not None and (path == folder or path.startswith(folder.rstrip("/") + "/"))
