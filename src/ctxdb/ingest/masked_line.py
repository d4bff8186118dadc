"""One line into records, with its secrets masked.

What is masked follows from the rules, or from the places that were masked when the line was read
before: then it says the same again, whatever rules there are now. Digests are of the line as it is
in the file. In archived bytes, and in a restored file, secrets may be overwritten with `*`: the
archive tells their rules, the digests of their lines, and what no mask may change.
"""

from __future__ import annotations

import os
import sqlite3
from bisect import bisect_left
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from ctxdb.archive.archive_file import open_archive_to_read
from ctxdb.archive.opening import ElsewhereOpener, NewestStars
from ctxdb.archive.stars import NO_STARS, Stars, count_stars
from ctxdb.claude import read_entry
from ctxdb.claude.sidecars import MAX_BYTES
from ctxdb.errors import ArchiveError
from ctxdb.files.identity import Opener, open_regular
from ctxdb.files.parse import Bad, Parsed, parse, tame, without_nul
from ctxdb.privacy.digests import UNKEYED, Digest
from ctxdb.privacy.json_bytes import (
    Place,
    cover,
    decoded,
    joined,
    places_in,
    places_in_text,
    uncovered,
)
from ctxdb.privacy.masking import Masker, has_escapes
from ctxdb.rows import Event, Message, Record
from ctxdb.store.keys import LINES, key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

EXCERPT_BYTES = 200
EXCERPT_SEARCHED = 64 << 10  # a secret that begins in the excerpt may be this long
SHIPPED = Masker()
# What is known of a result before anything in it is masked.
_OF_RESULTS = ("status", "is_error", "exit_code", "exit_code_unknown", "result_bytes")
StarsOf = Callable[[str | bytes], Stars]  # by the path of a file
PlacesBefore = Callable[[str | bytes, int], tuple[Place, ...]]  # by the path of an open file


class Reading(NamedTuple):
    """What is masked in lines, the digest that they are known by, and where their bytes are."""

    masker: Masker | None = SHIPPED
    digest: Digest = UNKEYED
    opener: Opener = open_regular  # of the files
    stars: StarsOf | None = None  # what is overwritten in a file; None: nothing in any
    before: PlacesBefore | None = None  # what to mask besides what the rules find

    def stars_in(self, path: str | bytes) -> Stars:
        """What is overwritten in a file."""
        return NO_STARS if self.stars is None or not path else self.stars(path)

    def marked(self, path: str | bytes, data: bytes) -> bytes:
        """The first bytes of a file, with marks in place of what is overwritten in them."""
        places = self.stars_in(path).in_line(0, len(data), data)
        return cover(data, places) if places else data

    def read_sidecar(self, path: str) -> bytes:
        """A small JSON file beside a transcript, with its secrets masked. Raises OSError."""
        fd = self.opener(path)
        try:
            data = self.marked(path, os.pread(fd, MAX_BYTES, 0))
        finally:
            os.close(fd)
        return data if self.masker is None else cover(data, places_in(data, self.masker))


def reading_of(
    conn: sqlite3.Connection, masker: Masker | None, stars: StarsOf | None = None
) -> Reading:
    """How to read lines for a database."""
    return Reading(masker, Digest(key_of(conn, LINES)), _opener_of(conn), stars)


def stars_beside(db_path: Path) -> StarsOf | None:
    """What is overwritten in restored files; None if the archive has all bytes as they were."""
    try:
        archive = open_archive_to_read(db_path)
        if archive is None:
            return None
        with closing(archive):
            return NewestStars(db_path) if count_stars(archive) else None
    except (ArchiveError, sqlite3.Error):  # what uses the archive itself says what is wrong with it
        return None


def _opener_of(conn: sqlite3.Connection) -> Opener:
    """Opens transcripts; if some are of another machine, these from the archive."""
    some = "SELECT 1 FROM source_files WHERE machine <> '' LIMIT 1"
    if conn.execute(some).fetchone() is None:
        return open_regular
    (db_path,) = conn.execute(
        "SELECT file FROM pragma_database_list WHERE name = 'main'"
    ).fetchone()
    return ElsewhereOpener(Path(db_path))


class Secrets:
    """Finds what to mask in the lines of one file."""

    def __init__(
        self,
        reading: Reading,
        recorded: Sequence[Place] | None,
        path: str | bytes = "",
        fd: int | None = None,
    ) -> None:
        self.masker = reading.masker
        self.stars = reading.stars_in(path)
        # What is masked besides what the rules find.
        self.before: tuple[Place, ...] = ()
        if reading.before is not None and path and fd is not None:
            self.before = reading.before(path, fd)
        self.recorded = recorded  # what was masked when the file was read; None: the rules say it
        # Without rules, and where nothing was masked, lines need not be searched.
        by_rules = bool(recorded) if recorded is not None else self.masker is not None
        self.are_possible = by_rules or bool(self.stars.places or self.before)

    def in_line(self, start: int, length: int, data: bytes, entry: Any = None) -> list[Place]:
        """What to mask in a line, counted from its start. Its length is with its newline."""
        if self.stars.places and (stars := self.stars.in_line(start, length - 1, data)):
            return joined(stars, self._in_line(start, length, data, entry))
        if self.before and (before := _places_between(self.before, start, length)):
            return joined(before, self._in_line(start, length, data, entry))
        return self._in_line(start, length, data, entry)

    def know_again(self, start: int, length: int, data: bytes, records: Sequence[Record]) -> None:
        """Give the records of a line with overwritten bytes what they had before."""
        known_by = self.stars.known_by.get(start)
        if known_by is None or not self.stars.in_line(start, length - 1, data):
            return
        known = orjson.loads(known_by)
        if len(known) == len(records):
            for record, (line_hash, block_keys, *more) in zip(records, known, strict=True):
                if isinstance(record, Message | Event):
                    record.line_hash = line_hash
                if isinstance(record, Message):
                    record.block_keys = block_keys
                    if more:  # an earlier version did not note it
                        _give_sizes(record, *more)

    def _in_line(self, start: int, length: int, data: bytes, entry: Any) -> list[Place]:
        if self.recorded is not None:
            return _places_between(self.recorded, start, length) if self.recorded else []
        masker = self.masker
        if masker is None:
            return []
        if not masker.may_hold_secret(data):
            return []
        masker = _suspects_in(masker, entry) if has_escapes(data) else masker.suspects(data)
        return places_in(data, masker) if masker is not None else []

    def excerpt(self, data: bytes, start: int | None = None) -> str:
        """The first bytes of a line, as text that is safe on a terminal.

        With its start in the file, what is known to be masked in it is masked too.
        """
        data = data[: EXCERPT_BYTES + EXCERPT_SEARCHED]
        places = [] if self.masker is None else places_in_text(data, self.masker)
        if start is not None:
            known = _places_between(self.before or self.recorded or (), start, len(data))
            places = joined(joined(self.stars.in_line(start, len(data), data), known), places)
        return excerpt(cover(data, places))

    def masked_before(self, start: int, length: int) -> list[Place]:
        """What was masked in a line besides what the rules find, by bytes of the file."""
        return [one.moved(start) for one in _places_between(self.before, start, length)]


def _places_between(places: Sequence[Place], start: int, length: int) -> list[Place]:
    """Those of a line, counted from its start."""
    first = bisect_left(places, start, key=lambda place: place.start)
    last = bisect_left(places, start + length, key=lambda place: place.start)
    return [place.moved(-start) for place in places[first:last]]


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
        _keep_what_no_mask_changes(records, data, places, in_agent_file, digest)
    return LineRecords(parsed, records, covered)


def _keep_what_no_mask_changes(
    records: list[Record],
    data: bytes,
    places: Sequence[Place],
    in_agent_file: bool,
    digest: Digest,
) -> None:
    """Take from the line as it is in the file what an entry is, and not what it says."""
    parsed = parse(data)
    if not isinstance(parsed, Parsed) or len(parsed.objects) != len(records):
        return
    for record, (_, _, entry) in zip(records, parsed.objects, strict=True):
        clear = tamed(entry, 0, 0, b"", in_agent_file, digest)
        if isinstance(record, Message) and isinstance(clear, Message):
            record.block_keys = clear.block_keys
            record.turn = _masked_turn(record, clear, data, places)
            _give_sizes(record, clear.kind, sizes_of(clear))


def _masked_turn(
    record: Message, clear: Message, data: bytes, places: Sequence[Place]
) -> tuple[str, str] | None:
    """The turn that a message begins. What is masked can be what its kind is known by."""
    if clear.turn is None:
        return None
    kind, prompt = clear.turn
    if record.turn is not None:
        masked_kind, masked_prompt = record.turn
        if masked_kind == kind:
            return kind, masked_prompt
    for place in places:
        if secret := decoded(data[place.start : place.end]).text:
            prompt = prompt.replace(secret, place.mark.decode())
    return kind, prompt


def sizes_of(record: Message) -> list[list[Any]]:
    """How each result of a message ended, and how large it was."""
    return [[getattr(one, name) for name in _OF_RESULTS] for one in record.results or ()]


def _give_sizes(record: Message, kind: str, sizes: list[list[Any]]) -> None:
    record.kind = kind
    results = record.results or []
    if len(results) == len(sizes):
        for result, values in zip(results, sizes, strict=True):
            for name, value in zip(_OF_RESULTS, values, strict=True):
                setattr(result, name, value)
