"""Which version of the schema a database has, told without loading what could change it.

Every question from a shell asks this first, so it has to be cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.assets import asset_dir

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path


def steps() -> list[str]:
    """Names of the migrations that this code has."""
    return [path.stem for path in _step_files()]


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


def view_files() -> list[Path]:
    """The files that views are made of."""
    return sorted(asset_dir("sql").glob("*.sql"))


def fingerprint() -> str:
    """Changes whenever a migration, a view, the price list or the names of models do."""
    from _blake2 import blake2b  # hashlib would load OpenSSL as well: 4 ms of every question

    from ctxdb.model_ladder import VERSION as LADDER

    digest = blake2b(b"%d" % LADDER, digest_size=16)
    for path in [*_step_files(), *view_files(), asset_dir("sql") / "prices.csv"]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return str(digest.hexdigest())


def is_current(conn: sqlite3.Connection) -> bool:
    """True when the tables and views are those of this version; nothing is changed."""
    if applied(conn) != steps():
        return False
    row = conn.execute("SELECT value FROM _meta WHERE key = 'schema'").fetchone()
    return row is not None and bool(row[0] == fingerprint())


def _step_files() -> list[Path]:
    return sorted(asset_dir("migrations").glob("[0-9]*.sql"))
