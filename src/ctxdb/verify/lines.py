"""Line by line: every line of every transcript is accounted for, and its row says the same.

Each transcript that is still there is read again from its first byte up to the saved offset. For
each file, lines = stored + copies + skipped + bad must hold, by a fresh count; every message, copy
and event must stand where its row says and say the same; every tool call, result and usage line of
it must be there.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from typing import TYPE_CHECKING, Any

from ctxdb.claude import Event, Message, Skip
from ctxdb.files.identity import mark_of, open_regular
from ctxdb.files.tail import find_newline
from ctxdb.files.walk import numbers_of, store_path
from ctxdb.ingest.line_reader import Lines, read_lines
from ctxdb.settle.messages import SAID_BY_LINE
from ctxdb.settle.requests import LINE_COLUMNS
from ctxdb.verify.report import VerifyReport

if TYPE_CHECKING:
    from ctxdb.progress import Progress


_FILES = (
    'SELECT id, path, path_bytes, session_id, agent_id, "offset", lines, bad_lines, skipped_lines,'
    " mark, missing_since, dev, ino, size, mtime_ns, ctime_ns FROM source_files"
)


def has_same_lines(conn: sqlite3.Connection, file_id: int, progress: Progress) -> bool:
    """Whether a file's lines, as far as they are stored, say what they said.

    A row that somebody has deleted by hand says nothing of the file: it shall not come back.
    """
    check = LineCheck(conn, progress, rows_may_lack=True)
    check.check_file(conn.execute(f"{_FILES} WHERE id = ?", (file_id,)).fetchone())
    return file_id in check.read and check.report.ok


class LineCheck:
    """Reads every file again and compares."""

    def __init__(
        self, conn: sqlite3.Connection, progress: Progress, *, rows_may_lack: bool = False
    ) -> None:
        self.conn = conn
        self.progress = progress
        self.rows_may_lack = rows_may_lack
        self.report = VerifyReport()
        self.read: dict[int, int] = {}  # the files that are as they were read, up to which offset

    def run(self, roots: tuple[str, ...] | None) -> None:
        """Compare every file below the roots, or every file."""
        tops = [""] if roots is None else [store_path(root.rstrip("/") + "/")[0] for root in roots]
        files = [
            row
            for row in self.conn.execute(f"{_FILES} ORDER BY path").fetchall()
            if row[1].startswith(tuple(tops))
        ]
        self.progress.start(sum(row[5] for row in files), "Verifying")
        for row in files:
            self.check_file(row)
        self._invariants()

    def check_file(self, row: tuple[Any, ...]) -> None:
        """Compare one file, by its row."""
        file_id, path, path_bytes, session_id, agent_id, offset, lines, bad, skipped = row[:9]
        mark, missing_since, *seen = row[9:]
        try:
            fd = open_regular(path_bytes or path)
        except OSError as e:
            self.report.files_gone += 1
            if missing_since is None and not isinstance(e, FileNotFoundError):
                self.report.differ(f"{path}: {e.strerror}")
            return
        try:
            if mark is not None and mark_of(fd, offset) != mark:
                if tuple(seen) == numbers_of(os.fstat(fd)):
                    self.report.differ(f"{path}: the saved offset or mark is not of this file")
                else:
                    self.report.files_changed += 1
                return
            self.report.files += 1
            counts: Counter[str] = Counter()
            # A huge line that ended a process is not parsed, though it might go well this time.
            passed_over = {
                start
                for (start,) in self.conn.execute(
                    "SELECT byte_start FROM ingest_errors WHERE source_file_id = ?"
                    " AND reason = 'too_large'",
                    (file_id,),
                )
            }
            at = 0
            while at < offset:
                found = read_lines(
                    fd,
                    at,
                    in_agent_file=agent_id is not None,
                    give_up=at in passed_over,
                    limit=offset,
                )
                if found.end == at or found.end > offset:
                    self.report.differ(f"{path}: the saved offset {offset} is not after a newline")
                    return
                self._lines(file_id, path, session_id, agent_id, found, counts)
                self.progress.advance(found.end - at)
                at = found.end
            if os.fstat(fd).st_size > offset:
                if find_newline(fd, offset) < 0:
                    self.report.files_partial += 1  # and no sync would change that
                else:
                    self.report.files_behind += 1
        finally:
            os.close(fd)
        self.read[file_id] = offset
        self._count(file_id, path, counts, (lines, bad, skipped))

    def _count(
        self, file_id: int, path: str, counts: Counter[str], said: tuple[int, int, int]
    ) -> None:
        stored = Counter(
            dict(
                self.conn.execute(
                    "SELECT outcome, sum(lines) FROM line_counts WHERE source_file_id = ?"
                    " GROUP BY outcome",
                    (file_id,),
                )
            )
        )
        lines = counts.total()
        if self.rows_may_lack:
            stored = counts
        if lines != said[0] or stored.total() != lines:
            self.report.differ(f"{path}: {lines} lines, {said[0]} said, {stored.total()} counted")
        for outcome in ("stored", "copy", "skipped", "bad"):
            if counts[outcome] != stored[outcome]:
                self.report.differ(
                    f"{path}: {counts[outcome]} lines are {outcome}, {stored[outcome]} counted"
                )
        if (counts["bad"], counts["skipped"]) != said[1:]:
            self.report.differ(f"{path}: bad_lines or skipped_lines are off")
        self.report.lines_read += lines
        self.report.stored += counts["stored"]
        self.report.copies += counts["copy"]
        self.report.skipped += counts["skipped"]
        self.report.bad += counts["bad"]

    def _lines(
        self,
        file_id: int,
        path: str,
        session_id: str | None,
        agent_id: str | None,
        found: Lines,
        counts: Counter[str],
    ) -> None:
        span = (file_id, found.start, found.end)
        columns = ", ".join(SAID_BY_LINE)
        messages = {
            row[0]: row[1:]
            for row in self.conn.execute(
                f"SELECT byte_start, byte_length, id, session_id, agent_id, {columns} FROM messages"
                " WHERE source_file_id = ? AND byte_start >= ? AND byte_start < ?"
                "  AND byte_length > 0",
                span,
            )
        }
        copies = dict(
            self.conn.execute(
                "SELECT byte_start, message_id FROM message_copies"
                " WHERE source_file_id = ? AND byte_start >= ? AND byte_start < ?",
                span,
            )
        )
        events = dict(
            self.conn.execute(
                "SELECT byte_start, data FROM events WHERE source_file_id = ?"
                " AND byte_start >= ? AND byte_start < ? AND byte_length > 0",
                span,
            )
        )
        event_copies = {
            start
            for (start,) in self.conn.execute(
                "SELECT byte_start FROM _event_copies WHERE source_file_id = ?"
                " AND byte_start >= ? AND byte_start < ?",
                span,
            )
        }
        for key, n in found.counts.items():
            counts[key[2]] += n
        for record, note in zip(found.records, found.notes, strict=True):
            outcome = "skipped"
            if isinstance(record, Message):
                row = messages.pop(record.start, None)
                if row is not None:
                    outcome = "stored"
                    self._message(path, record, row, session_id, agent_id)
                elif copies.pop(record.start, None) is not None:
                    outcome = "copy"
                    self.report.rows_compared += 1
                else:
                    outcome = "stored"
                    self._lacks(f"{path} at byte {record.start}: no row for this message")
            elif isinstance(record, Event):
                data = events.pop(record.start, None)
                if data is not None:
                    outcome = "stored"
                    self.report.rows_compared += 1
                    if data != record.data:
                        self.report.differ(f"{path} at byte {record.start}: event differs")
                elif record.start in event_copies:
                    outcome = "copy"
                    event_copies.discard(record.start)
                else:
                    outcome = "stored"
                    self._lacks(f"{path} at byte {record.start}: no row for this event")
            elif isinstance(record, Skip):
                outcome = "skipped"
            if note is not None:
                counts[outcome] += 1
        for start in (*messages, *copies, *events, *event_copies):
            self.report.differ(f"{path} at byte {start}: a row without a line")

    def _message(
        self,
        path: str,
        record: Message,
        row: tuple[Any, ...],
        session_id: str | None,
        agent_id: str | None,
    ) -> None:
        length, message_id, stored_session, stored_agent, *values = row
        self.report.rows_compared += 1
        where = f"{path} at byte {record.start}"
        said = [getattr(record, name) for name in SAID_BY_LINE]
        if values != said or length != record.length:
            wrong = [name for name, a, b in zip(SAID_BY_LINE, values, said, strict=True) if a != b]
            self.report.differ(f"{where}: {', '.join(wrong)} differ")
        if stored_session != (record.session_id or session_id):
            self.report.differ(f"{where}: session differs")
        own_agent = record.agent_id or (None if record.nested else agent_id)
        if own_agent is not None and stored_agent != own_agent:
            self.report.differ(f"{where}: agent differs")
        for call in record.calls or ():
            it = (call.tool_use_id, message_id)
            self._half(_CALL, it, (call.name, call.input), f"{where}: call")
        for result in record.results or ():
            it = (result.tool_use_id, message_id)
            self._half(_RESULT, it, (result.text, result.status), f"{where}: result")
        told = self.conn.execute(_TOLD, (message_id,)).fetchall()
        if told != (record.usage or []):
            self.report.differ(f"{where}: usage differs")

    def _half(self, sql: str, it: tuple[str, int], said: tuple[Any, ...], where: str) -> None:
        """A call or result (id, message) must have a row, which says the same if it is its own."""
        self.report.rows_compared += 1
        found = self.conn.execute(sql, it).fetchone()
        if found is None:
            self._lacks(f"{where} {it[0]}")
        elif found[0] == it[1] and found[1:] != said:
            self.report.differ(f"{where} {it[0]}")

    def _lacks(self, what: str) -> None:
        if not self.rows_may_lack:
            self.report.differ(what)

    def _invariants(self) -> None:
        """What must hold over the whole database, whatever files are left."""
        for text, sql in _INVARIANTS:
            (wrong,) = self.conn.execute(sql).fetchone()
            if wrong:
                self.report.differ(f"{wrong:,} {text}")


_CALL = (
    "SELECT message_id, name, input FROM tool_uses WHERE tool_use_id = ?"
    " AND message_id IS NOT NULL ORDER BY message_id = ? DESC LIMIT 1"
)
_RESULT = (
    "SELECT result_message_id, result_text, status FROM tool_uses WHERE tool_use_id = ?"
    " AND result_message_id IS NOT NULL ORDER BY result_message_id = ? DESC LIMIT 1"
)
# What a message tells of requests, without the names of these.
_TOLD = f"SELECT {', '.join(LINE_COLUMNS[3:])} FROM _usage_lines WHERE message_id = ? ORDER BY part"

_INVARIANTS = (
    (
        "sessions are called deleted whose transcripts are there",
        (
            "SELECT count(*) FROM sessions s WHERE s.source_deleted_at IS NOT NULL"
            " AND EXISTS (SELECT 1 FROM source_files f WHERE f.session_id = s.id"
            "  AND f.agent_id IS NULL AND f.missing_since IS NULL)"
        ),
    ),
    (
        "uuids stand in more than one message",
        (
            "SELECT count(*) FROM (SELECT 1 FROM messages WHERE length(uuid) = 36"
            " GROUP BY uuid HAVING count(*) > 1)"
        ),
    ),
    (
        "requests do not add up to their lines",
        (
            "SELECT count(*) FROM usage u WHERE lines > (SELECT count(*) FROM _usage_lines l"
            " WHERE l.request_key = u.request_key)"
        ),
    ),
    (
        "requests have no row",
        (
            "SELECT count(*) FROM (SELECT DISTINCT l.request_key FROM _usage_lines l"
            " JOIN messages m ON m.id = l.message_id WHERE m.is_sidechain = 0)"
            " k WHERE NOT EXISTS (SELECT 1 FROM usage u WHERE u.request_key = k.request_key)"
        ),
    ),
    (
        "tool calls name a message that is not there",
        (
            "SELECT count(*) FROM tool_uses t WHERE message_id IS NOT NULL"
            " AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = t.message_id)"
        ),
    ),
    (
        "messages name a turn that is not there",
        (
            "SELECT count(*) FROM messages m WHERE turn_id IS NOT NULL"
            " AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.id = m.turn_id)"
        ),
    ),
)
