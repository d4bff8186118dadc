"""Copies the sessions of which the other database has rows but no bytes, as `rebuild` does."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ctxdb.archive.read import generations
from ctxdb.claude.side_contents import HISTORY
from ctxdb.elsewhere import name_elsewhere
from ctxdb.files.walk import store_path
from ctxdb.forget.delete_rows import delete_rows, forget_names, name_what_goes
from ctxdb.ingest.gate import Folders, patterns_of
from ctxdb.merge.machines import Machines
from ctxdb.merge.other import Other
from ctxdb.rebuild.carry import carry_sessions
from ctxdb.rebuild.lost import has_lost_lines, sessions_without_files
from ctxdb.rows import SourceFile
from ctxdb.rules.ignoring import Ignore
from ctxdb.side_rows import HistoryLine, SideFile
from ctxdb.store.changes import stamp
from ctxdb.store.connection import write_transaction
from ctxdb.store.insert import insert, last_id, load
from ctxdb.store.side_files import find_side_file, save_side_file
from ctxdb.store.tombstones import SESSION, SLUG, Tombstones
from ctxdb.store.version import MEANINGS
from ctxdb.verify.reach import Node, Reach, all_but

_FILES = (
    'SELECT f.id, f.machine, f.path, f."offset", b.generation FROM source_files f'
    ' JOIN _file_marks b ON b.source_file_id = f.id WHERE f."offset" > 0'
)
_TYPED = "SELECT timestamp, project_path, session_id, prompt FROM history"


@dataclass(slots=True)
class RowsOnly:
    """What was copied as rows."""

    sessions: int = 0
    again: int = 0  # sessions that were copied before and have grown
    left: list[str] = field(default_factory=list)  # grown, and linked with others: not copied again
    history: int = 0
    side_files: int = 0

    @property
    def are_any(self) -> bool:
        """Whether anything was copied."""
        return bool(self.sessions or self.again or self.history or self.side_files)


class RowCopier:
    """Copies rows of the other database."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        other: Other,
        machines: Machines,
        damaged: dict[str, int],
    ) -> None:
        self.conn = conn
        self.other = other
        self.machines = machines
        self.tombstones = Tombstones(conn)
        self.folders = Folders(Ignore(patterns_of(conn)), self.tombstones)
        self.sizes: dict[str, int] = {}  # bytes that the other archive has, by name there
        self.generations: dict[str, int] = {}
        for file in generations(other.archive) if other.archive is not None else ():
            size = damaged.get(file.path, file.size)
            self.sizes[file.path] = max(size, self.sizes.get(file.path, 0))
            self.generations[file.path] = self.generations.get(file.path, 0) + 1

    def find_sessions(self) -> set[str]:
        """Sessions that cannot be read from bytes, with all that are linked to them."""
        left = self._left.sessions
        return {
            session_id
            for session_id, cwd in self.other.conn.execute("SELECT id, cwd FROM sessions")
            if session_id not in left
            and not self.tombstones.keeps_out(SESSION, session_id)
            and not (cwd is not None and self.folders.are_ignored(cwd))
        }

    def _find_files(self) -> set[int]:
        """Files that have entries of no session alone, and that cannot be read from bytes."""
        return {
            file_id
            for file_id, path in self.other.conn.execute(
                "SELECT id, path FROM source_files f WHERE session_id IS NULL AND NOT EXISTS"
                " (SELECT 1 FROM _session_files l WHERE l.source_file_id = f.id)"
            )
            if file_id not in self._left.files
            and not self.folders.may_be_ignored(Path(path).parent.name)
        }

    @cached_property
    def _left(self) -> Reach:
        """What the other database has that can be read from bytes."""
        there = self.other.conn
        lost: set[Node] = set(sessions_without_files(there, self.conn))
        for file_id, machine, path, offset, rewritten in there.execute(_FILES):
            name = name_elsewhere(machine, path)
            is_short = self.sizes.get(name, 0) < offset
            lacks_older = rewritten and rewritten >= self.generations.get(name, 0)
            if is_short or (lacks_older and has_lost_lines(there, file_id)):
                lost.add(("file", file_id))
        return all_but(there, lost)

    def copy_sessions(self, sessions: set[str], now: str) -> RowsOnly:
        """Copy sessions that are not here, and those that have grown since they were copied."""
        done = RowsOnly()
        present = {found for (found,) in self.conn.execute("SELECT id FROM sessions")}
        grown, done.left = self._grown(sessions & present)
        with write_transaction(self.conn):
            if grown:
                self._remove(grown)
            done.again = len(grown)
            wanted = (sessions - present) | grown
            copied = carry_sessions(
                wanted, self.other.conn, self.conn, self.machines.of, self._find_files()
            )
            done.sessions = copied.sessions - done.again
            self.conn.executemany(
                "INSERT OR REPLACE INTO _carried_sessions VALUES (?, ?, ?)",
                [(one, now, MEANINGS) for one in sorted(wanted)],
            )
        return done

    def _grown(self, sessions: set[str]) -> tuple[set[str], list[str]]:
        """Sessions that were copied as rows and have more lines there by now."""
        copied = {one for (one,) in self.conn.execute("SELECT session_id FROM _carried_sessions")}
        here = {
            (machine, path): offset
            for machine, path, offset in self.conn.execute(
                'SELECT machine, path, "offset" FROM source_files'
            )
        }
        grown: set[str] = set()
        rows = self.other.conn.execute(
            'SELECT l.session_id, f.machine, f.path, f."offset" FROM _session_files l'
            " JOIN source_files f ON f.id = l.source_file_id"
        )
        for session_id, machine, path, offset in rows:
            if session_id in sessions & copied:
                known = here.get((self.machines.of(machine), path), 0)
                if known < offset:
                    grown.add(session_id)
        alone = {one for one in grown if self._is_alone(one)}
        return alone, sorted(grown - alone)

    def _is_alone(self, session_id: str) -> bool:
        """Whether no other session, and no file of another machine, has lines of a session."""
        shared = self.conn.execute(
            "SELECT 1 FROM _session_files o JOIN _session_files l"
            " ON l.source_file_id = o.source_file_id JOIN source_files f ON f.id = o.source_file_id"
            " WHERE o.session_id = ?1 AND (l.session_id <> ?1 OR f.machine <> ?2) LIMIT 1",
            (session_id, self.machines.other),
        )
        return shared.fetchone() is None

    def _remove(self, sessions: set[str]) -> None:
        """Remove the rows of sessions, to copy them again."""
        files = [
            file
            for session_id in sorted(sessions)
            for file in load(
                self.conn,
                SourceFile,
                "WHERE t.id IN (SELECT source_file_id FROM _session_files WHERE session_id = ?)",
                (session_id,),
            )
        ]
        name_what_goes(self.conn, files, [], sessions)
        delete_rows(self.conn)
        self.conn.executemany("DELETE FROM source_files WHERE id = ?", [(one.id,) for one in files])
        forget_names(self.conn)

    def copy_side_files(self, done: RowsOnly) -> None:
        """Copy to-dos, plans and saved outputs that the other archive lacks."""
        with write_transaction(self.conn):
            for file in load(self.other.conn, SideFile, ""):
                if file.kind == HISTORY or file.content is None or file.path in self.sizes:
                    continue
                if self.tombstones.keeps_out(SESSION, file.session_id):
                    continue
                if self.tombstones.keeps_out(SLUG, file.slug):
                    continue
                known = find_side_file(self.conn, self.machines.name(file.path))
                if known.content != file.content:
                    file.id, file.stat, file.state = known.id, None, "missing"
                    file.path, file.path_bytes = store_path(self.machines.name(file.path))
                    save_side_file(self.conn, file)
                    done.side_files += 1

    def copy_history(self, done: RowsOnly) -> None:
        """Copy prompts of history.jsonl that no archived line says."""
        known = set(self.conn.execute(_TYPED))
        missing: list[HistoryLine] = []
        last = last_id(self.conn, HistoryLine)
        for line in load(self.other.conn, HistoryLine, "ORDER BY t.id"):
            said = (line.timestamp, line.project_path, line.session_id, line.prompt)
            path = line.project_path
            if said in known or self.tombstones.keeps_out(SESSION, line.session_id):
                continue
            if path is not None and self.folders.are_ignored(path):
                continue
            last += 1
            line.id, line.turn_id = last, None  # which turn it became is worked out again
            missing.append(line)
        with write_transaction(self.conn):
            insert(self.conn, HistoryLine, missing)
            stamp(self.conn, {line.session_id for line in missing})
        done.history = len(missing)
