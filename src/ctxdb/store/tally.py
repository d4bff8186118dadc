"""What a batch tells of files and sessions: lines counted, places seen, offsets moved."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any

from ctxdb.normalize import Event, Message, Skip
from ctxdb.store import sessions
from ctxdb.store.events import EventRows
from ctxdb.store.model import Chunk, LineKey, Placed, Touched

COUNT_LINES = (
    "INSERT INTO line_counts VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET lines = lines + excluded.lines"
)
_MOVE_OFFSET = (
    'UPDATE source_files SET "offset" = ?, lines = lines + ?, bad_lines = bad_lines + ?,'
    " skipped_lines = skipped_lines + ?, mark = ?, size = ?, dev = ?, ino = ?,"
    " mtime_ns = ?, ctime_ns = ?, state = ?, last_read_at = coalesce(?, last_read_at),"
    ' missing_since = NULL, attempting = NULL WHERE id = ? AND generation = ? AND "offset" = ?'
)
_SEEN = (
    "main",
    "first_cwd",
    "agent_cwd",
    "git_branch",
    "version",
    "slug",
    "entrypoint",
    "first_at",
    "last_at",
    "first_user_at",
    "last_user_at",
    "forked_session",
    "process_session",
)


class OffsetMoved(Exception):
    """Another process has read on in the same file: nothing of this batch may stay."""


def count_new(
    conn: sqlite3.Connection, chunks: list[Chunk], placed: list[list[Placed]], events: EventRows
) -> None:
    """Count the lines of new entries and events, the skipped, the blank and the bad ones."""
    rows: list[tuple[Any, ...]] = []
    for chunk, items in zip(chunks, placed, strict=True):
        counts: Counter[LineKey] = Counter(chunk.counts)
        for item in items:
            if item.fresh and item.note is not None:
                counts[item.rec.line_type, item.rec.version, "stored", item.note] += 1
        for record, note in zip(chunk.records, chunk.notes, strict=True):
            if type(record) is Message or note is None:
                continue
            if type(record) is Event:
                counts[record.line_type, record.version, events.outcome_of(record), note] += 1
            elif type(record) is Skip:
                reason = record.reason if not note else f"{record.reason},{note}"
                counts[record.line_type, record.version, "skipped", reason] += 1
        rows += [(chunk.file.id, *key, lines) for key, lines in counts.items()]
    conn.executemany(COUNT_LINES, rows)


def count_one(conn: sqlite3.Connection, item: Placed, outcome: str) -> None:
    """Count the line of an entry that has been settled."""
    if item.note is not None:
        rec = item.rec
        key = (item.file.id, rec.line_type, rec.version, outcome, item.note)
        conn.execute(COUNT_LINES, (*key, 1))


def see(conn: sqlite3.Connection, items: list[Placed], touched: Touched) -> None:
    """Collect what the lines of one file tell of their sessions."""
    seen: dict[str, dict[str, Any]] = {}
    for item in items:
        session_id = item.session_id
        if session_id is None:
            continue
        told = seen.get(session_id)
        if told is None:
            told = seen[session_id] = dict.fromkeys(_SEEN)
            told["main"] = 0
        _see_line(told, item)
    for session_id, told in seen.items():
        touched.sessions.add(session_id)
        sessions.note_file(conn, session_id, items[0].file.id, told)
        _may_be_first(conn, session_id, told["first_at"], touched)
        if _has_parts(conn, session_id):
            touched.renumber.add(session_id)  # which of its files is first may have changed
    if seen:
        # What one session does in a file can say how another one there continues it.
        touched.sessions.update(
            other
            for (other,) in conn.execute(
                "SELECT session_id FROM _session_files WHERE source_file_id = ?",
                (items[0].file.id,),
            )
        )


def _see_line(told: dict[str, Any], item: Placed) -> None:
    rec = item.rec
    main = item.agent_id is None
    if rec.slug:
        told["slug"] = rec.slug
    if rec.entrypoint:
        told["entrypoint"] = rec.entrypoint
    if rec.forked_session:
        told["forked_session"] = rec.forked_session
    if main:
        if rec.process_session and told["process_session"] is None:
            told["process_session"] = rec.process_session
        if rec.type == "user" and item.file.agent_id is None:
            if told["first_user_at"] is None:
                told["first_user_at"] = rec.start
            told["last_user_at"] = rec.start
    if item.fresh:
        _see_own_line(told, item, "first_cwd" if main else "agent_cwd")


def _see_own_line(told: dict[str, Any], item: Placed, cwd: str) -> None:
    rec = item.rec
    if cwd == "first_cwd":
        told["main"] = 1
    if told[cwd] is None:
        told[cwd] = rec.cwd
    if rec.git_branch:
        told["git_branch"] = rec.git_branch
    if rec.version:
        told["version"] = rec.version
    at = rec.timestamp
    if at is not None:
        first = told["first_at"]
        if first is None:
            told["first_at"] = told["last_at"] = at
        elif at < first:
            told["first_at"] = at
        elif at > told["last_at"]:
            told["last_at"] = at


def _may_be_first(
    conn: sqlite3.Connection, session_id: str, first_at: str | None, touched: Touched
) -> None:
    """In a session that shares entries, an earlier unshared one can change who owns them."""
    row = conn.execute(
        "SELECT first_unshared_at FROM sessions WHERE id = ? AND shares_entries", (session_id,)
    ).fetchone()
    if row is not None and first_at is not None and (row[0] is None or first_at < row[0]):
        touched.shared.add(session_id)


def _has_parts(conn: sqlite3.Connection, session_id: str) -> bool:
    (files,) = conn.execute(
        "SELECT count(*) FROM _session_files s JOIN source_files f ON f.id = s.source_file_id"
        " WHERE s.session_id = ? AND f.agent_id IS NULL",
        (session_id,),
    ).fetchone()
    return bool(files > 1)


def note_errors(conn: sqlite3.Connection, chunks: list[Chunk], now: str) -> None:
    """Lines that could not be read, or only after mending."""
    for chunk in chunks:
        if chunk.errors:
            conn.executemany(
                "INSERT INTO ingest_errors (source_file_id, byte_start, byte_length, reason,"
                " excerpt, seen_at) VALUES (?, ?, ?, ?, ?, ?)",
                [(chunk.file.id, *error, now) for error in chunk.errors],
            )


def move_offsets(conn: sqlite3.Connection, chunks: list[Chunk], now: str) -> None:
    """The last step: each file's offset moves on, and only from where the batch began."""
    for chunk in chunks:
        file, stat = chunk.file, chunk.stat
        bad = sum(n for key, n in chunk.counts.items() if key[2] == "bad")
        skipped = sum(n for key, n in chunk.counts.items() if key[2] == "skipped")
        skipped += sum(
            1
            for record, note in zip(chunk.records, chunk.notes, strict=True)
            if type(record) is Skip and note is not None
        )
        values = (
            chunk.end,
            chunk.lines,
            bad,
            skipped,
            chunk.mark,
            stat.size,
            stat.dev,
            stat.ino,
            # Only a file that was read to its end may be passed over by its stat.
            stat.mtime_ns if chunk.at_end else 0,
            stat.ctime_ns if chunk.at_end else 0,
            "ok" if chunk.end >= stat.size else "partial",
            now if chunk.lines else None,
        )
        where = (file.id, file.generation, chunk.start)
        if conn.execute(_MOVE_OFFSET, (*values, *where)).rowcount != 1:
            raise OffsetMoved(file.path)
