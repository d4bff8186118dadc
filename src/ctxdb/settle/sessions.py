"""Sessions and projects, derived from what their files and lines say.

Nothing here is counted up: a session's row is worked out from a handful of indexed look-ups each
time a batch touches it, so it is the same in whatever order the files were read.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable
from functools import cache

from ctxdb.claude.stored_data import worktree_origin
from ctxdb.columns import columns, insert_sql, values_of
from ctxdb.elsewhere import name_elsewhere
from ctxdb.rows import Session
from ctxdb.rules.automation import is_automated
from ctxdb.rules.paths import located
from ctxdb.rules.worktrees import repository
from ctxdb.settle.relations import relation_of
from ctxdb.settle.session_facts import SessionFacts, project_of, read_facts
from ctxdb.settle.session_titles import first_prompt, title_of
from ctxdb.settle.snapshots import rewrite_snapshots
from ctxdb.store.changes import stamp
from ctxdb.store.lookup import first_column, look_up

MAX_FOLDER_NAME = 200  # a longer one is cut, with a hash of the path behind it


_UPSERT = f"{insert_sql(Session)} ON CONFLICT (id) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in columns(Session) if name != "id"
)


def refresh(conn: sqlite3.Connection, sessions: Iterable[str]) -> set[str]:
    """Derive the rows of sessions again; return those with another project, slug or start."""
    names = sorted(sessions)
    stamp(conn, names)
    return {
        session_id
        for session_id, seen in read_facts(conn, names).items()
        if _refresh_one(conn, session_id, seen)
    }


def know_projects(conn: sqlite3.Connection, sessions: Iterable[str]) -> set[str]:
    """Give sessions that have none their project, and return them.

    The rest of their rows is made later.
    """
    placed: set[str] = set()
    for session_id, seen in read_facts(conn, sorted(sessions), whole=False).items():
        if seen.project_id is None:
            project_id = _project_of(conn, seen)
            if project_id is not None:
                placed.add(session_id)
            conn.execute(
                "INSERT INTO sessions (id, project_id) VALUES (?, ?) ON CONFLICT (id) DO UPDATE"
                " SET project_id = excluded.project_id",
                (session_id, project_id),
            )
            if seen.exists and project_id is not None:
                _move_project(conn, session_id, None)
    return placed


def _project_of(conn: sqlite3.Connection, seen: SessionFacts) -> int | None:
    cwd = next((file.first_cwd for file in seen.files if file.first_cwd), None)
    # Where there is no main thread, its agents show at least which project it was.
    path = cwd or next((file.agent_cwd for file in seen.files if file.agent_cwd), None)
    if path is not None:
        return _project(conn, seen, path, "cwd")
    path, source = _guess_path(conn, [file.source_file_id for file in seen.files])
    return _project(conn, seen, path, source) if path else None


def _refresh_one(conn: sqlite3.Connection, session_id: str, seen: SessionFacts) -> bool:
    """Derive one row again; return whether its project, slug or start has changed."""
    files = seen.files
    backwards = [file for file in reversed(files) if file.main_lines] or files[::-1]
    prompt = first_prompt(seen)
    title, title_source = title_of(conn, session_id, seen, prompt)
    cwd = next((file.first_cwd for file in files if file.first_cwd), None)
    entrypoint = next((file.entrypoint for file in backwards if file.entrypoint), None)
    relation, parent = relation_of(conn, session_id, seen)
    session = Session(
        id=session_id,
        project_id=_project_of(conn, seen),
        title=title,
        title_source=title_source,
        slug=next((file.slug for file in backwards if file.slug), None),
        first_prompt=None if prompt is None else prompt.text,
        cwd=cwd,
        git_branch=next((file.git_branch for file in backwards if file.git_branch), None),
        version=next((file.version for file in backwards if file.version), None),
        entrypoint=entrypoint,
        is_automated=is_automated(entrypoint, cwd, seen.turn_kinds),
        started_at=min((file.first_at for file in files if file.first_at), default=None),
        ended_at=max((file.last_at for file in files if file.last_at), default=None),
        parent_session_id=parent,
        relation=relation,
        names="\n".join(sorted(seen.names - {""})) or None,
    )
    conn.execute(_UPSERT, values_of(Session)(session))
    if seen.exists and seen.project_id != session.project_id:
        _move_project(conn, session_id, seen.project_id)
    before = (seen.project_id, seen.slug, seen.started_at)
    return before != (session.project_id, session.slug, session.started_at)


def refresh_file(conn: sqlite3.Connection, file_id: int) -> None:
    """A file has another path: where nothing else tells the project, the folder's name does."""
    found = conn.execute(
        "SELECT session_id FROM _session_files WHERE source_file_id = ?", (file_id,)
    )
    refresh(conn, [session_id for (session_id,) in found])


_LEAF = (
    "SELECT s.event_id, s.leaf_session, coalesce("
    "  (SELECT m.session_id FROM messages m WHERE m.uuid = s.leaf_uuid),"
    "  (SELECT m.session_id FROM message_copies c JOIN messages m ON m.id = c.message_id"
    "   WHERE c.uuid = s.leaf_uuid),"
    # A line that is no message: the nearest message above it (rules/parent_chain.py).
    "  (WITH RECURSIVE above(uuid, steps) AS ("
    "    SELECT p.ancestor, 1 FROM _skipped_parents p WHERE p.uuid = s.leaf_uuid"
    "    UNION SELECT p.ancestor, a.steps + 1 FROM above a JOIN _skipped_parents p"
    "     ON p.uuid = a.uuid WHERE a.steps < 10000"  # a loop in damaged data must end
    "      AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.uuid = a.uuid)"
    "      AND NOT EXISTS (SELECT 1 FROM message_copies c WHERE c.uuid = a.uuid))"
    "   SELECT coalesce("
    "     (SELECT m.session_id FROM messages m WHERE m.uuid = a.uuid),"
    "     (SELECT m.session_id FROM message_copies c JOIN messages m ON m.id = c.message_id"
    "      WHERE c.uuid = a.uuid))"
    "   FROM above a ORDER BY a.steps DESC LIMIT 1)) AS now FROM"
)
_ALL = f"{_LEAF} _summaries s WHERE now IS NOT s.leaf_session"
_UNKNOWN = f"{_LEAF} _summaries s WHERE s.leaf_session IS NULL AND now IS NOT NULL"
_NAMED = (
    f"{_LEAF} j CROSS JOIN _summaries s ON s.leaf_uuid = j.value"
    " WHERE s.leaf_session IS NULL AND now IS NOT NULL"
)
_BELOW = (
    ", below(uuid) AS (SELECT value FROM j UNION SELECT p.uuid FROM below b"
    "  CROSS JOIN _skipped_parents p ON p.ancestor = b.uuid) SELECT uuid FROM below"
)


def settle_summaries(
    conn: sqlite3.Connection, *, everything: bool, came: Collection[str] | None = None
) -> None:
    """Find the sessions that summaries are of, by the entries they name.

    Without `everything`, only of summaries whose session is not known yet. If it is known which
    uuids have `come` since the last time, only of summaries that may name one of these.
    """
    changed: set[str] = set()
    if everything or came is None:
        found = conn.execute(_ALL if everything else _UNKNOWN).fetchall()
    else:
        named = set(first_column(look_up(conn, came, _BELOW)))
        found = list(look_up(conn, named, _NAMED))
    for event_id, before, now in found:
        conn.execute("UPDATE _summaries SET leaf_session = ? WHERE event_id = ?", (now, event_id))
        changed.update(session for session in (before, now) if session is not None)
    if changed:
        refresh(conn, changed)


def _guess_path(conn: sqlite3.Connection, order: list[int]) -> tuple[str | None, str]:
    """The project's path without any cwd: by the folder's index, its siblings or its name."""
    for file_id in order:
        row = conn.execute(
            "SELECT f.machine, f.path, b.root FROM source_files f JOIN _file_marks b"
            " ON b.source_file_id = f.id WHERE f.id = ?",
            (file_id,),
        ).fetchone()
        machine, path, root = row or ("", "", None)
        if not root:
            continue
        file_path = name_elsewhere(machine, path)
        below = file_path[len(root) :].lstrip("/")
        folder = below.partition("/")[0]
        if folder and "/" in below:
            hint = conn.execute(
                "SELECT value FROM _meta WHERE key = ?", (f"index:{root}/{folder}",)
            ).fetchone()
            if hint is not None:
                (path,) = hint
                return path, "sessions_index"
            for (path,) in conn.execute(
                "SELECT path FROM projects WHERE path_source = 'cwd' ORDER BY path"
            ):
                if folder_name(path) == folder:
                    return path, "dir_name"
            return (folder.replace("-", "/") if folder.startswith("-") else folder), "dir_name"
    return None, "dir_name"


@cache  # asked of all projects for each file that names no folder
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


def _project(conn: sqlite3.Connection, seen: SessionFacts, path: str, source: str) -> int:
    repo = _repo_path(seen, path)
    row = conn.execute(
        "SELECT id, repo_path, path_source FROM projects WHERE path = ?", (path,)
    ).fetchone()
    if row is None:
        cursor = conn.execute(
            "INSERT INTO projects (path, name, repo_path, path_source) VALUES (?, ?, ?, ?)",
            (path, project_name(repo), repo, source),
        )
        if source == "cwd":
            _guess_again(conn, folder_name(path))
        return int(cursor.lastrowid or 0)
    project_id, known_repo, known_source = row
    # Sessions may differ: the result is the same in whatever order they come.
    repo = min({repo, known_repo} - {path}, default=path)
    source = max(source, known_source, key=_SOURCES.index)
    if (repo, source) != (known_repo, known_source):
        conn.execute(
            "UPDATE projects SET repo_path = ?, name = ?, path_source = ? WHERE id = ?",
            (repo, project_name(repo), source, project_id),
        )
        _stamp_project(conn, project_id)
        if source == "cwd" != known_source:
            _guess_again(conn, folder_name(path))
    return int(project_id)


def _stamp_project(conn: sqlite3.Connection, project_id: int) -> None:
    """Sessions are known by the name of their project too."""
    found = conn.execute("SELECT id FROM sessions WHERE project_id = ?", (project_id,))
    stamp(conn, [session_id for (session_id,) in found.fetchall()])


def project_name(repo: str) -> str:
    """The last folder of a repository's path."""
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


def _repo_path(seen: SessionFacts, path: str) -> str:
    origins = (worktree_origin(data, path) for data in seen.worktrees)
    return repository(path, (origin for origin in origins if origin is not None))


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
    leave_project(conn, before)


def leave_project(conn: sqlite3.Connection, before: int | None) -> None:
    """A project has lost a session: it goes with the last one, or is only guessed from now on."""
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
    if guessed:  # now only the folder's name says so
        found = conn.execute("SELECT id FROM sessions WHERE project_id = ?", (before,)).fetchall()
        refresh(conn, [other for (other,) in found])
