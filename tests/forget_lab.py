"""What a database without a session must be: one that never read it, and knows to keep it out."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb.forget.remove import Removed, remove_sessions
from ctxdb.progress import NullProgress
from ctxdb.store.connection import open_writer
from ctxdb.store.keys import copy_keys
from ctxdb.store.tombstones import copy_tombstones
from lab import lab, must_equal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab import Lab

NOW = "2026-11-18T10:00:00.000Z"
# What the ingest keeps beside the tables that people read.
BOOKKEEPING = {
    "_skipped_parents": "uuid, ancestor",
    "_orphans": "(SELECT uuid FROM messages WHERE id = message_id), parent_uuid",
    "_aliases": "uuid",
    "_agent_prompts": "prompt",
    "_model_names": "model, name",
    "_turn_texts": "session_id, ordinal",
    "_snapshot_messages": "session_id, path, version, message_uuid",
    "_session_files": "*",
    "_agent_facts": "session_id, agent_id, source, tool_use_id, at",
    "_repeated_calls": "tool_use_id, half",
    "_summaries": "summary, leaf_session",
    "_history_lines": "line_hash, nth, text_hash",
}


def bookkeeping(db: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(db)) as conn:
        files = dict(conn.execute("SELECT id, path FROM source_files"))
        found = {}
        for table, names in BOOKKEEPING.items():
            cursor = conn.execute(f"SELECT {names} FROM {table}")
            columns = [name for name, *_ in cursor.description]
            found[table] = sorted(
                repr(
                    [
                        Path(files[value]).name if name == "source_file_id" else value
                        for name, value in zip(columns, row, strict=True)
                    ]
                )
                for row in cursor
            )
        return found


def forget(one: Lab, sessions: Iterable[str]) -> Removed:
    with closing(open_writer(one.db)) as conn:
        return remove_sessions(conn, sessions, NOW, NullProgress())


def must_be_as_never_read(one: Lab) -> None:
    """Compare with a database that has had the tombstones from the beginning."""
    __tracebackhide__ = True
    with lab() as other:
        with closing(sqlite3.connect(one.db)) as first, closing(sqlite3.connect(other.db)) as conn:
            copy_keys(first, conn)
            copy_tombstones(first, conn)
            conn.commit()
        for path in one.root.rglob("*"):
            if path.is_file():
                other.put(str(path.relative_to(one.root)), path.read_bytes())
        other.sync()
        must_equal(other.content(), one.content(), "public tables")
        must_equal(bookkeeping(other.db), bookkeeping(one.db), "bookkeeping")


def sessions_of(one: Lab) -> list[str]:
    return [session for (session,) in one.rows("SELECT id FROM sessions ORDER BY id")]
