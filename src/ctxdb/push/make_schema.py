"""Make the schema `ctxdb` on a team's server, or make it again with a newer ctxdb."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import ctxdb
from ctxdb.assets import asset_dir
from ctxdb.push.server import PushError, Target
from ctxdb.push.server_schema import (
    BASE,
    FORGET_LOCK,
    FORMAT,
    definitions,
    fingerprint,
    public_names,
    row_tables,
)

if TYPE_CHECKING:
    import psycopg


def prepare(conn: psycopg.Connection[Any], target: Target) -> bytes:
    """Make or update the schema if need be; return the team's salt."""
    found = _settings(conn, target)
    if found is None or found.get("definitions") != fingerprint():
        found = _make(conn, target)
    _refuse_newer(found, target)
    return bytes.fromhex(found["salt"])


def _settings(conn: psycopg.Connection[Any], target: Target) -> dict[str, str] | None:
    """What the schema says of itself; None if there is no schema yet."""
    names = set(_kinds(conn))
    if not names:
        return None
    if "_settings" not in names or "_machines" not in names:
        raise PushError(
            f"{target.shown} has a schema ctxdb that ctxdb did not make: a table is in the way"
            f" ({min(names)}); rename that schema, then push again"
        )
    return dict(conn.execute("SELECT name, value FROM ctxdb._settings").fetchall())


def _kinds(conn: psycopg.Connection[Any]) -> dict[str, str]:
    """What there is in the schema: r is a table, v is a view."""
    return dict(
        conn.execute(
            "SELECT c.relname, c.relkind::text FROM pg_class c"
            " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'ctxdb'"
        ).fetchall()
    )


def _refuse_what_is_in_the_way(conn: psycopg.Connection[Any], target: Target) -> None:
    kinds = _kinds(conn)
    wanted = dict.fromkeys(row_tables(), ("r", "p")) | dict.fromkeys(public_names(), ("v",))
    for name, may_be in sorted(wanted.items()):
        if kinds.get(name, may_be[0]) not in may_be:
            raise PushError(
                f"{target.shown} has something else called ctxdb.{name}: rename it, then push again"
            )


def _refuse_newer(found: dict[str, str], target: Target) -> None:
    if int(found.get("format", "0")) > FORMAT:
        raise PushError(
            f"{target.shown} has tables of a newer ctxdb ({found.get('version')}); upgrade ctxdb"
        )
    if "salt" not in found:
        raise PushError(f"{target.shown} has a schema ctxdb without a salt; rename that schema")


def _make(conn: psycopg.Connection[Any], target: Target) -> dict[str, str]:
    with conn.transaction():
        conn.execute("SELECT pg_advisory_xact_lock(%s)", (FORGET_LOCK,))
        found = _settings(conn, target)
        if found is not None:
            _refuse_newer(found, target)
            if found.get("definitions") == fingerprint() or not _may_change(conn, found):
                return found
        else:
            _refuse_a_role_that_cannot(conn, target)
            conn.execute(BASE)
            salt = secrets.token_hex(16)
            conn.execute("INSERT INTO ctxdb._settings VALUES ('salt', %s)", (salt,))
        _refuse_what_is_in_the_way(conn, target)
        conn.execute(";\n".join(definitions()))  # each alone would be a round trip
        if "_own_machines" in _kinds(conn):  # the script was run before: new views need grants
            conn.execute((asset_dir("sql") / "postgres/roles.sql").read_text(encoding="utf-8"))
        values = {
            "format": str(FORMAT),
            "version": ctxdb.__version__,
            "definitions": fingerprint(),
        }
        for name, value in values.items():
            conn.execute(
                "INSERT INTO ctxdb._settings VALUES (%s, %s)"
                " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (name, value),
            )
        return {**(_settings(conn, target) or {}), **values}


def _refuse_a_role_that_cannot(conn: psycopg.Connection[Any], target: Target) -> None:
    """Only a role that may create things in the database can make the schema."""
    row = conn.execute(
        "SELECT has_database_privilege(current_database(), 'CREATE')"
        " OR to_regnamespace('ctxdb') IS NOT NULL"
    ).fetchone()
    if row != (True,):
        raise PushError(
            f"{target.shown} has no schema ctxdb, and this role may not make it; the database's"
            " owner runs `ctxdb push` once"
        )


def _may_change(conn: psycopg.Connection[Any], found: dict[str, str]) -> bool:
    """Whether this ctxdb may change the tables: only their owner can, and only a newer ctxdb.

    Machines with an older one push what the tables have room for.
    """
    if _version(found.get("version", "")) > _version(ctxdb.__version__):
        return False
    row = conn.execute(
        "SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'ctxdb'"
    ).fetchone()
    (may,) = row or (False,)
    return bool(may)


def _version(text: str) -> list[int]:
    return [int(part) for part in text.split(".") if part.isdigit()]
