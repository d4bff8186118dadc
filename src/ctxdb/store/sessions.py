"""Sessions and projects, made anew from what their files and lines say.

Nothing here is counted up: a session's row is worked out from a handful of indexed look-ups each
time a batch touches it, so it comes out the same whatever order the files were read in.
"""

from __future__ import annotations

import re
import sqlite3
from typing import Any

import orjson

from ctxdb.store.relations import relate
from ctxdb.store.snapshots import project_of, rewrite_snapshots
from ctxdb.store.tools import located
from ctxdb.store.turns import file_order

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
_WORKTREE = re.compile(r"^(.*?)[/\\](?:\.claude[/\\])?\.?worktrees[/\\].+$")


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


def refresh(conn: sqlite3.Connection, session_id: str) -> None:
    """Make a session's row anew."""
    order = file_order(conn, session_id)
    rows = {
        row[0]: row[1:]
        for row in conn.execute(
            "SELECT source_file_id, first_cwd, agent_cwd, git_branch, version, slug, entrypoint,"
            " first_at, last_at, main_lines FROM _session_files WHERE session_id = ?",
            (session_id,),
        )
    }
    told = [rows[file_id] for file_id in order]
    main = [row for row in told if row[8]] or told

    def first(column: int) -> Any:
        return next((row[column] for row in told if row[column]), None)

    def last(column: int) -> Any:
        return next((row[column] for row in reversed(main) if row[column]), None)

    cwd = first(0)
    # Where there is no main thread, its agents show at least which project it was.
    path, source = cwd or first(1), "cwd"
    if path is None:
        path, source = _guess_path(conn, order)
    before = conn.execute("SELECT project_id FROM sessions WHERE id = ?", (session_id,)).fetchone()
    project_id = _project(conn, session_id, path, source) if path else None
    prompt = _first_prompt(conn, session_id)
    title, title_source = _title(conn, session_id, order, prompt)
    conn.execute(
        "INSERT INTO sessions (id, project_id, title, title_source, slug, first_prompt, cwd,"
        " git_branch, version, entrypoint, started_at, ended_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
        " project_id = excluded.project_id, title = excluded.title,"
        " title_source = excluded.title_source, slug = excluded.slug,"
        " first_prompt = excluded.first_prompt, cwd = excluded.cwd,"
        " git_branch = excluded.git_branch, version = excluded.version,"
        " entrypoint = excluded.entrypoint, started_at = excluded.started_at,"
        " ended_at = excluded.ended_at",
        (
            session_id,
            project_id,
            title,
            title_source,
            last(4),
            prompt,
            cwd,
            last(2),
            last(3),
            last(5),
            min((row[6] for row in told if row[6]), default=None),
            max((row[7] for row in told if row[7]), default=None),
        ),
    )
    if before is not None and before[0] != project_id:
        _move_project(conn, session_id, before[0])
    relate(conn, session_id, order)


def refresh_file(conn: sqlite3.Connection, file_id: int) -> None:
    """A file has another path: where nothing else tells the project, the folder's name does."""
    for (session_id,) in conn.execute(
        "SELECT session_id FROM _session_files WHERE source_file_id = ?", (file_id,)
    ).fetchall():
        refresh(conn, session_id)


def _first_prompt(conn: sqlite3.Connection, session_id: str) -> str | None:
    prompts = conn.execute(
        "SELECT prompt FROM turns WHERE session_id = ? ORDER BY ordinal LIMIT 10",
        (session_id,),
    ).fetchall()
    asked = [prompt for (prompt,) in prompts if prompt not in _HOUSEKEEPING]
    return asked[0] if asked else (prompts[0][0] if prompts else None)


def _title(
    conn: sqlite3.Connection, session_id: str, order: list[int], prompt: str | None
) -> tuple[str | None, str | None]:
    for kind, key, source in (
        ("custom-title", "customTitle", "custom"),
        ("ai-title", "aiTitle", "ai"),
    ):
        for file_id in reversed(order):
            row = conn.execute(
                "SELECT json_extract(data, ?) FROM events WHERE session_id = ? AND type = ?"
                " AND source_file_id = ? ORDER BY byte_start DESC LIMIT 1",
                (f"$.{key}", session_id, kind, file_id),
            ).fetchone()
            if row and isinstance(row[0], str) and row[0].strip():
                return row[0], source
    summary = _summary(conn, session_id, order)
    if summary is not None:
        return summary, "summary"
    if prompt is None:
        return None, None
    return prompt, "prompt"


def _summary(conn: sqlite3.Connection, session_id: str, order: list[int]) -> str | None:
    """The summary whose leaf stands last in the session; ties: own file, then smallest text."""
    found = conn.execute(
        "SELECT coalesce(m.source_file_id, o.source_file_id), coalesce(m.byte_start, o.byte_start),"
        "  f.session_id IS :session, s.summary"
        " FROM _summaries s JOIN events e ON e.id = s.event_id"
        " JOIN source_files f ON f.id = e.source_file_id"
        " LEFT JOIN messages m ON m.uuid = s.leaf_uuid"
        " LEFT JOIN message_copies c ON m.id IS NULL AND c.uuid = s.leaf_uuid"
        " LEFT JOIN messages o ON o.id = c.message_id"
        " WHERE s.leaf_session = :session",
        {"session": session_id},
    ).fetchall()
    if not found:
        return None
    rank = {file_id: n for n, file_id in enumerate(order)}
    best = max((rank.get(row[0], -1), row[1]) for row in found)
    last = [row for row in found if (rank.get(row[0], -1), row[1]) == best]
    return str(min(last, key=lambda row: (not row[2], row[3]))[3])


def settle_summaries(conn: sqlite3.Connection, *, everything: bool) -> set[str]:
    """Find the sessions that summaries are of, by the entries they name; says which changed."""
    changed: set[str] = set()
    for event_id, before, now in conn.execute(
        "SELECT s.event_id, s.leaf_session, coalesce("
        "  (SELECT m.session_id FROM messages m WHERE m.uuid = s.leaf_uuid),"
        "  (SELECT m.session_id FROM message_copies c JOIN messages m ON m.id = c.message_id"
        "   WHERE c.uuid = s.leaf_uuid),"
        "  (SELECT m.session_id FROM _skipped_parents p JOIN messages m ON m.uuid = p.ancestor"
        "   WHERE p.uuid = s.leaf_uuid)) AS now"
        " FROM _summaries s WHERE (? OR s.leaf_session IS NULL) AND now IS NOT s.leaf_session",
        (everything,),
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
    """The folder that Claude Code keeps a project's transcripts in."""
    return re.sub("[^a-zA-Z0-9]", "-", path)


def _project(conn: sqlite3.Connection, session_id: str, path: str, source: str) -> int:
    repo = _repo_path(conn, session_id, path)
    name = re.split(r"[/\\]", repo.rstrip("/\\"))[-1] or repo
    row = conn.execute(
        "SELECT id, repo_path, name, path_source FROM projects WHERE path = ?", (path,)
    ).fetchone()
    if row is None:
        cursor = conn.execute(
            "INSERT INTO projects (path, name, repo_path, path_source) VALUES (?, ?, ?, ?)",
            (path, name, repo, source),
        )
        if source == "cwd":
            _guess_again(conn, folder_name(path))
        return int(cursor.lastrowid or 0)
    better = source == "cwd" and row[3] != "cwd"
    if (repo != path and row[1] == path) or better:
        conn.execute(
            "UPDATE projects SET repo_path = ?, name = ?, path_source = ? WHERE id = ?",
            (repo if repo != path else row[1], name, source if better else row[3], row[0]),
        )
    return int(row[0])


def _guess_again(conn: sqlite3.Connection, folder: str) -> None:
    """A path has become known: it is that of sessions guessed from the folder's name."""
    for (session_id,) in conn.execute(
        "SELECT s.id FROM projects p JOIN sessions s ON s.project_id = p.id"
        " JOIN source_files f ON f.session_id = s.id"
        " WHERE p.path_source = 'dir_name' AND instr(f.path, '/' || ? || '/')",
        (folder,),
    ).fetchall():
        refresh(conn, session_id)


def _repo_path(conn: sqlite3.Connection, session_id: str, path: str) -> str:
    match = _WORKTREE.match(path)
    if match and (f"{match[1]}/.worktrees/" in path or f"{match[1]}/.claude/worktrees/" in path):
        return match[1] or path
    for (data,) in conn.execute(
        "SELECT data FROM events WHERE session_id = ? AND type = 'worktree-state' LIMIT 20",
        (session_id,),
    ):
        state = orjson.loads(data).get("worktreeSession")
        if isinstance(state, dict) and state.get("worktreePath") in (None, path):
            for key in ("originalCwd", "originalPath", "originalRepoPath"):
                if isinstance(state.get(key), str) and state[key]:
                    return str(state[key])
    return path


def _locate_files(conn: sqlite3.Connection, session_id: str) -> None:
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
    _locate_files(conn, session_id)
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
        for (other,) in conn.execute(
            "SELECT id FROM sessions WHERE project_id = ?", (before,)
        ).fetchall():
            refresh(conn, other)
