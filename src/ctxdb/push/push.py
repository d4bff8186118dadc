"""Push: send the sessions that have changed since the last push, batch by batch.

How far a machine has got is saved on the server, in the transaction that writes the rows. So a push
that is killed, or run twice, gives the same result. A machine only ever writes rows of its own.

Everything is sent again if the database is another one (after a rebuild), if it is older than what
the server has (after a restore), or if more columns may be sent than before. If fewer may be sent,
what the server has of this machine is removed first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import ctxdb
from ctxdb.columns import LEVELS
from ctxdb.push.batches import Staging, erase, erase_sessions
from ctxdb.push.server import PushError, Target, connected
from ctxdb.push.server_schema import FORGET_LOCK, prepare
from ctxdb.store.changes import (
    BEGINNING,
    Place,
    changed_after,
    count_after,
    database_id,
    forgotten_hashes,
    last_change,
    removed_at,
    shared_hash,
)
from ctxdb.team import reading
from ctxdb.team.reading import Sent, Terms, sent_tables
from ctxdb.team.repositories import repositories

if TYPE_CHECKING:
    import sqlite3

    import psycopg

    from ctxdb.progress import Progress
    from ctxdb.team.machine import Machine

BATCH_SESSIONS = 200
BATCH_BYTES = 16 << 20  # of transcript in a batch: a kill loses at most so much work


@dataclass(frozen=True, slots=True)
class Sender:
    """Who pushes what."""

    machine: Machine
    person: str
    team: str | None
    level: str
    hash_person: bool = False
    repositories: Mapping[str, str] = field(default_factory=dict)  # as config.toml names them
    mask: Callable[[str], str] = str


@dataclass(slots=True)
class PushReport:
    """What was done, or would be done."""

    server: str
    machine: str
    level: str
    sessions: int = 0  # sent
    rows: dict[str, int] = field(default_factory=dict)  # sent, by table
    removed: int = 0  # sessions that this machine no longer has
    forgotten: int = 0  # sessions that were forgotten here and are removed there
    rejected: int = 0  # sessions that were forgotten on some machine, and so are not sent
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)


class _State(NamedTuple):
    """What the server knows of this machine."""

    level: str
    database: str
    place: Place
    known: dict[str, str]  # fingerprints of what the rows depend on besides the transcripts


def push(
    conn: sqlite3.Connection, target: Target, sender: Sender, progress: Progress
) -> PushReport:
    """Send what has changed."""
    report = PushReport(target.shown, sender.machine.id, sender.level)
    with connected(target) as server:
        salt = prepare(server, target)
        one = _Push(conn, server, sender, salt, report, progress)
        one.run()
    return report


class _Push:
    def __init__(
        self,
        conn: sqlite3.Connection,
        server: psycopg.Connection[Any],
        sender: Sender,
        salt: bytes,
        report: PushReport,
        progress: Progress,
    ) -> None:
        self.conn = conn
        self.server = server
        self.sender = sender
        self.machine = sender.machine.id
        self.salt = salt
        self.report = report
        self.progress = progress
        self.terms = Terms(sender.level, salt, {}, sender.mask)

    def run(self) -> None:
        """Do all that is to do."""
        self._forget()
        state = self._register()
        now = self._dependencies()
        place = state.place
        # What the rows depend on is looked at only if something can have changed.
        if place.seq < last_change(self.conn) or state.known != now | _kept(state.known):
            self._send(place, state, now)
        self._sweep()

    def _send(self, place: Place, state: _State, now: dict[str, str]) -> None:
        found = repositories(self.conn, self.sender.repositories)
        self.terms = Terms(self.sender.level, self.salt, found, self.sender.mask)
        reading.prepare(self.conn, self.terms)
        staging = Staging(self.server, sent_tables(self.sender.level), self.machine)
        until = last_change(self.conn)
        self.progress.start(count_after(self.conn, place), "Pushing sessions")
        old = state.known
        if place != BEGINNING:
            # Prices and names of repositories change the rows of sessions that have not changed.
            now = now | {"repositories": _fingerprint(sorted(found.items()))}
            for table, name in (("usage", "prices"), ("sessions", "repositories")):
                if old.get(name) != now[name]:
                    self._send_all_of(staging, table)
        else:
            now = now | {"repositories": _fingerprint(sorted(found.items()))}
        while place.seq <= until:
            batch = self._next_batch(place)
            if not batch:
                break
            place = self._send_batch(staging, place, batch)
        self._save_known(now)

    def _next_batch(self, place: Place) -> list[Place]:
        """The next sessions, as many as make a batch."""
        batch: list[Place] = []
        size = 0
        for one in changed_after(self.conn, place, BATCH_SESSIONS):
            (length,) = self.conn.execute(
                "SELECT coalesce(sum(size), 0) FROM source_files WHERE session_id = ?",
                (one.session_id,),
            ).fetchone()
            size += length
            if batch and size > BATCH_BYTES:
                break
            batch.append(one)
        return batch

    def _send_batch(self, staging: Staging, place: Place, batch: list[Place]) -> Place:
        with self.server.transaction():
            self._hold()
            # Another push of this machine may have gone on meanwhile.
            if self._saved_place() != place:
                raise PushError(
                    f"{self.report.server}: another push of this machine runs; push again later"
                )
            # One snapshot of the database for all tables of the batch.
            self.conn.execute("BEGIN")
            try:
                wanted = self._not_forgotten([one.session_id for one in batch])
                rows = staging.send(self.conn, wanted, self.terms)
            finally:
                self.conn.execute("COMMIT")
            end = batch[-1]
            self.server.execute(
                "UPDATE ctxdb._machines SET seq = %s, session_id = %s, pushed_at = now()"
                " WHERE machine = %s",
                (end.seq, end.session_id, self.machine),
            )
        self.report.sessions += len(wanted)
        self.report.rejected += len(batch) - len(wanted)
        for name, number in rows.items():
            self.report.rows[name] = self.report.rows.get(name, 0) + number
        self.progress.advance(len(batch))
        return end

    def _send_all_of(self, staging: Staging, table: str) -> None:
        """Send one table of all sessions again, except those that are sent anyway."""
        names = [one.session_id for one in changed_after(self.conn, BEGINNING, -1)]
        for first in range(0, len(names), BATCH_SESSIONS):
            with self.server.transaction():
                self._hold()
                wanted = self._not_forgotten(names[first : first + BATCH_SESSIONS])
                rows = staging.send(self.conn, wanted, self.terms, only=table)
            self.report.rows[table] = self.report.rows.get(table, 0) + sum(rows.values())

    # -- what the server knows of this machine -------------------------------------------------

    def _hold(self) -> None:
        """Keep others from forgetting sessions meanwhile, and other pushes of this machine out."""
        self.server.execute("SELECT pg_advisory_xact_lock_shared(%s)", (FORGET_LOCK,))
        self.server.execute(
            "SELECT 1 FROM ctxdb._machines WHERE machine = %s FOR UPDATE", (self.machine,)
        )

    def _saved_place(self) -> Place:
        row = self.server.execute(
            "SELECT seq, session_id FROM ctxdb._machines WHERE machine = %s", (self.machine,)
        ).fetchone()
        return Place(*row) if row else BEGINNING

    def _register(self) -> _State:
        """Say whose machine this is; begin again where that is needed."""
        sender = self.sender
        person = self.terms.hashed("person", sender.person) if sender.hash_person else sender.person
        database = database_id(self.conn)
        with self.server.transaction():
            self._hold()
            state = self._state()
            place = state.place if state else BEGINNING
            if state is not None and (
                state.database != database
                or place.seq > last_change(self.conn)
                or LEVELS.index(state.level) < LEVELS.index(sender.level)
                or state.known.get("columns") != _columns(sender.level)
            ):
                place = BEGINNING
            if state is not None and LEVELS.index(state.level) > LEVELS.index(sender.level):
                erase(self.server, self.machine)
                place = BEGINNING
            known = state.known if state and place == state.place else {}
            values = {
                "machine": self.machine,
                "name": None if sender.level == LEVELS[0] else sender.machine.name,
                "person": person,
                "team": sender.team,
                "level": sender.level,
                "database": database,
                "seq": place.seq,
                "session_id": place.session_id,
                "state": json.dumps(known | {"columns": _columns(sender.level)}),
                "version": ctxdb.__version__,
            }
            names = ", ".join(values)
            marks = ", ".join(f"%({name})s" for name in values)
            assigned = ", ".join(
                f"{name} = excluded.{name}" for name in values if name != "machine"
            )
            self.server.execute(
                f"INSERT INTO ctxdb._machines ({names}) VALUES ({marks})"
                f" ON CONFLICT (machine) DO UPDATE SET {assigned}, pushed_at = now()",
                values,
            )
        return _State(sender.level, database, place, known)

    def _state(self) -> _State | None:
        row = self.server.execute(
            "SELECT level, database, seq, session_id, state FROM ctxdb._machines"
            " WHERE machine = %s",
            (self.machine,),
        ).fetchone()
        if row is None:
            return None
        level, database, seq, session_id, state = row
        return _State(level, database, Place(seq, session_id), json.loads(state))

    def _dependencies(self) -> dict[str, str]:
        """Fingerprints of what rows depend on besides the sessions themselves."""
        prices = self.conn.execute("SELECT * FROM prices ORDER BY id").fetchall()
        names = self.conn.execute("SELECT * FROM _model_names ORDER BY model, place").fetchall()
        return {
            "columns": _columns(self.sender.level),
            "prices": _fingerprint([prices, names]),
            "named": _fingerprint(sorted(self.sender.repositories.items())),
        }

    def _save_known(self, known: dict[str, str]) -> None:
        state = self._state()
        kept = _kept(state.known) if state else {}
        self.server.execute(
            "UPDATE ctxdb._machines SET state = %s, pushed_at = now() WHERE machine = %s",
            (json.dumps(kept | known), self.machine),
        )

    # -- what is to be removed -----------------------------------------------------------------

    def _not_forgotten(self, sessions: list[str]) -> list[str]:
        """The sessions that no machine has forgotten."""
        hashes = {shared_hash(name): name for name in sessions}
        found = self.server.execute(
            "SELECT hash FROM ctxdb._forgotten WHERE hash = ANY (%s)", (list(hashes),)
        ).fetchall()
        gone = {hashes[hashed] for (hashed,) in found}
        return [name for name in sessions if name not in gone]

    def _forget(self) -> None:
        """Remove from the server, whichever machine pushed them, what was forgotten here."""
        forgotten = forgotten_hashes(self.conn)
        if not forgotten.hashes and not forgotten.undone:
            return
        known = {hashed for (hashed,) in self.server.execute("SELECT hash FROM ctxdb._forgotten")}
        new = sorted(forgotten.hashes - known)
        undone = sorted(forgotten.undone & known)
        if not new and not undone:
            return
        with self.server.transaction():
            self.server.execute("SELECT pg_advisory_xact_lock(%s)", (FORGET_LOCK,))
            if undone:
                self.server.execute(
                    "DELETE FROM ctxdb._forgotten WHERE hash = ANY (%s) AND machine = %s",
                    (undone, self.machine),
                )
            if new:
                row = self.server.execute(
                    "SELECT ctxdb._forget(%s, %s)", (self.machine, new)
                ).fetchone()
                self.report.forgotten = int(row[0]) if row else 0

    def _sweep(self) -> None:
        """Remove what the server has of this machine and the database no longer has."""
        removed = f"{database_id(self.conn)} {removed_at(self.conn)}"
        state = self._state()
        if state is None or state.known.get("removed") == removed:
            return
        here = {
            self.terms.session(one.session_id) for one in changed_after(self.conn, BEGINNING, -1)
        }
        with self.server.transaction():
            self._hold()
            there = {
                name
                for (name,) in self.server.execute(
                    "SELECT session_id FROM ctxdb._holders WHERE machine = %s", (self.machine,)
                )
            }
            gone = sorted(there - here)
            if gone:
                erase_sessions(self.server, self.machine, gone)
            self.server.execute(
                "UPDATE ctxdb._machines SET state = %s WHERE machine = %s",
                (json.dumps(state.known | {"removed": removed}), self.machine),
            )
        self.report.removed = len(gone)


_KEPT = ("repositories", "removed")


def _kept(known: dict[str, str]) -> dict[str, str]:
    """What is worked out only if something is sent."""
    return {name: known[name] for name in _KEPT if name in known}


def _columns(level: str) -> str:
    return _fingerprint(
        [
            (sent.name, sent.table.key, [tuple(c[:4]) for c in sent.columns])
            for sent in sent_tables(level)
        ]
    )


def _fingerprint(value: object) -> str:
    return sha256(repr(value).encode("utf-8", "replace")).hexdigest()[:24]


# -- looking only -------------------------------------------------------------------------------


class Planned(NamedTuple):
    """What a push would send of one table."""

    table: str
    rows: int
    columns: list[str]


def plan(
    conn: sqlite3.Connection, target: Target, sender: Sender
) -> tuple[PushReport, list[Planned]]:
    """What a push would send. Nothing is written."""
    report = PushReport(target.shown, sender.machine.id, sender.level)
    place, salt = BEGINNING, b"dry run"
    with connected(target) as server:
        server.execute("SET default_transaction_read_only = on")
        exists = server.execute("SELECT to_regclass('ctxdb._machines') IS NOT NULL").fetchone()
        if exists == (True,):
            row = server.execute(
                "SELECT seq, session_id FROM ctxdb._machines"
                " WHERE machine = %s AND level = %s AND database = %s",
                (sender.machine.id, sender.level, database_id(conn)),
            ).fetchone()
            if row and row[0] <= last_change(conn):
                place = Place(*row)
    found = repositories(conn, sender.repositories)
    terms = Terms(sender.level, salt, found)
    reading.prepare(conn, terms)
    names = [one.session_id for one in changed_after(conn, place, -1)]
    report.sessions = len(names)
    planned = []
    for sent in sent_tables(sender.level):
        rows = sum(1 for _ in reading.rows_of(conn, sent, names, terms))
        report.rows[sent.name] = rows
        columns = ["session_id", "key", "machine", *(column.name for column in sent.columns)]
        planned.append(Planned(sent.name, rows, columns))
    return report, planned


__all__ = ["Planned", "PushReport", "Sender", "Sent", "plan", "push"]
