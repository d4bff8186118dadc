"""JSON of rows whose line has been masked, as the masked line says it.

JSON that is stored may hold the size of a text, or leave a long text out. What was masked in a row
must say the same as the line does when it is read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.rows import Event, Message

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from ctxdb.rows import Record

_OF_PLACE = "source_file_id = ? AND byte_start = ?"
_CALL = "tool_use_id = ? AND message_id = ?"
_RESULT = "tool_use_id = ? AND result_message_id = ?"


def write_masked_data(conn: sqlite3.Connection, file_id: int, records: Iterable[Record]) -> None:
    """Write the JSON of the records of a line into their rows, where it differs."""
    for record in records:
        if isinstance(record, Event):
            place = (file_id, record.byte_start)
            _write(conn, "events", "data", record.data, _OF_PLACE, place)
        elif isinstance(record, Message):
            _write_message(conn, file_id, record)


def _write_message(conn: sqlite3.Connection, file_id: int, message: Message) -> None:
    place = (file_id, message.byte_start)
    for (message_id,) in conn.execute(
        f"SELECT id FROM messages WHERE {_OF_PLACE} AND byte_length > 0", place
    ).fetchall():
        _write(conn, "messages", "data", message.data, "id = ?", (message_id,))
        _write(conn, "messages", "extra", message.extra, "id = ?", (message_id,))
        for call in message.calls or ():
            key = (call.tool_use_id, message_id)
            _write(conn, "tool_uses", "input", call.input, _CALL, key)
        for result in message.results or ():
            key = (result.tool_use_id, message_id)
            _write(conn, "tool_uses", "result_data", result.result_data, _RESULT, key)


def _write(
    conn: sqlite3.Connection,
    table: str,
    column: str,
    value: str | None,
    where: str,
    key: tuple[object, ...],
) -> None:
    conn.execute(
        f"UPDATE {table} SET {column} = ? WHERE {where} AND {column} IS NOT ?",
        (value, *key, value),
    )
