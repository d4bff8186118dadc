"""Find the project, model or name that a person means.

A word that matches nothing is an error, not an empty answer. The error names what is most like it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.errors import UsageError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], how_many: int = 3) -> list[str]:
    """Return the known words that are most like this one, best first."""
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), by_lower, how_many, 0.6)
    around = [name for name in by_lower if word.lower() in name and name not in found]
    found += sorted(around, key=len)
    return [by_lower[name] for name in found[:how_many]]


def unknown(what: str, word: str, known: Iterable[str], otherwise: str = "") -> UsageError:
    """Return the error for a word that is none of the known ones."""
    near = nearest(word, known)
    if near:
        return UsageError(f"no {what} {word!r}; did you mean {' or '.join(near)}?")
    return UsageError(f"no {what} {word!r}" + (f"; {otherwise}" if otherwise else ""))


def meant(error: str, conn: sqlite3.Connection, statement: str) -> str:
    """Return what to add to SQLite's error about a name: the names that are most like it.

    Columns are those of the tables and views that the statement names, if it names any.
    """
    kind, sign, name = error.removeprefix("SQL: ").partition(": ")
    if not sign or kind not in ("no such table", "no such column"):
        return ""
    import re
    import sqlite3

    try:
        known = conn.execute('SELECT name, "column" FROM schema_docs').fetchall()
    except sqlite3.Error:  # a database of another version
        return ""
    tables = {table for table, _ in known}
    words = dict.fromkeys(tables)
    if kind == "no such column":
        named = tables.intersection(re.findall(r"\w+", statement.lower())) or tables
        words = dict.fromkeys(column for table, column in known if column and table in named)
    _, _, bare = name.rpartition(".")
    near = nearest(bare, [word for word in words if word != bare])
    return f"; did you mean {' or '.join(near)}?" if near else ""


def check_model(conn: sqlite3.Connection, text: str) -> None:
    """Raise UsageError if no model has this in its name; called when nothing was found."""
    wanted = text.lower()
    known: set[str] = set()
    # usage is small. Only messages has the models whose messages were not billed.
    for table in ("usage", "messages"):
        sql = f"SELECT DISTINCT model FROM {table} WHERE model IS NOT NULL"  # noqa: S608
        known.update(model for (model,) in conn.execute(sql))
        if any(wanted in model.lower() for model in known):
            return
    raise unknown("model", text, sorted(known), "`ctxdb query usage_by_model` lists them")


# -- projects --------------------------------------------------------------------------------------


class _Project(NamedTuple):
    id: int
    name: str  # this and the paths are empty where they are not known
    path: str
    repo_path: str

    def is_in(self, folder: str) -> bool:
        return _is_in(self.path, folder) or self.repo_path == folder


def project_ids(conn: sqlite3.Connection, text: str) -> list[int]:
    """Return the ids of the projects that a name, a folder or a part of a path means.

    If a name is equal, only it counts; if a folder is, only the projects in it. The worktrees of a
    repository are included. Of projects with one name, views add the folders above it: that longer
    name means only that project.
    """
    if not text.strip():
        raise UsageError("which project? Give its name, its folder or a part of the path")
    sql = "SELECT id, ifnull(name, ''), ifnull(path, ''), ifnull(repo_path, '') FROM projects"
    projects = [_Project(*row) for row in conn.execute(sql)]
    lower = text.lower()
    found = [one for one in projects if one.name.lower() == lower]
    if not found and os.sep in text:
        shown = _shown_as(conn, lower)
        found = [one for one in projects if one.repo_path in shown]
    # .worktrees is a part of a path; ./lantern is a folder here.
    is_here = text in (".", "..") or text.startswith(("./", "../"))
    can_be_folder = text.startswith("~") or os.sep in text or is_here
    if not found and can_be_folder and "\0" not in text:  # no path has a zero byte
        folder = os.path.abspath(os.path.expanduser(text))  # noqa: PTH100, PTH111
        # Claude Code writes the real path of a folder; a person may get there by a symbolic link.
        found = _in_folder(projects, folder, is_here=is_here) or _in_folder(
            projects, os.path.realpath(folder), is_here=is_here
        )
    if not found and not is_here and not text.startswith("~"):
        found = [one for one in projects if lower in one.path.lower()]
    if not found:
        names = dict.fromkeys(one.name for one in projects if one.name)
        raise unknown("project", text, names, "`ctxdb query projects_overview` lists them")
    repos = {one.path for one in found if one.path and one.path == one.repo_path}
    ids = {one.id for one in found} | {one.id for one in projects if one.repo_path in repos}
    return sorted(ids)


def _shown_as(conn: sqlite3.Connection, lower: str) -> set[str]:
    """Return the folders of the repositories that views show by this name."""
    import sqlite3

    sql = "SELECT repo_path FROM _project_names WHERE lower(project) = ?"
    try:
        return {path for (path,) in conn.execute(sql, (lower,))}
    except sqlite3.OperationalError:  # a database of another version
        return set()


def _in_folder(projects: list[_Project], folder: str, *, is_here: bool) -> list[_Project]:
    found = [one for one in projects if one.is_in(folder)]
    if not found and is_here:
        # This folder is deep in a project: take the nearest one above.
        above = [one for one in projects if one.path and _is_in(folder, one.path)]
        deepest = max((len(one.path) for one in above), default=0)
        found = [one for one in above if len(one.path) == deepest]
    return found


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
