"""Open the database for a command that reads it, after new lines were read into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.config import load
from ctxdb.errors import CtxdbError

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.cli.declare import Context


def open_fresh(ctx: Context, *, no_sync: bool) -> sqlite3.Connection:
    """Sync unless `no_sync` is true, then open the database for reading."""
    from ctxdb.store.connection import open_reader

    config = load(ctx.db)
    if not no_sync:
        from ctxdb.query.fresh import freshen

        freshen(config, named=ctx.db is not None)
    conn = open_reader(config.db_path)
    if not conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'messages'").fetchone():
        conn.close()
        raise CtxdbError(f"{config.db_path}: nothing is in it yet; `ctxdb sync` fills it")
    return conn
