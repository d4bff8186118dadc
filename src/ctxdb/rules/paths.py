"""Paths of files in projects: relative to the project, on Unix and on Windows."""

from __future__ import annotations

from typing import NamedTuple


class Project(NamedTuple):
    """Where a session ran."""

    id: int
    path: str


def located(path: str, project: Project | None) -> tuple[int | None, str | None]:
    """(project_id, relative_path) of a path in a project."""
    if project is None:
        return None, None
    base = project.path.rstrip("/\\")
    above, separator, below = path[: len(base)], path[len(base) : len(base) + 1], len(base) + 1
    if separator in ("/", "\\") and (above == base or _is_same_on_windows(above, base)):
        return project.id, path[below:]
    return project.id, path if is_relative(path) else None


def _is_same_on_windows(one: str, other: str) -> bool:
    r"""Whether two names are of one folder there: c:/Users is C:\\Users."""
    if one[1:2] != ":" or other[1:2] != ":":
        return False
    return one.replace("/", "\\").lower() == other.replace("/", "\\").lower()


def is_relative(path: str) -> bool:
    r"""Neither /unix nor C:\\windows nor ~/home."""
    return not path.startswith(("/", "~", "\\")) and path[1:2] != ":"


def joined(base: str, path: str) -> str:
    """A relative path below a folder, written as the folder is."""
    separator = "\\" if "\\" in base and "/" not in base else "/"
    return f"{base.rstrip(separator)}{separator}{path}"
