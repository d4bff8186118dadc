"""Push: send the sessions that have changed since the last push, batch by batch.

How far a machine has got is saved on the server, in the transaction that writes the rows. So a push
that is killed, or run twice, gives the same result. A machine only ever writes rows of its own.

Everything is sent again if the database is another one (after a rebuild), if it is older than what
the server has (after a restore), or if more columns may be sent than before. If fewer may be sent,
what the server has of this machine is removed first (`registration.py`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ctxdb.push.batches import Staging, erase_sessions
from ctxdb.push.make_schema import prepare
from ctxdb.push.registration import MachineState, Registration, kept
from ctxdb.push.sender import PushReport, Sender
from ctxdb.push.server import PushError, Target, connected
from ctxdb.push.server_schema import FORGET_LOCK
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
from ctxdb.store.lookup import first_column, look_up
from ctxdb.team import reading
from ctxdb.team.reading import Terms, sent_tables
from ctxdb.team.repositories import renamed_paths, repositories, short_names

if TYPE_CHECKING:
    import sqlite3

    import psycopg

    from ctxdb.progress import Progress

BATCH_SESSIONS = 200
BATCH_BYTES = 16 << 20  # of transcript in a batch: a kill loses at most so much work


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
        self.registered = Registration(conn, server, sender, self.terms)

    def run(self) -> None:
        """Do all that is to do."""
        self._forget()
        state = self.registered.register()
        now = self.registered.dependencies()
        place = state.place
        # What the rows depend on is looked at only if something can have changed.
        if place.seq < last_change(self.conn) or state.known != now | kept(state.known):
            self._send(place, state, now)
        self._sweep(state.known)

    def _send(self, place: Place, state: MachineState, now: dict[str, str]) -> None:
        found = repositories(self.conn, self.sender.repositories)
        self.terms = Terms(self.sender.level, self.salt, found, self.sender.mask)
        reading.prepare(self.conn, self.terms)
        staging = Staging(self.server, sent_tables(self.sender.level), self.machine)
        until = last_change(self.conn)
        self.progress.start(count_after(self.conn, place), "Pushing sessions")
        old = state.known
        if place != BEGINNING:
            # Prices and names of repositories change the rows of sessions that have not changed.
            if old.get("prices") != now["prices"]:
                self._send_all_of(staging, "usage", self._all_sessions())
            renamed = renamed_paths(old.get("repositories", ""), found)
            if renamed:
                self._send_all_of(staging, "sessions", self._sessions_in(renamed))
        names = {"repositories": short_names(found)}
        # Before sessions are sent with these names: the push may be killed, and a name may change.
        self.registered.save_known(old | names | {"columns": now["columns"]})
        now = kept(old) | now | names
        while place.seq <= until:
            batch = self._next_batch(place)
            if not batch:
                break
            place = self._send_batch(staging, place, batch)
        self.registered.save_known(now)

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
            state = self.registered.hold()
            # Another push of this machine may have gone on meanwhile.
            if state is None or state.place != place:
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

    def _all_sessions(self) -> list[str]:
        return [one.session_id for one in changed_after(self.conn, BEGINNING, -1)]

    def _sessions_in(self, paths: list[str]) -> list[str]:
        """The sessions of some repositories."""
        sql = (
            "SELECT s.id FROM j CROSS JOIN projects p ON p.repo_path = j.value"
            " JOIN sessions s ON s.project_id = p.id ORDER BY 1"
        )
        return first_column(look_up(self.conn, paths, sql))

    def _send_all_of(self, staging: Staging, table: str, names: list[str]) -> None:
        """Send one table of some sessions again."""
        for first in range(0, len(names), BATCH_SESSIONS):
            with self.server.transaction():
                self.registered.hold()
                wanted = self._not_forgotten(names[first : first + BATCH_SESSIONS])
                rows = staging.send(self.conn, wanted, self.terms, only=table)
            self.report.rows[table] = self.report.rows.get(table, 0) + sum(rows.values())

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
                (self.report.forgotten,) = row or (0,)

    def _sweep(self, known: dict[str, str]) -> None:
        """Remove what the server has of this machine and the database no longer has."""
        removed = f"{database_id(self.conn)} {removed_at(self.conn)}"
        if known.get("removed") == removed:
            return
        here = {
            self.terms.session(one.session_id) for one in changed_after(self.conn, BEGINNING, -1)
        }
        with self.server.transaction():
            state = self.registered.hold()
            now = state.known if state else {}
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
                (json.dumps(now | {"removed": removed}), self.machine),
            )
        self.report.removed = len(gone)
