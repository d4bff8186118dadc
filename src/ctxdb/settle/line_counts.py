"""What became of each line, counted; a line that changes hands is counted anew."""

from __future__ import annotations

import sqlite3

Line = tuple[int, int, str, str]  # file, byte, entry type of the line, version


def shift_count(conn: sqlite3.Connection, line: Line, was: str, now: str) -> None:
    """Count a line under another outcome."""
    file_id, start, line_type, version = line
    mended = conn.execute(
        "SELECT byte_start, reason FROM ingest_errors WHERE source_file_id = ?"
        " AND byte_start <= ? AND byte_start + byte_length > ?",
        (file_id, start, start),
    ).fetchone()
    if mended and mended[0] != start:
        return  # a further object glued to a line: the line counts as what its first object is
    key = (file_id, line_type, version, was, mended[1] if mended else "")
    changed = conn.execute(
        "UPDATE line_counts SET lines = lines - 1 WHERE source_file_id = ? AND type = ?"
        " AND version = ? AND outcome = ? AND reason = ?",
        key,
    ).rowcount
    if not changed:
        return
    conn.execute("DELETE FROM line_counts WHERE source_file_id = ? AND lines <= 0", (file_id,))
    conn.execute(
        "INSERT INTO line_counts VALUES (?, ?, ?, ?, ?, 1)"
        " ON CONFLICT DO UPDATE SET lines = lines + 1",
        (file_id, line_type, version, now, key[4]),
    )
