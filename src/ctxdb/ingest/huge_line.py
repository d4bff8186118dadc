"""Reading a line that is so long that parsing it could end the process."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ctxdb.ingest.line_reader import ReaderDied, read_apart, read_chunk

if TYPE_CHECKING:
    from ctxdb.ingest.plan import Work
    from ctxdb.ingest.storing import ChunkWriter
    from ctxdb.rules.chunk import Chunk


def read_announced(writer: ChunkWriter, one: Work, fd: int, offset: int) -> Chunk:
    """Announce the line in the database, then parse it, so a crash on it is not repeated.

    The process may have been killed for another reason. So the second try is made in a process of
    its own, and only the third time the line is passed over.
    """
    tried = one.item.file.attempting
    failed = 0 if tried is None else {offset: 1, -1 - offset: 2}.get(tried, 0)
    if failed < 2:
        writer.announce(one.item.file, -1 - offset if failed else offset)
        with suppress(MemoryError, ReaderDied):
            read = read_apart if failed else read_chunk
            return read(fd, offset, one.place, writer.reading)
    return read_chunk(fd, offset, one.place, writer.reading, give_up=True)


def read_again(
    writer: ChunkWriter, one: Work, fd: int, offset: int, passed_over: set[tuple[str, int]]
) -> Chunk:
    """Read a line that was read before, or was passed over, without announcing it.

    `passed_over` are the paths and places of lines that were.
    """
    give_up = (one.item.file.path, offset) in passed_over
    return read_chunk(fd, offset, one.place, writer.reading, give_up=give_up)


def leave_file(_writer: ChunkWriter, _one: Work, _fd: int, _offset: int) -> None:
    """Leave the file as it was read up to this line: a later run reads on."""
