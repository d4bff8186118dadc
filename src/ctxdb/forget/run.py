"""Forgetting sessions from beginning to end: rows, bytes, and the transcripts if asked for."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxdb.archive.opening import newest_opener
from ctxdb.claude.layout import is_uuid
from ctxdb.claude.sidecars import meta_path
from ctxdb.errors import UsageError
from ctxdb.forget.remove import Removed, remove_sessions
from ctxdb.formatting import counted
from ctxdb.ingest.erase_forgotten import Erasure, erase_forgotten
from ctxdb.store.connection import open_writer, write_transaction
from ctxdb.store.known_backups import backups_with, moved_aside_with
from ctxdb.store.lookup import first_column, look_up
from ctxdb.store.schema import prepare
from ctxdb.store.tombstones import HISTORY_AGAIN, SESSION, Tombstones

if TYPE_CHECKING:
    from ctxdb.progress import Progress

SHORT_ID = 8  # characters of a tombstone's id


@dataclass(slots=True)
class Forgotten:
    """What was done."""

    removed: Removed
    erased: Erasure
    deleted_sources: list[str] = field(default_factory=list)
    backups: list[str] = field(default_factory=list)  # that still hold the sessions
    moved_aside: list[str] = field(default_factory=list)  # by a restore; still hold them
    problems: list[str] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left of them."""
        return self.erased.is_done and not self.problems

    def as_dict(self) -> dict[str, Any]:
        """Return it as data with stable names."""
        removed = asdict(self.removed)
        del removed["problems"]
        return {
            "removed": removed,
            "erased": self.erased.is_done,
            "archived_bytes": self.erased.archived_bytes,
            "waits_for": self.erased.waits_for,
            "deleted_sources": self.deleted_sources,
            "backups": self.backups,
            "moved_aside": self.moved_aside,
            "problems": [*self.removed.problems, *self.erased.problems, *self.problems],
        }

    def lines(self) -> Iterator[str]:
        """Return it as lines of text."""
        done = self.removed
        beside = [
            f"{counted(done.history, 'prompt')} of history.jsonl",
            counted(done.todos, "to-do"),
            counted(done.plans, "plan"),
        ]
        yield (
            f"Forgot {counted(done.sessions, 'session')}: {counted(done.messages, 'message')},"
            f" {counted(done.tool_uses, 'tool call')}, {counted(done.files, 'transcript')},"
            f" {', '.join(beside)}"
        )
        if done.read_again:
            were = "was" if done.read_again == 1 else "were"
            yield (
                f"{counted(done.read_again, 'transcript')} of linked sessions {were} read again."
            )
        for path in self.deleted_sources:
            yield f"deleted {path}"
        for path in self.backups:
            yield f"A backup still holds them: {path}. The next `ctxdb backup` drops them there."
        for path in self.moved_aside:
            yield f"A database that a restore moved aside still holds them: {path}. Delete it."
        yield from (*done.problems, *self.erased.problems, *self.problems)
        if not self.erased.is_done:
            yield "Removed, not yet erased; the next sync finishes it:"
            yield from (f"  {one}" for one in self.erased.waits_for)


def forget(
    db_path: Path,
    sessions: Sequence[str],
    now: str,
    progress: Progress,
    *,
    sources: bool = False,
) -> Forgotten:
    """Forget these sessions. The caller holds the writer lock."""
    with closing(open_writer(db_path)) as conn:
        prepare(conn, db_path)
        files = _files_of(conn, sessions)
        backups = [one.folder for one in backups_with(conn, sessions)]
        with closing(newest_opener(db_path)) as opener:
            removed = remove_sessions(conn, sessions, now, progress, opener)
        done = Forgotten(removed, erase_forgotten(db_path, conn, now, [*sessions, *files]))
        done.backups = backups
        done.moved_aside = moved_aside_with(db_path, sessions)
        if sources:
            _delete_sources(files, sessions, done)
        return done


_FILES = (
    (
        "SELECT coalesce(b.path_bytes, f.path) FROM j CROSS JOIN source_files f"
        " ON f.session_id = j.value JOIN _file_marks b ON b.source_file_id = f.id"
    ),
    "SELECT coalesce(path_bytes, path) FROM j CROSS JOIN _side_files s ON s.session_id = j.value",
    (
        "SELECT coalesce(s.path_bytes, s.path) FROM j CROSS JOIN plans p ON p.session_id = j.value"
        " JOIN _side_files s ON s.slug = p.slug"
    ),
)


def _files_of(conn: sqlite3.Connection, sessions: Sequence[str]) -> list[str]:
    """The paths of all files that belong to these sessions."""
    found: list[str] = []
    for sql in _FILES:
        found += map(os.fsdecode, first_column(look_up(conn, sessions, sql)))
    return list(dict.fromkeys(found))


def sources_of(conn: sqlite3.Connection, sessions: Sequence[str]) -> list[str]:
    """The files of Claude Code that are deleted with these sessions, if that is asked for."""
    files = _files_of(conn, sessions)
    found = [one for path in files for one in (path, meta_path(path)) if os.path.lexists(one)]
    for folder in _folders_of(files, sessions):
        for top, _, names in os.walk(folder):
            found += (os.path.join(top, name) for name in names)
    return list(dict.fromkeys(found))


def _folders_of(files: Sequence[str], sessions: Sequence[str]) -> list[str]:
    """The folders that are named after the sessions."""
    folders: set[str] = set()
    for path in files:
        folder = os.path.dirname(path)
        while os.path.basename(folder):
            if os.path.basename(folder) in sessions:
                folders.add(folder)
            folder = os.path.dirname(folder)
        for session_id in sessions:
            folders.add(os.path.join(os.path.dirname(path), session_id))
    return sorted(folders)


def _delete_sources(files: Sequence[str], sessions: Sequence[str], done: Forgotten) -> None:
    """Delete the files of the sessions, and the folders that are named after them."""
    for path in files:
        for one in (path, meta_path(path)):
            try:
                os.unlink(one)
                done.deleted_sources.append(one)
            except FileNotFoundError:
                continue
            except OSError as e:
                done.problems.append(f"{one}: not deleted: {e.strerror}")
    for folder in _folders_of(files, sessions):
        _delete_folder(folder, done)


def _delete_folder(folder: str, done: Forgotten) -> None:
    """Delete a session's own folder: what is in it is of this session alone."""
    for top, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = os.path.join(top, name)
            try:
                os.unlink(path)
                done.deleted_sources.append(path)
            except OSError as e:
                done.problems.append(f"{path}: not deleted: {e.strerror}")
        with suppress(OSError):
            os.rmdir(top)


# -- tombstones ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Tombstone:
    """A session that was forgotten, as far as that may still be told."""

    id: str
    forgotten_at: str
    erased_at: str | None
    messages: int
    tool_uses: int
    files: int


def list_forgotten(conn: sqlite3.Connection) -> list[Tombstone]:
    """All of them, the latest first."""
    return [
        Tombstone(hashed.hex()[:SHORT_ID], *rest)
        for hashed, *rest in conn.execute(
            "SELECT hash, forgotten_at, erased_at, messages, tool_uses, files FROM _forgotten"
            " WHERE kind = ? ORDER BY forgotten_at DESC, hash",
            (SESSION,),
        )
    ]


def undo(conn: sqlite3.Connection, short_id: str) -> None:
    """Remove a tombstone: the session is read again if its transcript is still there.

    It is named as in the list, or by the id of the session.
    """
    wanted = short_id.strip().lower()
    if is_uuid(wanted):
        wanted = Tombstones(conn).hash_of(SESSION, wanted).hex()
    found = [
        hashed
        for (hashed,) in conn.execute("SELECT hash FROM _forgotten WHERE kind = ?", (SESSION,))
        if wanted and hashed.hex().startswith(wanted)
    ]
    match found:
        case [only]:
            with write_transaction(conn):
                conn.execute("DELETE FROM _forgotten WHERE session = ?", (only,))
                conn.execute("DELETE FROM _kept_out WHERE kind = 'file'")  # found out again
                conn.execute(HISTORY_AGAIN)
        case []:
            raise UsageError(f"no forgotten session {short_id!r}; see: ctxdb forget --list")
        case _:
            raise UsageError(f"{short_id!r} fits {len(found)} forgotten sessions; give more of it")
