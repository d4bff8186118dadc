"""From a place in a file to a chunk of rows: tail, parse, read and derive in one step.

`read_chunk` is all that the rest needs to know of a file's bytes. A chunk can be packed into plain
tuples, so that it can be carried from one process to another.
"""

from __future__ import annotations

import errno
import marshal
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ctxdb.claude import read_entry
from ctxdb.files.identity import mark_of, open_regular
from ctxdb.files.parse import Bad, parse, parse_plain, tame, without_nul
from ctxdb.files.tail import WANT_BYTES, Block, Unfinished, read_block
from ctxdb.files.walk import numbers_of
from ctxdb.rows import Record, Skip
from ctxdb.rules.chunk import Chunk, LineError, Stat, fill_chunk, unpack_chunk

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

CHUNK_BYTES = 1 << 20  # of one file, read at once: as objects it takes ten times as much
CHUNK_LINES = 20_000  # 2 MiB of "{}" would be 700,000 rows
LARGE_LINE_BYTES = 4 << 20  # a line that could end the process: see ingest.run
EXCERPT_BYTES = 200
NUL_ESCAPE = b"\\u0000"  # what a NUL looks like in JSON


class FilePlace(NamedTuple):
    """What is known of a file before a line of it is read."""

    session_id: str | None
    agent_id: str | None


def excerpt(data: bytes) -> str:
    """The first bytes of a line, as text that is safe on a terminal."""
    return (
        data[:EXCERPT_BYTES]
        .decode("ascii", "backslashreplace")
        .encode("unicode_escape")
        .decode("ascii")
    )


def tamed(
    entry: dict[str, Any], start: int, length: int, data: bytes, in_agent_file: bool
) -> Record:
    """The row of an entry that may hold what no entry should.

    Nesting without end, numbers of any size, NULs: one line never stops a file. At worst it is kept
    as an event of type `unreadable`.
    """
    entry = without_nul(tame(entry))
    try:
        return read_entry(entry, start, length, data, in_agent_file)
    except Exception:
        strange = {"type": "unreadable", "line": excerpt(data)}
        return read_entry(strange, start, length, data, in_agent_file)


def stat_of(fd: int) -> Stat:
    """How the open file looks now."""
    return Stat(*numbers_of(os.fstat(fd)))


def read_chunk(
    fd: int,
    offset: int,
    place: FilePlace,
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
    in_agent_file = place.agent_id is not None
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
        _read_block(chunk, block, records, in_agent_file)
        if not block.lines or is_large:
            break
    chunk.at_end = chunk.at_end or chunk.end >= (chunk.stat.size if limit is None else limit)
    chunk.mark = mark_of(fd, chunk.end)
    fill_chunk(chunk, records, *place)
    return chunk


def _next_block(fd: int, at: int, limit: int | None, unfinished: Unfinished | None) -> Block:
    """The next lines, none of which begins at or after the limit."""
    if limit is None:
        return read_block(fd, at, unfinished=unfinished)
    return read_block(fd, at, min(WANT_BYTES, limit - at)) if at < limit else Block([], [], at)


def _read_block(chunk: Chunk, block: Block, records: list[Record], in_agent_file: bool) -> None:
    add = records.append
    for line in block.lines:
        start, length, data = line
        entry = parse_plain(data)
        if entry is None:
            _read_odd_line(chunk, line, records, in_agent_file)
            continue
        # The usual line: the object's bytes are the line's, and so is its length.
        try:
            if NUL_ESCAPE in data:
                entry = without_nul(entry)
            record = read_entry(entry, start, length - 1, data, in_agent_file)
        except Exception:
            record = tamed(entry, start, length - 1, data, in_agent_file)
        add(record)
    for start, length, data in block.oversize:
        chunk.counts["", "", "bad", "too_large"] += 1
        chunk.errors.append(LineError(start, length - 1, "too_large", excerpt(data)))
    chunk.lines += len(block.lines) + len(block.oversize)
    chunk.end = block.end


def _read_odd_line(
    chunk: Chunk, line: tuple[int, int, bytes], records: list[Record], in_agent_file: bool
) -> None:
    """Read one line that is not as usual."""
    start, length, data = line
    parsed = parse(data)
    if parsed is None:
        chunk.counts["", "", "skipped", "blank"] += 1
        return
    if isinstance(parsed, Bad):
        chunk.counts["", "", "bad", parsed.reason] += 1
        chunk.errors.append(LineError(start, length - 1, parsed.reason, excerpt(data)))
        return
    note = parsed.note
    if note:
        chunk.errors.append(LineError(start, length - 1, note, excerpt(data)))
    glued = []
    for at, size, entry in parsed.objects:
        # In a line with base64 cut out, places within it are not known.
        is_whole = len(parsed.objects) == 1 or len(data) != length - 1
        place = (start, length - 1) if is_whole else (start + at, size)
        glued.append(tamed(entry, *place, data[at : at + size], in_agent_file))
    # The line counts once, as what is stored of it.
    counted = next((r for r in glued if not isinstance(r, Skip)), next(iter(glued)))
    for record in glued:
        record.note = note if record is counted else None
    records += glued


def open_at(path: str | bytes, offset: int, mark: bytes | None) -> int:
    """Open a file to read on in it; FileNotFoundError when another one has taken its place.

    Between looking at a file and reading it any time may pass, and an offset is good only in the
    file that it was found in.
    """
    fd = open_regular(path)
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
    *,
    limit: int | None = None,
    want_bytes: int | None = None,
    unfinished: Unfinished | None = None,
) -> Iterator[Chunk]:
    """All complete lines after an offset, in chunks; stops at a large line, which comes empty.

    `mark` and `unfinished` are those of the file as it was read up to the offset. A file that is
    overwritten while it is read counts as not read: the next pass begins again.
    """
    fd = open_at(path, offset, mark)
    try:
        while True:
            chunk = read_chunk(
                fd,
                offset,
                place,
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


def read_apart(fd: int, offset: int, place: FilePlace) -> Chunk:
    """Do as read_chunk does, in a process that may die of it; raises ReaderDied then."""

    def serve(pipe: Connection, ours: Connection) -> None:
        ours.close()
        with suppress(MemoryError):
            pipe.send_bytes(marshal.dumps(read_chunk(fd, offset, place).pack()))

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
