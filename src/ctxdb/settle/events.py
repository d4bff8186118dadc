"""Events: every entry outside the thread, known by its file's session and its bytes.

The same line can stand in a file many times over (titles and modes are re-appended), so the third
part of its identity is how many equal lines came before it. A rewritten or copied file then doubles
nothing.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

import orjson

from ctxdb.claude import Event
from ctxdb.claude.side_data import event_record
from ctxdb.settle import agents
from ctxdb.settle.line_counts import Line, shift_count
from ctxdb.settle.snapshots import add_snapshots, project_of
from ctxdb.store.chunk import Chunk, SourceFile, Touched

Rank = tuple[bool, str]  # main transcripts before agents' files, then by path


@dataclass(slots=True)
class _Stored:
    """The place that an event's row names."""

    id: int
    file_id: int
    rank: Rank
    start: int
    length: int  # negative: the line is no longer there
    new: int = -1  # index in EventRows.new of a row that this batch brings
    taker: Event | None = None  # the line of this batch that a stored row names by now


EVENT_COLUMNS = (  # after id and source_file_id: see event_values
    "session_id",
    "type",
    "subtype",
    "timestamp",
    "data",
    "byte_start",
    "byte_length",
    "file_session",
    "line_hash",
    "nth",
)
_INSERT = (
    f"INSERT INTO events (id, source_file_id, {', '.join(EVENT_COLUMNS)})"
    f" VALUES ({', '.join('?' * (2 + len(EVENT_COLUMNS)))})"
)


def event_values(event: Event, file: SourceFile, nth: int) -> tuple[Any, ...]:
    """The values of EVENT_COLUMNS."""
    return (
        event.session_id or file.session_id,
        event.type,
        event.subtype,
        event.timestamp,
        event.data,
        event.start,
        event.length,
        file.session_id or "",
        event.line_hash,
        nth,
    )


def _rank(file: SourceFile) -> Rank:
    return file.agent_id is not None, file.path


def _line(file_id: int, start: int, event: Event) -> Line:
    """What a line with these bytes is counted by."""
    return file_id, start, event.line_type, event.version


class EventRows:
    """The events of one batch."""

    def __init__(self, conn: sqlite3.Connection, touched: Touched) -> None:
        self.conn = conn
        self.touched = touched
        self.new: list[tuple[Event, SourceFile, int, int]] = []  # event, file, nth, id
        self.copies: list[tuple[int, int, int, int]] = []
        self.moved: list[tuple[int, int, int, int]] = []  # file, start, length, id
        self.ids: dict[int, int] = {}  # id() of an event whose line is the stored one -> its row
        self.adopted: list[tuple[Event, SourceFile, str]] = []
        self.belong: set[tuple[str, int]] = set()
        (last,) = conn.execute("SELECT max(id) FROM events").fetchone()
        self.next_id = (last or 0) + 1

    def place(self, chunks: list[Chunk]) -> None:
        """Decide which events are new and which stand elsewhere already."""
        batch = [(event, file, 0) for event, file, _ in self.adopted]
        batch += [(r, c.file, c.start) for c in chunks for r in c.records if type(r) is Event]
        if not batch:
            return
        stored = self._stored({event.line_hash for event, _, _ in batch})
        counted: dict[tuple[int, int], int] = {}
        for event, file, start in batch:
            key = (file.id, event.line_hash)
            if key not in counted:
                counted[key] = 0 if start == 0 else self._equal_before(*key, start)
            nth = counted[key]
            counted[key] += 1
            identity = (event.line_hash, file.session_id or "", nth)
            found = stored.get(identity)
            if found is None:
                stored[identity] = _Stored(
                    self.next_id, file.id, _rank(file), event.start, event.length, len(self.new)
                )
                self.new.append((event, file, nth, self.next_id))
                self.ids[id(event)] = self.next_id
                self.next_id += 1
            elif found.file_id == file.id or found.length < 0 or _rank(file) < found.rank:
                self._take_over(found, event, file)
            else:
                self._add_copy(event, found.id, file.id, event.start, event.length)
            session_id = event.session_id or file.session_id
            if session_id is not None:
                self.belong.add((session_id, file.id))
        for event, file, was in self.adopted:
            if (now := self.outcome_of(event)) != was:
                shift_count(self.conn, _line(file.id, event.start, event), was, now)

    def _add_copy(self, event: Event, row_id: int, file_id: int, start: int, length: int) -> None:
        self.copies.append((row_id, file_id, start, length))
        if event.type == "queue-operation":
            # Lines that follow it there may belong to the turn that it begins here.
            self.touched.retell.add(file_id)

    def _take_over(self, found: _Stored, event: Event, file: SourceFile) -> None:
        """The row names this line from now on: it stands first, or the one it named is gone."""
        if found.length > 0:
            self._add_copy(event, found.id, found.file_id, found.start, found.length)
        if found.new >= 0:
            before, _, nth, row_id = self.new[found.new]
            self.new[found.new] = (event, file, nth, row_id)
            del self.ids[id(before)]
        else:
            self.moved.append((file.id, event.start, event.length, found.id))
            self.touched.retell.update((found.file_id, file.id))
            if event.type == "pr-link" and (event.session_id or file.session_id):
                self.touched.pulls.add(event.session_id or file.session_id or "")
            if found.taker is not None:  # a line of this batch, which is not counted yet
                del self.ids[id(found.taker)]
            elif found.length > 0:
                shift_count(self.conn, _line(found.file_id, found.start, event), "stored", "copy")
            found.taker = event
        found.file_id, found.rank = file.id, _rank(file)
        found.start, found.length = event.start, event.length
        self.ids[id(event)] = found.id

    def _stored(self, hashes: set[int]) -> dict[tuple[int, str, int], _Stored]:
        return {
            (row[0], row[1], row[2]): _Stored(row[3], row[4], (row[5], row[6]), row[7], row[8])
            for row in self.conn.execute(
                "SELECT e.line_hash, e.file_session, e.nth, e.id, e.source_file_id,"
                " f.agent_id IS NOT NULL, f.path, e.byte_start, e.byte_length"
                " FROM json_each(?) j CROSS JOIN events e ON e.line_hash = j.value"
                " JOIN source_files f ON f.id = e.source_file_id",
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
        """The row of a new event; None for one that is stored already, here or elsewhere."""
        row = self.ids.get(id(event))
        return row if row is not None and self.new and row >= self.new[0][3] else None

    def outcome_of(self, event: Event) -> str:
        """What its line is counted as."""
        return "stored" if id(event) in self.ids else "copy"

    def write(self) -> None:
        """Store the new events and what they tell."""
        rows: list[tuple[Any, ...]] = []
        for event, file, nth, row_id in self.new:
            session_id = event.session_id or file.session_id
            rows.append((row_id, file.id, *event_values(event, file, nth)))
            self._tell(event, session_id, row_id, file)
        self._note_files()
        self.conn.executemany(_INSERT, rows)
        self.conn.executemany(
            "UPDATE events SET source_file_id = ?, byte_start = ?, byte_length = ? WHERE id = ?",
            self.moved,
        )
        self.conn.executemany(
            "UPDATE turns SET source_file_id = ?, byte_start = ? WHERE event_id = ?",
            [(file_id, start, row_id) for file_id, start, _, row_id in self.moved],
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

    def _tell(self, event: Event, session_id: str | None, row_id: int, file: SourceFile) -> None:
        if event.summary:
            self.conn.execute(
                "INSERT OR REPLACE INTO _summaries (event_id, leaf_uuid, summary) VALUES (?, ?, ?)",
                (row_id, *event.summary),
            )
        if session_id is None:
            return
        if event.facts:
            agents.add_facts(self.conn, session_id, event.facts, None, self.touched)
        if event.type == "pr-link":
            self.touched.pulls.add(session_id)
        elif event.type == "queue-operation":
            self._retell_forked(session_id, file, event)

    def _retell_forked(self, session_id: str, file: SourceFile, event: Event) -> None:
        """Of sessions that share entries, only one begins a turn where all have the operation."""
        shares = self.conn.execute(
            "SELECT 1 FROM sessions WHERE id = ? AND shares_entries", (session_id,)
        ).fetchone()
        if shares:
            self.touched.retell.add(file.id)
            self.touched.retell.update(
                file_id
                for (file_id,) in self.conn.execute(
                    "SELECT source_file_id FROM events WHERE type = 'queue-operation'"
                    " AND timestamp = ?",
                    (event.timestamp,),
                )
            )

    def write_snapshots(self) -> None:
        """Files that snapshots name: one row per session, path and version.

        Paths are mostly relative to the session's folder, so that must be known first.
        """
        for event, file, _, _ in self.new:
            session_id = event.session_id or file.session_id
            if not event.snapshots or session_id is None:
                continue
            project = project_of(self.conn, session_id)
            add_snapshots(self.conn, session_id, event.snapshots, project)

    def adopt(self, file: SourceFile) -> None:
        """A file's session has become known: its earlier events are placed anew, as what they are.

        Lines of files without a session are known by their bytes alone, so such a row may have
        stood for the lines of several files; it then stays with the others.
        """
        rows = self.conn.execute(
            "SELECT id, data, line_hash, byte_start, byte_length, 'stored' FROM events"
            " WHERE source_file_id = ?1 AND file_session = '' AND byte_length > 0"
            " UNION ALL SELECT e.id, e.data, e.line_hash, c.byte_start, c.byte_length, 'copy'"
            " FROM _event_copies c JOIN events e ON e.id = c.event_id"
            " WHERE c.source_file_id = ?1 AND e.file_session = '' ORDER BY 4",
            (file.id,),
        ).fetchall()
        self.conn.execute("DELETE FROM _event_copies WHERE source_file_id = ?", (file.id,))
        for row_id, data, hashed, start, length, outcome in rows:
            event = event_record(orjson.loads(data), start, length, hashed)
            self.adopted.append((event, file, outcome))
            if outcome == "stored":
                self._leave(row_id, event)
        self.touched.retell.add(file.id)

    def _leave(self, row_id: int, event: Event) -> None:
        """Give an event's row to the first of its other places; without any, it goes."""
        heir = self.conn.execute(
            "SELECT c.source_file_id, c.byte_start, c.byte_length FROM _event_copies c"
            " JOIN source_files f ON f.id = c.source_file_id WHERE c.event_id = ?"
            " ORDER BY f.agent_id IS NOT NULL, f.path LIMIT 1",
            (row_id,),
        ).fetchone()
        self.conn.execute("DELETE FROM turns WHERE event_id = ?", (row_id,))
        if heir is None:
            self.conn.execute("DELETE FROM _summaries WHERE event_id = ?", (row_id,))
            self.conn.execute("DELETE FROM events WHERE id = ?", (row_id,))
            return
        self.conn.execute(
            "DELETE FROM _event_copies WHERE source_file_id = ? AND byte_start = ?", heir[:2]
        )
        self.conn.execute(
            "UPDATE events SET source_file_id = ?, byte_start = ?, byte_length = ? WHERE id = ?",
            (*heir, row_id),
        )
        shift_count(self.conn, _line(heir[0], heir[1], event), "copy", "stored")
        self.touched.retell.add(heir[0])
