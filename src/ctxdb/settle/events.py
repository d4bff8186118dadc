"""Events: every entry outside the thread, known by its file's session and its bytes.

The same line can be in a file many times (titles and modes are appended again and again), so the
third part of its identity is how many equal lines came before it. So a rewritten or copied file
creates no duplicates.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import orjson

from ctxdb.claude.names import PULL_REQUEST_LINK, QUEUE_OPERATION
from ctxdb.claude.side_data import event_record
from ctxdb.rows import Event, SourceFile
from ctxdb.rules.chunk import Chunk
from ctxdb.rules.owners import FileRank
from ctxdb.settle import agent_facts
from ctxdb.settle.line_counts import CountedLine, shift_count
from ctxdb.settle.session_facts import project_of
from ctxdb.settle.snapshots import Snapshots
from ctxdb.settle.touched import Touched
from ctxdb.store.insert import insert, last_id
from ctxdb.store.lookup import look_up

Identity = tuple[int, str, int]  # line_hash, file_session, nth


@dataclass(slots=True)
class _Stored:
    """The place that an event's row names."""

    id: int
    file_id: int
    rank: FileRank
    start: int
    length: int  # negative: the line is no longer there
    new: Event | None = None  # the event that this batch stores, or whose place it takes
    is_new_row: bool = False


def _rank(file: SourceFile) -> FileRank:
    return FileRank(file.agent_id is not None, file.path, file.machine)


def _line(file_id: int, start: int, event: Event) -> CountedLine:
    """What a line with these bytes is counted by."""
    return CountedLine(file_id, start, event.line_type, event.version)


class StoredEvents:
    """The events of one batch."""

    def __init__(self, conn: sqlite3.Connection, touched: Touched) -> None:
        self.conn = conn
        self.touched = touched
        self.stored: dict[Identity, _Stored] = {}
        self.copies: list[tuple[int, int, int, int]] = []
        self.moved: dict[int, Event] = {}  # row -> the line it names from now on
        self.adopted: list[tuple[Event, SourceFile, str]] = []
        self.belong: set[tuple[str, int]] = set()
        self.leaves: set[str] = set()  # uuids that new summaries name
        self.next_id = last_id(conn, Event) + 1

    def place(self, chunks: list[Chunk]) -> None:
        """Decide which events are new and which are elsewhere already.

        An event whose line its row names gets the row's id, all others the id 0.
        """
        batch = [(event, file, 0) for event, file, _ in self.adopted]
        batch += [(event, chunk.file, chunk.start) for chunk in chunks for event in chunk.events]
        if not batch:
            return
        self._load({event.line_hash for event, _, _ in batch})
        counted: dict[tuple[int, int], int] = {}
        for event, file, start in batch:
            key = (file.id, event.line_hash)
            if key not in counted:
                counted[key] = 0 if start == 0 else self._equal_before(*key, start)
            event.nth = counted[key]
            counted[key] += 1
            self._place_one(event, file)
            if event.session_id is not None:
                self.belong.add((event.session_id, file.id))
        for event, file, was in self.adopted:
            if (now := outcome_of(event)) != was:
                shift_count(self.conn, _line(file.id, event.byte_start, event), was, now)

    def _place_one(self, event: Event, file: SourceFile) -> None:
        event.source_file_id = file.id
        identity = (event.line_hash, event.file_session, event.nth)
        found = self.stored.get(identity)
        if found is None:
            event.id = self.next_id
            self.next_id += 1
            self.stored[identity] = _Stored(
                event.id,
                file.id,
                _rank(file),
                event.byte_start,
                event.byte_length,
                event,
                is_new_row=True,
            )
        elif found.file_id == file.id or found.length < 0 or _rank(file) < found.rank:
            self._take_over(found, event, file)
        else:
            event.id = 0
            self._add_copy(event, found.id, file.id, event.byte_start, event.byte_length)

    def _add_copy(self, event: Event, row_id: int, file_id: int, start: int, length: int) -> None:
        self.copies.append((row_id, file_id, start, length))
        if event.type == QUEUE_OPERATION:
            # Lines that follow it there may belong to the turn that it begins here.
            self.touched.turns_of_files.add(file_id)

    def _take_over(self, found: _Stored, event: Event, file: SourceFile) -> None:
        """The row names this line from now on: it comes first, or the line it named is gone."""
        if found.length > 0:
            self._add_copy(event, found.id, found.file_id, found.start, found.length)
        if not found.is_new_row:
            self.moved[found.id] = event
            self.touched.turns_of_files.update((found.file_id, file.id))
            if event.type == PULL_REQUEST_LINK and event.session_id:
                self.touched.pull_requests.add(event.session_id)
            if found.new is None and found.length > 0:  # else it is not counted yet
                shift_count(self.conn, _line(found.file_id, found.start, event), "stored", "copy")
        if found.new is not None:
            found.new.id = 0
        found.new = event
        found.file_id, found.rank = file.id, _rank(file)
        found.start, found.length = event.byte_start, event.byte_length
        event.id = found.id

    def _load(self, hashes: set[int]) -> None:
        rows = look_up(
            self.conn,
            sorted(hashes),
            "SELECT b.line_hash, b.file_session, b.nth, e.id, e.source_file_id,"
            " f.agent_id IS NOT NULL, f.path, f.machine, e.byte_start, e.byte_length"
            " FROM j CROSS JOIN _event_lines b ON b.line_hash = j.value"
            " JOIN events e ON e.id = b.event_id JOIN source_files f ON f.id = e.source_file_id",
        )
        for line_hash, of_session, nth, row_id, file_id, *place in rows:
            is_agents, path, machine, start, length = place
            self.stored[line_hash, of_session, nth] = _Stored(
                row_id, file_id, FileRank(bool(is_agents), path, machine), start, length
            )

    def _equal_before(self, file_id: int, line_hash: int, start: int) -> int:
        # The + keeps SQLite from going over all events of the file instead of those with this hash.
        (before,) = self.conn.execute(
            "SELECT (SELECT count(*) FROM _event_lines b JOIN events e ON e.id = b.event_id"
            "  WHERE b.line_hash = ?1 AND +e.source_file_id = ?2"
            "  AND +e.byte_start < ?3 AND e.byte_length > 0)"
            " + (SELECT count(*) FROM _event_lines b CROSS JOIN _event_copies c"
            "  ON c.event_id = b.event_id"
            "  WHERE b.line_hash = ?1 AND +c.source_file_id = ?2 AND +c.byte_start < ?3)",
            (line_hash, file_id, start),
        ).fetchone()
        return int(before)

    @property
    def new(self) -> list[Event]:
        """The events that are stored for the first time."""
        return [one.new for one in self.stored.values() if one.is_new_row and one.new is not None]

    def write(self) -> None:
        """Store the new events and what they say."""
        new = self.new
        facts = agent_facts.Facts(self.conn, self.touched)
        for event in new:
            if event.facts and event.session_id is not None:
                facts.add(event.session_id, event.facts, None)
            if event.summary:
                leaf, _ = event.summary
                self.leaves.add(leaf)
                self.conn.execute(
                    "INSERT OR REPLACE INTO _summaries (event_id, leaf_uuid, summary)"
                    " VALUES (?, ?, ?)",
                    (event.id, *event.summary),
                )
            if event.type == PULL_REQUEST_LINK and event.session_id is not None:
                self.touched.pull_requests.add(event.session_id)
            elif event.type == QUEUE_OPERATION and event.session_id is not None:
                self._touch_forked(event)
        facts.write()
        self._note_files()
        insert(self.conn, Event, new)
        self.conn.executemany(
            "UPDATE events SET source_file_id = ?, byte_start = ?, byte_length = ? WHERE id = ?",
            [(e.source_file_id, e.byte_start, e.byte_length, i) for i, e in self.moved.items()],
        )
        self.conn.executemany(
            "UPDATE turns SET source_file_id = ?, byte_start = ? WHERE event_id = ?",
            [(e.source_file_id, e.byte_start, i) for i, e in self.moved.items()],
        )
        self.conn.executemany(
            "INSERT OR REPLACE INTO _event_copies (event_id, source_file_id, byte_start,"
            " byte_length) VALUES (?, ?, ?, ?)",
            self.copies,
        )

    def _note_files(self) -> None:
        """A file with lines of a session, copied ones too, is one of the session's files."""
        self.touched.sessions.update(session_id for session_id, _ in self.belong)
        self.conn.executemany(
            "INSERT INTO _session_files (session_id, source_file_id) VALUES (?, ?)"
            " ON CONFLICT DO NOTHING",
            list(self.belong),
        )

    def _touch_forked(self, event: Event) -> None:
        """Of sessions that share entries, only one begins a turn where all have the operation."""
        shares = self.conn.execute(
            "SELECT 1 FROM _shared_sessions WHERE session_id = ?", (event.session_id,)
        ).fetchone()
        if shares:
            self.touched.turns_of_files.add(event.source_file_id)
            self.touched.turns_of_files.update(
                file_id
                for (file_id,) in self.conn.execute(
                    "SELECT source_file_id FROM events WHERE type = ? AND timestamp = ?",
                    (QUEUE_OPERATION, event.timestamp),
                )
            )

    def write_snapshots(self) -> None:
        """Files that snapshots name: one row per session, path and version.

        Paths are mostly relative to the session's folder, so that must be known first.
        """
        found = Snapshots(self.conn)
        for event in self.new:
            if event.snapshots and event.session_id is not None:
                project = project_of(self.conn, event.session_id)
                found.add(event.session_id, event.snapshots, project)
                self.touched.snapshots.add(event.session_id)
        found.write()

    def adopt(self, file: SourceFile) -> None:
        """A file's session has become known: its earlier events are placed again, as what they are.

        Lines of files without a session are known by their bytes alone, so such a row may be for
        the lines of several files; it then stays with the others.
        """
        rows = self.conn.execute(
            "SELECT e.id, e.data, b.line_hash, e.byte_start, e.byte_length, 'stored' FROM events e"
            " JOIN _event_lines b ON b.event_id = e.id"
            " WHERE e.source_file_id = ?1 AND b.file_session = '' AND e.byte_length > 0"
            " UNION ALL SELECT e.id, e.data, b.line_hash, c.byte_start, c.byte_length, 'copy'"
            " FROM _event_copies c JOIN events e ON e.id = c.event_id"
            " JOIN _event_lines b ON b.event_id = e.id"
            " WHERE c.source_file_id = ?1 AND b.file_session = '' ORDER BY 4",
            (file.id,),
        ).fetchall()
        self.conn.execute("DELETE FROM _event_copies WHERE source_file_id = ?", (file.id,))
        for row_id, data, hashed, start, length, outcome in rows:
            event = event_record(orjson.loads(data), start, length, hashed)
            event.session_id = event.said_session or file.session_id
            event.file_session = file.session_id or ""
            self.adopted.append((event, file, outcome))
            if outcome == "stored":
                self._leave(row_id, event)
        self.touched.turns_of_files.add(file.id)

    def _leave(self, row_id: int, event: Event) -> None:
        """Give an event's row to the first of its other places; without any, it goes."""
        other = self.conn.execute(
            "SELECT c.source_file_id, c.byte_start, c.byte_length FROM _event_copies c"
            " JOIN source_files f ON f.id = c.source_file_id WHERE c.event_id = ?"
            " ORDER BY f.agent_id IS NOT NULL, f.path, f.machine LIMIT 1",
            (row_id,),
        ).fetchone()
        self.conn.execute("DELETE FROM turns WHERE event_id = ?", (row_id,))
        if other is None:
            for table in ("_summaries", "_event_lines"):
                self.conn.execute(f"DELETE FROM {table} WHERE event_id = ?", (row_id,))
            self.conn.execute("DELETE FROM events WHERE id = ?", (row_id,))
            return
        file_id, start, length = other
        self.conn.execute(
            "DELETE FROM _event_copies WHERE source_file_id = ? AND byte_start = ?",
            (file_id, start),
        )
        self.conn.execute(
            "UPDATE events SET source_file_id = ?, byte_start = ?, byte_length = ? WHERE id = ?",
            (file_id, start, length, row_id),
        )
        shift_count(self.conn, _line(file_id, start, event), "copy", "stored")
        self.touched.turns_of_files.add(file_id)


def outcome_of(event: Event) -> str:
    """What its line is counted as."""
    return "stored" if event.id else "copy"
