"""Rows on their way from the process that reads to the one that writes.

The rows of a batch stand in a small database in memory. Its image is carried over and opened beside
the real one, and one INSERT ... SELECT per table takes the rows over: they are never made into
Python objects again, and SQLite opens every index once for a batch instead of once for a row.
Rows are numbered from 1 in each table; the numbers become ids when they are taken over.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from ctxdb.store.connection import open_scratch
from ctxdb.store.events import EVENT_COLUMNS
from ctxdb.store.rows import MESSAGE_COLUMNS
from ctxdb.store.tools import TOOL_COLUMNS
from ctxdb.store.usage import LINE_COLUMNS, USAGE_COLUMNS

Row = tuple[Any, ...]

# Columns that hold numbers of rows have the name of the table that they are of, or `slot`: which of
# the batch's turns is meant (straight.py).
READY_COLUMNS = MESSAGE_COLUMNS[:-2]  # of messages; the last two are for lines without uuid
TABLES = {
    "messages": ("chunk", "file", "slot", *READY_COLUMNS),
    "tools": ("chunk", "message", "result_message", "slot", *TOOL_COLUMNS),
    "events": ("chunk", "file", *EVENT_COLUMNS),
    "lines": ("chunk", "message", *LINE_COLUMNS),
    "usage": ("chunk", "slot", *USAGE_COLUMNS),
}
_INSERT = {
    table: f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})"
    for table, columns in TABLES.items()
}

is_possible = hasattr(sqlite3.Connection, "serialize")  # SQLite can be built without


class Scratch:
    """The rows of one batch."""

    def __init__(self) -> None:
        self.conn = open_scratch()
        for table, columns in TABLES.items():
            self.conn.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        self.conn.execute("BEGIN")
        self.counts = dict.fromkeys(TABLES, 0)
        self.slots = 0

    def add(self, table: str, rows: list[Row]) -> None:
        """Add rows after those that are there."""
        if rows:
            self.conn.executemany(_INSERT[table], rows)
            self.counts[table] += len(rows)

    def image(self) -> bytes:
        """All rows; nothing can be added afterwards."""
        self.conn.execute("COMMIT")
        image = self.conn.serialize()
        self.conn.close()
        return image
