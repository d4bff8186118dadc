"""Which repository a folder is a worktree of, by its path alone."""

from __future__ import annotations

import re
from collections.abc import Iterable

# `.../<repo>/.claude/worktrees/<x>`, `.../<repo>/.worktrees/<x>`, `.../<repo>/worktrees/<x>` and
# `.../<repo>-worktrees/<x>`, with what is below them. Backslashes count as slashes.
_WORKTREE = re.compile(
    r"(?:[/\\]\.claude[/\\]worktrees|[/\\]\.worktrees|[/\\]worktrees|(?<=[^/\\])-worktrees)[/\\]+(?=[^/\\])"
)
# Folders that hold the repositories of a person, not one of them: /, /home, /home/me, C:\Users\me.
_HOME = re.compile(
    r"(?:(?:[/\\][a-z]|[/\\]mnt[/\\][a-z]|[a-z]:)?[/\\]+(?:users|home)(?:[/\\]+[^/\\]+)?"
    r"|(?:[/\\]var)?[/\\]root|[a-z]:|~[^/\\]*|)[/\\]*",
    re.IGNORECASE,
)


def is_home(path: str) -> bool:
    """Whether a path is a home folder, or a folder above one."""
    return _HOME.fullmatch(path) is not None


def repository(path: str, originals: Iterable[str] = ()) -> str:
    """The repository's path; `originals` are the paths that worktree-state entries name.

    Nothing is rolled up to a home folder. The disk is not consulted.
    """
    for match in _WORKTREE.finditer(path):
        above = path[: match.start()]
        if not is_home(above):
            return above
    return min((one for one in originals if not is_home(one)), default=path)
