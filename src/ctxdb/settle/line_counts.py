"""Count what became of each line, and count again when another line becomes the owner."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ctxdb.rows import Message
    from ctxdb.rules.chunk import Chunk

_COUNT = (
    "INSERT INTO line_counts (source_file_id, type, version, outcome, reason, lines)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET lines = lines + excluded.lines"
)


class CountedLine(NamedTuple):
    """What a line is counted by."""

    file_id: int
    start: int
    line_type: str
    version: str


def count_chunks(conn: sqlite3.Connection, chunks: list[Chunk]) -> None:
    """Count the lines of a batch; those that repeat an entry are counted when it is settled."""
    rows = []
    for chunk in chunks:
        chunk.counts.update(chunk.derived.counts)
        chunk.counts.update(
            Counter(
                (event.line_type, event.version, "stored" if event.id else "copy", event.note)
                for event in chunk.events
                if event.note is not None
            )
        )
        rows += [(chunk.file.id, *key, lines) for key, lines in chunk.counts.items()]
    conn.executemany(_COUNT, rows)


def count_one(conn: sqlite3.Connection, message: Message, outcome: str) -> None:
    """Count the line of an entry that has been settled."""
    if message.note is not None:
        key = (message.source_file_id, message.line_type, message.version or "", outcome)
        conn.execute(_COUNT, (*key, message.note, 1))


def shift_count(conn: sqlite3.Connection, line: CountedLine, was: str, now: str) -> None:
    """Count a line under another outcome."""
    mended = conn.execute(
        "SELECT byte_start, reason FROM ingest_errors WHERE source_file_id = ?"
        " AND byte_start <= ? AND byte_start + byte_length > ?",
        (line.file_id, line.start, line.start),
    ).fetchone()
    begins, reason = mended or (line.start, "")
    if begins != line.start:
        return  # a further object glued to a line: the line counts as what its first object is
    changed = conn.execute(
        "UPDATE line_counts SET lines = lines - 1 WHERE source_file_id = ? AND type = ?"
        " AND version = ? AND outcome = ? AND reason = ?",
        (line.file_id, line.line_type, line.version, was, reason),
    ).rowcount
    if not changed:
        return
    conn.execute("DELETE FROM line_counts WHERE source_file_id = ? AND lines <= 0", (line.file_id,))
    conn.execute(_COUNT, (line.file_id, line.line_type, line.version, now, reason, 1))
