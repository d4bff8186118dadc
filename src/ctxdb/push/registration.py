"""What the server knows of this machine: whose it is, and how far it has got."""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import ctxdb
from ctxdb.columns import LEVELS
from ctxdb.push.batches import erase
from ctxdb.push.server_schema import FORGET_LOCK
from ctxdb.store.changes import BEGINNING, Place, database_id, last_change
from ctxdb.team.reading import Terms, sent_tables

if TYPE_CHECKING:
    import sqlite3

    import psycopg

    from ctxdb.push.sender import Sender


class MachineState(NamedTuple):
    """What the server knows of this machine."""

    level: str
    database: str
    place: Place
    known: dict[str, str]  # fingerprints of what the rows depend on besides the transcripts


class Registration:
    """The row of this machine on the server."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        server: psycopg.Connection[Any],
        sender: Sender,
        terms: Terms,
    ) -> None:
        self.conn = conn
        self.server = server
        self.sender = sender
        self.machine = sender.machine.id
        self.terms = terms

    def hold(self) -> MachineState | None:
        """Keep others from forgetting sessions meanwhile, and other pushes of this machine out.

        Returns what the server knows of this machine; None before its first push.
        """
        self.server.execute("SELECT pg_advisory_xact_lock_shared(%s)", (FORGET_LOCK,))
        row = self.server.execute(
            "SELECT level, database, seq, session_id, state FROM ctxdb._machines"
            " WHERE machine = %s FOR UPDATE",
            (self.machine,),
        ).fetchone()
        if row is None:
            return None
        level, database, seq, session_id, state = row
        return MachineState(level, database, Place(seq, session_id), json.loads(state))

    def register(self) -> MachineState:
        """Say whose machine this is; begin again where that is needed."""
        sender = self.sender
        person = self.terms.hashed("person", sender.person) if sender.hash_person else sender.person
        database = database_id(self.conn)
        with self.server.transaction():
            state = self.hold()
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
        return MachineState(sender.level, database, place, known)

    def dependencies(self) -> dict[str, str]:
        """Fingerprints of what rows depend on besides the sessions themselves.

        The names under which the price of a model is looked up follow from the model and from this
        version of ctxdb: the first session of a model changes no cost of other sessions.
        """
        prices = self.conn.execute("SELECT * FROM prices ORDER BY id").fetchall()
        return {
            "columns": _columns(self.sender.level),
            "prices": fingerprint([prices, ctxdb.__version__]),
            "named": fingerprint(sorted(self.sender.repositories.items())),
        }

    def save_known(self, known: dict[str, str]) -> None:
        """Note what the rows that the server has depend on."""
        self.server.execute(
            "UPDATE ctxdb._machines SET state = %s, pushed_at = now() WHERE machine = %s",
            (json.dumps(known), self.machine),
        )


_KEPT = ("repositories", "removed")


def kept(known: dict[str, str]) -> dict[str, str]:
    """What is worked out only if something is sent."""
    return {name: known[name] for name in _KEPT if name in known}


@cache
def _columns(level: str) -> str:
    return fingerprint(
        [
            (sent.name, sent.table.key, [tuple(c[:4]) for c in sent.columns])
            for sent in sent_tables(level)
        ]
    )


def fingerprint(value: object) -> str:
    """Changes whenever the value does."""
    return sha256(repr(value).encode("utf-8", "replace")).hexdigest()[:24]
