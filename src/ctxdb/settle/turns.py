"""Turns: one per human request, in the order a session reads.

Most begin at a user line. Prompts typed while the agent works stand in queue operations (and,
in newer versions, in queued_command attachments as well): `QueueReader` follows the queue of one
file in byte order and says where such a turn begins.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import orjson

from ctxdb.claude.human_text import content_text, queued_turn
from ctxdb.store.chunk import Placed, Touched

Turn = tuple[str, str]  # kind, prompt


class QueueReader:
    """The prompt queue of one file. What it answers depends on earlier lines only."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        # Texts that began a turn at a `remove` and may come again as an attachment; the reverse.
        self.removed: list[str] = []
        self.attached: list[str] = []
        self.told: set[tuple[str | None, str | None, str]] = set()

    def operation(self, name: str | None, content: Any, at: str | None) -> Turn | None:
        """The turn that a queue operation begins, if any."""
        text = content_text(content)
        if text:
            # The same words at the same time are a line written twice. Without words two equal
            # lines are two operations of one moment.
            if (name, at, text) in self.told:
                return None
            self.told.add((name, at, text))
        if name == "enqueue":
            self.waiting.append(text)
        elif name == "dequeue":
            if text and text in self.waiting:
                self.waiting.remove(text)
            elif self.waiting and not text:
                self.waiting.pop(0)
        elif name == "popAll":
            if text in self.waiting:
                self.waiting.remove(text)
            else:  # nothing, or all of it in one text
                self.waiting.clear()
        elif name == "remove":
            if text:
                if text in self.waiting:
                    self.waiting.remove(text)
            elif self.waiting:
                text = self.waiting.pop(0)
            turn = queued_turn(text)
            if turn is not None:
                words = _words(turn)
                if words in self.attached:
                    self.attached.remove(words)
                    return None
                self.removed.append(words)
            return turn
        return None

    def attachment(self, text: str) -> Turn | None:
        """The turn that a queued_command begins; None when its `remove` has begun it already."""
        turn = queued_turn(text)
        if turn is not None:
            words = _words(turn)
            if words in self.removed:
                self.removed.remove(words)
                return None
            self.attached.append(words)
        return turn


def _words(turn: Turn) -> str:
    """What was typed: a picture stands in the attachment only, in the queue as [Image #1]."""
    parts = turn[1].split("\n\n")
    return "\n\n".join(part for part in parts if part not in ("[image]", "[document]"))


# Every line of a file that moves its queue, copied ones too: what the queue holds at a byte follows
# from the file alone. Only an owned line has a row here for a turn to hang on.
_QUEUE_LINES = """
SELECT byte_start, 'event_id', id, session_id, timestamp, subtype, data, NULL FROM events
  WHERE source_file_id = :file AND type = 'queue-operation' AND byte_length > 0
    AND byte_start < :before
UNION ALL SELECT c.byte_start, 'event_id', NULL, NULL, e.timestamp, e.subtype, e.data, NULL
  FROM _event_copies c JOIN events e ON e.id = c.event_id
  WHERE c.source_file_id = :file AND e.type = 'queue-operation' AND c.byte_start < :before
UNION ALL SELECT byte_start, 'message_id', id, session_id, timestamp, NULL, NULL,
    json_extract(data, '$.queued_by_human') FROM messages
  WHERE source_file_id = :file AND subtype = 'queued_command' AND byte_length > 0
    AND byte_start < :before AND is_sidechain = 0
    AND json_extract(data, '$.queued_by_human') IS NOT NULL
UNION ALL SELECT c.byte_start, 'message_id', NULL, NULL, NULL, NULL, NULL,
    json_extract(m.data, '$.queued_by_human')
  FROM message_copies c JOIN messages m ON m.id = c.message_id
  WHERE c.source_file_id = :file AND m.subtype = 'queued_command' AND c.byte_start < :before
    AND m.is_sidechain = 0 AND json_extract(m.data, '$.queued_by_human') IS NOT NULL
ORDER BY 1
"""
_END = 1 << 62

# Turns whose line is still in its file: what a rewrite took away stands nowhere any more.
_STANDING = (
    "NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = turns.message_id AND m.byte_length < 0)"
    " AND NOT EXISTS (SELECT 1 FROM events e WHERE e.id = turns.event_id AND e.byte_length < 0)"
)

# A session may stand in two files, one of which goes on where the other ends. What began a turn is
# then in both: the row is of the one, but lines that only the other has belong to it as well.
_COPIED = """
SELECT c.byte_start, t.session_id, t.id FROM message_copies c CROSS JOIN turns t
  ON t.message_id = c.message_id
  WHERE c.source_file_id = :file AND c.byte_start > :after AND c.byte_start < :before
    AND t.source_file_id <> :file
UNION ALL SELECT c.byte_start, t.session_id, t.id FROM _event_copies c CROSS JOIN events e
  ON e.id = c.event_id AND e.type = 'queue-operation' AND e.subtype = 'remove'
  CROSS JOIN turns t ON t.session_id = e.session_id AND t.event_id = e.id
  WHERE c.source_file_id = :file AND c.byte_start > :after AND c.byte_start < :before
    AND t.source_file_id <> :file
"""
_LAST_COPIED = (
    f"SELECT id FROM ({_COPIED}) WHERE session_id IS :session ORDER BY byte_start DESC LIMIT 1"
)


def _follow(
    conn: sqlite3.Connection, file_id: int, before: int, reader: QueueReader
) -> Iterator[Any]:
    """Lead a reader along a file's queue: (row or None, place, session, time, turn) per line."""
    for start, source, row_id, session_id, at, name, data, text in conn.execute(
        _QUEUE_LINES, {"file": file_id, "before": before}
    ).fetchall():
        if source == "message_id":
            turn = reader.attachment(text)
        else:
            turn = reader.operation(name, orjson.loads(data).get("content"), at)
        yield source, row_id, start, session_id, at, turn


def read_queue(conn: sqlite3.Connection, file_id: int, before: int) -> QueueReader:
    """A reader that has followed the file up to a byte."""
    reader = QueueReader()
    for _ in _follow(conn, file_id, before, reader):
        pass
    return reader


def last_turn(
    conn: sqlite3.Connection, file_id: int, session_id: str | None, before: int
) -> int | None:
    """The turn in force in a file and session just before a byte."""
    own = conn.execute(
        "SELECT id, byte_start FROM turns WHERE source_file_id = ? AND session_id IS ?"
        f" AND byte_start < ? AND {_STANDING} ORDER BY byte_start DESC LIMIT 1",
        (file_id, session_id, before),
    ).fetchone()
    after = own[1] if own else -1
    where = {"file": file_id, "session": session_id, "after": after, "before": before}
    row = conn.execute(_LAST_COPIED, where).fetchone()
    return row[0] if row else own[0] if own else None


def last_turn_by_time(conn: sqlite3.Connection, session_id: str, at: str | None) -> int | None:
    """The turn in force at a moment: all that can be said of a line that is gone from its file."""
    row = conn.execute(
        "SELECT id FROM turns WHERE session_id = ? AND started_at <= ?"
        " ORDER BY started_at DESC, ordinal DESC LIMIT 1",
        (session_id, at),
    ).fetchone()
    return row[0] if row else None


def retell(conn: sqlite3.Connection, touched: Touched) -> None:
    """Work out the turns of files again from what is stored: after a rewrite, a change of owner.

    First where turns begin, in all of them: a line may belong to a turn that begins elsewhere.
    """
    for file_id in sorted(touched.retell):
        _retell_file(conn, file_id, touched)
    for file_id in sorted(touched.retell):
        _give_turns(conn, file_id, touched)


def _retell_file(conn: sqlite3.Connection, file_id: int, touched: Touched) -> None:
    """Where turns begin in a file."""
    conn.execute(
        "UPDATE turns SET source_file_id = m.source_file_id, byte_start = m.byte_start,"
        "  session_id = m.session_id, started_at = m.timestamp"
        " FROM messages m WHERE m.id = turns.message_id AND turns.source_file_id = ?"
        "  AND (m.source_file_id, m.byte_start, m.session_id, m.timestamp)"
        "   IS NOT (turns.source_file_id, turns.byte_start, turns.session_id, turns.started_at)",
        (file_id,),
    )
    _retell_queue(conn, file_id)
    sessions = [
        s
        for (s,) in conn.execute(
            "SELECT session_id FROM _session_files WHERE source_file_id = ?"
            " UNION SELECT session_id FROM turns WHERE source_file_id = ?",
            (file_id, file_id),
        )
        if s is not None
    ]
    touched.renumber.update(sessions)
    touched.sessions.update(sessions)
    touched.pulls.update(sessions)  # a pr-link names the turn before it


def _give_turns(conn: sqlite3.Connection, file_id: int, touched: Touched) -> None:
    """Each main-thread line of a file belongs to the last turn begun at or before it.

    One that a rewrite took away stays in its turn, as long as there is such a turn.
    """
    places = conn.execute(
        "SELECT byte_start, session_id, id FROM turns"
        f" WHERE source_file_id = :file AND {_STANDING} UNION ALL {_COPIED} ORDER BY 1",
        {"file": file_id, "after": -1, "before": _END},
    ).fetchall()
    begun: dict[str | None, int] = {}
    n = 0
    for message_id, start, session_id, before in conn.execute(
        "SELECT id, byte_start, session_id, turn_id FROM messages"
        " WHERE source_file_id = ? AND agent_id IS NULL AND (byte_length > 0"
        "  OR turn_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM turns WHERE id = turn_id))"
        " ORDER BY byte_start",
        (file_id,),
    ).fetchall():
        while n < len(places) and places[n][0] <= start:
            begun[places[n][1]] = places[n][2]
            n += 1
        turn_id = begun.get(session_id)
        if turn_id != before:
            move_message(conn, message_id, turn_id, before, touched)


def replace_turn(conn: sqlite3.Connection, item: Placed) -> None:
    """The turn that a message begins, after its row was filled from another line."""
    rec = item.rec
    place = (item.session_id, rec.timestamp, item.file.id, rec.start)
    found = conn.execute("SELECT id FROM turns WHERE message_id = ?", (item.id,)).fetchone()
    turn = rec.turn if item.agent_id is None else None
    if turn is not None and found is None:
        conn.execute(
            "INSERT INTO turns (session_id, started_at, source_file_id, byte_start, kind, prompt,"
            " message_id) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*place, *turn, item.id),
        )
    elif turn is not None:
        conn.execute(
            "UPDATE turns SET session_id = ?, started_at = ?, source_file_id = ?, byte_start = ?,"
            " kind = ?, prompt = ? WHERE id = ?",
            (*place, *turn, found[0]),
        )
    elif found is not None and rec.queued is not None:
        conn.execute(
            "UPDATE turns SET session_id = ?, started_at = ?, source_file_id = ?, byte_start = ?"
            " WHERE id = ?",
            (*place, found[0]),
        )
    elif found is not None:
        conn.execute("DELETE FROM turns WHERE id = ?", found)


def _retell_queue(conn: sqlite3.Connection, file_id: int) -> None:
    wanted: dict[tuple[str, int], tuple[Any, ...]] = {}
    present: set[tuple[str, int]] = set()
    for source, row_id, start, session_id, at, turn in _follow(conn, file_id, _END, QueueReader()):
        if row_id is None:
            continue
        present.add((source, row_id))
        if turn is not None and not (source == "event_id" and _is_forked(conn, session_id, at)):
            wanted[source, row_id] = (session_id, *turn, at, file_id, start)
    found = conn.execute(
        "SELECT t.id, 'event_id', t.event_id FROM turns t WHERE t.source_file_id = ?1"
        "  AND t.event_id IS NOT NULL"
        " UNION ALL SELECT t.id, 'message_id', t.message_id FROM turns t JOIN messages m"
        "  ON m.id = t.message_id WHERE t.source_file_id = ?1 AND m.subtype = 'queued_command'",
        (file_id,),
    ).fetchall()
    for turn_id, source, row_id in found:
        values = wanted.pop((source, row_id), None)
        if values is not None:
            conn.execute(
                "UPDATE turns SET session_id = ?, kind = ?, prompt = ?, started_at = ?,"
                " source_file_id = ?, byte_start = ? WHERE id = ?",
                (*values, turn_id),
            )
        elif (source, row_id) in present:
            conn.execute("DELETE FROM turns WHERE id = ?", (turn_id,))
        # A queue operation that is no longer in its file keeps its turn: nothing is lost.
    for (source, row_id), values in wanted.items():
        conn.execute(
            "INSERT INTO turns (session_id, kind, prompt, started_at, source_file_id, byte_start,"
            f" {source}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*values, row_id),
        )


def forked_queues(conn: sqlite3.Connection, sessions: list[str]) -> set[int]:
    """Files whose queue operations stand in these sessions as well, through a fork."""
    return {
        file_id
        for (file_id,) in conn.execute(
            "SELECT DISTINCT o.source_file_id FROM json_each(?) j CROSS JOIN events e"
            " ON e.session_id = j.value AND e.type = 'queue-operation'"
            " CROSS JOIN events o ON o.type = 'queue-operation' AND o.timestamp = e.timestamp"
            " WHERE o.session_id <> e.session_id",
            (orjson.dumps(sessions).decode(),),
        )
    }


# A session's place among those that have an operation in common, as among owners of an entry.
_SESSION_RANK = (
    "EXISTS (SELECT 1 FROM _session_files f WHERE f.session_id = s.id"
    "  AND f.forked_session <> s.id), s.first_unshared_at IS NOT NULL,"
    " coalesce(s.first_unshared_at, ''), s.id"
)


def _is_forked(conn: sqlite3.Connection, session_id: str | None, at: str | None) -> bool:
    """Whether a queue operation is a fork's copy of one in the session that it came from."""
    own = conn.execute(
        f"SELECT {_SESSION_RANK} FROM sessions s WHERE s.id = ? AND s.shares_entries", (session_id,)
    ).fetchone()
    if own is None or at is None:
        return False
    others = conn.execute(
        f"SELECT DISTINCT {_SESSION_RANK} FROM events e JOIN sessions s"
        " ON s.id = e.session_id WHERE e.type = 'queue-operation' AND e.timestamp = ?"
        "  AND s.id <> ? AND s.shares_entries",
        (at, session_id),
    )
    return any(other < own for other in others)


def move_message(
    conn: sqlite3.Connection,
    message_id: int,
    turn_id: int | None,
    before: int | None,
    touched: Touched,
) -> None:
    """Give a message, and all that came of it, to another turn."""
    conn.execute("UPDATE messages SET turn_id = ? WHERE id = ?", (turn_id, message_id))
    touched.turns.update(t for t in (turn_id, before) if t is not None)
    touched.requests.update(
        key
        for (key,) in conn.execute(
            "SELECT request_key FROM _usage_lines WHERE message_id = ?", (message_id,)
        )
    )
    conn.execute("UPDATE files_touched SET turn_id = ? WHERE message_id = ?", (turn_id, message_id))
    for tool_id, tool_use_id, name in conn.execute(
        "SELECT id, tool_use_id, name FROM tool_uses WHERE message_id = ?1"
        " OR (message_id IS NULL AND result_message_id = ?1)",
        (message_id,),
    ).fetchall():
        conn.execute("UPDATE tool_uses SET turn_id = ? WHERE id = ?", (turn_id, tool_id))
        conn.execute("UPDATE files_touched SET turn_id = ? WHERE tool_id = ?", (turn_id, tool_id))
        conn.execute("UPDATE git_operations SET turn_id = ? WHERE tool_id = ?", (turn_id, tool_id))
        if name in ("Agent", "Workflow", None):
            touched.calls.add(tool_use_id)


def file_order(conn: sqlite3.Connection, session_id: str) -> list[int]:
    """A session's files in reading order, whatever order they were found in."""
    return [
        file_id
        for (file_id,) in conn.execute(
            "SELECT s.source_file_id FROM _session_files s JOIN source_files f"
            " ON f.id = s.source_file_id WHERE s.session_id = ?1"
            " ORDER BY f.agent_id IS NOT NULL, f.session_id IS NOT ?1, s.first_at IS NULL,"
            "  s.first_at, f.path",
            (session_id,),
        )
    ]


def renumber(conn: sqlite3.Connection, session_id: str) -> None:
    """Count a session's turns from 1 in reading order."""
    rank = {file_id: n for n, file_id in enumerate(file_order(conn, session_id))}
    found = conn.execute(
        "SELECT id, ordinal, source_file_id, byte_start FROM turns WHERE session_id = ?",
        (session_id,),
    ).fetchall()
    found.sort(key=lambda row: (rank.get(row[2], len(rank)), row[3], row[0]))
    conn.executemany(
        "UPDATE turns SET ordinal = ? WHERE id = ?",
        [(n, row[0]) for n, row in enumerate(found, 1) if row[1] != n],
    )


def end_turns(conn: sqlite3.Connection, turns: set[int]) -> None:
    """A turn ends with the last of what it led to."""
    conn.executemany(
        "UPDATE turns SET ended_at = (SELECT max(timestamp) FROM messages WHERE turn_id = turns.id)"
        " WHERE id = ?",
        [(turn,) for turn in turns],
    )
