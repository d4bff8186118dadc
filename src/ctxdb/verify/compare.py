"""Compare two databases that were made from the same lines: they must hold the same rows.

A row of one database is found in the other by its key (an entry by its place, a turn by session and
ordinal, a request by its key), never by its id. Then every column must be equal, those of the
bookkeeping table beside it too. An id of another row is equal if both ids mean the same row.
Columns that say when and how the data came in are ignored.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, NamedTuple

from ctxdb.columns import Row
from ctxdb.columns import columns as row_columns
from ctxdb.rows import Event, Message, MessageCopy, ToolUse
from ctxdb.store.fulltext import INDEX_OF

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctxdb.verify.differences import VerifyReport
    from ctxdb.verify.reach import Reach


class Table(NamedTuple):
    """How rows of a table are found in the other database, and which rows are compared."""

    name: str
    key: tuple[str, ...]  # columns that name a row; empty: equal rows are counted
    scope: str  # the column that names the row's session or file
    ignored: tuple[str, ...] = ()
    is_of_all: bool = False  # a row can follow from all sessions: compared if all are made again
    bookkeeping: type[Row] | None = None  # compare the table beside it too; rows.py has its columns


# In this order: a key can name rows of the tables before it.
TABLES = (
    Table(
        "source_files",
        ("path", "machine"),
        "id",
        ("size", "state", "first_seen_at", "last_read_at", "missing_since"),
    ),
    Table("projects", ("path",), "id"),
    Table("sessions", ("id",), "id", ("source_deleted_at",)),
    Table("events", ("source_file_id", "byte_start"), "source_file_id", bookkeeping=Event),
    Table("messages", ("source_file_id", "byte_start"), "source_file_id", bookkeeping=Message),
    Table("turns", ("session_id", "ordinal"), "source_file_id"),
    Table(
        "message_copies",
        ("source_file_id", "byte_start"),
        "source_file_id",
        bookkeeping=MessageCopy,
    ),
    Table(
        "tool_uses",
        ("tool_use_id", "message_id", "result_message_id"),
        "session_id",
        bookkeeping=ToolUse,
    ),
    Table("agents", ("session_id", "agent_id"), "session_id"),
    Table("usage", ("request_key",), "session_id"),
    Table("files_touched", (), "session_id"),
    Table("git_operations", (), "session_id"),
    Table("todos", ("session_id", "agent_id", "item_id", "subject"), "session_id"),
    Table("plans", ("session_id", "path", "text"), "session_id", is_of_all=True),
    Table("history", ("id",), "session_id", is_of_all=True),
    Table("line_counts", (), "source_file_id"),
    # first_unshared_at depends on the order of arrival: it is filled only if a tie needed it.
    Table("_shared_sessions", (), "session_id", ("first_unshared_at",)),
    # An excerpt is masked by the rules of its time.
    Table("ingest_errors", (), "source_file_id", ("seen_at", "excerpt")),
)  # fmt: skip
# Columns that hold the id of a row, and the table of that row.
NUMBERS = {
    "source_file_id": "source_files",
    "project_id": "projects",
    "turn_id": "turns",
    "message_id": "messages",
    "result_message_id": "messages",
    "event_id": "events",
    "tool_id": "tool_uses",
}
_SHOWN = 5  # of each table and kind


class Comparison:
    """Compares the attached database `second` with the main one."""

    def __init__(self, conn: sqlite3.Connection, wanted: Reach, report: VerifyReport) -> None:
        self.conn = conn
        self.report = report
        self.is_whole = wanted.is_whole
        conn.execute("PRAGMA query_only = 0")  # only temporary tables are written
        conn.execute("CREATE TEMP TABLE whole_sessions (id TEXT PRIMARY KEY) WITHOUT ROWID")
        conn.execute("CREATE TEMP TABLE whole_files (id INTEGER PRIMARY KEY)")
        sessions = [(session,) for session in wanted.sessions]
        conn.executemany("INSERT INTO temp.whole_sessions VALUES (?)", sessions)
        conn.executemany(
            "INSERT INTO temp.whole_files VALUES (?)", [(file,) for file in wanted.files]
        )

    def run(self) -> None:
        """Compare all tables."""
        tables = [table for table in TABLES if self.is_whole or not table.is_of_all]
        for table in tables:
            if table.key:
                self._find_again(table)
        for table in tables:
            if table.key:
                self._compare(table)
            else:
                self._compare_all(table)
            if table.name in INDEX_OF:
                self._compare_words(table.name, INDEX_OF[table.name])

    def _columns(self, table: Table) -> list[str]:
        found = self.conn.execute(f"PRAGMA main.table_info({table.name})")
        left_out = {"id", *table.ignored}
        return [name for _, name, *_ in found if name not in left_out or name in table.key]

    def _in_first(self, column: str) -> str:
        """A column of the second database, with the ids of the first one."""
        table = NUMBERS.get(column)
        name = f's."{column}"'
        return f"(SELECT first FROM temp.of_{table} WHERE second = {name})" if table else name

    def _scope(self, table: Table) -> str:
        """Which rows of the first database must be in the second."""
        if self.is_whole:
            return "1"
        if table.name == "projects":  # a session that is left out may have given it another name
            return (
                "NOT EXISTS (SELECT 1 FROM main.sessions o WHERE o.project_id = f.id"
                " AND o.id NOT IN (SELECT id FROM temp.whole_sessions))"
            )
        of_files = table.scope == "source_file_id" or table.name == "source_files"
        wanted = "whole_files" if of_files else "whole_sessions"
        return f'f."{table.scope}" IN (SELECT id FROM temp.{wanted})'

    def _find_again(self, table: Table) -> None:
        name = table.name
        kind = "TEXT" if name == "sessions" else "INTEGER"
        self.conn.execute(
            f"CREATE TEMP TABLE of_{name} (second {kind} PRIMARY KEY, first {kind} UNIQUE)"
            " WITHOUT ROWID"
        )
        # The first may be of a version that lacks a column of the key.
        present = {column for _, column, *_ in self.conn.execute(f"PRAGMA main.table_info({name})")}
        same = " AND ".join(
            f'f."{column}" IS {self._in_first(column)}' for column in table.key if column in present
        )
        self.conn.execute(
            f"INSERT OR IGNORE INTO temp.of_{name} SELECT s.id, f.id FROM second.{name} s"
            f" CROSS JOIN main.{name} f ON {same}"
        )

    def _compare(self, table: Table) -> None:
        name = table.name
        what = _named(table, "main", "f")
        pairs = f"temp.of_{name} o JOIN second.{name} s ON s.id = o.second"
        pairs += f" JOIN main.{name} f ON f.id = o.first"
        columns = [column for column in self._columns(table) if column not in table.key]
        tests = [(column, f'f."{column}" IS {self._in_first(column)}') for column in columns]
        if (kind := table.bookkeeping) is not None:
            for alias, schema in (("f", "main"), ("s", "second")):
                pairs += (
                    f" LEFT JOIN {schema}.{kind.beside} {alias}b"
                    f" ON {alias}b.{kind.beside_key} = {alias}.id"
                )
            beside = row_columns(kind, kind.beside)
            tests += [(f"{kind.beside}.{one}", f'fb."{one}" IS sb."{one}"') for one in beside]
        differing = " || ".join(f"iif({test}, '', ' {column}')" for column, test in tests)
        scope = self._scope(table)
        self._tell(
            f"SELECT {what}, ({differing}) AS differing FROM {pairs}"
            f" WHERE differing <> '' AND {scope}",
            lambda what, wrong: f"{name} {what}: {wrong.strip().replace(' ', ', ')} differ",
        )
        self._tell(
            f"SELECT {what} FROM main.{name} f WHERE {scope}"
            f" AND NOT EXISTS (SELECT 1 FROM temp.of_{name} WHERE first = f.id)",
            lambda what: f"{name} {what}: no line says this",
        )
        what = _named(table, "second", "s")
        if self.is_whole or name != "projects":
            self._tell(
                f"SELECT {what} FROM second.{name} s"
                f" WHERE NOT EXISTS (SELECT 1 FROM temp.of_{name} WHERE second = s.id)",
                lambda what: f"{name} {what}: the row is missing",
            )
        (rows,) = self.conn.execute(f"SELECT count(*) FROM temp.of_{name}").fetchone()
        self.report.rows_made_again += rows

    def _compare_all(self, table: Table) -> None:
        """Compare rows without a key: each must be in both databases the same number of times."""
        name = table.name
        columns = self._columns(table)
        own = ", ".join(f'f."{column}"' for column in columns)
        other = ", ".join(self._in_first(column) for column in columns)
        n = len(columns)
        by = ", ".join(str(i) for i in range(1, n + 1))
        first = (
            f"SELECT {own}, count(*) FROM main.{name} f WHERE {self._scope(table)} GROUP BY {by}"
        )
        second = f"SELECT {other}, count(*) FROM second.{name} s GROUP BY {by}"
        for sql, why in (
            (f"{first} EXCEPT {second}", "no line says this, or not so often"),
            (f"{second} EXCEPT {first}", "the row is missing"),
        ):
            self._tell(sql, _saying(name, why))
        (rows,) = self.conn.execute(f"SELECT count(*) FROM second.{name}").fetchone()
        self.report.rows_made_again += rows

    def _compare_words(self, table: str, index: str) -> None:
        """Compare the full text: how many words each row has, and which if all is compared."""
        first, second = "o.first", "o.second"
        if table == "sessions":  # its id is a text
            first = f"(SELECT r.rowid FROM main.sessions r WHERE r.id = {first})"
            second = f"(SELECT r.rowid FROM second.sessions r WHERE r.id = {second})"
        self._tell(
            f"SELECT o.first FROM temp.of_{table} o"
            f" LEFT JOIN main.{index}_docsize f ON f.id = {first}"
            f" LEFT JOIN second.{index}_docsize s ON s.id = {second} WHERE f.sz IS NOT s.sz",
            lambda row_id: f"{index}: the words of row {row_id} differ",
        )
        if not self.is_whole:
            return
        for schema in ("main", "second"):
            self.conn.execute(
                f"CREATE VIRTUAL TABLE temp.words_{schema}"
                f" USING fts5vocab('{schema}', '{index}', 'col')"
            )
        for one, other in (("main", "second"), ("second", "main")):
            self._tell(
                f"SELECT * FROM temp.words_{one} EXCEPT SELECT * FROM temp.words_{other}",
                lambda word, *_: f"{index}: the places of the word {word!r} differ",
            )
        for schema in ("main", "second"):
            self.conn.execute(f"DROP TABLE temp.words_{schema}")

    def _tell(self, sql: str, say: Callable[..., str]) -> None:
        """Report each row that a query finds as a difference."""
        for n, row in enumerate(self.conn.execute(sql)):
            if n < _SHOWN:
                self.report.differ(say(*row))
            else:
                self.report.differences += 1


def _named(table: Table, schema: str, alias: str) -> str:
    """The key of a row, for people: a file by its path."""
    parts = []
    for column in table.key:
        part = f'{alias}."{column}"'
        if column == "source_file_id":
            part = f"(SELECT machine || path FROM {schema}.source_files WHERE id = {part})"
        parts.append(f"coalesce({part}, '')")
    return " || ' ' || ".join(parts)


def _saying(name: str, why: str) -> Callable[..., str]:
    def say(*row: Any) -> str:
        *values, _count = row
        said = " ".join(str(value) for value in values if value is not None)
        return f"{name} {said[:120]}: {why}"

    return say
