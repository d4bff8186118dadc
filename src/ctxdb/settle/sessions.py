"""Sessions and projects, made anew from what their files and lines say.

Nothing here is counted up: a session's row is worked out from a handful of indexed look-ups each
time a batch touches it, so it comes out the same whatever order the files were read in.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from itertools import islice
from typing import Any

import orjson

from ctxdb.settle.calls import located
from ctxdb.settle.relations import relation_of
from ctxdb.settle.session_facts import Seen, look
from ctxdb.settle.snapshots import project_of, rewrite_snapshots

# Commands that say nothing of what a session is about: the first prompt is what comes after them.
_HOUSEKEEPING = (
    "/clear",
    "/compact",
    "/config",
    "/exit",
    "/help",
    "/login",
    "/logout",
    "/mcp",
    "/model",
    "/resume",
    "/status",
)
_WORKTREE = re.compile(r"(.*?)[/\\](?:\.claude[/\\]worktrees|\.worktrees)[/\\].", re.DOTALL)


MAX_FOLDER_NAME = 200  # a longer one is cut, with a hash of the path behind it


def note_files(conn: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
    """Add what a batch saw of sessions in files: rows of _session_files."""
    conn.executemany(
        "INSERT INTO _session_files (session_id, source_file_id, main_lines, first_cwd, agent_cwd,"
        " git_branch, version, slug, entrypoint, first_at, last_at, first_user_at, last_user_at,"
        " forked_session, process_session)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET main_lines = max(main_lines, excluded.main_lines),"
        "  first_cwd = coalesce(first_cwd, excluded.first_cwd),"
        "  agent_cwd = coalesce(agent_cwd, excluded.agent_cwd),"
        "  git_branch = coalesce(excluded.git_branch, git_branch),"
        "  version = coalesce(excluded.version, version),"
        "  slug = coalesce(excluded.slug, slug),"
        "  entrypoint = coalesce(excluded.entrypoint, entrypoint),"
        "  first_at = min(coalesce(first_at, excluded.first_at),"
        "   coalesce(excluded.first_at, first_at)),"
        "  last_at = max(coalesce(last_at, excluded.last_at),"
        "   coalesce(excluded.last_at, last_at)),"
        "  first_user_at = coalesce(first_user_at, excluded.first_user_at),"
        "  last_user_at = coalesce(excluded.last_user_at, last_user_at),"
        "  forked_session = coalesce(excluded.forked_session, forked_session),"
        "  process_session = coalesce(process_session, excluded.process_session)",
        rows,
    )


def recount_file(conn: sqlite3.Connection, session_id: str, file_id: int) -> None:
    """Work out again what a file tells of a session, after lines changed hands."""
    where = " FROM messages WHERE source_file_id = :file AND session_id = :session"
    conn.execute(
        "INSERT INTO _session_files (session_id, source_file_id) VALUES (:session, :file)"
        " ON CONFLICT DO NOTHING",
        {"session": session_id, "file": file_id},
    )
    conn.execute(
        "UPDATE _session_files SET"
        f" main_lines = EXISTS (SELECT 1{where} AND agent_id IS NULL),"
        f" first_cwd = (SELECT cwd{where} AND agent_id IS NULL AND cwd IS NOT NULL"
        "   ORDER BY byte_start LIMIT 1),"
        f" agent_cwd = (SELECT cwd{where} AND agent_id IS NOT NULL AND cwd IS NOT NULL"
        "   ORDER BY byte_start LIMIT 1),"
        f" git_branch = (SELECT git_branch{where} AND git_branch IS NOT NULL"
        "   ORDER BY byte_start DESC LIMIT 1),"
        f" version = (SELECT version{where} AND version IS NOT NULL"
        "   ORDER BY byte_start DESC LIMIT 1),"
        f" first_at = (SELECT min(timestamp){where}), last_at = (SELECT max(timestamp){where})"
        " WHERE session_id = :session AND source_file_id = :file",
        {"session": session_id, "file": file_id},
    )


def refresh(conn: sqlite3.Connection, sessions: Iterable[str]) -> None:
    """Make the rows of sessions anew."""
    found = look(conn, sorted(sessions))
    for session_id, seen in found.items():
        _refresh_one(conn, session_id, seen)


def know_projects(conn: sqlite3.Connection, sessions: Iterable[str]) -> None:
    """Give sessions that have none their project; the rest of their rows is made later."""
    for session_id, seen in look(conn, sorted(sessions), whole=False).items():
        if seen.project_id is None:
            project_id = _project_of(conn, seen)
            conn.execute(
                "INSERT INTO sessions (id, project_id) VALUES (?, ?) ON CONFLICT (id) DO UPDATE"
                " SET project_id = excluded.project_id",
                (session_id, project_id),
            )
            if seen.exists and project_id is not None:
                _move_project(conn, session_id, None)


def _project_of(conn: sqlite3.Connection, seen: Seen) -> int | None:
    cwd = next((part.first_cwd for part in seen.parts if part.first_cwd), None)
    # Where there is no main thread, its agents show at least which project it was.
    path = cwd or next((part.agent_cwd for part in seen.parts if part.agent_cwd), None)
    if path is not None:
        return _project(conn, seen, path, "cwd")
    path, source = _guess_path(conn, [part.file_id for part in seen.parts])
    return _project(conn, seen, path, source) if path else None


def _refresh_one(conn: sqlite3.Connection, session_id: str, seen: Seen) -> None:
    told = seen.parts
    backwards = [part for part in reversed(told) if part.main_lines] or told[::-1]
    project_id = _project_of(conn, seen)
    prompt = _first_prompt(seen)
    values = (
        session_id,
        project_id,
        *_title(seen, prompt),
        next((part.slug for part in backwards if part.slug), None),
        prompt,
        next((part.first_cwd for part in told if part.first_cwd), None),
        next((part.git_branch for part in backwards if part.git_branch), None),
        next((part.version for part in backwards if part.version), None),
        next((part.entrypoint for part in backwards if part.entrypoint), None),
        min((part.first_at for part in told if part.first_at), default=None),
        max((part.last_at for part in told if part.last_at), default=None),
        *relation_of(conn, session_id, seen),
    )
    conn.execute(
        "INSERT INTO sessions (id, project_id, title, title_source, slug, first_prompt, cwd,"
        " git_branch, version, entrypoint, started_at, ended_at, relation, parent_session_id)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
        " project_id = excluded.project_id, title = excluded.title,"
        " title_source = excluded.title_source, slug = excluded.slug,"
        " first_prompt = excluded.first_prompt, cwd = excluded.cwd,"
        " git_branch = excluded.git_branch, version = excluded.version,"
        " entrypoint = excluded.entrypoint, started_at = excluded.started_at,"
        " ended_at = excluded.ended_at, relation = excluded.relation,"
        " parent_session_id = excluded.parent_session_id",
        values,
    )
    if seen.exists and seen.project_id != project_id:
        _move_project(conn, session_id, seen.project_id)


def refresh_file(conn: sqlite3.Connection, file_id: int) -> None:
    """A file has another path: where nothing else tells the project, the folder's name does."""
    found = conn.execute(
        "SELECT session_id FROM _session_files WHERE source_file_id = ?", (file_id,)
    )
    refresh(conn, [session_id for (session_id,) in found])


def _first_prompt(seen: Seen) -> str | None:
    prompts = [prompt for _, prompt in seen.prompts]
    asked = [prompt for prompt in prompts if prompt not in _HOUSEKEEPING]
    return next(iter(asked or prompts), None)


def _title(seen: Seen, prompt: str | None) -> tuple[str | None, str | None]:
    for source in ("custom", "ai"):
        for part in reversed(seen.parts):
            if text := seen.titles.get((part.file_id, source)):
                return text, source
    summary = _summary(seen)
    if summary is not None:
        return summary, "summary"
    return prompt, "prompt" if prompt is not None else None


def _summary(seen: Seen) -> str | None:
    """The summary whose leaf stands last in the session; ties: own file, then smallest text."""
    if not seen.summaries:
        return None
    rank = {part.file_id: n for n, part in enumerate(seen.parts)}
    found = [((rank.get(f, -1), start), own, text) for f, start, own, text in seen.summaries]
    best = max(place for place, _, _ in found)
    return min((not own, text) for place, own, text in found if place == best)[1]


def settle_summaries(conn: sqlite3.Connection, *, everything: bool) -> set[str]:
    """Find the sessions that summaries are of, by the entries they name; says which changed."""
    changed: set[str] = set()
    wanted = "" if everything else "s.leaf_session IS NULL AND"
    for event_id, before, now in conn.execute(
        "SELECT s.event_id, s.leaf_session, coalesce("
        "  (SELECT m.session_id FROM messages m WHERE m.uuid = s.leaf_uuid),"
        "  (SELECT m.session_id FROM message_copies c JOIN messages m ON m.id = c.message_id"
        "   WHERE c.uuid = s.leaf_uuid),"
        "  (SELECT m.session_id FROM _skipped_parents p JOIN messages m ON m.uuid = p.ancestor"
        "   WHERE p.uuid = s.leaf_uuid)) AS now"
        f" FROM _summaries s WHERE {wanted} now IS NOT s.leaf_session"
    ).fetchall():
        conn.execute("UPDATE _summaries SET leaf_session = ? WHERE event_id = ?", (now, event_id))
        changed.update(session for session in (before, now) if session is not None)
    return changed


def _guess_path(conn: sqlite3.Connection, order: list[int]) -> tuple[str | None, str]:
    """The project's path without any cwd: by the folder's index, its siblings or its name."""
    for file_id in order:
        row = conn.execute(
            "SELECT path, root FROM source_files WHERE id = ?", (file_id,)
        ).fetchone()
        if row is None or not row[1]:
            continue
        rest = row[0][len(row[1]) :].lstrip("/")
        folder = rest.partition("/")[0]
        if folder and "/" in rest:
            hint = conn.execute(
                "SELECT value FROM _meta WHERE key = ?", (f"index:{row[1]}/{folder}",)
            ).fetchone()
            if hint:
                return hint[0], "sessions_index"
            for (path,) in conn.execute(
                "SELECT path FROM projects WHERE path_source = 'cwd' ORDER BY path"
            ):
                if folder_name(path) == folder:
                    return path, "dir_name"
            return (folder.replace("-", "/") if folder.startswith("-") else folder), "dir_name"
    return None, "dir_name"


def folder_name(path: str) -> str:
    """The folder that Claude Code keeps a project's transcripts in.

    It counts and hashes UTF-16 units, as JavaScript does.
    """
    units: list[int] = []
    for c in map(ord, path):
        units += [c] if c <= 0xFFFF else [0xD7C0 + (c >> 10), 0xDC00 + (c & 0x3FF)]
    name = "".join(chr(c) if c < 128 and chr(c).isalnum() else "-" for c in units)
    if len(name) <= MAX_FOLDER_NAME:
        return name
    hashed = 0
    for c in units:
        hashed = (hashed * 31 + c) & 0xFFFFFFFF
    number = abs(hashed - (1 << 32) if hashed >> 31 else hashed)
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return f"{name[:MAX_FOLDER_NAME]}-{digits}"


_SOURCES = ("dir_name", "sessions_index", "cwd")  # how a path is known, the surest last


def _project(conn: sqlite3.Connection, seen: Seen, path: str, source: str) -> int:
    repo = _repo_path(seen, path)
    row = conn.execute(
        "SELECT id, repo_path, name, path_source FROM projects WHERE path = ?", (path,)
    ).fetchone()
    if row is None:
        cursor = conn.execute(
            "INSERT INTO projects (path, name, repo_path, path_source) VALUES (?, ?, ?, ?)",
            (path, _name(repo), repo, source),
        )
        if source == "cwd":
            _guess_again(conn, folder_name(path))
        return int(cursor.lastrowid or 0)
    # Sessions may differ: what counts is the same whichever of them comes first.
    repo = min({repo, row[1]} - {path}, default=path)
    source = max(source, row[3], key=_SOURCES.index)
    if (repo, source) != (row[1], row[3]):
        conn.execute(
            "UPDATE projects SET repo_path = ?, name = ?, path_source = ? WHERE id = ?",
            (repo, _name(repo), source, row[0]),
        )
        if source == "cwd" != row[3]:
            _guess_again(conn, folder_name(path))
    return int(row[0])


def _name(repo: str) -> str:
    return re.split(r"[/\\]", repo.rstrip("/\\"))[-1] or repo


def _guess_again(conn: sqlite3.Connection, folder: str) -> None:
    """A path has become known: it is that of sessions guessed from the folder's name."""
    found = conn.execute(
        "SELECT s.id FROM projects p CROSS JOIN sessions s ON s.project_id = p.id"
        " CROSS JOIN source_files f ON f.session_id = s.id"
        " WHERE p.path_source = 'dir_name' AND instr(f.path, '/' || ? || '/')",
        (folder,),
    ).fetchall()
    refresh(conn, {session_id for (session_id,) in found})


def _repo_path(seen: Seen, path: str) -> str:
    if match := _WORKTREE.match(path):
        return match[1] or path
    originals: set[str] = set()
    for data in seen.worktrees:
        state = orjson.loads(data).get("worktreeSession")
        if isinstance(state, dict) and state.get("worktreePath") in (None, path):
            keys = ("originalCwd", "originalPath", "originalRepoPath")
            said = (state[key] for key in keys if isinstance(state.get(key), str) and state[key])
            originals.update(islice(said, 1))
    return min(originals, default=path)


def locate_files(conn: sqlite3.Connection, session_id: str) -> None:
    """Write project and relative path of a session's files."""
    project = project_of(conn, session_id)
    rewrite_snapshots(conn, session_id, project)
    conn.executemany(
        "UPDATE files_touched SET project_id = ?, relative_path = ? WHERE id = ?",
        [
            (*located(path, project), row_id)
            for row_id, path in conn.execute(
                "SELECT id, path FROM files_touched WHERE session_id = ?", (session_id,)
            ).fetchall()
        ],
    )


def _move_project(conn: sqlite3.Connection, session_id: str, before: int | None) -> None:
    """A session has another project: its files with it, and the old one goes if it was the last."""
    locate_files(conn, session_id)
    conn.execute(
        "DELETE FROM projects WHERE id = ? AND NOT EXISTS"
        " (SELECT 1 FROM sessions WHERE project_id = projects.id)",
        (before,),
    )
    guessed = conn.execute(
        "UPDATE projects SET path_source = 'dir_name' WHERE id = ? AND path_source = 'cwd'"
        " AND NOT EXISTS (SELECT 1 FROM sessions s JOIN _session_files f ON f.session_id = s.id"
        "  WHERE s.project_id = projects.id AND projects.path IN (f.first_cwd, f.agent_cwd))",
        (before,),
    ).rowcount
    if guessed:  # by nobody's word but the folder's name any more
        found = conn.execute("SELECT id FROM sessions WHERE project_id = ?", (before,)).fetchall()
        refresh(conn, [other for (other,) in found])
