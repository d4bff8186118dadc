"""Checks of the database file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote

from ctxdb.doctor.finding import NOTE, OK, TODO, Finding, Patient
from ctxdb.formatting import counted
from ctxdb.progress import human_bytes
from ctxdb.rebuild.swap import kept_path, size_of
from ctxdb.store.integrity import find_damage, sessions_only_here
from ctxdb.store.odd_values import find_odd_values
from ctxdb.store.version import MEANINGS, meanings_of

_INDEXES = "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%fts5%'"
REPAIR = "`ctxdb rebuild` repairs it"


def check_integrity(patient: Patient) -> Iterator[Finding]:
    """Look at every page, and compare every index with its table."""
    damage = find_damage(patient.path, everything=True)
    if damage is None:
        yield Finding("integrity", OK, "every page and every index is as it should be")
        return
    only_here = sessions_only_here(patient.path)
    lost = "" if not only_here else f"; {counted(only_here, 'session')} only in it"
    yield Finding("integrity", TODO, f"the database is damaged ({damage}){lost}", REPAIR)


def check_full_text(patient: Patient) -> Iterator[Finding]:
    """Compare each full-text index with the rows that it is made of."""
    uri = f"file:{quote(os.fsencode(patient.path))}?mode=rw"
    wrong: list[str] = []
    with closing(sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None)) as conn:
        try:
            conn.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as e:
            yield Finding("full_text", NOTE, f"not checked: {e}")
            return
        for (name,) in conn.execute(_INDEXES).fetchall():
            try:
                conn.execute(f"INSERT INTO {name} ({name}, rank) VALUES ('integrity-check', 1)")
            except sqlite3.DatabaseError:
                wrong.append(name)
        conn.execute("ROLLBACK")
    if wrong:
        names = ", ".join(wrong)
        yield Finding("full_text", TODO, f"{names}: out of step with the rows", REPAIR)
    else:
        yield Finding("full_text", OK, "search has the words of every row")


def check_values(patient: Patient) -> Iterator[Finding]:
    """Look for values that ctxdb did not write."""
    odd = find_odd_values(patient.path)
    for one in odd:
        yield Finding("values", TODO, str(one), "`ctxdb rebuild` derives the rows again")
    if not odd:
        yield Finding("values", OK, "every value is of its column's type")


def check_meanings(patient: Patient) -> Iterator[Finding]:
    """See whether this version of ctxdb would derive other rows."""
    with patient.reader() as conn:
        found = meanings_of(conn)
    if found < MEANINGS:
        text = "an earlier version of ctxdb has derived the rows"
        yield Finding("meanings", TODO, text, "`ctxdb sync` derives them again")


def check_kept(patient: Patient) -> Iterator[Finding]:
    """See whether a database is kept from before a rebuild."""
    kept = kept_path(patient.path)
    if kept.exists():
        text = f"{kept} ({human_bytes(size_of(kept))}) is from before the last rebuild"
        yield Finding("kept", NOTE, text, "`ctxdb rebuild --drop-old` deletes it")
