"""From a place in a file to a chunk of rows: tail, parse, read and derive in one step.

`read_chunk` is all that the rest needs to know of a file's bytes. A chunk can be packed into plain
tuples, so that it can be carried from one process to another.
"""

from __future__ import annotations

import errno
import marshal
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.claude import read_entry
from ctxdb.files.identity import Opener, mark_of, open_regular
from ctxdb.files.parse import Bad, parse_plain, without_nul
from ctxdb.files.tail import WANT_BYTES, Block, Unfinished, read_block
from ctxdb.files.walk import numbers_of
from ctxdb.ingest.masked_line import Reading, Secrets, records_in, tamed
from ctxdb.rows import Record, Skip
from ctxdb.rules.chunk import Chunk, LineError, Stat, fill_chunk, unpack_chunk

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from ctxdb.privacy.json_bytes import Place

CHUNK_BYTES = 1 << 20  # of one file, read at once: as objects it takes ten times as much
CHUNK_LINES = 20_000  # 2 MiB of "{}" would be 700,000 rows
LARGE_LINE_BYTES = 4 << 20  # a line that could end the process: see ingest.run
DEFAULT = Reading()
NUL_ESCAPE = b"\\u0000"  # what a NUL looks like in JSON


class FilePlace(NamedTuple):
    """What is known of a file before a line of it is read."""

    session_id: str | None
    agent_id: str | None
    masked: tuple[Place, ...] | None = None  # mask these, which were masked before; None: by rules
    path: str | bytes = ""


def stat_of(fd: int) -> Stat:
    """How the open file looks now."""
    return Stat(*numbers_of(os.fstat(fd)))


def read_chunk(
    fd: int,
    offset: int,
    place: FilePlace,
    reading: Reading = DEFAULT,
    *,
    want_bytes: int | None = None,
    parse_large: bool = True,
    give_up: bool = False,
    limit: int | None = None,
    unfinished: Unfinished | None = None,
) -> Chunk:
    """The complete lines after an offset, about `want_bytes` (CHUNK_BYTES) of them, as rows.

    The file ends for us at a `limit`, where a line ends. `give_up` records the next line as too
    large without parsing it: it has ended a process before. `unfinished` is that of an earlier read
    at this offset.
    """
    chunk = Chunk(offset, offset, 0, stat_of(fd), b"", at_end=False)
    records: list[Record] = []
    secrets = Secrets(reading, place.masked, place.path, fd)
    lines = _Lines(chunk, records, secrets, reading, place.agent_id is not None)
    want = CHUNK_BYTES if want_bytes is None else want_bytes
    while chunk.end - offset < want and chunk.lines < CHUNK_LINES:
        block = _next_block(fd, chunk.end, limit, unfinished)
        if block.is_empty:
            chunk.at_end, chunk.unfinished = True, block.unfinished
            break
        unfinished = None
        first_length = next((length for _, length, _ in block.lines), 0)
        is_large = first_length > LARGE_LINE_BYTES
        if is_large:
            if chunk.lines:
                break  # a large line comes alone
            if give_up:
                block.oversize, block.lines = block.lines, []
            elif not parse_large:
                chunk.is_large = True
                break
        lines.read(block)
        if not block.lines or is_large:
            break
    chunk.at_end = chunk.at_end or chunk.end >= (chunk.stat.size if limit is None else limit)
    chunk.mark = mark_of(fd, chunk.end)
    fill_chunk(chunk, records, place.session_id, place.agent_id)
    return chunk


def _next_block(fd: int, at: int, limit: int | None, unfinished: Unfinished | None) -> Block:
    """The next lines, none of which begins at or after the limit."""
    if limit is None:
        return read_block(fd, at, unfinished=unfinished)
    return read_block(fd, at, min(WANT_BYTES, limit - at)) if at < limit else Block([], [], at)


class _Lines(NamedTuple):
    """Reads lines into a chunk."""

    chunk: Chunk
    records: list[Record]
    secrets: Secrets
    reading: Reading
    in_agent_file: bool

    def read(self, block: Block) -> None:
        """Read the lines of a block."""
        chunk, add, in_agent_file = self.chunk, self.records.append, self.in_agent_file
        digest, places_in = self.reading.digest, self.secrets.in_line
        is_searched = self.secrets.are_possible
        for line in block.lines:
            start, length, data = line
            entry = parse_plain(data)
            if entry is None or (is_searched and places_in(start, length, data, entry)):
                self._read_odd(line, entry)
                continue
            # The usual line: the object's bytes are the line's, and so is its length.
            try:
                if NUL_ESCAPE in data:
                    entry = without_nul(entry)
                record = read_entry(entry, start, length - 1, data, in_agent_file, digest)
            except Exception:
                record = tamed(entry, start, length - 1, data, in_agent_file, digest)
            add(record)
        for start, length, data in block.oversize:
            chunk.counts["", "", "bad", "too_large"] += 1
            excerpt = self.secrets.excerpt(data, start)
            chunk.errors.append(LineError(start, length - 1, "too_large", excerpt))
        chunk.lines += len(block.lines) + len(block.oversize)
        chunk.end = block.end

    def _read_odd(self, line: tuple[int, int, bytes], entry: object) -> None:
        """Read one line that is not as usual, or that holds a secret."""
        chunk = self.chunk
        start, length, data = line
        places = self.secrets.in_line(start, length, data, entry)
        parsed, found, covered = records_in(
            data, start, length - 1, places, self.in_agent_file, self.reading.digest
        )
        if parsed is None:
            chunk.counts["", "", "skipped", "blank"] += 1
            return
        if isinstance(parsed, Bad):
            chunk.counts["", "", "bad", parsed.reason] += 1
            excerpt = self.secrets.excerpt(data, start)
            chunk.errors.append(LineError(start, length - 1, parsed.reason, excerpt))
            chunk.masked += self.secrets.masked_before(start, length)
            return
        self.secrets.know_again(start, length, data, found)
        chunk.masked += (place.moved(start) for place in places)
        note = parsed.note
        if note:
            excerpt = self.secrets.excerpt(covered)
            chunk.errors.append(LineError(start, length - 1, note, excerpt))
        # The line counts once, as what is stored of it.
        counted = next((r for r in found if not isinstance(r, Skip)), next(iter(found)))
        for record in found:
            record.note = note if record is counted else None
        self.records.extend(found)


def open_at(
    path: str | bytes, offset: int, mark: bytes | None, opener: Opener = open_regular
) -> int:
    """Open a file to read on in it; FileNotFoundError when another one has taken its place.

    Between looking at a file and reading it any time may pass, and an offset is good only in the
    file that it was found in.
    """
    fd = opener(path)
    try:
        must_be_the_same(fd, path, offset, mark)
    except BaseException:
        os.close(fd)
        raise
    return fd


def must_be_the_same(fd: int, path: str | bytes, offset: int, mark: bytes | None) -> None:
    """Raise FileNotFoundError unless the bytes before the offset are those that were read."""
    if offset and mark != mark_of(fd, offset):
        raise FileNotFoundError(errno.ENOENT, "another file has taken its place", path)


def read_file(
    path: str | bytes,
    offset: int,
    mark: bytes | None,
    place: FilePlace,
    reading: Reading = DEFAULT,
    *,
    limit: int | None = None,
    want_bytes: int | None = None,
    unfinished: Unfinished | None = None,
) -> Iterator[Chunk]:
    """All complete lines after an offset, in chunks; stops at a large line, which comes empty.

    `mark` and `unfinished` are those of the file as it was read up to the offset. A file that is
    overwritten while it is read counts as not read: the next pass begins again.
    """
    fd = open_at(path, offset, mark, reading.opener)
    try:
        while True:
            chunk = read_chunk(
                fd,
                offset,
                place,
                reading,
                parse_large=False,
                limit=limit,
                want_bytes=want_bytes,
                unfinished=unfinished,
            )
            must_be_the_same(fd, path, offset, mark)
            yield chunk
            if chunk.is_large or chunk.at_end:
                return
            offset, mark, unfinished = chunk.end, chunk.mark, None
            place = place._replace(session_id=chunk.session_id)
    finally:
        os.close(fd)


def read_apart(fd: int, offset: int, place: FilePlace, reading: Reading = DEFAULT) -> Chunk:
    """Do as read_chunk does, in a process that may die of it; raises ReaderDied then."""

    def serve(pipe: Connection, ours: Connection) -> None:
        ours.close()
        with suppress(MemoryError):
            pipe.send_bytes(marshal.dumps(read_chunk(fd, offset, place, reading).pack()))

    import multiprocessing  # most runs start no process

    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(theirs, ours), daemon=True)
    process.start()
    theirs.close()
    try:
        return unpack_chunk(marshal.loads(ours.recv_bytes()))
    except EOFError:
        raise ReaderDied from None
    finally:
        ours.close()
        process.join()


class ReaderDied(Exception):
    """A process that reads was ended from outside; the files can be read in this one."""
