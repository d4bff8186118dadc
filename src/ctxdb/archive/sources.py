"""A file to archive, and which bytes of it are taken at a time."""

from __future__ import annotations

import os
from typing import NamedTuple

from ctxdb.archive.blank import LeftOut, blank
from ctxdb.archive.merge import FRAME_BYTES
from ctxdb.archive.stars import FindSecrets, Found, star
from ctxdb.files.identity import pread
from ctxdb.files.walk import store_path

LONGEST_LINE_BYTES = 64 << 20  # of a file whose lines are looked at
TRANSCRIPT, HISTORY, BESIDE = "transcript", "history", "beside"  # kinds of files
GROW_BY_LINES = frozenset({TRANSCRIPT, HISTORY})  # the others are written as a whole


class Source(NamedTuple):
    """A file to archive."""

    path: str  # os.fsdecode'd
    root: str  # the folder below which it was found
    kind: str  # TRANSCRIPT, HISTORY or BESIDE
    session_id: str | None
    is_left_out: LeftOut | None = None  # which of its lines must not be kept
    find_secrets: FindSecrets | None = None  # to overwrite them; None: it is archived as it is
    end: int | None = None  # no byte from here on is archived: where a line begins


def project_of(source: Source) -> str:
    """The folder below the root that a file is in; files of one project are sealed together."""
    relative = os.path.relpath(source.path, source.root)
    first, _, rest = relative.partition("/")
    return store_path(os.path.join(source.root, first) if rest else source.root)[0]


def complete(
    source: Source, fd: int, at: int, data: bytes, *, is_last: bool, takes_all: bool
) -> bytes:
    """What is taken of the bytes at a place, of which `data` is a frame, or the last of them."""
    if source.is_left_out is not None:
        return _whole_lines(fd, at, data)
    if source.find_secrets is not None:
        return _searchable(source, fd, at, data, is_last=is_last, takes_all=takes_all)
    if is_last and not takes_all:
        return data[: data.rfind(b"\n") + 1]
    return data


def _searchable(
    source: Source, fd: int, at: int, data: bytes, *, is_last: bool, takes_all: bool
) -> bytes:
    """The bytes at a place that can be searched for secrets: complete lines, or all of a file."""
    if source.kind not in GROW_BY_LINES:
        return pread(fd, LONGEST_LINE_BYTES, at)
    if is_last:
        return data if takes_all else data[: data.rfind(b"\n") + 1]
    lines = _whole_lines(fd, at, data)
    if lines:
        return lines
    rest = pread(fd, LONGEST_LINE_BYTES, at)
    # An unfinished line; or one that is too long, which is archived in parts.
    return rest if takes_all or len(rest) == LONGEST_LINE_BYTES else b""


def without_secrets(source: Source, fd: int, at: int, data: bytes) -> tuple[bytes, Found]:
    """The bytes as they are archived, and which secrets in them are overwritten."""
    kept = data if source.is_left_out is None else blank(data, source.is_left_out)
    if source.find_secrets is None:
        return kept, Found([], {})
    first = _line_start(fd, at) if source.kind in GROW_BY_LINES else at
    places, known_by = source.find_secrets(fd, first, at + len(data))
    if kept is not data:

        def is_kept(start: int, end: int) -> bool:
            return kept[max(start - at, 0) : end - at] == data[max(start - at, 0) : end - at]

        places = [place for place in places if is_kept(place.start, place.end)]
        known_by = {start: known for start, known in known_by.items() if is_kept(start, start + 1)}
    return star(kept, at, places), Found(places, known_by)


def _line_start(fd: int, at: int) -> int:
    """Where the line begins that goes on at a place."""
    least = max(at - LONGEST_LINE_BYTES, 0)
    while at > least:
        first = max(at - FRAME_BYTES, least)
        newline = pread(fd, at - first, first).rfind(b"\n")
        if newline >= 0:
            return first + newline + 1
        at = first
    return at


def _whole_lines(fd: int, at: int, data: bytes) -> bytes:
    """The complete lines at a place: about a frame of them, and at least one."""
    while b"\n" not in data and len(data) < LONGEST_LINE_BYTES:
        more = pread(fd, FRAME_BYTES, at + len(data))
        if not more:
            break
        data += more
    return data[: data.rfind(b"\n") + 1]
