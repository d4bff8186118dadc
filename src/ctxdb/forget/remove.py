"""Removes all rows of some sessions, so that the database is as if they had never been read.

Sessions share entries, so rows of other sessions may depend on the removed ones. All rows of linked
files (linked.py) are removed too, and those files that stay are read again, up to where they were
read before, by the one way in. All of it is one transaction.

A linked file that cannot be read any more keeps its rows. Entries that it has a copy of pass to it
(move.py).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxdb.errors import CtxdbError
from ctxdb.files.identity import Opener, mark_of, open_regular
from ctxdb.files.walk import FoundFile
from ctxdb.forget.delete_rows import (
    delete_rows,
    forget_names,
    name_what_goes,
    orphan_children,
    settle_loose_snapshots,
)
from ctxdb.forget.linked import Linked, linked_with
from ctxdb.forget.move import move_to_kept_files, pass_on, settle_kept_files
from ctxdb.ingest.huge_line import read_again
from ctxdb.ingest.masked_line import SHIPPED, Reading, reading_of, stars_beside
from ctxdb.ingest.plan import Work
from ctxdb.ingest.report import SyncReport
from ctxdb.ingest.run import FileLoop, Policy, start_readers
from ctxdb.ingest.saved_output_files import read_outputs
from ctxdb.rows import SourceFile
from ctxdb.settle.history import match_texts, refresh_history
from ctxdb.settle.plans import refresh_plans
from ctxdb.settle.saved_outputs import waiting_outputs
from ctxdb.settle.sessions import leave_project, project_name, refresh, settle_summaries
from ctxdb.settle.todos import refresh_todos
from ctxdb.store import source_files
from ctxdb.store.changes import note_removed, shared_hash, stamp
from ctxdb.store.connection import path_of, write_transaction
from ctxdb.store.insert import load
from ctxdb.store.lookup import first_column, json_list, look_up
from ctxdb.store.masked_places import load_places
from ctxdb.store.tombstones import LINE, SESSION, SLUG, Tombstones

if TYPE_CHECKING:
    from ctxdb.progress import Progress


class NotWhole(CtxdbError):
    """A file that stays could not be read again: nothing was removed."""


@dataclass(slots=True)
class Removed:
    """What was removed."""

    sessions: int = 0
    messages: int = 0
    tool_uses: int = 0
    files: int = 0  # transcripts
    history: int = 0  # prompts of history.jsonl
    todos: int = 0
    plans: int = 0
    read_again: int = 0  # files of other sessions
    kept: int = 0  # files of other sessions that cannot be read any more
    problems: list[str] = field(default_factory=list)


def remove_sessions(
    conn: sqlite3.Connection,
    sessions: Iterable[str],
    now: str,
    progress: Progress,
    opener: Opener = open_regular,
) -> Removed:
    """Remove these sessions for good, and leave a tombstone for each.

    `opener` opens the transcripts of linked sessions, which are read again.
    """
    doomed = set(sessions)
    removed = Removed(sessions=len(doomed))
    conn.execute("PRAGMA secure_delete = ON")
    with write_transaction(conn):
        _Removal(conn, doomed, now, progress, removed, opener).run()
    return removed


class _Removal:
    """One removal, in the open transaction."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        doomed: set[str],
        now: str,
        progress: Progress,
        removed: Removed,
        opener: Opener,
    ) -> None:
        self.conn = conn
        self.doomed = doomed
        self.now = now
        self.progress = progress
        self.removed = removed
        self.opener = opener
        self.linked: Linked = linked_with(conn, doomed)
        self.own = {
            file_id
            for file_id, session_id in conn.execute("SELECT id, session_id FROM source_files")
            if session_id in doomed
        }
        self.again: dict[int, SourceFile] = {}
        self.kept: set[int] = set()
        for file in [*load(conn, SourceFile, _IDS, (json_list(self.linked.files - self.own),))]:
            if _can_be_read_again(conn, file, opener):
                self.again[file.id] = file
            else:
                self.kept.add(file.id)
        self.passed_over = set(
            look_up(
                conn,
                self.again,
                "SELECT f.path, e.byte_start FROM j CROSS JOIN ingest_errors e"
                " ON e.source_file_id = j.value AND e.reason = 'too_large'"
                " JOIN source_files f ON f.id = e.source_file_id",
            )
        )
        # What was masked in them is masked again, whatever rules there are now.
        self.masked = {file_id: load_places(conn, file_id) for file_id in self.again}
        # Sessions without a line in a file that keeps its rows.
        staying = first_column(
            look_up(
                conn,
                self.kept,
                "SELECT DISTINCT session_id FROM j CROSS JOIN _session_files s"
                " ON s.source_file_id = j.value",
            )
        )
        self.gone = (self.linked.sessions - set(staying)) | doomed
        self.deleted_at = dict(
            look_up(
                conn,
                self.gone - doomed,
                "SELECT id, source_deleted_at FROM j CROSS JOIN sessions s ON s.id = j.value"
                " WHERE source_deleted_at IS NOT NULL",
            )
        )

    def run(self) -> None:
        conn = self.conn
        tombstones = Tombstones(conn)
        self._count()
        texts = self._remove_beside(tombstones)
        self._bury(tombstones)
        doomed = [*load(conn, SourceFile, _IDS, (json_list(self.own),))]
        name_what_goes(conn, doomed, list(self.again.values()), self.gone)
        if self.kept:
            pass_on(conn, self.kept, self.doomed)
            move_to_kept_files(conn, self.kept)
        projects = delete_rows(conn)
        self._remove_files()
        if self.kept:
            settle_kept_files(conn, self.kept, self.now)
        for project in projects:
            self._settle_project(project)
        self._read_again()
        self._finish(texts)

    # -- what is known of them beforehand --------------------------------------------------------

    def _count(self) -> None:
        for name, sql in (
            ("messages", "SELECT count(*) FROM j CROSS JOIN messages m ON m.session_id = j.value"),
            (
                "tool_uses",
                "SELECT count(*) FROM j CROSS JOIN tool_uses t ON t.session_id = j.value",
            ),
            ("todos", "SELECT count(*) FROM j CROSS JOIN todos t ON t.session_id = j.value"),
            ("plans", "SELECT count(*) FROM j CROSS JOIN plans p ON p.session_id = j.value"),
        ):
            (number,) = first_column(look_up(self.conn, self.doomed, sql))
            setattr(self.removed, name, number)
        self.removed.files = len(self.own)
        self.removed.read_again = len(self.again)
        self.removed.kept = len(self.kept)

    def _bury(self, tombstones: Tombstones) -> None:
        for session_id in sorted(self.doomed):
            hashed = tombstones.hash_of(SESSION, session_id)
            (messages, calls, files) = self.conn.execute(
                "SELECT (SELECT count(*) FROM messages WHERE session_id = ?1),"
                " (SELECT count(*) FROM tool_uses WHERE session_id = ?1),"
                " (SELECT count(*) FROM source_files WHERE session_id = ?1)",
                (session_id,),
            ).fetchone()
            self._add_tombstone(hashed, SESSION, hashed, messages, calls, files)
            self.conn.execute(
                "INSERT OR REPLACE INTO _shared_forgotten VALUES (?, ?)",
                (shared_hash(session_id), hashed),
            )

    def _add_tombstone(
        self,
        hashed: bytes,
        kind: str,
        session: bytes,
        messages: int = 0,
        calls: int = 0,
        files: int = 0,
    ) -> None:
        self.conn.execute(
            "INSERT INTO _forgotten VALUES (?, ?, ?, ?, NULL, ?, ?, ?) ON CONFLICT DO UPDATE SET"
            " erased_at = NULL, messages = messages + excluded.messages,"
            " tool_uses = tool_uses + excluded.tool_uses, files = max(files, excluded.files)",
            (hashed, kind, session, self.now, messages, calls, files),
        )

    # -- what is beside the transcripts ----------------------------------------------------------

    def _remove_beside(self, tombstones: Tombstones) -> set[int]:
        """Remove prompts of history.jsonl, to-dos, plans and saved outputs.

        Returns the hashes of the texts that must be matched with turns again.
        """
        conn, names = self.conn, json_list(self.doomed)
        in_them = "IN (SELECT value FROM json_each(?1))"
        texts: set[int] = set()
        for row_id, session_id, of_turn, hashed, text in conn.execute(
            "SELECT h.id, h.session_id, t.session_id, l.line_hash, l.text_hash FROM history h"
            " JOIN _history_lines l ON l.history_id = h.id LEFT JOIN turns t ON t.id = h.turn_id"
            f" WHERE h.session_id {in_them} OR h.session_id IS NULL AND t.session_id {in_them}",
            (names,),
        ).fetchall():
            if session_id is None:  # nothing in the line says that it is of this session
                line = tombstones.hash_of(LINE, str(hashed))
                self._add_tombstone(line, LINE, tombstones.hash_of(SESSION, of_turn))
            texts.add(text)
            conn.execute("DELETE FROM history WHERE id = ?", (row_id,))
            self.removed.history += 1
        for slug, session_id in conn.execute(
            f"SELECT slug, min(session_id) FROM _session_files WHERE session_id {in_them}"
            " AND slug IS NOT NULL AND NOT EXISTS (SELECT 1 FROM _session_files o"
            f"  WHERE o.slug = _session_files.slug AND NOT o.session_id {in_them})"
            " GROUP BY slug",
            (names,),
        ).fetchall():
            hashed = tombstones.hash_of(SLUG, slug)
            self._add_tombstone(hashed, SLUG, tombstones.hash_of(SESSION, session_id))
            conn.execute("DELETE FROM _side_files WHERE slug = ?", (slug,))
            conn.execute("DELETE FROM plans WHERE slug = ? AND source = 'file'", (slug,))
        for table in ("_side_files", "todos", "plans"):
            conn.execute(f"DELETE FROM {table} WHERE session_id {in_them}", (names,))
        return texts

    # -- files ------------------------------------------------------------------------------------

    def _remove_files(self) -> None:
        conn = self.conn
        conn.executemany("DELETE FROM source_files WHERE id = ?", [(one,) for one in self.own])
        for file in self.again.values():
            conn.execute(
                'UPDATE source_files SET "offset" = 0, lines = 0, bad_lines = 0, skipped_lines = 0'
                " WHERE id = ?",
                (file.id,),
            )
            conn.execute(
                "UPDATE _file_marks SET mark = NULL, attempting = NULL, searched = NULL,"
                " searched_mark = NULL WHERE source_file_id = ?",
                (file.id,),
            )
        for key, _ in conn.execute(
            "SELECT key, value FROM _meta WHERE key LIKE 'index:%'"
        ).fetchall():
            folder = key.removeprefix("index:")
            if not conn.execute(
                "SELECT 1 FROM source_files WHERE path >= ? AND path < ? LIMIT 1",
                (f"{folder}/", f"{folder}0"),
            ).fetchone():
                conn.execute("DELETE FROM _meta WHERE key = ?", (key,))

    def _settle_project(self, project: int) -> None:
        """Its name may have come from a session that is gone."""
        conn = self.conn
        leave_project(conn, project)
        row = conn.execute("SELECT path, repo_path FROM projects WHERE id = ?", (project,))
        for path, repo_path in row.fetchall():
            if path != repo_path:
                own = (project_name(path), project)
                conn.execute("UPDATE projects SET repo_path = path, name = ? WHERE id = ?", own)
                left = conn.execute("SELECT id FROM sessions WHERE project_id = ?", (project,))
                refresh(conn, first_column(left))

    # -- files that stay -------------------------------------------------------------------------

    def _read_again(self) -> None:
        """Read the linked files again, as far as they were read before."""
        if not self.again:
            return
        work = []
        known = source_files.load_some(self.conn, [file.name for file in self.again.values()])
        for old in sorted(self.again.values(), key=_reading_order):
            if not old.offset:
                continue
            item = known[old.name]
            path = os.fsdecode(old.path_bytes or old.path)
            found = FoundFile(path, old.root or "", 0, 0, old.offset, 0, 0)
            masked = self.masked.get(old.id, ())
            work.append(Work(item, found, old.offset, limit=old.offset, masked=masked))
        self.progress.start(sum(one.unread for one in work), "Reading linked transcripts")
        policy = Policy(
            start_readers=start_readers,
            read_huge_line=lambda writer, one, fd, offset: read_again(
                writer, one, fd, offset, self.passed_over
            ),
            commits_on_the_way=False,
            commits_at_end=False,
            notes_failures=False,
            tries_each_alone=False,
            opener=self.opener,
        )
        reading = reading_of(self.conn, SHIPPED, stars_beside(path_of(self.conn)))
        loop = FileLoop(self.conn, SyncReport(), self.now, policy, self.progress, reading)
        loop.read(work)
        for old in self.again.values():
            (offset,) = self.conn.execute(
                'SELECT "offset" FROM source_files WHERE id = ?', (old.id,)
            ).fetchone()
            if offset != old.offset:
                why = "could not be read again, so nothing was removed; try again"
                raise NotWhole(f"{old.path}: {why}")
            # How it looked when it was read: its later lines are for the next sync.
            self.conn.execute(
                "UPDATE source_files SET size = ?, state = ?, last_read_at = ?, missing_since = ?"
                " WHERE id = ?",
                (old.size, old.state, old.last_read_at, old.missing_since, old.id),
            )
            self.conn.execute(
                "UPDATE _file_marks SET stat = ?, ino = ? WHERE source_file_id = ?",
                (old.stat, old.ino, old.id),
            )

    def _finish(self, texts: set[int]) -> None:
        """What follows from several sessions, or from files beside them."""
        conn = self.conn
        settle_summaries(conn, everything=True)
        conn.executemany(
            "UPDATE sessions SET source_deleted_at = ? WHERE id = ?",
            [(at, session_id) for session_id, at in self.deleted_at.items()],
        )
        staying = self.linked.sessions - self.doomed
        outputs = waiting_outputs(conn)
        problems = self.removed.problems
        read_outputs(conn, outputs, self.now, problems, Reading(), may_read=False)
        orphan_children(conn)
        settle_loose_snapshots(conn)
        refresh_todos(conn, staying)
        refresh_plans(conn, staying)
        refresh_history(conn, staying)
        match_texts(conn, texts)
        forget_names(conn)
        stamp(conn, [*staying, None])  # None: prompts of history.jsonl that name no session
        note_removed(conn, self.doomed)


_IDS = "WHERE t.id IN (SELECT value FROM json_each(?)) ORDER BY t.path"


def _reading_order(file: SourceFile) -> tuple[bool, str, str]:
    return (file.agent_id is not None, file.path, file.machine)


def _can_be_read_again(conn: sqlite3.Connection, file: SourceFile, opener: Opener) -> bool:
    """Whether the bytes that were read of it are there, and all of its rows come from them."""
    if file.generation and conn.execute(_LOST, (file.id,)).fetchone():
        return False
    if not file.offset:
        return True
    try:
        fd = opener(file.path_bytes or file.path)
    except OSError:
        return False
    try:
        return os.fstat(fd).st_size >= file.offset and mark_of(fd, file.offset) == file.mark
    except OSError:
        return False
    finally:
        os.close(fd)


_LOST = (
    "SELECT 1 FROM messages WHERE source_file_id = ?1 AND byte_length < 0 UNION ALL"
    " SELECT 1 FROM events WHERE source_file_id = ?1 AND byte_length < 0 LIMIT 1"
)
