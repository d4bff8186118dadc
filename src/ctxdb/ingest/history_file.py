"""Reads what is new in history.jsonl: complete lines only, each line once.

Rows and the offset are written in the caller's transaction. A file that is not the one that was
read is read from its beginning; lines that are known are not stored again, and rows stay when their
lines are gone. Copies of the file in other folders add no rows.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from typing import TYPE_CHECKING

from ctxdb.claude.side_contents import Typed, typed_line
from ctxdb.files.identity import mark_of
from ctxdb.files.parse import Bad, parse
from ctxdb.files.tail import read_block
from ctxdb.ingest.gate import HistoryGate
from ctxdb.privacy.json_bytes import cover
from ctxdb.rules.history import text_hash
from ctxdb.side_rows import HistoryLine
from ctxdb.store.changes import stamp
from ctxdb.store.insert import insert

if TYPE_CHECKING:
    from ctxdb.archive.stars import Stars
    from ctxdb.files.tail import Line
    from ctxdb.ingest.masked_line import Reading
    from ctxdb.privacy.masking import Masker
    from ctxdb.side_rows import SideFile

_EQUAL_LINES = (
    "SELECT count(*) FROM _history_lines l JOIN _history_places p ON p.history_id = l.history_id"
    " WHERE l.line_hash = ? AND p.side_file_id = ?"
)


def read_history(conn: sqlite3.Connection, fd: int, file: SideFile, reading: Reading) -> set[int]:
    """Store the new lines of an open file; returns the hashes of their texts."""
    if file.offset and not _is_same(fd, file):
        conn.execute("DELETE FROM _history_places WHERE side_file_id = ?", (file.id,))
        file.offset = file.lines = file.bad_lines = 0
    lines = _Lines(conn, file, reading)
    while True:
        block = read_block(fd, file.offset)
        if block.is_empty:
            break
        lines.take(block.lines)
        for start, _, _ in block.oversize:
            lines.note_bad(start, "too large")
        file.lines += len(block.lines) + len(block.oversize)
        file.offset = block.end
    file.mark = mark_of(fd, file.offset)
    file.state = "partial" if os.fstat(fd).st_size > file.offset else "ok"
    if not file.bad_lines:
        file.problem = None
    stamp(conn, lines.sessions)
    return lines.texts


def _is_same(fd: int, file: SideFile) -> bool:
    return os.fstat(fd).st_size >= file.offset and mark_of(fd, file.offset) == file.mark


def masked(typed: Typed, masker: Masker) -> Typed:
    """A line with its secrets masked, so that its text is that of the turn it became."""
    place = typed.project_path
    return typed._replace(
        project_path=place and masker.mask(place),
        prompt=masker.mask(typed.prompt),
        whole=masker.mask(typed.whole),
    )


def with_marks(stars: Stars, start: int, length: int, line: bytes) -> tuple[bytes, int | None]:
    """A line with marks in place of what is overwritten in it, and the digest that it had then.

    Nearly always the line itself, and None: its digest is that of its bytes.
    """
    places = stars.in_line(start, length - 1, line) if stars.places else ()
    if not places:
        return line, None
    known_by = stars.known_by.get(start)
    return cover(line, places), None if known_by is None else int(known_by)


class _Lines:
    """The lines of one file."""

    def __init__(self, conn: sqlite3.Connection, file: SideFile, reading: Reading) -> None:
        self.conn = conn
        self.masker, self.digest = reading.masker, reading.digest
        self.file = file
        self.stars = reading.stars_in(file.path_bytes or file.path)
        self.is_start = file.offset == 0
        self.before: Counter[int] = Counter()  # equal lines, by hash
        self.texts: set[int] = set()
        self.sessions: set[str | None] = set()  # of new rows
        self.gate = HistoryGate(conn)

    def take(self, lines: list[Line]) -> None:
        """Store the lines of a block."""
        for start, length, line in lines:
            data, known_by = with_marks(self.stars, start, length, line)
            found = parse(data)
            if found is None:
                continue  # a blank line
            if isinstance(found, Bad):
                self.note_bad(start, found.reason)
                continue
            for within, size, entry in found.objects:  # nearly always one
                typed = typed_line(entry)
                said = data[within : within + size]
                if typed is None:
                    self.note_bad(start, "no prompt in it")
                elif self.gate.keeps_out(typed, said):
                    continue
                else:
                    if self.masker is not None:
                        typed = masked(typed, self.masker)
                    hashed = self.digest(said) if known_by is None else known_by
                    self._store(start + within, hashed, typed)

    def note_bad(self, start: int, reason: str) -> None:
        """A line that cannot be read."""
        self.file.bad_lines += 1
        self.file.problem = f"{reason} at byte {start}"

    def _store(self, start: int, hashed: int, typed: Typed) -> None:
        if not self.is_start and hashed not in self.before:
            (self.before[hashed],) = self.conn.execute(
                _EQUAL_LINES, (hashed, self.file.id)
            ).fetchone()
        nth = self.before[hashed]
        self.before[hashed] += 1
        known = self.conn.execute(
            "SELECT history_id FROM _history_lines WHERE line_hash = ? AND nth = ?", (hashed, nth)
        ).fetchone()
        if known is None:
            text = text_hash(typed.whole)
            (last,) = self.conn.execute("SELECT max(id) FROM history").fetchone()
            row = HistoryLine(
                (last or 0) + 1,
                typed.timestamp,
                typed.project_path,
                typed.session_id,
                typed.prompt,
                typed.pasted_bytes,
                line_hash=hashed,
                nth=nth,
                text_hash=text,
            )
            insert(self.conn, HistoryLine, [row])
            self.texts.add(text)
            self.sessions.add(typed.session_id)
            known = (row.id,)
        (history_id,) = known
        self.conn.execute(
            "INSERT OR REPLACE INTO _history_places VALUES (?, ?, ?)",
            (self.file.id, start, history_id),
        )
