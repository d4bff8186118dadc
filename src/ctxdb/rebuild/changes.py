"""What differs between a database and the one that was made again, in numbers: rows, tokens, money.

Rows are found in the other database as `verify` finds them. A row that is only in the new one came
with lines that the old one had not read, or it was in the old one once: then someone has deleted
it by hand, or this version of ctxdb derives more.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ctxdb.verify.compare import TABLES, Comparison, Table
from ctxdb.verify.differences import VerifyReport
from ctxdb.verify.reach import Reach

_TOKENS = (
    "input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens"
    " + cache_read_tokens"
)
# `verify` makes prompts of history.jsonl again with their ids. A rebuild gives them new ids.
_TABLES = tuple(one._replace(key=()) if one.name == "history" else one for one in TABLES)
_MONEY = 10**12  # _costs counts in so many parts of a dollar


@dataclass(slots=True)
class TableChanges:
    """What differs in one table."""

    table: str
    before: int = 0
    after: int = 0
    new: int = 0  # from lines that the old database had not read
    back: int = 0  # from lines that it had read: the rows were deleted by hand, or not derived
    gone: int = 0  # rows that no line says
    changed: int = 0  # rows with other values
    columns: dict[str, int] = field(default_factory=dict)  # in which the values differ

    @property
    def differs(self) -> bool:
        """Whether anything differs."""
        return bool(self.new or self.back or self.gone or self.changed)


@dataclass(slots=True)
class Changes:
    """What differs in all tables."""

    tables: list[TableChanges] = field(default_factory=list)
    tokens_before: int = 0
    tokens_after: int = 0
    cost_before_usd: float | None = None
    cost_after_usd: float | None = None

    def total(self, name: str) -> int:
        """The sum of one number over all tables that people see."""
        return sum(getattr(one, name) for one in self.tables if not one.table.startswith("_"))


def find_changes(old: sqlite3.Connection, new: Path) -> Changes:
    """Compare. Only temporary tables are written."""
    found = Changes()
    old.execute("ATTACH ? AS second", (f"{new.absolute().as_uri()}?mode=ro",))
    try:
        _Counting(old, found).run()
        for schema, when in (("main", "before"), ("second", "after")):
            (tokens,) = old.execute(f"SELECT sum({_TOKENS}) FROM {schema}.usage").fetchone()
            setattr(found, f"tokens_{when}", tokens or 0)
            with suppress(sqlite3.Error):  # a damaged database has no views
                (cost,) = old.execute(f"SELECT sum(cost) FROM {schema}._costs").fetchone()
                setattr(found, f"cost_{when}_usd", (cost or 0) / _MONEY)
    finally:
        old.execute("DETACH second")
    return found


class _Counting(Comparison):
    """Counts differences instead of telling them."""

    def __init__(self, conn: sqlite3.Connection, found: Changes) -> None:
        super().__init__(conn, Reach(set(), set(), 0, is_whole=True), VerifyReport())
        self.found = found
        # Sessions with lines that the first database has not read.
        conn.execute("CREATE TEMP TABLE grown (id TEXT PRIMARY KEY) WITHOUT ROWID")
        conn.execute(
            "INSERT OR IGNORE INTO temp.grown SELECT l.session_id FROM second._session_files l"
            " JOIN second.source_files s ON s.id = l.source_file_id"
            " LEFT JOIN source_files f ON f.path = s.path AND f.machine = s.machine"
            ' WHERE f.id IS NULL OR s."offset" > f."offset"'
        )

    def run(self) -> None:
        """Compare all tables."""
        for table in _TABLES:
            if table.key:
                self._find_again(table)
        for table in _TABLES:
            one = TableChanges(table.name)
            for schema, when in (("main", "before"), ("second", "after")):
                setattr(one, when, self._number(f"SELECT count(*) FROM {schema}.{table.name}"))
            if table.key:
                self._count(table, one)
            else:
                self._count_equal(table, one)
            self.found.tables.append(one)

    def _number(self, sql: str) -> int:
        (found,) = self.conn.execute(sql).fetchone()
        return int(found or 0)

    def _count(self, table: Table, one: TableChanges) -> None:
        name = table.name
        one.gone = self._number(
            f"SELECT count(*) FROM main.{name} f"
            f" WHERE NOT EXISTS (SELECT 1 FROM temp.of_{name} WHERE first = f.id)"
        )
        added = (
            f"SELECT count(*), coalesce(sum({self._was_read(table)}), 0) FROM second.{name} s"
            f" WHERE NOT EXISTS (SELECT 1 FROM temp.of_{name} WHERE second = s.id)"
        )
        more, one.back = self.conn.execute(added).fetchone()
        one.new = more - one.back
        columns = [column for column in self._columns(table) if column not in table.key]
        tests = {column: f'f."{column}" IS NOT {self._in_first(column)}' for column in columns}
        if not tests:
            return
        sums = ", ".join(f"coalesce(sum({test}), 0)" for test in tests.values())
        changed, *counts = self.conn.execute(
            f"SELECT coalesce(sum({' OR '.join(tests.values())}), 0), {sums}"
            f" FROM temp.of_{name} o JOIN second.{name} s ON s.id = o.second"
            f" JOIN main.{name} f ON f.id = o.first"
        ).fetchone()
        one.changed = changed
        one.columns = {column: n for column, n in zip(tests, counts, strict=True) if n}

    def _was_read(self, table: Table) -> str:
        """Whether the first database had read the line that a row of the second is from."""
        if table.name in ("messages", "events", "message_copies"):
            return (
                "EXISTS (SELECT 1 FROM second.source_files g JOIN source_files h"
                " ON h.path = g.path AND h.machine = g.machine"
                ' WHERE g.id = s.source_file_id AND s.byte_start < h."offset")'
            )
        column = {"sessions": "id", "projects": "", "source_files": ""}.get(
            table.name, "session_id"
        )
        return f's."{column}" NOT IN (SELECT id FROM temp.grown)' if column else "0"

    def _count_equal(self, table: Table, one: TableChanges) -> None:
        """Count rows without a key: each must be in both databases the same number of times."""
        columns = self._columns(table)
        own = ", ".join(f'f."{column}"' for column in columns)
        other = ", ".join(self._in_first(column) for column in columns)
        by = ", ".join(str(i) for i in range(1, len(columns) + 1))
        first = f"SELECT {own}, count(*) AS n FROM main.{table.name} f GROUP BY {by}"
        second = f"SELECT {other}, count(*) AS n FROM second.{table.name} s GROUP BY {by}"
        one.gone = self._number(f"SELECT count(*) FROM ({first} EXCEPT {second})")
        added = self._number(f"SELECT count(*) FROM ({second} EXCEPT {first})")
        has_grown = self._number("SELECT count(*) FROM temp.grown")
        one.new, one.back = (added, 0) if has_grown else (0, added)
