"""What a push would send. Nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctxdb.push.sender import PushReport, Sender
from ctxdb.push.server import Target, connected
from ctxdb.store.changes import BEGINNING, Place, changed_after, database_id, last_change
from ctxdb.team import reading
from ctxdb.team.reading import Terms, sent_tables
from ctxdb.team.repositories import repositories

if TYPE_CHECKING:
    import sqlite3


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
            saved = Place(*row) if row else BEGINNING
            if saved.seq <= last_change(conn):
                place = saved
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
