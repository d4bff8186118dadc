"""Copies the bytes of another archive into this one.

Which generation of which file bytes belong to is decided by the bytes: if they continue what is
here, or are the same, they are of that generation. So copying twice adds nothing, and copying from
an archive that has grown adds what is new.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from ctxdb.archive.add import begins_with_archived
from ctxdb.archive.archive_file import archive_transaction
from ctxdb.archive.compression import checksum, compress_frame
from ctxdb.archive.merge import FRAME_BYTES
from ctxdb.archive.opening import stat_of
from ctxdb.archive.read import ArchiveReader, Generation, generations
from ctxdb.archive.sources import Source, project_of
from ctxdb.archive.stars import Found, Stars, load_stars, note_stars
from ctxdb.errors import DamagedBytes
from ctxdb.files.identity import mark_of, pread
from ctxdb.files.walk import pack, store_path, text_of, unpack

# The name and root that a file gets here; None: it is left out.
Renamed = Callable[[Generation], tuple[str, str] | None]
# What is kept of a file's bytes, in an open file; None: nothing.
Kept = Callable[[Generation, str, str, BinaryIO], BinaryIO | None]


@dataclass(slots=True)
class Absorbed:
    """What was copied."""

    files: int = 0  # with new bytes
    bytes: int = 0
    damaged: dict[str, int] = field(default_factory=dict)  # name there: bytes before the damage


def absorb(
    theirs: sqlite3.Connection,
    ours: sqlite3.Connection,
    folder: Path,
    renamed: Renamed,
    kept: Kept,
    now: str,
    advance: Callable[[int], None],
) -> Absorbed:
    """Copy all files, each in a transaction of its own. Open files are made in `folder`."""
    done = Absorbed()
    reader = ArchiveReader(theirs)
    for file in generations(theirs):
        name, root = renamed(file) or (None, "")
        if name is not None and not _has_all(ours, text_of(name), theirs, file):
            with tempfile.TemporaryFile(dir=folder, prefix=".ctxdb-") as out:
                _write(reader, file, out, done)
                data = kept(file, name, root, out)
                if data is not None:
                    stars = load_stars(theirs, file.id)
                    copied = _Copied(file, name, root, stat_of(theirs, file), stars)
                    with archive_transaction(ours):
                        _add(ours, copied, data, now, done)
        advance(file.size)
    return done


@dataclass(frozen=True, slots=True)
class _Copied:
    """A file of the other archive, under its name here."""

    file: Generation
    name: str
    root: str
    stat: bytes | None
    stars: Stars  # what is overwritten in it


def _has_all(
    ours: sqlite3.Connection, name: str, theirs: sqlite3.Connection, file: Generation
) -> bool:
    """Whether a generation of the file here has these bytes: by size and mark, nothing is read."""
    (mark,) = theirs.execute("SELECT mark FROM files WHERE id = ?", (file.id,)).fetchone()
    same = "SELECT 1 FROM files WHERE path = ? AND size = ? AND mark IS ? LIMIT 1"
    return ours.execute(same, (name, file.size, mark)).fetchone() is not None


def _write(reader: ArchiveReader, file: Generation, out: BinaryIO, done: Absorbed) -> None:
    try:
        out.writelines(reader.pieces(file))
    except DamagedBytes:
        out.flush()
        done.damaged[file.path] = os.fstat(out.fileno()).st_size
    out.flush()


def _add(
    ours: sqlite3.Connection, copied: _Copied, data: BinaryIO, now: str, done: Absorbed
) -> None:
    fd = data.fileno()
    size = os.fstat(fd).st_size
    path, _ = store_path(copied.name)
    last = 0
    for known in reversed(generations(ours, "WHERE path = ?", (path,))):
        last = max(last, known.generation)
        if known.size <= size:
            if begins_with_archived(ours, known.id, fd):
                _append(ours, known.id, known.size, fd, copied, now, done)
                return
        elif _is_begun(ours, known, fd, size):
            return  # there is more of it here
    _append(ours, _start(ours, copied, last + 1, now), 0, fd, copied, now, done)


def _is_begun(ours: sqlite3.Connection, known: Generation, fd: int, size: int) -> bool:
    """Whether a longer generation begins with the bytes of an open file."""
    at = 0
    try:
        for piece in ArchiveReader(ours).pieces(known, 0, size):
            if pread(fd, len(piece), at) != piece:
                return False
            at += len(piece)
    except DamagedBytes:
        return False
    return True


def _start(ours: sqlite3.Connection, copied: _Copied, generation: int, now: str) -> int:
    path, path_bytes = store_path(copied.name)
    root, _ = store_path(copied.root)
    source = Source(copied.name, copied.root, copied.file.kind, copied.file.session_id)
    row = ours.execute(
        "INSERT INTO files (path, path_bytes, root, kind, session_id, project, generation,"
        " first_at, archived_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(path, path_bytes, root, source.kind, source.session_id, project_of(source)),
            *(generation, now, now),
        ),
    )
    return row.lastrowid or 0


def _append(
    ours: sqlite3.Connection,
    file_id: int,
    start: int,
    fd: int,
    copied: _Copied,
    now: str,
    done: Absorbed,
) -> None:
    at = start
    if start and os.fstat(fd).st_size <= start:
        return
    for data in _frames(fd, start):
        ours.execute(
            "INSERT INTO frames (file_id, start, length, checksum, data) VALUES (?, ?, ?, ?, ?)",
            (file_id, at, len(data), checksum(data), compress_frame(data)),
        )
        at += len(data)
    # The digests of these lines are not taken: they were made with a key of the other database.
    places = [place for place in copied.stars.places if start <= place.start < at]
    if places:
        note_stars(ours, file_id, Found(places, {}))
    # Its inode is of another machine and would be mistaken for one of this machine.
    _, _, size, mtime_ns, ctime_ns = unpack(copied.stat)
    ours.execute(
        "UPDATE files SET size = ?, mark = ?, stat = ?, has_all = 1, archived_at = ? WHERE id = ?",
        (at, mark_of(fd, at), pack((0, 0, size, mtime_ns, ctime_ns)), now, file_id),
    )
    done.files += 1
    done.bytes += at - start


def _frames(fd: int, start: int) -> Iterator[bytes]:
    at = start
    while data := pread(fd, FRAME_BYTES, at):
        yield data
        at += len(data)
