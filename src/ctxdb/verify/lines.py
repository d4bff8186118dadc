"""Compare every line of every transcript with its row, and what must hold in the whole database."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from ctxdb.files.walk import store_path
from ctxdb.ingest.line_check import LineCheck
from ctxdb.rows import SourceFile
from ctxdb.store.insert import load
from ctxdb.verify.differences import VerifyReport

if TYPE_CHECKING:
    from ctxdb.ingest.gate import Gate
    from ctxdb.ingest.masked_line import Reading
    from ctxdb.progress import Progress


def check_all_lines(
    conn: sqlite3.Connection,
    roots: tuple[str, ...] | None,
    report: VerifyReport,
    progress: Progress,
    reading: Reading,
    gate: Gate,
) -> set[int]:
    """Compare every file below the roots, or every file; return the ids of those that were read."""
    tops = [""]
    if roots is not None:
        tops = [text for text, _ in (store_path(root.rstrip("/") + "/") for root in roots)]
    files = [
        file
        for file in load(conn, SourceFile, "ORDER BY t.path")
        if file.name.startswith(tuple(tops))
    ]
    progress.start(sum(file.offset for file in files), "Verifying")
    check = LineCheck(conn, report, progress, reading, gate=gate)
    for file in files:
        check.check_file(file)
    for text, sql in _INVARIANTS:
        (wrong,) = conn.execute(sql).fetchone()
        if wrong:
            report.differ(f"{wrong:,} {text}")
    return check.read


# What must hold over the whole database, whatever files are left.
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
