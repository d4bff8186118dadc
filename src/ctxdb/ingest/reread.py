"""Reading a stored line again from its source, when another copy becomes the owner."""

from __future__ import annotations

import os
import sqlite3

from ctxdb.files.identity import open_regular
from ctxdb.files.parse import Bad, parse
from ctxdb.files.tail import read_block
from ctxdb.ingest.line_reader import tamed
from ctxdb.rows import Message, Record, SourceFile
from ctxdb.rules.chunk import Chunk, Stat, fill_chunk
from ctxdb.settle.parents import Parents
from ctxdb.store.insert import load


def records_at(fd: int, start: int, length: int, *, in_agent_file: bool) -> list[Record]:
    """What the line (or the object within a line) at a place says."""
    data = os.pread(fd, length, start)
    if len(data) != length:
        return []
    parsed = parse(data)
    if parsed is None or isinstance(parsed, Bad):
        block = read_block(fd, start)  # a long line with its base64 cut out, as when it was stored
        data = next((data for _, _, data in block.lines), b"")
        parsed = parse(data)
        if parsed is None or isinstance(parsed, Bad):
            return []
    records = []
    for at, size, entry in parsed.objects:
        is_whole = len(parsed.objects) == 1 or len(data) != length
        place = (start, length) if is_whole else (start + at, size)
        records.append(tamed(entry, *place, data[at : at + size], in_agent_file))
    return records


def reread(conn: sqlite3.Connection, file_id: int, start: int, length: int) -> Message | None:
    """A message as its line says it now; None when the line cannot be read any more."""
    file = next(load(conn, SourceFile, "WHERE t.id = ?", (file_id,)), None)
    if file is None:
        return None
    try:
        fd = open_regular(file.path_bytes or file.path)
    except OSError:
        return None
    try:
        records = records_at(fd, start, length, in_agent_file=file.agent_id is not None)
    except OSError:
        return None
    finally:
        os.close(fd)
    wanted = [r for r in records if isinstance(r, Message) and r.byte_start == start]
    chunk = Chunk(start, start + length, 1, Stat(0, 0, 0, 0, 0), b"", at_end=False)
    fill_chunk(chunk, wanted, file.session_id, file.agent_id)
    if chunk.needs_stored_rows:
        Parents(conn).name_sidechains(chunk.messages)
    for message in chunk.messages:
        message.source_file_id = file_id
        return message
    return None
