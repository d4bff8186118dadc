"""Reads the files beside the transcripts: todos/, tasks/, plans/, history.jsonl, saved outputs.

Sync, first sync, daemon and verify call one function each. A file that looks as it did costs one
stat. What is wrong with a file is written down beside it and shown by `status`; it stops nothing.
Nothing else in these folders is opened: not settings, credentials, caches, shell snapshots, locks.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import orjson

from ctxdb.claude.side_contents import (
    FOLDER,
    FOLDERS,
    HISTORY,
    HISTORY_NAME,
    PLAN,
    NotTodos,
    SideRole,
    is_side_name,
    iso_of_ms,
    read_items,
    role_of,
)
from ctxdb.errors import is_of_the_machine
from ctxdb.files.identity import pread
from ctxdb.files.walk import Scan, covers, numbers_of, pack, scan, text_of
from ctxdb.ingest.gate import Folders, patterns_of
from ctxdb.ingest.history_file import read_history
from ctxdb.ingest.masked_line import Reading
from ctxdb.ingest.saved_output_files import read_outputs
from ctxdb.privacy.json_bytes import mask_json
from ctxdb.rules.ignoring import Ignore
from ctxdb.settle.history import begin_matching, match_texts
from ctxdb.settle.plans import refresh_plans
from ctxdb.settle.saved_outputs import waiting_outputs
from ctxdb.settle.todos import refresh_todos
from ctxdb.store.connection import write_transaction
from ctxdb.store.side_files import (
    find_side_file,
    load_side_problems,
    load_side_stats,
    note_missing_side_files,
    note_stat,
    save_side_file,
)
from ctxdb.store.tombstones import SESSION, SLUG, Tombstones

if TYPE_CHECKING:
    from ctxdb.archive.opening import ArchiveOpener
    from ctxdb.archive.read import Generation
    from ctxdb.files.walk import KnownStats
    from ctxdb.privacy.masking import Masker
    from ctxdb.side_rows import SideFile

_BEGAN_IN = (
    "SELECT cwd FROM sessions WHERE id = ?1 AND cwd IS NOT NULL"
    " UNION SELECT cwd FROM sessions WHERE slug = ?2 AND cwd IS NOT NULL"
)
MAX_FILE_BYTES = 4 << 20  # of to-dos or a plan; real ones have a few kB


@dataclass(slots=True)
class SideReport:
    """What was done."""

    read: int = 0  # files
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Changed:
    """What must be worked out again."""

    sessions: set[str] = field(default_factory=set)
    slugs: set[str] = field(default_factory=set)
    texts: set[int] = field(default_factory=set)


class _Unreadable(NamedTuple):
    """A link, a FIFO, a folder that cannot be listed."""

    path: str
    role: SideRole
    problem: str


class _Found:
    """What differs from what is known."""

    def __init__(self, conn: sqlite3.Connection, claude_dirs: Sequence[str]) -> None:
        self.read: list[tuple[str, SideRole]] = []
        self.bad: list[_Unreadable] = []
        known = load_side_stats(conn)
        tops = [(top, name) for top in claude_dirs for name in FOLDERS]
        found = scan([os.path.join(*top) for top in tops], is_side_name, known)
        self.gone = [text_of(path) for path in known if covers(found, path)]
        self._sort(found, claude_dirs)
        self._leave_out(conn)
        for top in claude_dirs:
            self._look_at_history(os.path.join(top, HISTORY_NAME), known)
        if self.bad:  # what is known to be wrong is not told again
            told = load_side_problems(conn)
            self.bad = [one for one in self.bad if told.get(text_of(one.path)) != one.problem]

    @property
    def is_empty(self) -> bool:
        return not (self.read or self.bad or self.gone)

    def _sort(self, found: Scan, claude_dirs: Sequence[str]) -> None:
        tops = {os.path.join(top, name): top for top in claude_dirs for name in FOLDERS}
        for file in found.files:
            role = role_of(file.path, tops[file.root])
            if role is not None:
                self.read.append((file.path, role))
        for path, why in found.ignored:
            top = next((top for inner, top in tops.items() if path.startswith(inner)), "")
            role = role_of(path, top)
            if role is not None:
                self.bad.append(_Unreadable(path, role, f"not read: {why}"))
        self.bad += [
            _Unreadable(path, SideRole(FOLDER), why.lower()) for path, why in found.unreadable
        ]

    def _leave_out(self, conn: sqlite3.Connection) -> None:
        """Leave out what belongs to forgotten sessions and ignored projects."""
        tombstones = Tombstones(conn)
        folders = Folders(Ignore(patterns_of(conn)), tombstones)

        def is_kept_out(role: SideRole) -> bool:
            kept_out = tombstones.keeps_out
            if kept_out(SESSION, role.session_id) or kept_out(SLUG, role.slug):
                return True
            # It may have been ignored after the session was stored.
            began_in = conn.execute(_BEGAN_IN, (role.session_id, role.slug)).fetchall()
            return any(folders.are_ignored(cwd) for (cwd,) in began_in)

        self.read = [(path, role) for path, role in self.read if not is_kept_out(role)]
        self.bad = [one for one in self.bad if not is_kept_out(one.role)]

    def _look_at_history(self, path: str, known: KnownStats) -> None:
        try:
            info = os.lstat(path)
        except FileNotFoundError:
            if path in known:
                self.gone.append(text_of(path))
            return
        except OSError as e:
            why = (e.strerror or str(e)).lower()
            self.bad.append(_Unreadable(path, SideRole(HISTORY), why))
            return
        if known.get(path) != pack(numbers_of(info)):
            self.read.append((path, SideRole(HISTORY)))


def read_side_files(
    conn: sqlite3.Connection, claude_dirs: Sequence[str], now: str, reading: Reading
) -> SideReport:
    """Bring the database up to date with the files beside the transcripts."""
    report = SideReport()
    found = _Found(conn, claude_dirs)
    outputs = waiting_outputs(conn)
    if not found.is_empty:
        with write_transaction(conn):
            changed = _Changed()
            for path, role in found.read:
                _read_apart(conn, path, role, now, changed, report, reading)
            for unreadable in found.bad:
                _note_problem(conn, unreadable, now, report)
            note_missing_side_files(conn, found.gone)
            _settle(conn, changed)
    if outputs:
        with write_transaction(conn):
            report.read += read_outputs(conn, outputs, now, report.problems, reading)
    return report


def read_archived_side_files(
    conn: sqlite3.Connection,
    archived: Sequence[tuple[Sequence[Generation], SideRole]],
    opener: ArchiveOpener,
    now: str,
    reading: Reading,
) -> SideReport:
    """Read files whose sources are gone: all generations of each, the oldest first."""
    report = SideReport()
    if archived:
        with write_transaction(conn):
            changed = _Changed()
            for files, role in archived:
                for file in files:
                    opener.chosen = {file.open_path: file}
                    _read_apart(conn, file.open_path, role, now, changed, report, reading)
            opener.chosen = {}
            note_missing_side_files(conn, [file.path for files, _ in archived for file in files])
            _settle(conn, changed)
    return report


def _read_apart(
    conn: sqlite3.Connection,
    path: str,
    role: SideRole,
    now: str,
    changed: _Changed,
    report: SideReport,
    reading: Reading,
) -> None:
    """Read one file, so that whatever is wrong with it leaves the others alone."""
    conn.execute("SAVEPOINT side_file")
    try:
        _read_file(conn, path, role, now, changed, report, reading)
    except Exception as e:
        if is_of_the_machine(e) or isinstance(e, MemoryError):
            raise
        conn.execute("ROLLBACK TO side_file")
        # Its kind, not its words: they may quote the file.
        problem = f"cannot be stored ({type(e).__name__})"
        _note_problem(conn, _Unreadable(path, role, problem), now, report)
    conn.execute("RELEASE side_file")


def _read_file(
    conn: sqlite3.Connection,
    path: str,
    role: SideRole,
    now: str,
    changed: _Changed,
    report: SideReport,
    reading: Reading,
) -> None:
    """Read one file into its row. Whatever is wrong with it is noted there."""
    file = find_side_file(conn, path)
    file.kind, file.session_id, file.agent_id, file.slug = role
    file.problem, file.state, file.read_at = None, "ok", now
    save_side_file(conn, file)  # history needs its id
    try:
        fd = reading.opener(path)
    except FileNotFoundError:
        file.state = "missing"
        save_side_file(conn, file)
        return
    except OSError as e:
        _give_up(file, e)
    else:
        try:
            info = os.fstat(fd)
            _read_contents(conn, fd, info, file, changed, reading)
            note_stat(file, info)
        except OSError as e:
            _give_up(file, e)
        finally:
            os.close(fd)
    report.read += file.problem is None
    if file.problem is not None:
        report.problems.append(f"{file.path}: {file.problem}")
    save_side_file(conn, file)


def _read_contents(
    conn: sqlite3.Connection,
    fd: int,
    info: os.stat_result,
    file: SideFile,
    changed: _Changed,
    reading: Reading,
) -> None:
    if file.kind == HISTORY:
        changed.texts |= read_history(conn, fd, file, reading)
        return
    if info.st_size > MAX_FILE_BYTES:
        _refuse(file, f"larger than {MAX_FILE_BYTES >> 20} MB")
        return
    try:
        data = reading.marked(file.path_bytes or file.path, pread(fd, MAX_FILE_BYTES, 0))
        content = content_of(file.kind, data, reading.masker)
    except NotTodos as e:
        _refuse(file, str(e))
        return
    at = iso_of_ms(info.st_mtime_ns // 1_000_000)
    if (file.content, file.at) != (content, at):
        file.content, file.at = content, at
        if file.session_id is not None:
            changed.sessions.add(file.session_id)
        if file.slug is not None:
            changed.slugs.add(file.slug)


def content_of(kind: str, data: bytes, masker: Masker | None) -> str:
    """What is kept of a file, with its secrets masked. Raises NotTodos."""
    if kind == PLAN:
        text = data.decode("utf-8", "replace").replace("\0", "\u2400")
        return text if masker is None else masker.mask(text)
    items = orjson.dumps([list(item) for item in read_items(kind, data)]).decode()
    return items if masker is None else mask_json(items, masker)


def _refuse(file: SideFile, why: str) -> None:
    """What was read of it before stays."""
    file.state, file.problem = "unreadable", why


def _give_up(file: SideFile, error: OSError) -> None:
    """It could not be read: the next pass tries again."""
    _refuse(file, (error.strerror or str(error)).lower())
    file.stat = None


def _note_problem(
    conn: sqlite3.Connection, found: _Unreadable, now: str, report: SideReport
) -> None:
    report.problems.append(f"{text_of(found.path)}: {found.problem}")
    file = find_side_file(conn, found.path)
    file.kind, file.session_id, file.agent_id, file.slug = found.role
    file.state, file.problem, file.read_at, file.stat = "unreadable", found.problem, now, None
    save_side_file(conn, file)


def _settle(conn: sqlite3.Connection, changed: _Changed) -> None:
    if changed.sessions:
        refresh_todos(conn, changed.sessions)
    if changed.slugs:
        refresh_plans(conn, (), changed.slugs)
    if changed.texts:
        if conn.execute("SELECT 1 FROM _turn_texts LIMIT 1").fetchone() is None:
            begin_matching(conn)
        match_texts(conn, changed.texts)
