"""The full-text indexes: new rows, when FTS5 merges segments, and all of it at once.

The batch that adds rows of messages and tool_uses adds them to the full text with `add_rows`. All
other changes go through triggers.

FTS5 writes its words as a segment at each statement that may have to be undone, and merges segments
as it goes, which rewrites every word several times. So a first sync that is built aside puts the
full text off (`put_off`: no triggers, `add_rows` does nothing) and makes all of it at the end
(`make_up`). In another large sync FTS5 gathers 4 MB of words before it writes a segment, and merges
only when there are 16 segments, FTS5's own limit. It then merges all of them at once and keeps the
changes in memory until the statement ends (75 MB for 64 segments of a first sync, so the limit
stays at 16). After the sync it merges a little with each write. The setting is stored in the
database. If a sync is killed, the next sync sets it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from ctxdb.progress import Progress

# Every table that has an index, and what the index is over. The index of `turns` is `turns_fts`.
INDEXED = {
    "messages": "Full text over messages: words are split at _ and punctuation.",
    "tool_uses": "Full text over tool calls and their results.",
    "turns": "Full text over what people asked.",
    "sessions": "Full text over the titles of sessions, and all names they ever had.",
    "history": "Full text over the prompts of history.jsonl.",
    "plans": "Full text over the texts of plans.",
    "todos": "Full text over to-dos.",
}
INDEX_OF = {table: f"{table}_fts" for table in INDEXED}
INDEXES = tuple(INDEX_OF.values())
_USUAL = {"automerge": 4, "hashsize": 1 << 20}  # FTS5's own values
_MUCH = {"automerge": 0, "hashsize": 4 << 20}
_ALL = {"automerge": 0, "hashsize": 16 << 20}  # when the readers have ended there is more memory
_LATER = "full text later"  # a key in _meta while it is put off
_STEP_ROWS = 10_000  # made up at once: about a second, and Ctrl-C waits for it


def add_rows(conn: sqlite3.Connection, table: str, first: int, last: int) -> None:
    """Add new rows of a table to its full text.

    In one statement, which is four times as fast as one for each row. Ids are counted on, so no
    other row is between the first and the last.
    """
    if conn.execute("SELECT 1 FROM _meta WHERE key = ?", (_LATER,)).fetchone() is None:
        conn.execute(_add_sql(conn, table), (first, last))


def put_off(conn: sqlite3.Connection) -> list[str]:
    """Leave the full text empty while a database is filled that no other program sees.

    Returns the triggers for `make_up`.
    """
    found = conn.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name GLOB '*_fts_a?'"
    ).fetchall()
    for name, _ in found:
        conn.execute(f"DROP TRIGGER {name}")
    conn.execute("INSERT INTO _meta VALUES (?, NULL)", (_LATER,))
    return [sql for _, sql in found]


def make_up(
    conn: sqlite3.Connection, triggers: Iterable[str], progress: Progress, size: int
) -> None:
    """Make all of the full text that was put off; `size` is how long that looks in the progress."""
    _set(conn, _ALL)
    steps = [
        (table, first)
        for table in INDEXED
        for first in range(1, _last_row(conn, table) + 1, _STEP_ROWS)
    ]
    progress.start(size, "Making the full text")
    for table, first in steps:
        conn.execute(_add_sql(conn, table), (first, first + _STEP_ROWS - 1))
        progress.advance(size // len(steps))
    for sql in triggers:
        conn.execute(sql)
    conn.execute("DELETE FROM _meta WHERE key = ?", (_LATER,))
    merge_again(conn)


def _last_row(conn: sqlite3.Connection, table: str) -> int:
    (last,) = conn.execute(f"SELECT max(rowid) FROM {table}").fetchone()
    return last or 0


def _add_sql(conn: sqlite3.Connection, table: str) -> str:
    """The statement that adds rows between two ids to the full text of their table."""
    names = [
        name for (name,) in conn.execute(f"SELECT name FROM pragma_table_info('{INDEX_OF[table]}')")
    ]
    columns = ", ".join(["rowid", *names])
    source = f"SELECT {columns} FROM {table} WHERE rowid BETWEEN ? AND ?"
    return f"INSERT INTO {INDEX_OF[table]} ({columns}) {source}"


def merge_later(conn: sqlite3.Connection) -> None:
    """Write large segments, and do not merge them yet."""
    _set(conn, _MUCH)


def merge_again(conn: sqlite3.Connection) -> None:
    """Merge segments as FTS5 usually does."""
    _set(conn, _USUAL)


def _set(conn: sqlite3.Connection, wanted: dict[str, int]) -> None:
    for table in INDEXES:
        found = dict(conn.execute(f"SELECT k, v FROM {table}_config"))
        for key, value in wanted.items():
            if found.get(key, _USUAL[key]) != value:
                conn.execute(f"INSERT INTO {table} ({table}, rank) VALUES (?, ?)", (key, value))
