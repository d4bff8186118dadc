"""Checking the archive: every checksum, and every source that still exists byte by byte."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ctxdb.archive.blank import is_blanked
from ctxdb.archive.compression import checksum
from ctxdb.archive.read import UNREADABLE, ArchiveReader, Generation, generations
from ctxdb.archive.sources import HISTORY
from ctxdb.archive.stars import count_stars, load_stars, star
from ctxdb.errors import DamagedBytes
from ctxdb.files.identity import open_regular, pread

BLOCK_CHECKSUMS = 2  # version of the archive from which on blocks have checksums


@dataclass(slots=True)
class Checked:
    """What was found."""

    files: int = 0
    bytes: int = 0
    compared: int = 0  # files whose source still exists
    damaged: list[str] = field(default_factory=list)  # which bytes of which file
    different: list[str] = field(default_factory=list)  # sources that are not as archived
    behind: int = 0  # bytes of sources that are not archived yet
    overwritten: int = 0  # secrets that are not archived, and so not compared

    @property
    def ok(self) -> bool:
        """Whether everything that is archived can be restored."""
        return not self.damaged


def check_archive(
    conn: sqlite3.Connection, advance: Callable[[int], None], *, compare_sources: bool = True
) -> Checked:
    """Check everything. `advance` is told how many bytes were checked."""
    checked = Checked()
    reader = ArchiveReader(conn)
    newest: dict[str, int] = {}
    files = generations(conn)
    for file in files:
        newest[file.path] = file.generation
    for file in files:
        checked.files += 1
        checked.bytes += file.size
        damaged = [*reader.damaged(file)]
        checked.damaged += map(str, damaged)
        if compare_sources and file.generation == newest[file.path] and not damaged:
            _compare_source(reader, file, checked)
        advance(file.size)
    checked.damaged += _damaged_blocks(conn)
    checked.overwritten = count_stars(conn)
    return checked


def _damaged_blocks(conn: sqlite3.Connection) -> Iterator[str]:
    """Blocks whose compressed bytes have changed, even if what they hold can still be read."""
    (version,) = conn.execute("PRAGMA user_version").fetchone()
    if version < BLOCK_CHECKSUMS:
        return
    ids = conn.execute("SELECT id FROM blocks WHERE checksum IS NOT NULL ORDER BY id").fetchall()
    for (block_id,) in ids:
        try:
            data, wanted = conn.execute(
                "SELECT data, checksum FROM blocks WHERE id = ?", (block_id,)
            ).fetchone()
            is_intact = checksum(data) == wanted
        except UNREADABLE:
            is_intact = False
        if not is_intact:
            yield f"block {block_id} is damaged in the archive"


def _compare_source(reader: ArchiveReader, file: Generation, checked: Checked) -> None:
    try:
        fd = open_regular(file.open_path)
    except OSError:
        return
    try:
        checked.compared += 1
        at = 0
        places = load_stars(reader.conn, file.id).places
        for piece in reader.pieces(file):
            found = star(pread(fd, len(piece), at), at, places)
            if found != piece and not (file.kind == HISTORY and is_blanked(piece, found)):
                checked.different.append(
                    f"{file.path}: differs from the archive between bytes {at} and"
                    f" {at + len(piece)}; it was rewritten, and the next sync archives it"
                )
                return
            at += len(piece)
        checked.behind += max(os.fstat(fd).st_size - at, 0)
    except (OSError, DamagedBytes) as e:
        checked.different.append(f"{file.path}: {e}")
    finally:
        os.close(fd)
