"""What a database says, in a form in which two databases can be compared.

Surrogate ids are replaced by what they stand for (an entry by its uuid, a turn by session and
ordinal, a file by its path), and what only says how the data came in is left out: when a file was
seen, its inode, how often it was rewritten.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]

# Column -> the natural key that replaces its number. Every other *_id is text already.
KEYS = {
    "project_id": "projects",
    "turn_id": "turns",
    "message_id": "messages",
    "result_message_id": "messages",
    "tool_id": "tool_uses",
    "source_file_id": "source_files",
    "event_id": "events",
}
# How the data came in, not what it says.
BOOKKEEPING = {
    "first_seen_at",
    "last_read_at",
    "seen_at",
    "missing_since",
    "source_deleted_at",
    "path_bytes",
    "dev",
    "ino",
    "mtime_ns",
    "ctime_ns",
    "generation",
    "attempting",
    # Left over from ties that have been decided; what they decided is compared.
    "shares_entries",
    "first_unshared_at",
}
NOT_OURS = ("prices", "README")  # filled by the package, not by transcripts


def public_tables(conn: sqlite3.Connection) -> list[str]:
    names = conn.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\'"
        " AND name NOT LIKE '%\\_fts%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        " ORDER BY name"
    )
    return [name for (name,) in names if name not in NOT_OURS]


def natural_keys(conn: sqlite3.Connection) -> dict[str, dict[int, Any]]:
    files = dict(conn.execute("SELECT id, path FROM source_files"))
    messages = {
        id_: uuid or (files.get(file), start)
        for id_, uuid, file, start in conn.execute(
            "SELECT id, uuid, source_file_id, byte_start FROM messages"
        )
    }
    return {
        "projects": dict(conn.execute("SELECT id, path FROM projects")),
        "turns": {
            id_: (session, ordinal)
            for id_, session, ordinal in conn.execute("SELECT id, session_id, ordinal FROM turns")
        },
        "messages": messages,
        "tool_uses": {
            id_: (name, messages.get(call), None if call else messages.get(result))
            for id_, name, call, result in conn.execute(
                "SELECT id, tool_use_id, message_id, result_message_id FROM tool_uses"
            )
        },
        "source_files": files,
        "events": {
            id_: (files.get(file), start)
            for id_, file, start in conn.execute(
                "SELECT id, source_file_id, byte_start FROM events"
            )
        },
    }


def content(db_path: Path, root: Path | None = None) -> dict[str, list[str]]:
    """Every public table as sorted rows; paths are relative to `root` where one is given."""
    with closing(sqlite3.connect(f"file:{db_path}?mode=ro", uri=True)) as conn:
        keys = natural_keys(conn)
        found = {name: table_rows(conn, name, keys) for name in public_tables(conn)}
        found["messages_fts"] = words(conn, "messages", keys)
        found["tool_uses_fts"] = words(conn, "tool_uses", keys)
        found["costs"] = [
            repr(row)
            for row in conn.execute("SELECT request_key, priced_model, cost FROM _costs ORDER BY 1")
        ]
    if root is not None:
        return {
            name: [row.replace(f"{root}/", "").replace(str(root), "") for row in rows]
            for name, rows in found.items()
        }
    return found


def table_rows(conn: sqlite3.Connection, table: str, keys: dict[str, dict[int, Any]]) -> list[str]:
    cursor = conn.execute(f'SELECT * FROM "{table}"')
    columns = [column for column, *_ in cursor.description]
    rows = []
    for values in cursor:
        row = {}
        for column, value in zip(columns, values, strict=True):
            if column in BOOKKEEPING or (column == "id" and isinstance(value, int)):
                continue
            if column in KEYS and value is not None:
                row[column] = keys[KEYS[column]].get(value, f"NOWHERE {value}")
            else:
                row[column] = value
        rows.append(repr(row))
    return sorted(rows)


def words(conn: sqlite3.Connection, table: str, keys: dict[str, dict[int, Any]]) -> list[str]:
    """The full text index itself, not the table it would read its text from: terms and places."""
    conn.execute(
        f"CREATE VIRTUAL TABLE temp.terms USING fts5vocab('main', '{table}_fts', 'instance')"
    )
    found = [
        repr((term, keys[table].get(row, f"NOWHERE {row}"), column, offset))
        for term, row, column, offset in conn.execute("SELECT * FROM temp.terms")
    ]
    conn.execute("DROP TABLE temp.terms")
    return sorted(found)


def differences(one: dict[str, list[str]], other: dict[str, list[str]], shown: int = 6) -> str:
    """What stands in one (-) and not in the other (+), the first few rows of each table."""
    told = []
    for table in sorted({*one, *other}):
        here, there = Counter(one.get(table, ())), Counter(other.get(table, ()))
        told += [f"{table}: - {row}" for row in sorted((here - there).elements())[:shown]]
        told += [f"{table}: + {row}" for row in sorted((there - here).elements())[:shown]]
    return "\n".join(told)
