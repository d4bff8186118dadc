"""Read a transcript again and compare each line with its row.

The file is read from its first byte up to the saved offset. Its lines must be stored + copies +
skipped + bad, by a new count. Every message, copy and event must be where its row says and say the
same. Every tool call, result and usage line must be there.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctxdb.columns import columns
from ctxdb.files.identity import mark_of
from ctxdb.files.tail import find_newline
from ctxdb.files.walk import pack_stat
from ctxdb.ingest.line_reader import FilePlace, read_chunk
from ctxdb.ingest.masked_line import Reading
from ctxdb.rows import Message, SourceFile, ToolUse, UsageLine
from ctxdb.rules.chunk import Chunk
from ctxdb.store.insert import load
from ctxdb.store.masked_places import load_places
from ctxdb.store.tombstones import Tombstones

if TYPE_CHECKING:
    from ctxdb.ingest.gate import Gate
    from ctxdb.progress import Progress

MAX_SHOWN = 20  # differences that are described; the others are counted

# Columns that depend on other lines too: the comparison with a second database checks them.
_NOT_BY_LINE = ("id", "turn_id", "parent_uuid", "source_file_id", "session_id", "agent_id")
_BY_LINE = tuple(name for name in columns(Message) if name not in _NOT_BY_LINE)
_TOLD = tuple(name for name in columns(UsageLine) if name not in ("message_id", "request_key"))


@dataclass(slots=True)
class LineFindings:
    """How many files and lines were compared, and what differs."""

    files: int = 0
    files_gone: int = 0
    files_changed: int = 0
    files_behind: int = 0
    files_partial: int = 0
    lines_read: int = 0
    stored: int = 0
    copies: int = 0
    skipped: int = 0
    bad: int = 0
    rows_compared: int = 0
    differences: int = 0
    shown: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing differs."""
        return self.differences == 0

    def differ(self, text: str) -> None:
        """Count a difference, and keep the first few."""
        self.differences += 1
        if len(self.shown) < MAX_SHOWN:
            self.shown.append(text)


def has_same_lines(
    conn: sqlite3.Connection, file_id: int, progress: Progress, reading: Reading
) -> bool:
    """Whether the stored lines of a file say what they said when they were read.

    A row that a person has deleted is no difference: it must not come back.
    """
    check = LineCheck(conn, LineFindings(), progress, reading, rows_may_lack=True)
    for file in load(conn, SourceFile, "WHERE t.id = ?", (file_id,)):
        check.check_file(file)
    return file_id in check.read and check.report.ok


class LineCheck:
    """Reads files again and compares."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        report: LineFindings,
        progress: Progress,
        reading: Reading,
        *,
        rows_may_lack: bool = False,
        gate: Gate | None = None,
    ) -> None:
        self.conn = conn
        self.report = report
        self.progress = progress
        self.reading = reading
        self.rows_may_lack = rows_may_lack
        self.gate = gate
        self.tombstones = Tombstones(conn)
        self.read: set[int] = set()  # ids of the files that are as they were read

    def check_file(self, file: SourceFile) -> None:
        """Compare one file with its rows."""
        try:
            fd = self.reading.opener(file.path_bytes or file.path)
        except OSError as e:
            self.report.files_gone += 1
            if file.missing_since is None and not isinstance(e, FileNotFoundError):
                self.report.differ(f"{file.path}: {e.strerror}")
            return
        try:
            if file.mark is not None and mark_of(fd, file.offset) != file.mark:
                if file.stat == pack_stat(os.fstat(fd)):
                    text = f"{file.path}: the saved offset or mark is not of this file"
                    self.report.differ(text)
                else:
                    self.report.files_changed += 1
                return
            self.report.files += 1
            counts: Counter[str] = Counter()
            if not self._read(fd, file, counts):
                return
            if os.fstat(fd).st_size > file.offset:
                if find_newline(fd, file.offset) < 0:
                    self.report.files_partial += 1  # and no sync would change that
                elif self.gate is None or not self.gate.is_ignored_now(
                    os.fsdecode(file.path_bytes or file.path), file.id, fd
                ):
                    self.report.files_behind += 1
        finally:
            os.close(fd)
        self.read.add(file.id)
        self._count(file, counts)

    def _read(self, fd: int, file: SourceFile, counts: Counter[str]) -> bool:
        """Read the file up to its offset and compare; False when the offset cannot be right."""
        # A huge line that ended a process is never parsed again, even if it might work this time.
        passed_over = {
            start
            for (start,) in self.conn.execute(
                "SELECT byte_start FROM ingest_errors WHERE source_file_id = ?"
                " AND reason = 'too_large'",
                (file.id,),
            )
        }
        # What was masked when it was read is masked again, whatever rules there are now.
        masked = load_places(self.conn, file.id)
        path = file.path_bytes or file.path
        place = FilePlace(file.session_id, file.agent_id, masked, path)
        at = 0
        while at < file.offset:
            chunk = read_chunk(
                fd, at, place, self.reading, give_up=at in passed_over, limit=file.offset
            )
            if chunk.end == at or chunk.end > file.offset:
                text = f"{file.path}: the saved offset {file.offset} is not after a newline"
                self.report.differ(text)
                return False
            chunk.pass_on(self.tombstones.is_forgotten)
            self._compare(file, chunk, counts)
            self.progress.advance(chunk.end - at)
            at = chunk.end
        return True

    def _count(self, file: SourceFile, counts: Counter[str]) -> None:
        stored = Counter(
            dict(
                self.conn.execute(
                    "SELECT outcome, sum(lines) FROM line_counts WHERE source_file_id = ?"
                    " GROUP BY outcome",
                    (file.id,),
                )
            )
        )
        path, lines = file.path, counts.total()
        if self.rows_may_lack:
            stored = counts
        if lines != file.lines or stored.total() != lines:
            self.report.differ(
                f"{path}: {lines} lines, {file.lines} said, {stored.total()} counted"
            )
        for outcome in ("stored", "copy", "skipped", "bad"):
            if counts[outcome] != stored[outcome]:
                self.report.differ(
                    f"{path}: {counts[outcome]} lines are {outcome}, {stored[outcome]} counted"
                )
        if (counts["bad"], counts["skipped"]) != (file.bad_lines, file.skipped_lines):
            self.report.differ(f"{path}: bad_lines or skipped_lines are off")
        self.report.lines_read += lines
        self.report.stored += counts["stored"]
        self.report.copies += counts["copy"]
        self.report.skipped += counts["skipped"]
        self.report.bad += counts["bad"]

    def _compare(self, file: SourceFile, chunk: Chunk, counts: Counter[str]) -> None:
        """Compare the lines of a chunk with their rows."""
        where = "source_file_id = ? AND byte_start >= ? AND byte_start < ?"
        span = (file.id, chunk.start, chunk.end)
        found = load(
            self.conn,
            Message,
            "WHERE t.source_file_id = ? AND t.byte_start >= ? AND t.byte_start < ?"
            " AND t.byte_length > 0",
            span,
        )
        messages = {row.byte_start: row for row in found}
        copies = {
            start
            for (start,) in self.conn.execute(
                f"SELECT byte_start FROM message_copies WHERE {where}", span
            )
        }
        events = dict(
            self.conn.execute(
                f"SELECT byte_start, data FROM events WHERE {where} AND byte_length > 0", span
            )
        )
        event_copies = {
            start
            for (start,) in self.conn.execute(
                f"SELECT byte_start FROM _event_copies WHERE {where}", span
            )
        }
        for (_, _, outcome, _), n in chunk.counts.items():
            counts[outcome] += n
        for line in chunk.messages:
            at, outcome = line.byte_start, "stored"
            row = messages.pop(at, None)
            if row is not None:
                self._compare_message(file.path, line, row)
            elif at in copies:
                copies.discard(at)
                outcome = "copy"
                self.report.rows_compared += 1
            else:
                self._lacks(f"{file.path} at byte {at}: no row for this message")
            counts[outcome] += line.note is not None
        for event in chunk.events:
            at, outcome = event.byte_start, "stored"
            data = events.pop(at, None)
            if data is not None:
                self.report.rows_compared += 1
                if data != event.data:
                    self.report.differ(f"{file.path} at byte {at}: event differs")
            elif at in event_copies:
                event_copies.discard(at)
                outcome = "copy"
            else:
                self._lacks(f"{file.path} at byte {at}: no row for this event")
            counts[outcome] += event.note is not None
        for start in (*messages, *copies, *events, *event_copies):
            self.report.differ(f"{file.path} at byte {start}: a row without a line")

    def _compare_message(self, path: str, line: Message, row: Message) -> None:
        self.report.rows_compared += 1
        where = f"{path} at byte {line.byte_start}"
        wrong = [name for name in _BY_LINE if getattr(line, name) != getattr(row, name)]
        if wrong:
            self.report.differ(f"{where}: {', '.join(wrong)} differ")
        if row.session_id != line.session_id:
            self.report.differ(f"{where}: session differs")
        if line.agent_id is not None and row.agent_id != line.agent_id and not _is_side(line):
            self.report.differ(f"{where}: agent differs")
        for call in line.calls or ():
            self._compare_half(_CALL, call, row.id, (call.name, call.input), f"{where}: call")
        for result in line.results or ():
            said = (result.result_text, result.status)
            self._compare_half(_RESULT, result, row.id, said, f"{where}: result")
        told = load(self.conn, UsageLine, "WHERE t.message_id = ? ORDER BY t.part", (row.id,))
        if [*map(_said_of_usage, told)] != [*map(_said_of_usage, line.usage or ())]:
            self.report.differ(f"{where}: usage differs")

    def _compare_half(
        self, sql: str, half: ToolUse, message_id: int, said: tuple[Any, ...], where: str
    ) -> None:
        """A call or result must have a row. If the row is of this message, it must say the same."""
        self.report.rows_compared += 1
        found = self.conn.execute(sql, (half.tool_use_id, message_id)).fetchone()
        if found is None:
            self._lacks(f"{where} {half.tool_use_id}")
            return
        of_message, *stored = found
        if of_message == message_id and tuple(stored) != said:
            self.report.differ(f"{where} {half.tool_use_id}")

    def _lacks(self, what: str) -> None:
        if not self.rows_may_lack:
            self.report.differ(what)


_CALL = (
    "SELECT message_id, name, input FROM tool_uses WHERE tool_use_id = ?"
    " AND message_id IS NOT NULL ORDER BY message_id = ? DESC LIMIT 1"
)
_RESULT = (
    "SELECT result_message_id, coalesce((SELECT line_text FROM _tool_results"
    "  WHERE tool_id = tool_uses.id), result_text), status FROM tool_uses WHERE tool_use_id = ?"
    " AND result_message_id IS NOT NULL ORDER BY result_message_id = ? DESC LIMIT 1"
)


def _is_side(line: Message) -> bool:
    """Whether a line's agent is named after the first line of its sidechain, another line."""
    return line.agent_id is not None and line.agent_id.startswith("side-")


def _said_of_usage(line: UsageLine) -> tuple[Any, ...]:
    return tuple(getattr(line, name) for name in _TOLD)
