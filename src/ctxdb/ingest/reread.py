"""Reading a stored line again from its source, when another copy becomes the owner."""

from __future__ import annotations

import os
import sqlite3
from typing import NamedTuple

from ctxdb.files.parse import Bad
from ctxdb.files.tail import LONG_LINE_BYTES, read_block
from ctxdb.ingest.masked_line import Reading, Secrets, records_in
from ctxdb.privacy.json_bytes import Place, joined
from ctxdb.rows import Message, Record, SourceFile
from ctxdb.rules.chunk import Chunk, Stat, fill_chunk
from ctxdb.settle.parents import Parents
from ctxdb.settle.stored_uuids import StoredUuids
from ctxdb.store.insert import load
from ctxdb.store.masked_places import add_places, load_places
from ctxdb.store.tombstones import Tombstones


class Reread(NamedTuple):
    """What a line says, and what is masked in it, by bytes of the file."""

    records: list[Record]
    places: list[Place]


def records_at(
    fd: int,
    start: int,
    length: int,
    reading: Reading,
    recorded: tuple[Place, ...] = (),
    *,
    path: str | bytes = "",
    in_agent_file: bool,
) -> Reread:
    """What the line (or the object within a line) at a place says.

    What was masked in it before is masked again, and what the rules of now find in it too.
    """
    data = line_at(fd, start, length)
    if data is None:
        return Reread([], [])
    before = [place.moved(-start) for place in recorded]
    secrets = Secrets(reading, None, path)
    places = joined(before, secrets.in_line(start, length + 1, data))
    found = records_in(data, start, length, places, in_agent_file, reading.digest)
    if found.parsed is None or isinstance(found.parsed, Bad):
        return Reread([], [])
    secrets.know_again(start, length + 1, data, found.records)
    return Reread(found.records, [place.moved(start) for place in places])


def line_at(fd: int, start: int, length: int) -> bytes | None:
    """The bytes of a line; a long one with its base64 cut out, as when it was stored."""
    if length > LONG_LINE_BYTES:
        return next((data for _, _, data in read_block(fd, start).lines), None)
    data = os.pread(fd, length, start)
    return data if len(data) == length else None


def reread(
    reading: Reading, conn: sqlite3.Connection, file_id: int, start: int, length: int
) -> Message | None:
    """A message as its line says it now; None when the line cannot be read any more."""
    file = next(load(conn, SourceFile, "WHERE t.id = ?", (file_id,)), None)
    if file is None:
        return None
    try:
        fd = reading.opener(file.path_bytes or file.path)
    except OSError:
        return None
    recorded = load_places(conn, file_id, start, start + length)
    try:
        records, places = records_at(
            fd,
            start,
            length,
            reading,
            recorded,
            path=file.path_bytes or file.path,
            in_agent_file=file.agent_id is not None,
        )
    except OSError:
        return None
    finally:
        os.close(fd)
    if len(places) > len(recorded):
        add_places(conn, file_id, places)
    wanted = [r for r in records if isinstance(r, Message) and r.byte_start == start]
    chunk = Chunk(start, start + length, 1, Stat(0, 0, 0, 0, 0), b"", at_end=False)
    fill_chunk(chunk, wanted, file.session_id, file.agent_id)
    chunk.pass_on(Tombstones(conn).is_forgotten)
    if chunk.needs_stored_rows:
        Parents(conn, StoredUuids(conn)).name_sidechains(chunk.messages)
    for message in chunk.messages:
        message.source_file_id = file_id
        return message
    return None
