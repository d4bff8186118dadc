"""New databases for tests that rebuild in their own process: the tables are copied, not made.

Commands in processes of their own make them every time.
"""

from __future__ import annotations

import sqlite3
from functools import cache
from pathlib import Path

import pytest

from ctxdb.store.schema import prepare


@cache
def _prepared() -> sqlite3.Connection:
    conn = sqlite3.connect(":memory:", isolation_level=None)
    conn.execute("PRAGMA page_size = 8192")
    prepare(conn, Path("new.db"))
    return conn


def _prepare(conn: sqlite3.Connection, path: Path) -> None:
    if conn.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
        _prepared().backup(conn)
    prepare(conn, path)


def copy_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a rebuild, and a sync that makes a database again, begin with a copy."""
    monkeypatch.setattr("ctxdb.rebuild.rebuild.prepare", _prepare)
    monkeypatch.setattr("ctxdb.ingest.sync.prepare", _prepare)
