"""Reading a stored line again from its source, when another copy becomes the owner."""

from __future__ import annotations

import os
import sqlite3

from ctxdb.claude import Message, Record
from ctxdb.files.identity import open_regular
from ctxdb.files.parse import Bad, parse
from ctxdb.files.tail import read_block
from ctxdb.ingest.line_reader import tamed
from ctxdb.settle.parents import Parents
from ctxdb.store.chunk import Placed, SourceFile, place_line


def records_at(fd: int, start: int, length: int, *, in_agent_file: bool) -> list[Record]:
    """The records of the line (or of the object within a line) at a place."""
    data = os.pread(fd, length, start)
    if len(data) != length:
        return []
    parsed = parse(data)
    if parsed is None or isinstance(parsed, Bad):
        block = read_block(fd, start)  # a long line with its base64 cut out, as when it was stored
        if not block.lines:
            return []
        [(_, _, data)] = block.lines[:1]
        parsed = parse(data)
        if parsed is None or isinstance(parsed, Bad):
            return []
    records = []
    for at, size, entry in parsed.objects:
        whole = len(parsed.objects) == 1 or len(data) != length
        place = (start, length) if whole else (start + at, size)
        records.append(tamed(entry, *place, data[at : at + size], in_agent_file))
    return records


def reread(conn: sqlite3.Connection, file_id: int, start: int, length: int) -> Placed | None:
    """A message as its line says it now; None when the line cannot be read any more."""
    row = conn.execute(
        "SELECT path, path_bytes, session_id, agent_id, workflow_run, generation FROM source_files"
        " WHERE id = ?",
        (file_id,),
    ).fetchone()
    if row is None:
        return None
    file = SourceFile(file_id, row[0], row[2], row[3], row[4], generation=row[5])
    try:
        fd = open_regular(row[1] or row[0])
    except OSError:
        return None
    try:
        records = records_at(fd, start, length, in_agent_file=file.agent_id is not None)
    except OSError:
        return None
    finally:
        os.close(fd)
    for record in records:
        if isinstance(record, Message) and record.start == start:
            return _place(conn, record, file)
    return None


def _place(conn: sqlite3.Connection, record: Message, file: SourceFile) -> Placed:
    placed = place_line(record, file, "")
    parents = Parents(conn)
    parents.learn([placed], [])
    parents.resolve([placed])
    parents.name_sidechains([placed])
    return placed
