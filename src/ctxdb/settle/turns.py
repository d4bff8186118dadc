"""Turns: one per human request, in the order a session reads.

Most begin at a user line, some where a queued prompt leaves the queue (rules/prompt_queue.py).
Turns of new lines begin in turn_starts.py; here they are worked out again from stored rows, after a
file was rewritten or an entry has another owner.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import orjson

from ctxdb.claude.human_text import is_caveat
from ctxdb.claude.names import QUEUE_OPERATION, QUEUED_COMMAND, REMOVE, STARTS_AGENTS
from ctxdb.columns import insert_sql, values_of
from ctxdb.rows import Message, Turn
from ctxdb.rules.owners import SessionRank, session_rank
from ctxdb.rules.prompt_queue import PromptQueue, TurnStart
from ctxdb.settle.touched import Touched
from ctxdb.store.insert import load
from ctxdb.store.lookup import look_up

# Every line of a file that moves its queue, copied ones too: what the queue holds at a byte follows
# from the file alone. Only an owned line has a row here for a turn to hang on.
_QUEUE_LINES = f"""
SELECT byte_start, 'event_id', id, session_id, timestamp, subtype, data, NULL FROM events
  WHERE source_file_id = :file AND type = '{QUEUE_OPERATION}' AND byte_length > 0
    AND byte_start < :before
UNION ALL SELECT c.byte_start, 'event_id', NULL, NULL, e.timestamp, e.subtype, e.data, NULL
  FROM _event_copies c JOIN events e ON e.id = c.event_id
  WHERE c.source_file_id = :file AND e.type = '{QUEUE_OPERATION}' AND c.byte_start < :before
UNION ALL SELECT byte_start, 'message_id', id, session_id, timestamp, NULL, NULL,
    json_extract(data, '$.queued_by_human') FROM messages
  WHERE source_file_id = :file AND subtype = '{QUEUED_COMMAND}' AND byte_length > 0
    AND byte_start < :before AND is_sidechain = 0
    AND json_extract(data, '$.queued_by_human') IS NOT NULL
UNION ALL SELECT c.byte_start, 'message_id', NULL, NULL, NULL, NULL, NULL,
    json_extract(m.data, '$.queued_by_human')
  FROM message_copies c JOIN messages m ON m.id = c.message_id
  WHERE c.source_file_id = :file AND m.subtype = '{QUEUED_COMMAND}' AND c.byte_start < :before
    AND m.is_sidechain = 0 AND json_extract(m.data, '$.queued_by_human') IS NOT NULL
ORDER BY 1
"""
_END = 1 << 62

# Turns whose line is still in its file: what a rewrite took away is nowhere any more.
_IN_FILE = (
    "NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = turns.message_id AND m.byte_length < 0)"
    " AND NOT EXISTS (SELECT 1 FROM events e WHERE e.id = turns.event_id AND e.byte_length < 0)"
)

# A session may be in two files, one of which goes on where the other ends. What began a turn is
# then in both: the row is of the one, but lines that only the other has belong to it as well.
_COPIED = f"""
SELECT c.byte_start, t.session_id, t.id FROM message_copies c CROSS JOIN turns t
  ON t.message_id = c.message_id
  WHERE c.source_file_id = :file AND c.byte_start > :after AND c.byte_start < :before
    AND t.source_file_id <> :file
UNION ALL SELECT c.byte_start, t.session_id, t.id FROM _event_copies c CROSS JOIN events e
  ON e.id = c.event_id AND e.type = '{QUEUE_OPERATION}' AND e.subtype = '{REMOVE}'
  CROSS JOIN turns t ON t.session_id = e.session_id AND t.event_id = e.id
  WHERE c.source_file_id = :file AND c.byte_start > :after AND c.byte_start < :before
    AND t.source_file_id <> :file
"""
_LAST_COPIED = (
    f"SELECT id FROM ({_COPIED}) WHERE session_id IS :session ORDER BY byte_start DESC LIMIT 1"
)


class QueueLine(NamedTuple):
    """A line that moves a file's queue; without a row where another file owns it."""

    byte_start: int
    source: str  # event_id or message_id: the column of turns that names its row
    row_id: int | None
    session_id: str | None
    timestamp: str | None
    operation: str | None
    data: str | None
    queued: str | None

    @property
    def key(self) -> tuple[str, int | None]:
        """What a turn that it begins is known by."""
        return self.source, self.row_id


def _follow(
    conn: sqlite3.Connection, file_id: int, before: int, queue: PromptQueue
) -> Iterator[tuple[QueueLine, TurnStart | None]]:
    """Lead a queue along a file: each line, and the turn that it begins."""
    for values in conn.execute(_QUEUE_LINES, {"file": file_id, "before": before}).fetchall():
        line = QueueLine(*values)
        if line.source == "message_id":
            yield line, queue.attachment(line.queued or "")
        else:
            content = orjson.loads(line.data or "{}").get("content")
            yield line, queue.operation(line.operation, content, line.timestamp)


def read_queue(conn: sqlite3.Connection, file_id: int, before: int) -> PromptQueue:
    """The queue of a file as it is at a byte."""
    queue = PromptQueue()
    for _ in _follow(conn, file_id, before, queue):
        pass
    return queue


def last_turn(
    conn: sqlite3.Connection, file_id: int, session_id: str | None, before: int
) -> int | None:
    """The turn in force in a file and session just before a byte."""
    own = conn.execute(
        "SELECT id, byte_start FROM turns WHERE source_file_id = ? AND session_id IS ?"
        f" AND byte_start < ? AND {_IN_FILE} ORDER BY byte_start DESC LIMIT 1",
        (file_id, session_id, before),
    ).fetchone()
    turn_id, after = own or (None, -1)
    where = {"file": file_id, "session": session_id, "after": after, "before": before}
    (turn_id,) = conn.execute(_LAST_COPIED, where).fetchone() or (turn_id,)
    return turn_id


def last_turn_by_time(conn: sqlite3.Connection, session_id: str, at: str | None) -> int | None:
    """The turn in force at a moment: all that can be said of a line that is gone from its file."""
    row = conn.execute(
        "SELECT id FROM turns WHERE session_id = ? AND started_at <= ?"
        " ORDER BY started_at DESC, ordinal DESC LIMIT 1",
        (session_id, at),
    ).fetchone()
    (turn_id,) = row or (None,)
    return turn_id


def find_again(conn: sqlite3.Connection, touched: Touched) -> None:
    """Work out the turns of files again from what is stored: after a rewrite, a change of owner.

    First where turns begin, in all of them: a line may belong to a turn that begins elsewhere.
    """
    for file_id in sorted(touched.turns_of_files):
        _find_starts(conn, file_id, touched)
    for file_id in sorted(touched.turns_of_files):
        _give_turns(conn, file_id, touched)


def _find_starts(conn: sqlite3.Connection, file_id: int, touched: Touched) -> None:
    """Where turns begin in a file."""
    conn.execute(
        "UPDATE turns SET source_file_id = m.source_file_id, byte_start = m.byte_start,"
        "  session_id = m.session_id, started_at = m.timestamp"
        " FROM messages m WHERE m.id = turns.message_id AND turns.source_file_id = ?"
        "  AND (m.source_file_id, m.byte_start, m.session_id, m.timestamp)"
        "   IS NOT (turns.source_file_id, turns.byte_start, turns.session_id, turns.started_at)",
        (file_id,),
    )
    touched.turns |= _find_queued(conn, file_id)
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
    touched.pull_requests.update(sessions)  # a pr-link names the turn before it


class _Begins(NamedTuple):
    """Where a turn begins."""

    byte_start: int
    session_id: str | None
    turn_id: int


def _give_turns(conn: sqlite3.Connection, file_id: int, touched: Touched) -> None:
    """Each main-thread line of a file belongs to the last turn begun at or before it.

    One that a rewrite took away stays in its turn, as long as there is such a turn. Caveats belong
    to a turn that begins after them (caveats.py).
    """
    rows = conn.execute(
        "SELECT byte_start, session_id, id FROM turns"
        f" WHERE source_file_id = :file AND {_IN_FILE} UNION ALL {_COPIED} ORDER BY 1",
        {"file": file_id, "after": -1, "before": _END},
    )
    places = [_Begins(*values) for values in rows]
    begun: dict[str | None, int] = {}
    coming = deque(places)
    for message_id, start, length, session_id, before, kind, meta in conn.execute(
        "SELECT id, byte_start, byte_length, session_id, turn_id, kind,"
        "  iif(kind = 'meta', text, NULL) FROM messages"
        " WHERE source_file_id = ? AND agent_id IS NULL AND (byte_length > 0"
        "  OR turn_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM turns WHERE id = turn_id))"
        " ORDER BY byte_start",
        (file_id,),
    ).fetchall():
        while coming and coming[0].byte_start <= start:
            place = coming.popleft()
            begun[place.session_id] = place.turn_id
        turn_id = begun.get(session_id)
        if is_caveat(kind, meta):
            turn_id = before if length > 0 else None
        if turn_id != before:
            move_message(conn, message_id, turn_id, before, touched)


_PLACES = ("session_id", "started_at", "source_file_id", "byte_start")
_WORDS = ("kind", "prompt")


def _update_turn(conn: sqlite3.Connection, turn: Turn, names: tuple[str, ...]) -> None:
    """Write some columns of a stored turn."""
    assigned = ", ".join(f"{name} = ?" for name in names)
    values = [getattr(turn, name) for name in names]
    conn.execute(f"UPDATE turns SET {assigned} WHERE id = ?", (*values, turn.id))


def replace_turn(conn: sqlite3.Connection, message: Message) -> None:
    """The turn that a message begins, after its row was filled from another line."""
    stored = conn.execute("SELECT id FROM turns WHERE message_id = ?", (message.id,)).fetchone()
    (turn_id,) = stored or (None,)
    turn = Turn(
        id=turn_id,
        session_id=message.session_id,
        started_at=message.timestamp,
        message_id=message.id,
        source_file_id=message.source_file_id,
        byte_start=message.byte_start,
    )
    start = message.turn if message.agent_id is None else None
    if start is not None:
        turn.kind, turn.prompt = start
        if turn_id is None:
            conn.execute(insert_sql(Turn), values_of(Turn)(turn))
        else:
            _update_turn(conn, turn, (*_PLACES, *_WORDS))
    elif turn_id is not None and message.queued is not None:
        _update_turn(conn, turn, _PLACES)
    elif turn_id is not None:
        conn.execute("DELETE FROM turns WHERE id = ?", (turn_id,))


def _find_queued(conn: sqlite3.Connection, file_id: int) -> set[int]:
    """Find the turns of queued prompts in a file; returns those that were not there before."""
    wanted: dict[tuple[str, int | None], Turn] = {}
    present: set[tuple[str, int | None]] = set()
    for line, start in _follow(conn, file_id, _END, PromptQueue()):
        if line.row_id is None:
            continue
        present.add(line.key)
        is_copy = line.source == "event_id" and _is_forked(conn, line.session_id, line.timestamp)
        if start is not None and not is_copy:
            kind, prompt = start
            turn = Turn(
                session_id=line.session_id,
                kind=kind,
                prompt=prompt,
                started_at=line.timestamp,
                source_file_id=file_id,
                byte_start=line.byte_start,
            )
            setattr(turn, line.source, line.row_id)
            wanted[line.key] = turn
    stored = conn.execute(
        "SELECT t.id, 'event_id', t.event_id FROM turns t WHERE t.source_file_id = ?1"
        "  AND t.event_id IS NOT NULL"
        " UNION ALL SELECT t.id, 'message_id', t.message_id FROM turns t JOIN messages m"
        f"  ON m.id = t.message_id WHERE t.source_file_id = ?1 AND m.subtype = '{QUEUED_COMMAND}'",
        (file_id,),
    ).fetchall()
    for turn_id, source, row_id in stored:
        known = wanted.pop((source, row_id), None)
        if known is not None:
            known.id = turn_id
            _update_turn(conn, known, (*_PLACES, *_WORDS))
        elif (source, row_id) in present:
            conn.execute("DELETE FROM turns WHERE id = ?", (turn_id,))
        # A queue operation that is no longer in its file keeps its turn: nothing is lost.
    begun = [conn.execute(insert_sql(Turn), values_of(Turn)(turn)) for turn in wanted.values()]
    return {cursor.lastrowid for cursor in begun if cursor.lastrowid is not None}


def forked_queues(conn: sqlite3.Connection, sessions: list[str]) -> set[int]:
    """Files whose queue operations are in these sessions as well, through a fork."""
    return {
        file_id
        for (file_id,) in look_up(
            conn,
            sessions,
            "SELECT DISTINCT o.source_file_id FROM j CROSS JOIN events e"
            f" ON e.session_id = j.value AND e.type = '{QUEUE_OPERATION}'"
            f" CROSS JOIN events o ON o.type = '{QUEUE_OPERATION}' AND o.timestamp = e.timestamp"
            " WHERE o.session_id <> e.session_id",
        )
    }


class _QueueRank(NamedTuple):
    """A session's place among those that have an operation in common, as among owners."""

    is_fork: bool
    session: SessionRank


_RANK = (
    "SELECT EXISTS (SELECT 1 FROM _session_files f WHERE f.session_id = s.session_id"
    "  AND f.forked_session <> s.session_id), s.session_id, s.first_unshared_at"
    " FROM _shared_sessions s"
)


def _is_forked(conn: sqlite3.Connection, session_id: str | None, at: str | None) -> bool:
    """Whether a queue operation is a fork's copy of one in the session that it came from."""
    rows = conn.execute(
        f"{_RANK} WHERE s.session_id = ?1 OR s.session_id IN (SELECT e.session_id FROM events e"
        f"  WHERE e.type = '{QUEUE_OPERATION}' AND e.timestamp = ?2)",
        (session_id, at),
    )
    ranks = {
        other: _QueueRank(bool(is_fork), session_rank(other, first))
        for is_fork, other, first in rows
    }
    own = ranks.get(session_id or "")
    return own is not None and at is not None and min(ranks.values()) < own


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
        if name is None or name in STARTS_AGENTS:
            touched.calls.add(tool_use_id)


def file_order(conn: sqlite3.Connection, session_id: str) -> list[int]:
    """A session's files in reading order, whatever order they were found in."""
    return [
        file_id
        for (file_id,) in conn.execute(
            "SELECT s.source_file_id FROM _session_files s JOIN source_files f"
            " ON f.id = s.source_file_id WHERE s.session_id = ?1"
            " ORDER BY f.agent_id IS NOT NULL, f.session_id IS NOT ?1, s.first_at IS NULL,"
            "  s.first_at, f.path, f.machine",
            (session_id,),
        )
    ]


def renumber(conn: sqlite3.Connection, session_id: str) -> None:
    """Count a session's turns from 1 in reading order."""
    rank = {file_id: n for n, file_id in enumerate(file_order(conn, session_id))}
    turns = list(load(conn, Turn, "WHERE t.session_id = ?", (session_id,)))
    turns.sort(
        key=lambda turn: (rank.get(turn.source_file_id or 0, len(rank)), turn.byte_start, turn.id)
    )
    conn.executemany(
        "UPDATE turns SET ordinal = ? WHERE id = ?",
        [(n, turn.id) for n, turn in enumerate(turns, 1) if turn.ordinal != n],
    )
