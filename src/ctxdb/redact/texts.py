"""Every text that the database holds, table by table.

The columns are taken from the tables themselves, so a column that is added later is among them.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.privacy.json_bytes import Place, cover, places_in
from ctxdb.privacy.masking import has_escapes

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from ctxdb.privacy.masking import Masker

JSON = {
    ("messages", "data"),
    ("messages", "extra"),
    ("events", "data"),
    ("tool_uses", "input"),
    ("tool_uses", "result_data"),
}
# Not from transcripts; or what ctxdb opens and knows files and lines by.
_LEFT_OUT = {
    "README", "prices", "sqlite_sequence", "_schema_docs", "_model_names", "_deleted_prices",
    "_sqlite_migrations", "_masked",
}  # fmt: skip
_KEPT = {
    ("source_files", "path"),
    ("_side_files", "path"),
    ("_file_marks", "root"),
    ("_message_lines", "block_keys"),
    ("_copy_lines", "block_keys"),
}
_SESSION = {
    "sessions": "t.id",
    "_agent_prompts": "NULL",
    "_summaries": "(SELECT e.session_id FROM events e WHERE e.id = t.event_id)",
    "_tool_results": "(SELECT u.session_id FROM tool_uses u WHERE u.id = t.tool_id)",
}
_OF_FILE = "(SELECT f.session_id FROM source_files f WHERE f.id = t.source_file_id)"


class Column(NamedTuple):
    """A column that holds texts."""

    table: str
    name: str
    key: tuple[str, ...]  # what a row is known by
    session: str  # SQL of the session that a row is of
    is_json: bool

    def rows(self, conn: sqlite3.Connection) -> Iterator[TextRow]:
        """The rows that have a text."""
        names = ", ".join(f't."{one}"' for one in self.key)
        sql = (
            f'SELECT t."{self.name}", {self.session}, {names} FROM main."{self.table}" t'
            f' WHERE t."{self.name}" IS NOT NULL'
        )
        for value, session_id, *key in conn.execute(sql):
            if isinstance(value, (str, bytes)):
                yield TextRow(value, session_id, tuple(key))


class TextRow(NamedTuple):
    """A text, its session, and what its row is known by."""

    value: str | bytes
    session_id: str | None
    key: tuple[object, ...]


def columns(conn: sqlite3.Connection) -> Iterator[Column]:
    """All columns that hold texts of transcripts, or of files beside them."""
    for table, sql in conn.execute(
        "SELECT name, sql FROM main.sqlite_master WHERE type = 'table' ORDER BY name"
    ).fetchall():
        if table in _LEFT_OUT or "_fts" in table or table.startswith("sqlite_"):
            continue
        info = conn.execute(f'PRAGMA main.table_xinfo("{table}")').fetchall()
        names = {name for _, name, *_ in info}
        keys = sorted((place, name) for _, name, _, _, _, place, _ in info if place)
        is_rowid = "WITHOUT ROWID" not in sql.upper()
        key = ("rowid",) if is_rowid else tuple(name for _, name in keys)
        for _, name, kind, _, _, _, hidden in info:
            is_content = (table, name) == ("_side_files", "content")
            if hidden or (kind.upper() != "TEXT" and not is_content) or (table, name) in _KEPT:
                continue
            if table == "_meta" and name == "key":
                continue
            yield Column(table, name, key, _session_of(table, names), (table, name) in JSON)


def places_in_line(data: bytes, masker: Masker) -> list[Place]:
    """The secrets in a line of a transcript."""
    some = masker if has_escapes(data) else masker.suspects(data)
    return places_in(data, some) if some is not None else []


def _session_of(table: str, names: set[str]) -> str:
    if table in _SESSION:
        return _SESSION[table]
    if "session_id" in names:
        return "t.session_id"
    return _OF_FILE if "source_file_id" in names else "NULL"


def clear_text(value: str | bytes) -> str | None:
    """The text of a value; None if there is none in it."""
    if isinstance(value, str):
        return value
    try:
        return zlib.decompress(value).decode("utf-8", "surrogateescape")
    except (zlib.error, ValueError):
        return None


def masked_value(column: Column, value: str | bytes, masker: Masker) -> str | bytes | None:
    """The value with its secrets masked; None if it holds none."""
    text = clear_text(value)
    if text is None:
        return None
    data = text.encode("utf-8", "surrogateescape" if isinstance(value, bytes) else "surrogatepass")
    some = masker.suspects(data)
    if some is None:
        return None
    if column.is_json or (column.table == "_side_files" and text.startswith("[")):
        places = places_in(data, some)
        return cover(data, places).decode("utf-8", "surrogatepass") if places else None
    masked = some.mask(text)
    if masked == text:
        return None
    if isinstance(value, bytes):
        return zlib.compress(masked.encode("utf-8", "surrogateescape"))
    return masked
