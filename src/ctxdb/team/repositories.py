"""Which repository a project is, as transcripts show it.

By the pull requests that its sessions made or named, else by what `git remote -v` and `git push`
printed, else by the map in config.toml, else the last folder of its path.
"""

from __future__ import annotations

import re
from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping

_PULL = re.compile(
    r"https?://[^/\s]+/(?P<name>[\w.-]+(?:/[\w.-]+)+?)(?:/-)?/(?:pull|merge_requests)/"
)
_REMOTE = re.compile(
    r"^(?:origin\s+|To\s+)(?:\w+://)?(?:[^@\s/]+@)?[\w.-]+(?::\d+)?[:/]"
    r"(?P<name>[\w.~-]+(?:/[\w.-]+)*/[\w.-]+?)(?:\.git)?/?(?:\s|$)",
    re.MULTILINE,
)
_PULLS = (
    "SELECT p.repo_path, g.pr_url, count(*) FROM git_operations g"
    " JOIN sessions s ON s.id = g.session_id JOIN projects p ON p.id = s.project_id"
    " WHERE g.pr_url IS NOT NULL GROUP BY 1, 2"
)
_REMOTES = (
    "SELECT p.repo_path, substr(t.result_text, 1, 20000) FROM tool_uses_fts f"
    " JOIN tool_uses t ON t.id = f.rowid"
    " JOIN sessions s ON s.id = t.session_id JOIN projects p ON p.id = s.project_id"
    ' WHERE tool_uses_fts MATCH \'{target input} : ("git remote" OR "git push")\''
    " AND t.result_text IS NOT NULL"
)


def repositories(conn: sqlite3.Connection, named: Mapping[str, str]) -> dict[str, str]:
    """The repository of every project, by its repo_path. `named` is the map in config.toml."""
    shown = _most_frequent(_remotes(conn)) | _most_frequent(_pulls(conn))
    return {
        path: shown.get(path)
        or named.get(path)
        or named.get(last_folder(path))
        or last_folder(path)
        for (path,) in conn.execute("SELECT DISTINCT repo_path FROM projects")
    }


def short_names(found: Mapping[str, str]) -> str:
    """The repositories in a few bytes each, to see later which have got another name."""
    return " ".join(sorted(f"{_short(path)}:{_short(name)}" for path, name in found.items()))


def renamed_paths(before: str, found: Mapping[str, str]) -> list[str]:
    """The paths whose repository has another name than `before`, as `short_names` wrote it.

    Of a path that is new there, all sessions are new.
    """
    pairs = [pair.partition(":") for pair in before.split()]
    known = {path: name for path, colon, name in pairs if colon}
    if not known:  # nothing was written yet, or an earlier version wrote it
        return sorted(found)
    return [
        path
        for path, name in sorted(found.items())
        if known.get(_short(path), _short(name)) != _short(name)
    ]


def _short(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def last_folder(path: str) -> str:
    """The last folder of a path, on any system."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1] or path


def _pulls(conn: sqlite3.Connection) -> Iterator[tuple[str, str, int]]:
    for path, url, number in conn.execute(_PULLS):
        if found := _PULL.match(url):
            yield path, found["name"], number


def _remotes(conn: sqlite3.Connection) -> Iterator[tuple[str, str, int]]:
    for path, text in conn.execute(_REMOTES):
        for found in _REMOTE.finditer(text):
            yield path, found["name"], 1


def _most_frequent(found: Iterator[tuple[str, str, int]]) -> dict[str, str]:
    """Of several names of a path the most frequent, then the smallest."""
    counts: dict[str, Counter[str]] = {}
    for path, name, number in found:
        counts.setdefault(path, Counter())[name] += number
    return {
        path: min(names, key=lambda name: (-names[name], name)) for path, names in counts.items()
    }
