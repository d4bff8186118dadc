"""What became of each line, counted; a line that changes hands is counted anew."""

from __future__ import annotations

import sqlite3


def shift_count(
    conn: sqlite3.Connection, file_id: int, line_type: str, version: str, was: str, now: str
) -> None:
    """Count a line under another outcome."""
    row = conn.execute(
        "SELECT reason FROM line_counts WHERE source_file_id = ? AND type = ? AND version = ?"
        " AND outcome = ? ORDER BY reason LIMIT 1",
        (file_id, line_type, version, was),
    ).fetchone()
    if row is None:
        return
    key = (file_id, line_type, version, was, row[0])
    conn.execute(
        "UPDATE line_counts SET lines = lines - 1 WHERE source_file_id = ? AND type = ?"
        " AND version = ? AND outcome = ? AND reason = ?",
        key,
    )
    conn.execute("DELETE FROM line_counts WHERE source_file_id = ? AND lines <= 0", (file_id,))
    conn.execute(
        "INSERT INTO line_counts VALUES (?, ?, ?, ?, ?, 1)"
        " ON CONFLICT DO UPDATE SET lines = lines + 1",
        (file_id, line_type, version, now, row[0]),
    )
