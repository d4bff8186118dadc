"""Checking the archive: every checksum, and every source that still exists byte by byte."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field

from ctxdb.archive.read import ArchiveReader, Generation, generations
from ctxdb.errors import DamagedBytes
from ctxdb.files.identity import open_regular, pread


@dataclass(slots=True)
class Checked:
    """What was found."""

    files: int = 0
    bytes: int = 0
    compared: int = 0  # files whose source still exists
    damaged: list[str] = field(default_factory=list)  # which bytes of which file
    different: list[str] = field(default_factory=list)  # sources that are not as archived
    behind: int = 0  # bytes of sources that are not archived yet

    @property
    def ok(self) -> bool:
        """Whether everything that is archived can be restored."""
        return not self.damaged


def check_archive(conn: sqlite3.Connection, advance: Callable[[int], None]) -> Checked:
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
        if file.generation == newest[file.path] and not damaged:
            _compare_source(reader, file, checked)
        advance(file.size)
    return checked


def _compare_source(reader: ArchiveReader, file: Generation, checked: Checked) -> None:
    try:
        fd = open_regular(file.open_path)
    except OSError:
        return
    try:
        checked.compared += 1
        at = 0
        for piece in reader.pieces(file):
            if pread(fd, len(piece), at) != piece:
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
