r"""Complete lines, and only complete lines, from an open file.

A line is complete when its newline is on disk. Until then it is not read. Lines end at ``\n`` and
nowhere else: ``bytes.splitlines`` also ends them at ``\r``, ``str.splitlines`` at U+2028, and both
may be inside JSON.

The common case is one ``pread`` and a slice per line. A line longer than the block is read in a few
passes over the descriptor, each with bounded memory: find the newline, find the runs of base64,
read what is between them. Images and documents are not stored anyway, so a line of 40 MB that is
one screenshot becomes a short line that parses, with the text ``ctxdb-cut-base64:<characters>`` in
place of the picture. Of the NULs that a crash has left at an end, one is kept. A line that is still
too long after that is skipped and reported with its exact place and length.

What a line becomes depends on its own length alone, never on block size, on where a block began
or on how the file grew. Only ``pread`` is used: mmap of a file that shrinks is a SIGBUS.

An unfinished last line may be 300 MB long and grow by a few bytes at a time. So an empty block says
how far that line was searched for its newline, and the next read does not search there again. The
mark shows that it is still the same line: it may have been cut off and another one begun.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import NamedTuple

from ctxdb.files.identity import mark_of, pread

WANT_BYTES = 256 << 10  # still in cache when it is parsed: 4 MiB is 10 % slower over all
MAX_LINE_BYTES = 16 << 20  # parsing 64 MiB of nested lists takes 2 GB
LONG_LINE_BYTES = 4 << 20  # up to here a line is given as it is, base64 and all
MAX_LINES = 20_000  # in a block: a MiB of bare newlines would be 120 MB of tuples
HEAD_BYTES = 64 << 10  # of an oversize line, for the record
RUN_BYTES = 64 << 10  # base64 longer than this is cut from long lines
STEP_BYTES = 1 << 20  # how much is read at a time while searching for a newline
UNFINISHED_BYTES = 1 << 20  # a shorter unfinished line is searched again: that takes 0.1 ms

Line = tuple[int, int, bytes]
"""(start in the file, length with its newline, bytes without the newline). Cut lines hold fewer
bytes than their length says."""

_RUN = re.compile(rb"[A-Za-z0-9+/=]*")
_RUN_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_CAPITAL = re.compile(rb"[A-Z]")
# A run behind a backslash may begin with the letters of an escape, at most those of \uXXXX.
_ESCAPE_LETTERS = 5


class Unfinished(NamedTuple):
    """The searched part of a long unfinished line."""

    searched: int  # offset before which it has no newline
    mark: bytes  # of the file from the line's start up to there


@dataclass(slots=True)
class Block:
    """Lines that follow each other without a gap, up to ``end``."""

    lines: list[Line]
    oversize: list[Line]  # too long to parse; data is the first 64 KiB at most
    end: int  # offset just after the last line read; where the block began if there is none
    unfinished: Unfinished | None = None  # the line at `end`, if there is only a long part of one

    @property
    def is_empty(self) -> bool:
        """True when there is no complete line."""
        return not self.lines and not self.oversize


def read_block(
    fd: int,
    offset: int,
    want_bytes: int = WANT_BYTES,
    max_line: int = MAX_LINE_BYTES,
    *,
    unfinished: Unfinished | None = None,
) -> Block:
    """Read the complete lines that begin at ``offset``, about ``want_bytes`` of them.

    The block is empty when there is no complete line. A line over 4 MiB comes in a block of its
    own, with long base64 cut out; one that is over ``max_line`` even so comes in ``oversize``.
    ``unfinished`` is that of an earlier empty block at this offset.
    """
    whole = min(LONG_LINE_BYTES, max_line)
    if unfinished is not None and unfinished == _unfinished(fd, offset, unfinished.searched):
        return _long_line(fd, offset, unfinished.searched, whole, max_line)
    chunk = os.pread(fd, want_bytes, offset)
    lines: list[Line] = []
    add = lines.append
    find = chunk.find
    at = 0
    longest = whole + 1
    # find and slice, not split: bytes.split goes byte by byte where find is a memchr (0.14 against
    # 0.09 s for 250 MB of transcripts).
    for _ in range(MAX_LINES):
        newline = find(b"\n", at)
        if newline < 0:
            break
        length = newline + 1 - at
        if length > longest:
            break  # for a block of its own
        add((offset + at, length, chunk[at:newline]))
        at += length
    if lines:
        return Block(lines, [], offset + at)
    if not chunk:
        return Block([], [], offset)
    searched = offset + (newline if newline >= 0 else len(chunk))
    return _long_line(fd, offset, searched, whole, max_line)


def _long_line(fd: int, start: int, searched: int, whole: int, max_line: int) -> Block:
    """The one line at ``start``, known to hold no newline before ``searched``."""
    is_there, newline = _search(fd, searched)
    if not is_there:
        return Block([], [], start, _unfinished(fd, start, newline))
    length = newline + 1 - start
    keep = [(start, newline)]
    notes: list[bytes] = []
    if newline - start > whole:
        first, last = _without_nuls(fd, start, newline)
        keep, notes = _without_base64(fd, first, last)
        # One NUL at an end is kept for all of them: the parser then says that there were some.
        if first > start:
            keep, notes = [(start, start + 1), *keep], [b"", *notes]
        if last < newline:
            keep, notes = [*keep, (last, last + 1)], [*notes, b""]
        if sum(b - a for a, b in keep) + sum(map(len, notes)) > max_line:
            head = pread(fd, min(HEAD_BYTES, newline - start), start)
            return Block([], [(start, length, head)], newline + 1)
    data = _join(fd, keep, notes)
    if data is None:
        return Block([], [], start)
    return Block([(start, length, data)], [], newline + 1)


def _unfinished(fd: int, start: int, searched: int) -> Unfinished | None:
    """How to recognize a line that has no newline up to ``searched``; None if it is short."""
    if searched - start < UNFINISHED_BYTES:
        return None
    return Unfinished(searched, mark_of(fd, searched, start))


def find_newline(fd: int, at: int) -> int:
    """Offset of the first newline at or after ``at``; -1 when there is none."""
    is_there, newline = _search(fd, at)
    return newline if is_there else -1


def _search(fd: int, at: int) -> tuple[bool, int]:
    """Whether there is a newline at or after ``at``, and its offset or that of the file's end."""
    while chunk := os.pread(fd, STEP_BYTES, at):
        found = chunk.find(b"\n")
        if found >= 0:
            return True, at + found
        at += len(chunk)
    return False, at


def _without_nuls(fd: int, start: int, end: int) -> tuple[int, int]:
    """What is left of ``start..end`` without the NULs at both ends, however many there are."""
    while start < end:
        step = pread(fd, min(STEP_BYTES, end - start), start)
        start += len(step) - len(step.lstrip(b"\0"))
        if step.strip(b"\0") or not step:
            break
    while start < end:
        size = min(STEP_BYTES, end - start)
        left = pread(fd, size, end - size).rstrip(b"\0")
        end -= size - len(left)
        if left:
            break
    return start, end


def _without_base64(fd: int, start: int, end: int) -> tuple[list[tuple[int, int]], list[bytes]]:
    """The stretches of ``start..end`` to keep, and the note to put between each two of them."""
    keep: list[tuple[int, int]] = []
    notes: list[bytes] = []
    for first, b in _runs(fd, start, end):
        escaped = first > start and pread(fd, 1, first - 1) == b"\\"
        a = first + _ESCAPE_LETTERS if escaped else first
        # 64 kB of real base64 hold a capital letter. A hex dump or a row of x is text.
        if not _CAPITAL.search(pread(fd, RUN_BYTES, a)[: b - a]):
            continue
        keep.append((start, a))
        notes.append(b"ctxdb-cut-base64:%d" % (b - a))
        start = b
    keep.append((start, end))
    return keep, notes


def _runs(fd: int, start: int, end: int) -> list[tuple[int, int]]:
    """Every run of base64 letters in ``start..end`` that is longer than RUN_BYTES.

    Such a run crosses at least one multiple of RUN_BYTES, so only the words at the window edges
    are looked at: ordinary text costs next to nothing.
    """
    runs: list[tuple[int, int]] = []
    before = b""
    open_at = -1  # start of the run that reaches into this window
    for at in range(start, end, RUN_BYTES):
        window = pread(fd, min(RUN_BYTES, end - at), at)
        match = _RUN.match(window)
        reach = match.end() if match else 0
        if open_at < 0 and reach:
            open_at = at - (len(before) - len(before.rstrip(_RUN_ALPHABET)))
        if open_at >= 0 and (reach < RUN_BYTES or at + reach == end):
            if at + reach - open_at > RUN_BYTES:
                runs.append((open_at, at + reach))
            open_at = -1
        before = window
    return runs


def _join(fd: int, keep: list[tuple[int, int]], notes: list[bytes]) -> bytes | None:
    """Read the kept stretches with the notes between them; None if the file shrank meanwhile."""
    parts: list[bytes] = []
    for i, (a, b) in enumerate(keep):
        if i:
            parts.append(notes[i - 1])
        part = pread(fd, b - a, a)
        if len(part) < b - a:
            return None
        parts.append(part)
    return b"".join(parts)
