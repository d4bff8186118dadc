"""Which folders a person wants left out: the patterns of the setting `ignore`.

A pattern that begins with / or ~ is compared with whole paths. One without any / is compared with
the name of each folder on the way. `*` and `?` stand for anything within a name, `**` also for
several folders. What is below an ignored folder is ignored too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path, PurePosixPath

MARKER = ".ctxdb-ignore"  # a file of this name in a folder says the same as a pattern
_PARTS = re.compile(r"\*\*/?|\*|\?|\[[^\]/]*\]|.", re.DOTALL)


class Ignore:
    """The patterns, ready to compare."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self.patterns = tuple(
            str(Path(one).expanduser()).rstrip("/") or "/" for one in patterns if one.strip()
        )

    @cached_property
    def _paths(self) -> re.Pattern[str] | None:
        return _any_of(_path_pattern(one) for one in self.patterns)

    @cached_property
    def _folders(self) -> re.Pattern[str] | None:
        return _any_of(_encoded_pattern(one) for one in self.patterns)

    def has(self, path: str) -> bool:
        """Whether a folder, or one above it, is ignored."""
        return self._paths is not None and self._paths.fullmatch(path.rstrip("/")) is not None

    def may_have(self, folder_name: str) -> bool:
        """Whether the folder with this name, among transcripts, may be of an ignored project.

        Claude Code writes - in place of / and other signs, so the name fits several paths.
        """
        return self._folders is not None and self._folders.fullmatch(folder_name) is not None


def folders_above(path: str) -> list[str]:
    """A folder, and all that it is in."""
    return [path, *map(str, PurePosixPath(path).parents)]


def _any_of(patterns: Iterable[str]) -> re.Pattern[str] | None:
    found = [f"(?:{one})" for one in patterns]
    return re.compile("|".join(found), re.DOTALL) if found else None


def _path_pattern(pattern: str) -> str:
    if pattern == "/":
        return ".*"
    start = "" if pattern.startswith("/") else "(?:.*/)?"
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return (
        start + "".join(words.get(part) or _literal(part) for part in _split(pattern)) + "(?:/.*)?"
    )


def _encoded_pattern(pattern: str) -> str:
    if pattern == "/":
        return ".*"
    start = "" if pattern.startswith("/") else "(?:.*-)?"
    words = {"**/": ".*", "**": ".*", "*": ".*", "?": "."}
    return (
        start + "".join(words.get(part) or _encoded(part) for part in _split(pattern)) + "(?:-.*)?"
    )


def _split(pattern: str) -> list[str]:
    return _PARTS.findall(pattern)


def _literal(part: str) -> str:
    if len(part) > 2 and part.startswith("["):
        inner = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"[^{inner[1:]}]" if inner.startswith("!") and len(inner) > 1 else f"[{inner}]"
    return re.escape(part)


def _encoded(part: str) -> str:
    if len(part) > 1:
        return "."
    return part if part.isascii() and part.isalnum() else "-"
