"""Keeps what was forgotten on the other machine out of this database too.

Names are hashed with a key of each database. So the other one's key is taken with its hashes. A
session that is here is not removed: it is named, and its tombstone is not taken.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from ctxdb.store.connection import write_transaction
from ctxdb.store.keys import add_other_keys, key_of, other_keys
from ctxdb.store.tombstones import HISTORY_AGAIN, KEY, SESSION, hash_name

_ROWS = "SELECT hash, kind, session, forgotten_at, messages, tool_uses, files FROM _forgotten"


@dataclass(slots=True)
class OtherTombstones:
    """What was forgotten on the other machine, and of it what is here."""

    new: list[tuple[object, ...]] = field(default_factory=list)  # rows of _forgotten
    shared: list[tuple[object, ...]] = field(default_factory=list)  # rows of _shared_forgotten
    sessions: int = 0  # in `new`
    here: list[str] = field(default_factory=list)  # sessions


def find_tombstones(conn: sqlite3.Connection, other: sqlite3.Connection) -> OtherTombstones:
    """Compare both."""
    rows = other.execute(_ROWS).fetchall()
    found = OtherTombstones()
    if not rows:
        return found
    keys = [key_of(other, KEY), *other_keys(other, KEY)]
    gone = {hashed for hashed, kind, *_ in rows if kind == SESSION}
    kept: set[bytes] = set()  # hashes of sessions that are here
    for (session_id,) in conn.execute("SELECT id FROM sessions ORDER BY id"):
        hashes = {hash_name(key, SESSION, session_id) for key in keys} & gone
        if hashes:
            found.here.append(session_id)
            kept |= hashes
    known = {hashed for (hashed,) in conn.execute("SELECT hash FROM _forgotten")}
    for hashed, kind, session, at, *counts in rows:
        if session not in kept and hashed not in known:
            found.new.append((hashed, kind, session, at, at, *counts))
            found.sessions += kind == SESSION
    shared = other.execute("SELECT hash, session FROM _shared_forgotten").fetchall()
    found.shared = [(hashed, session) for hashed, session in shared if session not in kept]
    return found


def take_tombstones(
    conn: sqlite3.Connection, other: sqlite3.Connection, found: OtherTombstones
) -> None:
    """Keep what was found."""
    if not found.new:
        return
    with write_transaction(conn):
        add_other_keys(other, conn, KEY)
        conn.executemany(
            "INSERT OR IGNORE INTO _forgotten VALUES (?, ?, ?, ?, ?, ?, ?, ?)", found.new
        )
        conn.executemany("INSERT OR IGNORE INTO _shared_forgotten VALUES (?, ?)", found.shared)
        conn.execute(HISTORY_AGAIN)
