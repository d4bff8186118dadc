"""Read the exact line of an entry from its transcript, or from the archive of it.

A row stores the file, the byte and the length of its line. The file may have changed or gone since,
so the line is checked before it is shown: it must still be the entry with that uuid. If it is not,
the archive has the bytes that were there.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.archive.read import archived_name
from ctxdb.claude.stored_data import uuids_in
from ctxdb.elsewhere import is_elsewhere
from ctxdb.errors import CtxdbError
from ctxdb.files.identity import open_regular, pread
from ctxdb.session.archived_files import ArchivedFiles
from ctxdb.session.find import AFTER_ALL_TEXT

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.session.archived_files import ReadBytes

MAX_LINE_BYTES = 1 << 30  # no line is this long: a larger number in a row is damage


class SourceLine(NamedTuple):
    """The bytes of a line without its newline, and a note about them."""

    data: bytes
    note: str = ""


class Place(NamedTuple):
    """Where an entry is stored on disk."""

    uuid: str
    path: str
    path_bytes: bytes | None
    start: int
    length: int
    is_copy: int
    message_id: int


_PLACES = """
SELECT m.uuid, f.path, b.path_bytes, m.byte_start, m.byte_length, 0, m.id
FROM messages m JOIN source_files f ON f.id = m.source_file_id
JOIN _file_marks b ON b.source_file_id = f.id
WHERE m.uuid >= :first AND m.uuid < :last
UNION ALL
SELECT c.uuid, f.path, b.path_bytes, c.byte_start, c.byte_length, 1, c.message_id
FROM message_copies c JOIN source_files f ON f.id = c.source_file_id
JOIN _file_marks b ON b.source_file_id = f.id
WHERE c.uuid >= :first AND c.uuid < :last
"""
_PLACES_OF_MESSAGE = """
SELECT c.uuid, f.path, b.path_bytes, c.byte_start, c.byte_length, 1, c.message_id
FROM message_copies c JOIN source_files f ON f.id = c.source_file_id
JOIN _file_marks b ON b.source_file_id = f.id WHERE c.message_id = :id
UNION ALL
SELECT m.uuid, f.path, b.path_bytes, m.byte_start, m.byte_length, 1, m.id
FROM messages m JOIN source_files f ON f.id = m.source_file_id
JOIN _file_marks b ON b.source_file_id = f.id WHERE m.id = :id
"""


def source_line(conn: sqlite3.Connection, uuid: str) -> SourceLine:
    """The line of the entry with this uuid, or of the only entry whose uuid begins with it."""
    first, *others = _places(conn, uuid)
    data = read_line(first)
    if data is not None:
        return SourceLine(data)
    with closing(ArchivedFiles(conn)) as archived:
        data = read_archived_line(archived, first)
        if data is not None:
            return SourceLine(data, f"{_why(first)}; this is from the archive")
        others += map(Place._make, conn.execute(_PLACES_OF_MESSAGE, {"id": first.message_id}))
        for place in others:
            data = read_line(place)
            source = place.path
            if data is None:
                data = read_archived_line(archived, place)
                source = f"the archive of {place.path}"
            if data is not None and place.path != first.path:
                return SourceLine(data, f"{_why(first)}; this is a copy of it, from {source}")
            if data is not None:
                return SourceLine(data)
    raise CtxdbError(f"{_why(first)}; the database has what it said, not its exact bytes")


def _places(conn: sqlite3.Connection, uuid: str) -> list[Place]:
    """The places of the one entry that is meant, its own place before the copies."""
    wanted = uuid.strip()
    places: list[Place] = []
    for form in dict.fromkeys((wanted, wanted.lower())):
        values = {"first": form, "last": form + AFTER_ALL_TEXT}
        places += (Place(*row) for row in conn.execute(_PLACES, values))
    exact = [place for place in places if place.uuid.lower() == wanted.lower()]
    places = exact or places
    if not wanted or not places:
        told = f"no entry has the uuid {uuid!r}"
        if conn.execute("SELECT 1 FROM sessions WHERE id = ?", (wanted.lower(),)).fetchone():
            told += "; it is a session: `ctxdb export --format jsonl` writes all its lines"
        raise CtxdbError(told)
    entries = len({place.uuid for place in places})
    if entries > 1:
        raise CtxdbError(f"{entries} entries begin with {uuid!r}; give all of it")
    return sorted(places, key=lambda place: place.is_copy)


def _why(place: Place) -> str:
    if is_elsewhere(place.path_bytes):
        return f"{place.path} is on another machine"
    if not os.path.lexists(place.path_bytes or place.path):
        return f"{place.path} is gone"
    return f"{place.path} has changed: the line is no longer at byte {place.start}"


def read_line(place: Place) -> bytes | None:
    """The bytes at a place, or None if they are no longer the entry."""
    if not 0 < place.length < MAX_LINE_BYTES:
        return None
    try:
        fd = open_regular(place.path_bytes or place.path)
    except OSError:
        return None
    try:
        return _line_at(place, lambda length, at: pread(fd, length, at))
    except OSError:
        return None
    finally:
        os.close(fd)


def read_archived_line(archived: ArchivedFiles, place: Place) -> bytes | None:
    """The bytes at a place in a generation of the file that still had the entry there, or None."""
    place = place._replace(length=abs(place.length))  # negative: of an earlier generation
    if not 0 < place.length < MAX_LINE_BYTES:
        return None
    for read in archived.readers(archived_name(place.path, place.path_bytes)):
        try:
            data = _line_at(place, read)
        except CtxdbError:
            continue  # damaged
        if data is not None:
            return data
    return None


def _line_at(place: Place, read: ReadBytes) -> bytes | None:
    # It is a line of its own, or one of two objects on one line.
    if place.start and read(1, place.start - 1) not in (b"\n", b"}"):
        return None
    data = read(place.length + 1, place.start)
    data, after = data[: place.length], data[place.length :]
    if after not in (b"\n", b"{", b""):
        return None
    return data if len(data) == place.length and place.uuid in uuids_in(data) else None
