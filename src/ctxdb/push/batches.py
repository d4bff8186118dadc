"""One batch of sessions: COPY into staging tables, one upsert per table, all in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from ctxdb.push.server_schema import row_tables
from ctxdb.team.reading import Sent, Terms, rows_of

if TYPE_CHECKING:
    import sqlite3

    import psycopg


class Staging:
    """The temporary tables of one connection; they are empty after each transaction."""

    def __init__(self, server: psycopg.Connection[Any], tables: list[Sent], machine: str) -> None:
        self.server = server
        self.machine = machine
        self.tables = _with_room(server, tables)
        self._made: set[str] = set()

    def send(
        self,
        conn: sqlite3.Connection,
        sessions: Collection[str],
        terms: Terms,
        only: str | None = None,
    ) -> dict[str, int]:
        """Send all rows of some sessions; what the server has besides of them is removed.

        The caller has begun the transaction. With `only`, one table is sent. Returns rows by table.
        """
        tables = [sent for sent in self.tables if only in (None, sent.name)]
        begun = {sent.name: _Rows(rows_of(conn, sent, sessions, terms)) for sent in tables}
        filled = [sent for sent in tables if not begun[sent.name].are_none]
        self._make([sent for sent in filled if sent.name not in self._made])
        sent_rows = {sent.name: 0 for sent in tables}
        for sent in filled:
            sent_rows[sent.name] = self._copy(sent, begun[sent.name])
        steps = [_upsert(sent) for sent in filled]
        steps += [_delete_others(sent, staged=sent in filled) for sent in tables]
        if only is None:
            steps.append(_HOLD)
        names = sorted({terms.session(session_id) for session_id in sessions})
        values = {"machine": self.machine, "sessions": names}
        with _without_waiting(self.server):
            for step in steps:
                self.server.execute(step, values)
        return sent_rows

    def _make(self, tables: list[Sent]) -> None:
        if tables:
            self.server.execute(
                "; ".join(
                    f"CREATE TEMP TABLE stage_{sent.name} ON COMMIT DELETE ROWS AS"
                    f" SELECT {_names(sent)} FROM ctxdb._{sent.name} WITH NO DATA"
                    for sent in tables
                )
            )
            self._made |= {sent.name for sent in tables}

    def _copy(self, sent: Sent, rows: Iterable[tuple[Any, ...]]) -> int:
        number = 0
        into = f"COPY pg_temp.stage_{sent.name} ({_names(sent)}) FROM STDIN"
        with self.server.cursor().copy(into) as copy:
            for row in rows:
                copy.write_row(row)
                number += 1
        return number


def _without_waiting(server: psycopg.Connection[Any]) -> AbstractContextManager[object]:
    """Send statements without waiting for each; with a libpq before 14, one by one."""
    from psycopg import Pipeline

    return server.pipeline() if Pipeline.is_supported() else nullcontext()


class _Rows:
    """Rows of which the first has been read, to know whether there are any."""

    def __init__(self, rows: Iterator[tuple[Any, ...]]) -> None:
        self._first = next(rows, None)
        self._rest = rows
        self.are_none = self._first is None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        if self._first is not None:
            yield self._first
            yield from self._rest


def _with_room(server: psycopg.Connection[Any], tables: list[Sent]) -> list[Sent]:
    """The columns that the server's tables have: an older ctxdb may have made them."""
    found = set(
        server.execute(
            "SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'ctxdb' AND a.attnum > 0 AND NOT a.attisdropped"
        ).fetchall()
    )
    return [
        sent._replace(columns=[one for one in sent.columns if (f"_{sent.name}", one.name) in found])
        for sent in tables
    ]


def _names(sent: Sent) -> str:
    return ", ".join(["session_id", "key", *(f'"{column.name}"' for column in sent.columns)])


_HOLD = (
    "INSERT INTO ctxdb._holders SELECT unnest(%(sessions)s::text[]), %(machine)s"
    " ON CONFLICT DO NOTHING"
)


def _upsert(sent: Sent) -> str:
    names = _names(sent)
    changed = [f'"{column.name}"' for column in sent.columns]
    assigned = ", ".join(f"{name} = excluded.{name}" for name in changed)
    now = ", ".join(f"t.{name}" for name in changed)
    then = ", ".join(f"excluded.{name}" for name in changed)
    return (
        f"INSERT INTO ctxdb._{sent.name} AS t ({names}, machine)"
        f" SELECT {names}, %(machine)s FROM pg_temp.stage_{sent.name}"
        f" ON CONFLICT (session_id, key, machine) DO UPDATE SET {assigned}"
        f" WHERE ROW({now}) IS DISTINCT FROM ROW({then})"
    )


def _delete_others(sent: Sent, *, staged: bool) -> str:
    """Removes the rows of these sessions that this machine no longer has."""
    # The names are given as a list: of a temporary table the planner would not know that it is
    # short, and read all rows.
    sql = (
        f"DELETE FROM ctxdb._{sent.name} t"
        " WHERE t.session_id = ANY (%(sessions)s) AND t.machine = %(machine)s"
    )
    if staged:
        sql += (
            f" AND NOT EXISTS (SELECT 1 FROM pg_temp.stage_{sent.name} g"
            " WHERE g.session_id = t.session_id AND g.key = t.key)"
        )
    return sql


def erase(server: psycopg.Connection[Any], machine: str) -> None:
    """Remove everything of a machine."""
    for name in [*row_tables(), "_holders"]:
        server.execute(
            f"DELETE FROM ctxdb.{name} WHERE machine = %s",
            (machine,),
        )


def erase_sessions(
    server: psycopg.Connection[Any], machine: str, sessions: Collection[str]
) -> None:
    """Remove some sessions of a machine."""
    for name in [*row_tables(), "_holders"]:
        server.execute(
            f"DELETE FROM ctxdb.{name} WHERE machine = %s AND session_id = ANY (%s)",
            (machine, list(sessions)),
        )
