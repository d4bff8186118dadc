"""Connect to a team's PostgreSQL, and say in one line what is wrong with it.

Passwords come from the URL, from PGPASSFILE or from a service file. libpq reads them; ctxdb stores
and prints none. No message quotes values: they may be text of a transcript.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ctxdb.errors import CtxdbError, UsageError

if TYPE_CHECKING:
    import psycopg

MIN_VERSION = 150000  # views with security_invoker
CONNECT_SECONDS = 10


class PushError(CtxdbError):
    """The team's server cannot be used; the message says why and what to do."""


class Target(NamedTuple):
    """Where to push: a connection string, and what may be shown of it."""

    url: str
    shown: str


def target_of(url: str) -> Target:
    """Check a URL. Raises UsageError, which does not repeat it."""
    _psycopg()
    from psycopg.conninfo import conninfo_to_dict

    if not url.startswith(("postgresql://", "postgres://")) and ("://" in url or "=" not in url):
        raise UsageError("name a server: postgresql://USER@HOST/DATABASE")
    try:
        parts = conninfo_to_dict(url)
    except Exception as e:
        raise UsageError("that is not a PostgreSQL URL: postgresql://USER@HOST/DATABASE") from e
    where = parts.get("host") or parts.get("service") or "the local server"
    port = f":{parts['port']}" if parts.get("port") else ""
    return Target(url, f"{where}{port}/{parts.get('dbname') or ''}".rstrip("/"))


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as e:
        raise PushError("this needs psycopg: pip install 'ctxdb[postgres]'") from e
    return psycopg


@contextmanager
def connected(target: Target) -> Iterator[psycopg.Connection[Any]]:
    """A connection; whatever the server says becomes one line."""
    psycopg = _psycopg()
    options = {
        "autocommit": True,
        "connect_timeout": CONNECT_SECONDS,
        "application_name": "ctxdb",
        # A server that is gone is noticed within a minute.
        "keepalives_idle": 20,
        "keepalives_interval": 10,
        "keepalives_count": 3,
    }
    with naming_errors(target), psycopg.connect(target.url, **options) as conn:
        version = conn.info.server_version
        if version < MIN_VERSION:
            raise PushError(
                f"{target.shown}: PostgreSQL {version // 10000} is too old;"
                f" ctxdb needs {MIN_VERSION // 10000} or later"
            )
        conn.execute("SET search_path TO pg_catalog, pg_temp; SET client_min_messages TO warning")
        yield conn


# What people can do about an error, by its code or the first two characters of it.
_ADVICE = {
    "25006": "is read-only; push to the server that takes writes",
    "28000": "refused this user; check the user name and pg_hba.conf of the server",
    "28P01": "refused the password; check the URL, PGPASSFILE or the service file",
    "3D000": "has no such database; create it, or correct the URL",
    "42501": "does not allow this role to do that; its owner runs sql/postgres/roles.sql and makes"
    " the role a member of ctxdb_writer; a machine that one role has pushed, no other can push",
    "42809": "has something else of that name in schema ctxdb; rename it, then push again",
    "2BP01": "has views of your own that read views of ctxdb, which this version makes again; drop"
    " yours, push, then create them again",
    "42P07": "has another table in the way in schema ctxdb; rename it, then push again",
    "42710": "has something else of that name in schema ctxdb; rename it, then push again",
    "42703": "has a table of schema ctxdb with other columns; rename it, then push again",
    "42P01": "lacks a table of schema ctxdb; its owner runs `ctxdb push` once to make it",
    "3F000": "has no schema ctxdb, and this role may not make it; its owner runs `ctxdb push` once",
    "53100": "is full; nothing of this batch was written: make room, then push again",
    "53200": "has no memory left; push again later",
    "53300": "has too many connections; push again later",
    "57P01": "was shut down; push again later",
    "57P03": "is starting or stopping; push again later",
    "40P01": "had to end this push for another one; push again",
    "40001": "had to end this push for another one; push again",
    "54000": "cannot hold a row that large",
    "08": "ended the connection; push again, it goes on where it stopped",
    "57": "ended the push; push again, it goes on where it stopped",
    "0A": "does not offer what ctxdb needs; use PostgreSQL 15 or later",
}


@contextmanager
def naming_errors(target: Target) -> Iterator[None]:
    """Turn an error of the server into one line that says what to do."""
    psycopg = _psycopg()
    try:
        yield
    except psycopg.Error as e:
        raise PushError(f"{target.shown} {reason_of(e)}") from e


def reason_of(error: psycopg.Error) -> str:
    """What is wrong, and what to do, without any value of a row."""
    code = error.sqlstate or ""
    advice = _ADVICE.get(code) or _ADVICE.get(code[:2])
    if advice is not None:
        return advice
    if code:
        return f"reports error {code} ({type(error).__name__}); nothing of this batch was written"
    text = str(error)
    if "password" in text:  # libpq: none was given, or the server refused it
        return _ADVICE["28P01"]
    if "No such file" in text or "refused" in text or "timeout" in text or "resolve" in text:
        return "cannot be reached; check the URL, and that the server runs"
    if "does not exist" in text and "database" in text:
        return _ADVICE["3D000"]
    if "role" in text and "does not exist" in text:
        return _ADVICE["28000"]
    if "starting up" in text or "shutting down" in text:
        return _ADVICE["57P03"]
    if "too many" in text:
        return _ADVICE["53300"]
    if "service file" in text or "definition of service" in text:
        return "is not in the service file; check PGSERVICEFILE and the name"
    return "cannot be reached, or ended the connection; push again later"
