"""Which version of the schema a database has. This module loads fast and changes nothing.

Every command asks this first, so it has to be cheap. The files of this version are read once in a
process: while a daemon runs, an upgrade may replace them.
"""

from __future__ import annotations

import sqlite3
from functools import cache
from typing import TYPE_CHECKING

from ctxdb.assets import asset_dir
from ctxdb.errors import CtxdbError
from ctxdb.store.header import read_header

if TYPE_CHECKING:
    from pathlib import Path

# Counts how often this code has changed what rows mean, so that rows made before must be derived
# again. Add one when the same lines give other rows than before: sync and daemon then make every
# database again (`ctxdb rebuild`).
MEANINGS = 2  # 2: secrets are masked, and lines are known by keyed digests
MEANINGS_KEY = "meanings"  # of `_meta`

# The version of the public contract, kept in the file's header (PRAGMA user_version).
CONTRACT = 2

# The first steps of databases made before 0001_schema: none of them was ever released.
FIRST_OLD_STEPS = frozenset({"0001_initial", "0001_tables"})


def steps() -> list[str]:
    """Names of the migrations that this code has."""
    return list(_first_steps(asset_dir("migrations")))


def applied(conn: sqlite3.Connection) -> list[str]:
    """Names of the migrations that the database has."""
    if not conn.execute("SELECT 1 FROM sqlite_master WHERE name = '_sqlite_migrations'").fetchone():
        return []
    return [
        name
        for (name,) in conn.execute(
            "SELECT name FROM _sqlite_migrations WHERE migration_set = 'ctxdb' ORDER BY id"
        )
    ]


def says_it_is_not_old(path: Path) -> bool:
    """Whether the first bytes of a file say the version of the contract: no SQL has to be parsed.

    False can also mean that the log beside the file has not been moved into it yet.
    """
    try:
        return read_header(path).user_version >= CONTRACT
    except sqlite3.Error:
        return False


def is_old(conn: sqlite3.Connection) -> bool:
    """True for a database from before the migrations were folded into one: see OldDatabase."""
    return not FIRST_OLD_STEPS.isdisjoint(applied(conn))


def meanings_of(conn: sqlite3.Connection) -> int:
    """The version of the meanings by which the rows were made; a newer one counts as this one."""
    if not conn.execute("SELECT 1 FROM sqlite_master WHERE name = '_meta'").fetchone():
        return MEANINGS  # nothing is in it
    row = conn.execute("SELECT value FROM _meta WHERE key = ?", (MEANINGS_KEY,)).fetchone()
    (text,) = row or ("1",)  # the first databases did not say it
    return min(int(text), MEANINGS) if str(text).isdecimal() else 0


def view_files() -> list[Path]:
    """The files that views are made of."""
    return sorted(asset_dir("sql").glob("*.sql"))


def fingerprint() -> str:
    """Changes whenever a migration, a view, the prices, the README or names of models do."""
    return _first_fingerprint(asset_dir("migrations"), asset_dir("sql"))


def is_upgraded() -> bool:
    """True when the files on disk are no longer those that this process began with."""
    try:
        return fingerprint() != _fingerprint(asset_dir("migrations"), asset_dir("sql"))
    except (OSError, CtxdbError):  # they are being replaced at this moment
        return True


def _fingerprint(migrations: Path, sql: Path) -> str:
    from _blake2 import blake2b  # hashlib would load OpenSSL as well: 4 ms of every question

    from ctxdb.store.model_ladder import VERSION as LADDER

    digest = blake2b(b"%d" % LADDER, digest_size=16)
    texts = [sql / "prices.csv", sql / "README.md"]
    for path in [*_step_files(migrations), *sorted(sql.glob("*.sql")), *texts]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return str(digest.hexdigest())


def is_current(conn: sqlite3.Connection) -> bool:
    """True when the tables and views are those of this version; nothing is changed."""
    if applied(conn) != steps():
        return False
    row = conn.execute("SELECT value FROM _meta WHERE key = 'schema'").fetchone()
    return bool(row == (fingerprint(),))


def _step_files(migrations: Path) -> list[Path]:
    return sorted(migrations.glob("[0-9]*.sql"))


@cache
def _first_steps(migrations: Path) -> tuple[str, ...]:
    return tuple(path.stem for path in _step_files(migrations))


@cache
def _first_fingerprint(migrations: Path, sql: Path) -> str:
    return _fingerprint(migrations, sql)
