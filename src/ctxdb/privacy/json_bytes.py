r"""Secrets in the bytes of a line: where each is, and the line with all of them covered.

A line is JSON. What a string in it says may be written with escapes (`\u0067hp_...`), so each
string is decoded, the rules look at its text, and what they find is told in bytes of the line. The
bytes are then replaced by `[redacted:rule]`, which needs no escapes: JSON stays JSON. A line that
is no JSON is looked at as one text.

The places are kept, so a line can be read again later and says the same, whatever rules there are
then.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import orjson

from ctxdb.privacy.masking import Masker

# A string that is not closed matches to the end of the line.
_STRING = re.compile(rb'"(?P<inside>[^"\\]*+(?:\\.[^"\\]*+)*+)(?:"|\\?\Z)', re.DOTALL)
_PIECE = re.compile(rb"\\u[0-9a-fA-F]{4}|\\.|[^\\]+|\\", re.DOTALL)
_LETTERS = {b"n": "\n", b"t": "\t", b"r": "\r", b"b": "\b", b"f": "\f"}


class Place(NamedTuple):
    """Bytes that hold a secret: from the start of the line, or of the file."""

    start: int
    length: int
    rule: str

    @property
    def end(self) -> int:
        """The byte after it."""
        return self.start + self.length

    @property
    def mark(self) -> bytes:
        """What is written in its place."""
        return f"[redacted:{self.rule}]".encode()

    def moved(self, by: int) -> Place:
        """The same place, counted from elsewhere."""
        return self._replace(start=self.start + by)


class Decoded(NamedTuple):
    """What some bytes of JSON say, and which byte each character is from."""

    text: str
    pieces: list[tuple[int, int, int]]  # first character, first byte, bytes of an escape or 0

    def byte_at(self, at: int) -> int:
        """The byte that a character begins at."""
        number = bisect_right(self.pieces, at, key=lambda piece: piece[0]) - 1
        if number < 0:
            return at
        char, byte, escape = self.pieces[number]
        if escape:
            return byte + (escape if at > char else 0)
        return byte + len(self.text[char:at].encode("utf-8", "surrogateescape"))


def decoded(data: bytes) -> Decoded:
    """The text of the inside of a JSON string. Bytes that are no text, and no escape, stay."""
    if b"\\" not in data:
        return Decoded(data.decode("utf-8", "surrogateescape"), [(0, 0, 0)])
    parts: list[str] = []
    pieces: list[tuple[int, int, int]] = []
    size = 0
    for match in _PIECE.finditer(data):
        piece = match[0]
        escape = 0
        if not piece.startswith(b"\\") or len(piece) == 1:
            text = piece.decode("utf-8", "surrogateescape")
        else:
            escape = len(piece)
            letter = piece[1:]
            text = (
                chr(int(letter[1:], 16))
                if escape > 2
                else _LETTERS.get(letter) or letter.decode("utf-8", "surrogateescape")
            )
        pieces.append((size, match.start(), escape))
        parts.append(text)
        size += len(text)
    return Decoded("".join(parts), pieces)


def places_in(line: bytes, masker: Masker) -> list[Place]:
    """The secrets in the strings of a line of JSON, in order."""
    found: list[Place] = []
    for string in _STRING.finditer(line):
        try:
            text = orjson.loads(string[0])
        except ValueError:
            text = None  # not as it should be: looked at byte by byte
        if text is None or masker.find(text):
            found += (
                place
                for place in _in_text(string["inside"], string.start("inside"), masker)
                if masker.is_meant(line, place.start, place.end)
            )
    return found


def places_in_text(data: bytes, masker: Masker) -> list[Place]:
    """The secrets in bytes that are no JSON, in order."""
    return [*_in_text(data, 0, masker)]


def places_in_plain_text(data: bytes, masker: Masker) -> list[Place]:
    """The secrets in bytes that are text, in which a backslash is a backslash."""
    if not masker.may_hold_secret(data):
        return []
    text = data.decode("utf-8", "surrogateescape")
    found: list[Place] = []
    char = byte = 0  # both of one place in the text
    for one in masker.find(text):
        byte += len(text[char : one.start].encode("utf-8", "surrogateescape"))
        length = len(text[one.start : one.end].encode("utf-8", "surrogateescape"))
        found.append(Place(byte, length, one.rule))
        char, byte = one.end, byte + length
    return found


def _in_text(data: bytes, start: int, masker: Masker) -> Iterator[Place]:
    known = decoded(data)
    for one in masker.find(known.text):
        first, last = known.byte_at(one.start), known.byte_at(one.end)
        yield Place(start + first, last - first, one.rule)


def cover(data: bytes, places: Iterable[Place]) -> bytes:
    """The bytes with a mark in place of each secret. The places are in order."""
    parts: list[bytes] = []
    at = 0
    for place in places:
        parts += (data[at : place.start], place.mark)
        at = place.end
    return b"".join((*parts, data[at:]))


def uncovered(at: int, places: Sequence[Place]) -> int:
    """The byte of the line that a byte of the covered line is from."""
    for place in places:
        if place.start >= at:
            break
        at += place.length - len(place.mark)
    return at


def joined(some: Sequence[Place], more: Sequence[Place]) -> list[Place]:
    """All of some places, and more that do not overlap them, in order."""
    if not more or not some:
        return [*some, *more]
    kept = [
        place
        for place in more
        if not any(place.start < one.end and one.start < place.end for one in some)
    ]
    return sorted([*some, *kept])


def mask_json(text: str, masker: Masker) -> str:
    """A JSON text with every secret in its strings covered."""
    data = text.encode("utf-8", "surrogatepass")
    if not masker.may_hold_secret(data):
        return text
    places = places_in(data, masker)
    return cover(data, places).decode("utf-8", "surrogatepass") if places else text
