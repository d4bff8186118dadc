"""One line into records, with its secrets masked.

What is masked follows from the rules, or from the places that were masked when the line was read
before: then it says the same again, whatever rules there are now. Digests are of the line as it is
in the file.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from ctxdb.claude import read_entry
from ctxdb.files.identity import Opener, open_regular
from ctxdb.files.parse import Bad, Parsed, parse, tame, without_nul
from ctxdb.privacy.digests import UNKEYED, Digest
from ctxdb.privacy.json_bytes import Place, cover, places_in, places_in_text, uncovered
from ctxdb.privacy.masking import Masker, has_escapes
from ctxdb.rows import Message, Record
from ctxdb.store.keys import LINES, key_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

EXCERPT_BYTES = 200
EXCERPT_SEARCHED = 64 << 10  # a secret that begins in the excerpt may be this long
SHIPPED = Masker()


class Reading(NamedTuple):
    """What is masked in lines, the digest that they are known by, and where their bytes are."""

    masker: Masker | None = SHIPPED
    digest: Digest = UNKEYED
    opener: Opener = open_regular  # of the files


def reading_of(conn: sqlite3.Connection, masker: Masker | None) -> Reading:
    """How to read lines for a database."""
    return Reading(masker, Digest(key_of(conn, LINES)))


class Secrets:
    """Finds what to mask in the lines of one file."""

    def __init__(self, reading: Reading, recorded: Sequence[Place] | None) -> None:
        self.masker = reading.masker
        self.recorded = recorded  # what was masked when the file was read; None: the rules say it
        self.starts = [place.start for place in recorded or ()]

    def in_line(self, start: int, length: int, data: bytes, entry: Any = None) -> list[Place]:
        """What to mask in a line, counted from its start."""
        if self.recorded is not None:
            return self._recorded(start, length) if self.starts else []
        masker = self.masker
        if masker is None:
            return []
        if has_escapes(data):
            masker = _suspects_in(masker, entry)
            return places_in(data, masker) if masker is not None else []
        if not masker.may_hold_secret(data):
            return []
        masker = masker.suspects(data)
        return places_in(data, masker) if masker is not None else []

    def excerpt(self, data: bytes) -> str:
        """The first bytes of a line, as text that is safe on a terminal."""
        return excerpt(cover(data[: EXCERPT_BYTES + EXCERPT_SEARCHED], self._in_text(data)))

    def _in_text(self, data: bytes) -> list[Place]:
        if self.masker is None:
            return []
        return places_in_text(data[: EXCERPT_BYTES + EXCERPT_SEARCHED], self.masker)

    def _recorded(self, start: int, length: int) -> list[Place]:
        first, last = bisect_left(self.starts, start), bisect_left(self.starts, start + length)
        return [place.moved(-start) for place in (self.recorded or ())[first:last]]


def _suspects_in(masker: Masker, entry: Any) -> Masker | None:
    """The rules that have a keyword in what an entry says, without escapes."""
    if entry is None:
        return masker
    try:
        return masker.suspects(orjson.dumps(entry))
    except (TypeError, ValueError, RecursionError):
        return masker


def excerpt(data: bytes) -> str:
    """The first bytes of a line, as text that is safe on a terminal."""
    return (
        data[:EXCERPT_BYTES]
        .decode("ascii", "backslashreplace")
        .encode("unicode_escape")
        .decode("ascii")
    )


def tamed(
    entry: dict[str, Any],
    start: int,
    length: int,
    data: bytes,
    in_agent_file: bool,
    digest: Digest = UNKEYED,
    shown: bytes | None = None,
) -> Record:
    """The row of an entry that may hold what no entry should.

    Nesting without end, numbers of any size, NULs: one line never stops a file. At worst it is kept
    as an event of type `unreadable`, with the first bytes of what may be `shown` of it.
    """
    entry = without_nul(tame(entry))
    try:
        return read_entry(entry, start, length, data, in_agent_file, digest)
    except Exception:
        strange = {"type": "unreadable", "line": excerpt(data if shown is None else shown)}
        return read_entry(strange, start, length, data, in_agent_file, digest)


class LineRecords(NamedTuple):
    """What a line that is not as usual says."""

    parsed: Parsed | Bad | None
    records: list[Record]
    covered: bytes  # the line with its secrets masked


def records_in(
    data: bytes,
    start: int,
    length: int,
    places: Sequence[Place],
    in_agent_file: bool,
    digest: Digest,
) -> LineRecords:
    """The rows of all objects of a line, whose length is without its newline."""
    covered = cover(data, places) if places else data
    parsed = parse(covered)
    if parsed is None or isinstance(parsed, Bad):
        return LineRecords(parsed, [], covered)
    records = []
    for at, size, entry in parsed.objects:
        first, end = uncovered(at, places), uncovered(at + size, places)
        # In a line with base64 cut out, places within it are not known.
        is_whole = len(parsed.objects) == 1 or len(data) != length
        place = (start, length) if is_whole else (start + first, end - first)
        record = tamed(entry, *place, data[first:end], in_agent_file, digest, covered)
        records.append(record)
    if places:
        _know_by_clear_blocks(records, data, in_agent_file, digest)
    return LineRecords(parsed, records, covered)


def _know_by_clear_blocks(
    records: list[Record], data: bytes, in_agent_file: bool, digest: Digest
) -> None:
    """A copy is known by the blocks as they are in the file, not as they are masked."""
    parsed = parse(data)
    if not isinstance(parsed, Parsed) or len(parsed.objects) != len(records):
        return
    for record, (_, _, entry) in zip(records, parsed.objects, strict=True):
        clear = tamed(entry, 0, 0, b"", in_agent_file, digest)
        if isinstance(record, Message) and isinstance(clear, Message):
            record.block_keys = clear.block_keys
