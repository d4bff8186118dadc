"""Which sessions have changed: every transaction stamps the sessions whose rows it has changed.

A stamp is a number that only grows. It is the time in microseconds, or one more than the last stamp
if the clock went back. So a database that was restored from a copy never uses a number again that
it had used after the copy was made, unless the clock is wrong.

Code that changes rows of a session calls `stamp` in the same transaction. There are no triggers for
it: one per row would make a sync a fifth slower.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

NO_SESSION = ""  # stands for rows whose session_id is NULL


class Place(NamedTuple):
    """How far somebody has followed the changes: all up to this number and session."""

    seq: int
    session_id: str


BEGINNING = Place(0, "")


def stamp(conn: sqlite3.Connection, sessions: Iterable[str | None]) -> None:
    """Note that rows of these sessions have changed. The caller's transaction commits it."""
    changed = {session_id or NO_SESSION for session_id in sessions}
    if not changed:
        return
    seq = max(last_change(conn) + 1, time.time_ns() // 1000)
    conn.executemany(
        "INSERT INTO _session_changes VALUES (?, ?)"
        " ON CONFLICT (session_id) DO UPDATE SET seq = excluded.seq",
        [(session_id, seq) for session_id in sorted(changed)],
    )


def last_change(conn: sqlite3.Connection) -> int:
    """The number of the last change; 0 if there was none."""
    (last,) = conn.execute("SELECT max(seq) FROM _session_changes").fetchone()
    return last if isinstance(last, int) else 0


def changed_after(conn: sqlite3.Connection, place: Place, limit: int) -> list[Place]:
    """The next sessions that have changed after a place, the oldest change first."""
    return [
        Place(seq, session_id)
        for seq, session_id in conn.execute(
            "SELECT seq, session_id FROM _session_changes"
            " WHERE (seq, session_id) > (?, ?) ORDER BY seq, session_id LIMIT ?",
            (*place, limit),
        )
    ]


def count_after(conn: sqlite3.Connection, place: Place) -> int:
    """How many sessions have changed after a place."""
    (number,) = conn.execute(
        "SELECT count(*) FROM _session_changes WHERE (seq, session_id) > (?, ?)", tuple(place)
    ).fetchone()
    return int(number)


# -- what else a push needs to know ---------------------------------------------------------------

_REMOVED = "sessions removed"
_DATABASE = "database id"


def database_id(conn: sqlite3.Connection) -> str:
    """What this database is known by. One that is made again is another one."""
    return _meta(conn, _DATABASE)


def note_removed(conn: sqlite3.Connection, session_ids: Iterable[str]) -> None:
    """Sessions are removed whole: nothing of them is left here, not even their ids."""
    conn.executemany(
        "DELETE FROM _session_changes WHERE session_id = ?", [(name,) for name in session_ids]
    )
    conn.execute("INSERT OR REPLACE INTO _meta VALUES (?, ?)", (_REMOVED, str(time.time_ns())))


def removed_at(conn: sqlite3.Connection) -> str:
    """Changes whenever sessions were removed."""
    return _meta(conn, _REMOVED)


def shared_hash(session_id: str) -> str:
    """A hash of a session's id that all machines of a team can compare.

    Ids are random, so it tells nothing to those who do not know the id.
    """
    from hashlib import sha256

    return sha256(f"ctxdb forgotten {session_id}".encode("utf-8", "replace")).hexdigest()


class Forgotten(NamedTuple):
    """Sessions that were forgotten here, by their shared hashes."""

    hashes: set[str]
    undone: set[str]  # whose tombstones were removed again


def forgotten_hashes(conn: sqlite3.Connection) -> Forgotten:
    """What other machines may not push either."""
    rows = conn.execute(
        "SELECT s.hash, f.hash IS NULL FROM _shared_forgotten s"
        " LEFT JOIN _forgotten f ON f.hash = s.session"
    ).fetchall()
    return Forgotten({h for h, undone in rows if not undone}, {h for h, undone in rows if undone})


def _meta(conn: sqlite3.Connection, key: str) -> str:
    row = conn.execute("SELECT value FROM _meta WHERE key = ?", (key,)).fetchone()
    (value,) = row or ("",)
    return str(value)


def send_all_again(conn: sqlite3.Connection) -> None:
    """Rows of any session may have changed: the next push compares them all.

    Rows that are the same on the server are not written there.
    """
    conn.execute(
        "INSERT OR REPLACE INTO _meta VALUES (?, lower(hex(randomblob(16))))", (_DATABASE,)
    )
