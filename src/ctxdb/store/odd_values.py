"""Values that ctxdb did not write: somebody has edited the database, or a page is damaged.

SQLite lets any value be in any column. A command that meets such a value says which one it is,
instead of failing in the middle of something.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from ctxdb.formatting import counted
from ctxdb.store.integrity import open_to_check
from ctxdb.store.schema import all_docs

_TYPES = {
    "INTEGER": "'integer', 'null'",
    "REAL": "'real', 'integer', 'null'",
    "TEXT": "'text', 'null'",
    "BLOB": "'blob', 'null'",
}
_MIXED = frozenset({("_side_files", "content")})
_JSON = frozenset({("messages", "data"), ("messages", "extra"), ("events", "data")})
_JSON_TOO = frozenset({("tool_uses", "input"), ("tool_uses", "result_data")})
_TIME = "____-__-__T%"  # what ctxdb itself writes; timestamps of transcripts can be anything
_TIMES = frozenset(
    {
        ("sessions", "source_deleted_at"),
        ("source_files", "first_seen_at"),
        ("source_files", "last_read_at"),
        ("source_files", "missing_since"),
        ("ingest_errors", "seen_at"),
    }
)
_NUMBERS_BELOW_ZERO = frozenset({("source_files", "offset"), ("source_files", "size")})


class OddValue(NamedTuple):
    """A column with values that do not belong there."""

    table: str
    column: str
    rows: int
    what: str

    def __str__(self) -> str:
        if not self.column:
            return f"{self.table}: {self.what}"
        return f"{self.table}.{self.column}: {self.what} in {counted(self.rows, 'row')}"


def find_odd_values(path: Path) -> list[OddValue]:
    """All columns of ctxdb's tables with such values. Reads the whole database."""
    with closing(open_to_check(path)) as conn:
        found: list[OddValue] = []
        for table in sorted({row.name for row in all_docs() if row.kind == "table"}):
            if not table.endswith("_fts"):
                found += _look_at(conn, table)
        return found


def _look_at(conn: sqlite3.Connection, table: str) -> Iterator[OddValue]:
    columns = conn.execute(f'PRAGMA table_info("{table}")').fetchall()
    if not columns:
        yield OddValue(table, "", 0, "the table is missing")
        return
    tests: list[tuple[str, str, str]] = []  # column, what is wrong, condition
    for _, name, kind, is_required, _, nth_of_key in columns:
        quoted = f'"{name}"'
        allowed = _TYPES.get(kind)
        if allowed is not None and (table, name) not in _MIXED:
            tests.append((name, f"not {kind}", f"typeof({quoted}) NOT IN ({allowed})"))
        if is_required or nth_of_key:
            tests.append((name, "nothing", f"{quoted} IS NULL"))
        if (table, name) in _JSON | _JSON_TOO:
            tests.append((name, "no JSON", f"{quoted} IS NOT NULL AND NOT json_valid({quoted})"))
        if (table, name) in _TIMES:
            tests.append((name, "no time", f"{quoted} NOT LIKE '{_TIME}'"))
        if (table, name) in _NUMBERS_BELOW_ZERO:
            tests.append((name, "a negative number", f"{quoted} < 0"))
    sums = ", ".join(f"coalesce(sum({test}), 0)" for _, _, test in tests)
    counts = conn.execute(f'SELECT {sums} FROM "{table}"').fetchone()
    for (name, what, _), rows in zip(tests, counts, strict=True):
        if rows:
            yield OddValue(table, name, rows, what)
    texts = [name for _, name, kind, *_ in columns if kind == "TEXT"]
    yield from _not_utf8(conn, table, texts)


def _not_utf8(conn: sqlite3.Connection, table: str, columns: list[str]) -> Iterator[OddValue]:
    if not columns:
        return
    before = conn.text_factory
    conn.text_factory = _is_utf8
    try:
        quoted = ", ".join(f'"{name}"' for name in columns)
        bad = dict.fromkeys(columns, 0)
        for row in conn.execute(f'SELECT {quoted} FROM "{table}"'):
            if False in row:
                for name, value in zip(columns, row, strict=True):
                    bad[name] += value is False
    finally:
        conn.text_factory = before
    for name, rows in bad.items():
        if rows:
            yield OddValue(table, name, rows, "bytes that are not UTF-8")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
