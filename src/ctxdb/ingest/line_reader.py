"""From a place in a file to normalized lines: tail, parse and normalize in one step.

`read_lines` is all that a batch needs to know of a file's bytes. Its result can be packed into
plain tuples, so that it can be carried from one process to another.
"""

from __future__ import annotations

import errno
import marshal
import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctxdb.claude import Record, Skip, normalize, pack, unpack
from ctxdb.files.identity import mark_of, open_regular
from ctxdb.files.parse import Bad, parse, parse_plain, tame
from ctxdb.files.tail import WANT_BYTES, Block, Unfinished, read_block
from ctxdb.files.walk import numbers_of
from ctxdb.store.chunk import Chunk, LineKey, SourceFile, Stat

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

CHUNK_BYTES = 1 << 20  # of one file, read at once: as objects it takes ten times as much
CHUNK_LINES = 20_000  # 2 MiB of "{}" would be 700,000 records
LARGE_LINE_BYTES = 4 << 20  # a line that could end the process: see ingest.Pass._huge_line
EXCERPT_BYTES = 200


@dataclass(slots=True)
class Lines:
    """Consecutive lines of a file, normalized."""

    start: int
    end: int
    records: list[Record]
    notes: list[str | None]
    counts: Counter[LineKey]
    errors: list[tuple[int, int, str, str]]
    lines: int
    stat: Stat
    mark: bytes
    at_end: bool  # there is no complete line after these
    is_large: bool = False  # the next line is so long that it is not parsed before it is announced
    unfinished: Unfinished | None = None  # the long last line without a newline, for the next read

    def chunk(self, file: SourceFile) -> Chunk:
        """These lines as lines of a file."""
        return Chunk(
            file,
            self.start,
            self.end,
            self.records,
            self.notes,
            self.counts,
            self.errors,
            self.lines,
            self.stat,
            self.mark,
            self.at_end,
            self.unfinished,
        )


def excerpt(data: bytes) -> str:
    """The first bytes of a line, as text that no terminal minds."""
    return (
        data[:EXCERPT_BYTES]
        .decode("ascii", "backslashreplace")
        .encode("unicode_escape")
        .decode("ascii")
    )


def tamed(
    entry: dict[str, Any], start: int, length: int, data: bytes, in_agent_file: bool
) -> Record:
    """The record of an entry that may hold what no entry should.

    Nesting without end, numbers of any size: one line never stops a file. At worst it is kept as
    an event of type `unreadable`.
    """
    entry = tame(entry)
    try:
        return normalize(entry, start, length, data, in_agent_file)
    except Exception:
        strange = {"type": "unreadable", "line": excerpt(data)}
        return normalize(strange, start, length, data, in_agent_file)


def stat_of(fd: int) -> Stat:
    """How the open file looks now."""
    return Stat(*numbers_of(os.fstat(fd)))


def read_lines(  # noqa: PLR0913  (policies of the pass: where to stop, what to pass over)
    fd: int,
    offset: int,
    *,
    in_agent_file: bool,
    want_bytes: int = CHUNK_BYTES,
    parse_large: bool = True,
    give_up: bool = False,
    until: int | None = None,
    limit: int | None = None,
    unfinished: Unfinished | None = None,
) -> Lines:
    """The complete lines after an offset, about `want_bytes` of them, or exactly those `until`.

    The file ends for us at a `limit`, where a line ends. `give_up` records the next line as too
    large without parsing it: it has ended a process before. `unfinished` is that of an earlier read
    at this offset.
    """
    found = Lines(offset, offset, [], [], Counter(), [], 0, stat_of(fd), b"", at_end=False)
    want = want_bytes if until is None else until - offset
    end = limit if until is None else until
    while found.end - offset < want and (found.lines < CHUNK_LINES or until is not None):
        if end is None:
            block = read_block(fd, found.end, unfinished=unfinished)
        else:
            block = _read_until(fd, found.end, end)
        if block.is_empty:
            found.at_end = True
            found.unfinished = block.unfinished
            break
        unfinished = None
        first = block.lines[0] if block.lines else None
        is_large = first is not None and first[1] > LARGE_LINE_BYTES
        if is_large:
            if found.lines:
                break  # a large line comes alone
            if give_up:
                block.oversize, block.lines = block.lines, []
            elif not parse_large:
                found.is_large = True
                break
        add, note = found.records.append, found.notes.append
        for line in block.lines:
            start, length, data = line
            entry = parse_plain(data)
            if entry is None:
                _take(found, line, in_agent_file)
                continue
            # The usual line: the object's bytes are the line's, and so is its length.
            try:
                record = normalize(entry, start, length - 1, data, in_agent_file)
            except Exception:
                record = tamed(entry, start, length - 1, data, in_agent_file)
            add(record)
            note("")
        for start, length, data in block.oversize:
            found.counts["", "", "bad", "too_large"] += 1
            found.errors.append((start, length - 1, "too_large", excerpt(data)))
        found.lines += len(block.lines) + len(block.oversize)
        found.end = block.end
        if first is None or is_large:
            break
    found.at_end = found.at_end or found.end >= (found.stat.size if limit is None else limit)
    found.mark = mark_of(fd, found.end)
    return found


def _read_until(fd: int, offset: int, until: int) -> Block:
    """The lines from `offset` on, none of which begins at or after `until`."""
    if offset >= until:
        return Block([], [], offset)
    return read_block(fd, offset, min(WANT_BYTES, until - offset))


def _take(found: Lines, line: tuple[int, int, bytes], in_agent_file: bool) -> None:
    """Parse and normalize one line that is not as usual."""
    start, length, data = line
    parsed = parse(data)
    if parsed is None:
        found.counts["", "", "skipped", "blank"] += 1
        return
    if isinstance(parsed, Bad):
        found.counts["", "", "bad", parsed.reason] += 1
        found.errors.append((start, length - 1, parsed.reason, excerpt(data)))
        return
    note = parsed.note
    if note:
        found.errors.append((start, length - 1, note, excerpt(data)))
    glued = []
    for at, size, entry in parsed.objects:
        # In a line with base64 cut out, places within it are not known.
        whole = len(parsed.objects) == 1 or len(data) != length - 1
        place = (start, length - 1) if whole else (start + at, size)
        glued.append(tamed(entry, *place, data[at : at + size], in_agent_file))
    # The line counts once, as what is stored of it.
    counted = next((r for r in glued if not isinstance(r, Skip)), glued[0])
    found.records += glued
    found.notes += [note if r is counted else None for r in glued]


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
    *,
    in_agent_file: bool,
    limit: int | None = None,
    unfinished: Unfinished | None = None,
) -> Iterator[Lines]:
    """All complete lines after an offset, in chunks; stops at a large line, which comes empty.

    `mark` and `unfinished` are those of the file as it was read up to the offset. A file that is
    overwritten while it is read is none of which something was read: the next pass begins again.
    """
    fd = open_at(path, offset, mark)
    try:
        while True:
            found = read_lines(
                fd,
                offset,
                in_agent_file=in_agent_file,
                parse_large=False,
                limit=limit,
                unfinished=unfinished,
            )
            must_be_the_same(fd, path, offset, mark)
            yield found
            if found.is_large or found.at_end:
                return
            offset, mark, unfinished = found.end, found.mark, None
    finally:
        os.close(fd)


def pack_lines(found: Lines) -> tuple[Any, ...]:
    """The lines as a tuple that marshal can carry."""
    stat = found.stat
    return (
        found.start,
        found.end,
        [pack(record) for record in found.records],
        found.notes,
        list(found.counts.items()),
        found.errors,
        found.lines,
        (stat.dev, stat.ino, stat.size, stat.mtime_ns, stat.ctime_ns),
        found.mark,
        found.at_end,
        found.is_large,
        None if found.unfinished is None else tuple(found.unfinished),
    )


def unpack_lines(values: tuple[Any, ...]) -> Lines:
    """What `pack_lines` was given."""
    start, end, records, notes, counts, errors, lines, stat, mark, at_end, is_large, part = values
    return Lines(
        start,
        end,
        [unpack(record) for record in records],
        notes,
        Counter(dict(counts)),
        errors,
        lines,
        Stat(*stat),
        mark,
        at_end,
        is_large,
        None if part is None else Unfinished(*part),
    )


def read_apart(fd: int, offset: int, *, in_agent_file: bool) -> Lines:
    """Do as read_lines does, in a process that may die of it; raises ReaderDied then."""

    def serve(pipe: Connection, ours: Connection) -> None:
        ours.close()
        with suppress(MemoryError):
            found = read_lines(fd, offset, in_agent_file=in_agent_file)
            pipe.send_bytes(marshal.dumps(pack_lines(found)))

    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(theirs, ours), daemon=True)
    process.start()
    theirs.close()
    try:
        return unpack_lines(marshal.loads(ours.recv_bytes()))
    except EOFError:
        raise ReaderDied from None
    finally:
        ours.close()
        process.join()


class ReaderDied(Exception):
    """A process that reads was ended from outside; the files can be read in this one."""
