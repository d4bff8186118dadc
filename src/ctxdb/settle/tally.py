"""What a batch tells of files and sessions: lines counted, places seen, offsets moved."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson

from ctxdb.claude import Event, Message, Skip
from ctxdb.settle import sessions
from ctxdb.store.chunk import Chunk, LineKey, Placed, Touched
from ctxdb.store.lookup import look_up

COUNT_LINES = (
    "INSERT INTO line_counts VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET lines = lines + excluded.lines"
)
_MOVE_OFFSET = (
    'UPDATE source_files SET "offset" = ?, lines = lines + ?, bad_lines = bad_lines + ?,'
    " skipped_lines = skipped_lines + ?, mark = ?, size = ?, dev = ?, ino = ?,"
    " mtime_ns = ?, ctime_ns = ?, state = ?, last_read_at = coalesce(?, last_read_at),"
    " searched = ?, searched_mark = ?,"
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
_FIRST_AT = 2 + _SEEN.index("first_at")  # in a row of _session_files


class OffsetMoved(Exception):
    """Another process has read on in the same file: nothing of this batch may stay."""


def counted(
    chunk: Chunk, items: list[Placed], outcome_of: Callable[[Event], str]
) -> Counter[LineKey]:
    """The lines of a chunk's new entries and events, its skipped, blank and bad ones."""
    counts: Counter[LineKey] = Counter(chunk.counts)
    stored = Counter(
        [
            (item.rec.line_type, item.rec.version, item.note)
            for item in items
            if item.fresh and item.note is not None
        ]
    )
    for (line_type, version, mended), lines in stored.items():
        counts[line_type, version, "stored", mended] += lines
    for record, note in zip(chunk.records, chunk.notes, strict=True):
        if type(record) is Message or note is None:
            continue
        if type(record) is Event:
            counts[record.line_type, record.version, outcome_of(record), note] += 1
        elif type(record) is Skip:
            reason = record.reason if not note else f"{record.reason},{note}"
            counts[record.line_type, record.version, "skipped", reason] += 1
    return counts


def count_new(conn: sqlite3.Connection, chunks: list[Chunk]) -> None:
    """Count the lines of the batch; those that repeat an entry are counted when it is settled."""
    conn.executemany(
        COUNT_LINES,
        [(c.file.id, *key, lines) for c in chunks for key, lines in c.counts.items()],
    )


def count_one(conn: sqlite3.Connection, item: Placed, outcome: str) -> None:
    """Count the line of an entry that has been settled."""
    if item.note is not None:
        rec = item.rec
        key = (item.file.id, rec.line_type, rec.version, outcome, item.note)
        conn.execute(COUNT_LINES, (*key, 1))


def told_of(items: list[Placed]) -> list[tuple[Any, ...]]:
    """What the lines of one file tell of their sessions: (session, the columns of _SEEN)."""
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
    return [(session_id, *told.values()) for session_id, told in seen.items()]


def see(
    conn: sqlite3.Connection, told: list[tuple[int, list[tuple[Any, ...]]]], touched: Touched
) -> None:
    """Keep what files tell of their sessions: (file, what told_of says)."""
    rows = [(one[0], file_id, *one[1:]) for file_id, by_session in told for one in by_session]
    if not rows:
        return
    sessions.note_files(conn, rows)
    firsts: dict[str, str] = {}
    for row in rows:
        touched.sessions.add(row[0])
        at = row[_FIRST_AT]
        if at is not None and at < firsts.get(row[0], "~"):
            firsts[row[0]] = at
    named = {row[0] for row in rows}
    # In a session that shares entries, an earlier unshared one can change who owns them.
    for session_id, first in look_up(
        conn,
        named,
        "SELECT s.id, s.first_unshared_at FROM j CROSS JOIN sessions s ON s.id = j.value"
        " WHERE s.shares_entries",
    ):
        if session_id in firsts and (first is None or firsts[session_id] < first):
            touched.shared.add(session_id)
    # Where a session has several files, which of them is first may have changed.
    touched.renumber.update(
        session_id
        for (session_id,) in look_up(
            conn,
            named,
            "SELECT s.session_id FROM j CROSS JOIN _session_files s"
            " ON s.session_id = j.value JOIN source_files f ON f.id = s.source_file_id"
            " WHERE f.agent_id IS NULL GROUP BY 1 HAVING count(*) > 1",
        )
    )
    # What one session does in a file can say how another one there continues it.
    touched.sessions.update(
        other
        for (other,) in conn.execute(
            "SELECT s.session_id FROM json_each(?) j CROSS JOIN _session_files s"
            " ON s.source_file_id = j.value",
            (orjson.dumps(sorted({row[1] for row in rows})).decode(),),
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
        values = (
            chunk.end,
            chunk.lines,
            bad,
            skipped,
            chunk.mark,
            stat.size,
            stat.dev,
            stat.ino,
            stat.mtime_ns,
            # Only a file that was read to its end may be passed over by its stat.
            stat.ctime_ns if chunk.at_end else 0,
            "ok" if chunk.end >= stat.size else "partial",
            now if chunk.lines else None,
            *(chunk.unfinished or (None, None)),
        )
        where = (file.id, file.generation, chunk.start)
        if conn.execute(_MOVE_OFFSET, (*values, *where)).rowcount != 1:
            raise OffsetMoved(file.path)
