"""Lines of transcripts as they stand on disk.

A row knows the file, the byte and the length of its line. The file may have changed or gone since,
so what is read there is checked before it is shown: it must be the entry with that uuid.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.errors import CtxdbError
from ctxdb.files.identity import open_regular, pread
from ctxdb.session.find import LAST
from ctxdb.session.objects import parsed

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

MAX_LINE = 1 << 30  # a length that no line has
_UUID_KEY = re.compile(rb'"uuid"\s*:\s*"([0-9A-Za-z-]{1,64})"')


class Line(NamedTuple):
    """The bytes of a line without its newline, and what is to be said about them."""

    data: bytes
    note: str = ""


class Place(NamedTuple):
    """Where an entry stands."""

    uuid: str
    path: str
    path_bytes: bytes | None
    start: int
    length: int
    is_copy: int


_PLACES = """
SELECT m.uuid, f.path, f.path_bytes, m.byte_start, m.byte_length, 0, m.id
FROM messages m JOIN source_files f ON f.id = m.source_file_id
WHERE m.uuid >= :first AND m.uuid < :last
UNION ALL
SELECT c.uuid, f.path, f.path_bytes, c.byte_start, c.byte_length, 1, c.message_id
FROM message_copies c JOIN source_files f ON f.id = c.source_file_id
WHERE c.uuid >= :first AND c.uuid < :last
"""
_COPIES = """
SELECT c.uuid, f.path, f.path_bytes, c.byte_start, c.byte_length, 1
FROM message_copies c JOIN source_files f ON f.id = c.source_file_id WHERE c.message_id = ?
UNION ALL
SELECT m.uuid, f.path, f.path_bytes, m.byte_start, m.byte_length, 1
FROM messages m JOIN source_files f ON f.id = m.source_file_id WHERE m.id = ?
"""


def source_line(conn: sqlite3.Connection, uuid: str) -> Line:
    """The line of the entry with this uuid (or the only one that begins so), checked."""
    wanted = uuid.strip()
    rows = []
    for form in dict.fromkeys((wanted, wanted.lower())):
        rows += conn.execute(_PLACES, {"first": form, "last": form + LAST}).fetchall()
    rows = [row for row in rows if row[0].lower() == wanted.lower()] or rows
    if not wanted or not rows:
        raise CtxdbError(f"no entry has the uuid {uuid!r}")
    if len({row[0] for row in rows}) > 1:
        raise CtxdbError(
            f"{len({row[0] for row in rows})} entries begin with {uuid!r}; give all of it"
        )
    rows.sort(key=lambda row: row[5])
    places = [Place(*row[:6]) for row in rows]
    message_id = rows[0][6]
    places += [Place(*row) for row in conn.execute(_COPIES, (message_id, message_id))]
    for nth, place in enumerate(places):
        data = read_line(place)
        if data is None:
            continue
        if nth and place.path != places[0].path:
            return Line(data, f"{_why(places[0])}; this is a copy of it, from {place.path}")
        return Line(data)
    raise CtxdbError(f"{_why(places[0])}; the database has what it said, not its exact bytes")


def _why(place: Place) -> str:
    if not os.path.lexists(place.path_bytes or place.path):
        return f"{place.path} is gone"
    return f"{place.path} has changed: the line is no longer at byte {place.start}"


def read_line(place: Place) -> bytes | None:
    """The bytes at a place, if they are still the entry they were."""
    if not 0 < place.length < MAX_LINE:
        return None
    try:
        fd = open_regular(place.path_bytes or place.path)
    except OSError:
        return None
    try:
        # A line of its own, or one of two objects that stand on one line.
        if place.start and os.pread(fd, 1, place.start - 1) not in (b"\n", b"}"):
            return None
        if os.pread(fd, 1, place.start + place.length) not in (b"\n", b"{", b""):
            return None
        data = pread(fd, place.length, place.start)
    except OSError:
        return None
    finally:
        os.close(fd)
    return data if len(data) == place.length and place.uuid in _uuids(data) else None


def _uuids(data: bytes) -> Iterator[str]:
    """The uuids that a line gives an entry: its own, and that of the entry wrapped in it."""
    entry = parsed(data)
    if entry is None:
        # Mended when it was stored (bytes that are no text): look for the key.
        if not (data.startswith(b"{") and data.rstrip().endswith(b"}")):
            return
        for match in _UUID_KEY.finditer(data):
            yield match.group(1).decode()
        return
    for path in ((), ("data", "message")):
        inner = entry
        for key in path:
            inner = inner.get(key) if isinstance(inner, dict) else None
        if isinstance(inner, dict) and isinstance(inner.get("uuid"), str):
            yield inner["uuid"]
