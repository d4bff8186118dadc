"""Events: every entry outside the thread, known by its file's session and its bytes.

The same line can stand in a file many times over (titles and modes are re-appended), so the third
part of its identity is how many equal lines came before it. A rewritten or copied file then doubles
nothing.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import orjson

from ctxdb.normalize import Event
from ctxdb.store import agents
from ctxdb.store.model import Chunk, SourceFile, Touched
from ctxdb.store.tools import is_relative


class EventRows:
    """The events of one batch."""

    def __init__(self, conn: sqlite3.Connection, touched: Touched) -> None:
        self.conn = conn
        self.touched = touched
        self.new: list[tuple[Event, SourceFile, int, int]] = []  # event, file, nth, id
        self.copies: list[tuple[int, int, int, int]] = []
        self.moved: list[tuple[int, int, int]] = []
        self.places: set[tuple[str, int]] = set()  # sessions that events name, and where
        self.ids: dict[int, int] = {}  # id() of a stored event -> its row

    def place(self, chunks: list[Chunk]) -> None:
        """Decide which events are new and which stand elsewhere already."""
        batch = [(r, c) for c in chunks for r in c.records if type(r) is Event]
        if not batch:
            return
        stored = self._stored({event.line_hash for event, _ in batch})
        (last,) = self.conn.execute("SELECT max(id) FROM events").fetchone()
        next_id = (last or 0) + 1
        counted: dict[tuple[int, int], int] = {}
        for event, chunk in batch:
            file = chunk.file
            key = (file.id, event.line_hash)
            if key not in counted:
                counted[key] = 0 if chunk.start == 0 else self._equal_before(*key, chunk.start)
            nth = counted[key]
            counted[key] += 1
            identity = (event.line_hash, file.session_id or "", nth)
            found = stored.get(identity)
            if found is None:
                self.new.append((event, file, nth, next_id))
                stored[identity] = (next_id, file.id, event.length)
                self.ids[id(event)] = next_id
                next_id += 1
            elif found[1] == file.id and found[2] < 0:
                self.moved.append((event.start, event.length, found[0]))
                stored[identity] = (found[0], file.id, event.length)
                self.ids[id(event)] = found[0]
                self.touched.retell.add(file.id)
            else:
                self.copies.append((found[0], file.id, event.start, event.length))

    def _stored(self, hashes: set[int]) -> dict[tuple[int, str, int], tuple[int, int, int]]:
        return {
            (line_hash, session, nth): (row, file, length)
            for line_hash, session, nth, row, file, length in self.conn.execute(
                "SELECT e.line_hash, e.file_session, e.nth, e.id, e.source_file_id, e.byte_length"
                " FROM json_each(?) j CROSS JOIN events e ON e.line_hash = j.value",
                (orjson.dumps(sorted(hashes)).decode(),),
            )
        }

    def _equal_before(self, file_id: int, line_hash: int, start: int) -> int:
        # The + keeps SQLite from going over all events of the file instead of those with this hash.
        (before,) = self.conn.execute(
            "SELECT (SELECT count(*) FROM events WHERE line_hash = ?1 AND +source_file_id = ?2"
            "  AND +byte_start < ?3 AND byte_length > 0)"
            " + (SELECT count(*) FROM events e CROSS JOIN _event_copies c ON c.event_id = e.id"
            "  WHERE e.line_hash = ?1 AND +c.source_file_id = ?2 AND +c.byte_start < ?3)",
            (line_hash, file_id, start),
        ).fetchone()
        return int(before)

    def row_of(self, event: Event) -> int | None:
        """The row of an event; None for a copy of one that stands elsewhere."""
        return self.ids.get(id(event))

    def outcome_of(self, event: Event) -> str:
        """What its line is counted as."""
        return "stored" if id(event) in self.ids else "copy"

    def write(self) -> None:
        """Store the new events and what they tell."""
        rows: list[tuple[Any, ...]] = []
        for event, file, nth, row_id in self.new:
            session_id = event.session_id or file.session_id
            rows.append(
                (
                    row_id,
                    session_id,
                    event.type,
                    event.subtype,
                    event.timestamp,
                    event.data,
                    file.id,
                    event.start,
                    event.length,
                    file.session_id or "",
                    event.line_hash,
                    nth,
                )
            )
            if event.summary:
                self.conn.execute(
                    "INSERT OR REPLACE INTO _summaries (event_id, leaf_uuid, summary)"
                    " VALUES (?, ?, ?)",
                    (row_id, *event.summary),
                )
            if session_id is not None:
                self._tell(event, session_id, file)
        self.conn.executemany(
            "INSERT INTO events (id, session_id, type, subtype, timestamp, data, source_file_id,"
            " byte_start, byte_length, file_session, line_hash, nth)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        self.conn.executemany(
            "INSERT INTO _session_files (session_id, source_file_id) VALUES (?, ?)"
            " ON CONFLICT DO NOTHING",
            self.places,
        )
        self.conn.executemany(
            "UPDATE events SET byte_start = ?, byte_length = ? WHERE id = ?", self.moved
        )
        self.conn.executemany(
            "INSERT OR REPLACE INTO _event_copies (event_id, source_file_id, byte_start,"
            " byte_length) VALUES (?, ?, ?, ?)",
            self.copies,
        )

    def _tell(self, event: Event, session_id: str, file: SourceFile) -> None:
        self.touched.sessions.add(session_id)
        self.places.add((session_id, file.id))
        if event.facts:
            agents.add_facts(self.conn, session_id, event.facts, None, self.touched)
        if event.type == "pr-link":
            self.touched.pulls.add(session_id)

    def write_snapshots(self) -> None:
        """Files that snapshots name: one row per session, path and version.

        Paths are mostly relative to the session's folder, so that must be known first.
        """
        for event, file, _, _ in self.new:
            session_id = event.session_id or file.session_id
            if not event.snapshots or session_id is None:
                continue
            row = self.conn.execute(
                "SELECT p.path FROM sessions s JOIN projects p ON p.id = s.project_id"
                " WHERE s.id = ?",
                (session_id,),
            ).fetchone()
            for path, version, at in event.snapshots:
                whole = f"{row[0]}/{path}" if row and is_relative(path) else path
                self.conn.execute(
                    "INSERT INTO files_touched (session_id, path, operation, succeeded, timestamp,"
                    " snapshot_version) VALUES (?, ?, 'snapshot', 1, ?, ?)"
                    " ON CONFLICT (session_id, path, snapshot_version)"
                    "  WHERE operation = 'snapshot'"
                    " DO UPDATE SET timestamp = min(coalesce(timestamp, excluded.timestamp),"
                    "  coalesce(excluded.timestamp, timestamp))",
                    (session_id, whole, at, version),
                )
            self.touched.snapshots.add(session_id)

    def adopt(self, file: SourceFile) -> None:
        """A file's session has become known: its earlier events get their true identity."""
        self.touched.sessions.add(file.session_id or "")
        for row_id, line_hash, nth in self.conn.execute(
            "SELECT id, line_hash, nth FROM events WHERE source_file_id = ? AND file_session = ''",
            (file.id,),
        ).fetchall():
            twin = self.conn.execute(
                "SELECT id FROM events WHERE line_hash = ? AND file_session = ? AND nth = ?",
                (line_hash, file.session_id, nth),
            ).fetchone()
            if twin is None:
                self.conn.execute(
                    "UPDATE events SET file_session = ? WHERE id = ?", (file.session_id, row_id)
                )
                continue
            self.conn.execute(
                "INSERT OR REPLACE INTO _event_copies SELECT ?, source_file_id, byte_start,"
                " byte_length FROM events WHERE id = ?",
                (twin[0], row_id),
            )
            self.conn.execute(
                "UPDATE _event_copies SET event_id = ? WHERE event_id = ?", (twin[0], row_id)
            )
            self.conn.execute("DELETE FROM _summaries WHERE event_id = ?", (row_id,))
            self.conn.execute("DELETE FROM events WHERE id = ?", (row_id,))
