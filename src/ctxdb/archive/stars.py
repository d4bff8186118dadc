"""Secrets in archived bytes: each is overwritten with `*` of the same length, and its place kept.

This is done only with `redact.archive = true`. Every other byte stays where it was. The place says
which rule has found the secret, so the same rows can be derived from these bytes. Lines are known
to the database by digests of their exact bytes, so the digests of these lines are kept too.
"""

from __future__ import annotations

import re
import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ctxdb.archive.compression import (
    NotDecompressed,
    checksum,
    compress_block,
    compress_frame,
    decompress,
)
from ctxdb.archive.read import UNREADABLE, ArchiveReader, generations
from ctxdb.errors import DamagedBytes
from ctxdb.files.identity import HEAD_BYTES, TAIL_BYTES, mark_by
from ctxdb.privacy.json_bytes import Place

STAR = b"*"
STARS_SINCE = 3  # version of the archive from which on there are places
EVERYWHERE = "secrets are overwritten"  # a key of `meta`: in all bytes, not only in new ones
# What files/tail.py writes in place of long base64, and how many bytes that was.
_CUT = re.compile(rb"ctxdb-cut-base64:([0-9]{1,12})")


class Found(NamedTuple):
    """The secrets in some bytes of a file."""

    places: list[Place]  # by bytes of the file, in order
    known_by: dict[int, str]  # what the lines that hold them are known by, by their first bytes


# An open file, the first byte to look at, the byte after the last.
FindSecrets = Callable[[int, int, int], Found]


class Stars(NamedTuple):
    """What was overwritten in one generation of a file."""

    places: tuple[Place, ...] = ()
    known_by: Mapping[int, str] = {}

    def between(self, start: int, end: int) -> tuple[Place, ...]:
        """The places that begin in a part of the file."""
        first = bisect_left(self.places, start, key=lambda place: place.start)
        last = bisect_left(self.places, end, key=lambda place: place.start)
        return self.places[first:last]

    def in_line(self, start: int, length: int, data: bytes) -> list[Place]:
        """Those that are overwritten in the bytes of a line, counted from its first byte.

        The line may be that of the source, where nothing is overwritten, or one with base64 cut
        out. `length` is that in the file, without the newline.
        """
        found = [place.moved(-start) for place in self.between(start, start + length)]
        if found and len(data) != length:
            found = [*_in_cut_line(data, found)]
        return [place for place in found if is_starred(data, place)]

    def is_in_mark(self, offset: int) -> bool:
        """Whether bytes were overwritten by which a file is known: see `mark_of`."""
        return any(
            place.start < HEAD_BYTES or place.end > offset - TAIL_BYTES
            for place in self.places
            if place.start < offset
        )


NO_STARS = Stars()


def is_starred(data: bytes, place: Place) -> bool:
    """Whether all bytes at a place are overwritten."""
    return data[place.start : place.end] == STAR * place.length


def _in_cut_line(data: bytes, places: list[Place]) -> Iterable[Place]:
    """The places within a line of which long base64 was cut out."""
    shift = 0
    cuts = [(note.end(), int(note[1]) - len(note[0])) for note in _CUT.finditer(data)]
    for place in places:
        while cuts and place.start + shift >= next(iter(cuts))[0]:
            _, more = cuts.pop(0)
            shift -= more
        yield place.moved(shift)


def star(data: bytes, at: int, places: Iterable[Place]) -> bytes:
    """Bytes of a file from `at` on, with the secrets in them overwritten."""
    changed: bytearray | None = None
    for place in places:
        first, last = max(place.start - at, 0), min(place.end - at, len(data))
        if first < last:
            changed = bytearray(data) if changed is None else changed
            changed[first:last] = STAR * (last - first)
    return data if changed is None else bytes(changed)


def load_stars(conn: sqlite3.Connection, file_id: int) -> Stars:
    """What was overwritten in one generation of a file."""
    (version,) = conn.execute("PRAGMA user_version").fetchone()
    if version < STARS_SINCE:
        return NO_STARS
    places = conn.execute(
        "SELECT start, length, rule FROM masked WHERE file_id = ? ORDER BY start", (file_id,)
    ).fetchall()
    if not places:
        return NO_STARS
    lines = conn.execute("SELECT start, known_by FROM masked_lines WHERE file_id = ?", (file_id,))
    return Stars(tuple(map(Place._make, places)), dict(lines.fetchall()))


def count_stars(conn: sqlite3.Connection) -> int:
    """How many secrets were overwritten."""
    (version,) = conn.execute("PRAGMA user_version").fetchone()
    if version < STARS_SINCE:
        return 0
    (found,) = conn.execute("SELECT count(*) FROM masked").fetchone()
    return int(found)


def is_everywhere(conn: sqlite3.Connection) -> bool:
    """Whether all archived bytes were searched for secrets, not only those that came later."""
    row = conn.execute("SELECT 1 FROM meta WHERE key = ?", (EVERYWHERE,)).fetchone()
    return row is not None


def note_everywhere(conn: sqlite3.Connection, *, is_everywhere: bool) -> None:
    """Note whether all archived bytes were searched; in the caller's transaction."""
    if is_everywhere:
        conn.execute("INSERT OR REPLACE INTO meta VALUES (?, '1')", (EVERYWHERE,))
    else:
        conn.execute("DELETE FROM meta WHERE key = ?", (EVERYWHERE,))


def forget_stars(conn: sqlite3.Connection, file_ids: Iterable[int]) -> None:
    """Files are gone from the archive; in the caller's transaction."""
    ids = [(file_id,) for file_id in file_ids]
    for table in ("masked", "masked_lines"):
        conn.executemany(f"DELETE FROM {table} WHERE file_id = ?", ids)


def keep_stars_in(conn: sqlite3.Connection, file_id: int, data: bytes) -> None:
    """All bytes of a file are these now: forget places where nothing is overwritten any more."""
    stars = load_stars(conn, file_id)
    gone = [(file_id, place.start) for place in stars.places if not is_starred(data, place)]
    conn.executemany("DELETE FROM masked WHERE file_id = ? AND start = ?", gone)
    blank = [(file_id, at) for at in stars.known_by if data[at : at + 1] in (b" ", b"")]
    conn.executemany("DELETE FROM masked_lines WHERE file_id = ? AND start = ?", blank)


def note_stars(conn: sqlite3.Connection, file_id: int, found: Found) -> None:
    """Note what was found; in the transaction that overwrites it."""
    conn.executemany(
        "INSERT OR REPLACE INTO masked VALUES (?, ?, ?, ?)",
        [(file_id, *place) for place in found.places],
    )
    # What a line was known by before any of it was overwritten is kept.
    conn.executemany(
        "INSERT OR IGNORE INTO masked_lines VALUES (?, ?, ?)",
        [(file_id, start, known_by) for start, known_by in found.known_by.items()],
    )


def put_stars(conn: sqlite3.Connection, found: Mapping[int, Found]) -> list[str]:
    """Overwrite secrets in files, by their ids; in the caller's transaction.

    Frames and blocks are replaced, not edited. Returns what could not be read.
    """
    problems: list[str] = []
    blocks: set[int] = set()
    for file_id, one in found.items():
        note_stars(conn, file_id, one)
        for place in one.places:
            blocks.update(
                block_id
                for (block_id,) in conn.execute(
                    "SELECT block_id FROM parts WHERE file_id = ? AND start < ?"
                    " AND start + length > ?",
                    (file_id, place.end, place.start),
                )
            )
        _replace_frames(conn, file_id, one.places, problems)
    for block_id in sorted(blocks):
        _replace_block(conn, block_id, found, problems)
    for file_id in found:
        _mark_again(conn, file_id)
    return problems


def _replace_frames(
    conn: sqlite3.Connection, file_id: int, places: list[Place], problems: list[str]
) -> None:
    ids = {
        frame_id
        for place in places
        for (frame_id,) in conn.execute(
            "SELECT id FROM frames WHERE file_id = ? AND start < ? AND start + length > ?",
            (file_id, place.end, place.start),
        )
    }
    for frame_id in sorted(ids):
        start, length, packed = conn.execute(
            "SELECT start, length, data FROM frames WHERE id = ?", (frame_id,)
        ).fetchone()
        try:
            before = decompress(packed, length)
        except NotDecompressed:
            problems.append(f"frame {frame_id} is damaged, and was left as it is")
            continue
        data = star(before, start, places)
        if data == before:
            continue
        conn.execute("DELETE FROM frames WHERE id = ?", (frame_id,))
        conn.execute(
            "INSERT INTO frames (file_id, start, length, checksum, data) VALUES (?, ?, ?, ?, ?)",
            (file_id, start, length, checksum(data), compress_frame(data)),
        )


def _replace_block(
    conn: sqlite3.Connection, block_id: int, found: Mapping[int, Found], problems: list[str]
) -> None:
    project, length, packed, made_at = conn.execute(
        "SELECT project, length, data, made_at FROM blocks WHERE id = ?", (block_id,)
    ).fetchone()
    try:
        data = bytearray(decompress(packed, length))
    except NotDecompressed:
        problems.append(f"block {block_id} is damaged, and was left as it is")
        return
    parts = conn.execute(
        "SELECT id, at, file_id, start, length FROM parts WHERE block_id = ?", (block_id,)
    ).fetchall()
    changed: list[tuple[bytes, int]] = []  # checksum, part
    for part_id, at, file_id, start, size in parts:
        if file_id in found:
            before = bytes(data[at : at + size])
            after = star(before, start, found[file_id].places)
            if after != before:
                data[at : at + size] = after
                changed.append((checksum(after), part_id))
    if not changed:
        return
    new = compress_block(data)
    new_id = conn.execute(
        "INSERT INTO blocks (project, length, data, made_at, checksum) VALUES (?, ?, ?, ?, ?)",
        (project, length, new, made_at, checksum(new)),
    ).lastrowid
    conn.execute("UPDATE parts SET block_id = ? WHERE block_id = ?", (new_id, block_id))
    conn.executemany("UPDATE parts SET checksum = ? WHERE id = ?", changed)
    conn.execute("DELETE FROM blocks WHERE id = ?", (block_id,))


def _mark_again(conn: sqlite3.Connection, file_id: int) -> None:
    """A file is known by its archived bytes, so also by those that were overwritten."""
    reader = ArchiveReader(conn)
    for file in generations(conn, "WHERE id = ?", (file_id,)):
        try:
            mark = mark_by(
                lambda length, at, file=file: reader.read(file, at, at + length),  # type: ignore[misc]
                file.size,
            )
        except (DamagedBytes, *UNREADABLE):
            continue
        conn.execute("UPDATE files SET mark = ? WHERE id = ?", (mark, file_id))
