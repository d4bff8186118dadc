"""Which bytes of a file are overwritten when it is archived: with `redact.archive = true`.

What the ingest masks in a line is overwritten. So is what it would mask in an excerpt of a line
that cannot be read, and in what it does not store of a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from ctxdb.archive.sources import HISTORY, TRANSCRIPT
from ctxdb.archive.stars import Found
from ctxdb.claude.layout import role_of
from ctxdb.files.identity import pread
from ctxdb.files.parse import Parsed, parse, parse_plain
from ctxdb.files.tail import LONG_LINE_BYTES, read_block
from ctxdb.ingest.masked_line import Reading, Secrets, records_in, sizes_of
from ctxdb.privacy.json_bytes import (
    Place,
    joined,
    places_in,
    places_in_plain_text,
    places_in_text,
)
from ctxdb.rows import Event, Message, Record

if TYPE_CHECKING:
    from ctxdb.archive.stars import FindSecrets
    from ctxdb.privacy.masking import Masker


def finder(reading: Reading, kind: str, path: str, root: str) -> FindSecrets | None:
    """What finds the secrets in a file of this kind; None if masking is switched off."""
    masker = reading.masker
    if masker is None:
        return None
    if kind in (TRANSCRIPT, HISTORY):
        in_agent_file = kind == TRANSCRIPT and role_of(path, root).agent_id is not None
        return _InLines(reading, path, kind == HISTORY, in_agent_file)
    is_json = path.endswith(".json") and os.path.basename(os.path.dirname(path)) != "tool-results"
    return _InWhole(masker, is_json)


@dataclass(frozen=True, slots=True)
class _InWhole:
    """Finds secrets in a file that is read as a whole."""

    masker: Masker
    is_json: bool

    def __call__(self, fd: int, start: int, end: int) -> Found:
        data = pread(fd, end - start, start)
        places = places_in(data, self.masker) if self.is_json else ()
        places = joined([*places], places_in_plain_text(data, self.masker))
        return Found([place.moved(start) for place in places], {})


@dataclass(frozen=True, slots=True)
class _InLines:
    """Finds secrets in lines of JSON."""

    reading: Reading
    path: str
    is_history: bool
    in_agent_file: bool

    def __call__(self, fd: int, start: int, end: int) -> Found:
        found = Found([], {})
        secrets = Secrets(self.reading, None, self.path)
        for at, line, cut in _lines(fd, start, end):
            places = self._in_line(secrets, at, line)
            if not places:
                continue
            found.places.extend(place.moved(at) for place in places)
            if cut is not None and (known_by := self._known_by(secrets, at, line, cut)):
                found.known_by[at] = known_by
        return found

    def _in_line(self, secrets: Secrets, at: int, line: bytes) -> list[Place]:
        entry = parse_plain(line)
        places = secrets.in_line(at, len(line) + 1, line, entry)
        if entry is None and self.reading.masker is not None:
            places = joined(places, places_in_text(line, self.reading.masker))
        return places

    def _known_by(self, secrets: Secrets, at: int, line: bytes, cut: bytes) -> str:
        """What the database knows the line by: of its bytes, with long base64 cut out."""
        digest = self.reading.digest
        if self.is_history:
            parsed = parse(cut)
            objects = parsed.objects if isinstance(parsed, Parsed) else []
            for within, size, _ in objects[:1]:
                return str(digest(cut[within : within + size]))
            return ""
        places = secrets.in_line(at, len(line) + 1, cut)
        records = records_in(cut, at, len(line), places, self.in_agent_file, digest).records
        secrets.know_again(at, len(line) + 1, cut, records)
        known = [_known_of(record) for record in records]
        return orjson.dumps(known).decode() if known else ""


def _known_of(record: Record) -> list[object]:
    """What is read into a row, however its bytes are overwritten."""
    if isinstance(record, Message):
        return [record.line_hash, record.block_keys, record.kind, sizes_of(record)]
    return [record.line_hash if isinstance(record, Event) else None, None]


def _lines(fd: int, start: int, end: int) -> Iterator[tuple[int, bytes, bytes | None]]:
    """The lines of a part of a file: first byte, bytes, and those that the ingest reads.

    The last one is None for what is not a complete line.
    """
    at = start
    while at < end:
        block = read_block(fd, at)
        for first, length, data in (*block.lines, *block.oversize):
            if first >= end:
                return
            is_whole = first + length <= end
            raw = data
            if not is_whole or length > LONG_LINE_BYTES:
                raw = pread(fd, min(length - 1, end - first), first)
            yield first, raw, data if is_whole and block.lines else None
        if block.is_empty or block.end <= at:
            yield at, pread(fd, end - at, at), None
            return
        at = block.end
