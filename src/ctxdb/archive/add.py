"""Adding the bytes of files to the archive: what is new in each, after it is indexed.

The archive reads the files itself, apart from the ingest: a file that the archive has not caught up
with is simply read on from where the archive is. Bytes are added up to the last newline. The rest
of an unfinished last line is added when the file has been quiet for a while.

A file that has not only grown is compared with the archived bytes by their checksums. If they
differ, it was rewritten: a new generation starts, and the old bytes stay. A file that was renamed
keeps its archived bytes, under its new path.

With `redact.archive`, secrets are overwritten before they are archived (stars.py). Lines are then
searched as a whole, so a frame ends where a line ends.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ctxdb.archive.archive_file import archive_transaction
from ctxdb.archive.blank import is_blanked
from ctxdb.archive.compression import checksum, compress_frame
from ctxdb.archive.merge import FRAME_BYTES, merge_if_enough
from ctxdb.archive.sources import GROW_BY_LINES, Source, complete, project_of, without_secrets
from ctxdb.archive.stars import (
    NO_STARS,
    Found,
    Stars,
    load_stars,
    note_everywhere,
    note_stars,
    put_stars,
    star,
)
from ctxdb.errors import DamagedBytes
from ctxdb.files.identity import mark_by, open_regular, pread
from ctxdb.files.walk import store_path

TRANSACTION_BYTES = 16 << 20  # added before a commit
QUIET_SECONDS = 60.0  # after which an unfinished last line is archived as it is


@dataclass(slots=True)
class Added:
    """What was done."""

    files: int = 0  # with new bytes
    bytes: int = 0
    rewritten: int = 0
    problems: list[str] = field(default_factory=list)  # path: reason
    is_complete: bool = True  # nothing was left for another time

    def add(self, other: Added) -> None:
        """Count what was done besides."""
        self.files += other.files
        self.bytes += other.bytes
        self.rewritten += other.rewritten
        self.problems += other.problems
        self.is_complete = self.is_complete and other.is_complete


class ArchivedFile(NamedTuple):
    """The newest generation of a file in the archive."""

    id: int
    generation: int
    size: int
    mark: bytes | None
    stat: bytes | None
    has_all: int


def add_files(
    conn: sqlite3.Connection,
    sources: Iterable[Source],
    now: str,
    *,
    most_bytes: int | None = None,
) -> Added:
    """Add what is new in these files. One file that cannot be read does not stop the others.

    With `most_bytes` it stops after about so many; `is_complete` says whether anything is left.
    """
    added = Added()
    batch = _Batch(conn, now, added, most_bytes)
    with batch:
        is_new = conn.execute("SELECT 1 FROM files LIMIT 1").fetchone() is None
        for source in sources:
            if batch.is_full:
                added.is_complete = False
                break
            before = added.bytes
            try:
                _add_file(batch, source)
                if added.bytes > before and (is_new or source.find_secrets is None):
                    note_everywhere(conn, is_everywhere=source.find_secrets is not None)
                    is_new = False
            except OSError as e:
                if not isinstance(e, FileNotFoundError):
                    added.problems.append(f"{store_path(source.path)[0]}: {e.strerror or e}")
    return added


class _Batch:
    """Collects frames in transactions of a bounded size."""

    def __init__(
        self, conn: sqlite3.Connection, now: str, added: Added, most_bytes: int | None
    ) -> None:
        self.conn = conn
        self.now = now
        self.added = added
        self.most_bytes = most_bytes
        self.waiting = 0  # bytes that are not committed
        self.transaction = archive_transaction(conn)
        self.is_open = False

    def __enter__(self) -> None:
        self._begin()

    def __exit__(self, *error: object) -> None:
        if self.is_open:
            self.is_open = False
            self.transaction.__exit__(*error)  # type: ignore[arg-type]

    def _begin(self) -> None:
        self.transaction = archive_transaction(self.conn)
        self.transaction.__enter__()
        self.is_open = True

    @property
    def is_full(self) -> bool:
        """Whether the rest is left for another time."""
        return self.most_bytes is not None and self.added.bytes >= self.most_bytes

    def count(self, size: int) -> None:
        """Note that bytes were added; commits when there are enough of them."""
        self.added.bytes += size
        self.waiting += size
        if self.waiting >= TRANSACTION_BYTES:
            self.waiting = 0
            self.__exit__(None, None, None)
            self._begin()


def _add_file(batch: _Batch, source: Source) -> None:
    known = _newest(batch.conn, source.path)
    found = os.lstat(source.path)
    packed = _pack_stat(found)
    is_quiet = time.time() - found.st_mtime > QUIET_SECONDS
    if known is not None and known.stat == packed and (known.has_all or not is_quiet):
        return
    fd = open_regular(source.path)
    try:
        now = os.fstat(fd)
        if known is None:
            known = _renamed(batch.conn, source, now, fd)
        if known is not None and not _is_continued(batch.conn, source, known, now, fd):
            batch.added.rewritten += 1
            known = _start(batch, source, known.generation + 1)
        if known is None:
            known = _start(batch, source, 1)
        takes_all = is_quiet or source.kind not in GROW_BY_LINES
        _append(batch, source, known, fd, now, takes_all=takes_all)
    finally:
        os.close(fd)


def _newest(conn: sqlite3.Connection, path: str) -> ArchivedFile | None:
    row = conn.execute(
        "SELECT id, generation, size, mark, stat, has_all FROM files WHERE path = ?"
        " ORDER BY generation DESC LIMIT 1",
        (store_path(path)[0],),
    ).fetchone()
    return ArchivedFile(*row) if row else None


def _renamed(
    conn: sqlite3.Connection, source: Source, now: os.stat_result, fd: int
) -> ArchivedFile | None:
    """The file that had another path before: the same inode and bytes, and nothing at that path."""
    rows = conn.execute(
        "SELECT path, path_bytes FROM files WHERE substr(stat, 1, 16) = ? ORDER BY id DESC",
        (_pack_stat(now)[:_INODE_BYTES],),
    ).fetchall()
    for path, path_bytes in rows:
        known = _newest(conn, os.fsdecode(path_bytes or path))
        if known is None or not known.size or os.path.lexists(path_bytes or path):
            continue
        if now.st_size < known.size or not begins_with_archived(conn, known.id, fd):
            continue
        conn.execute(
            "UPDATE files SET path = ?, path_bytes = ?, root = ?, session_id = ?, project = ?"
            " WHERE path = ?",
            (
                *store_path(source.path),
                *(store_path(source.root)[0], source.session_id, project_of(source), path),
            ),
        )
        return known
    return None


def _start(batch: _Batch, source: Source, generation: int) -> ArchivedFile:
    path, path_bytes = store_path(source.path)
    root, _ = store_path(source.root)
    row = batch.conn.execute(
        "INSERT INTO files (path, path_bytes, root, kind, session_id, project, generation,"
        " first_at, archived_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(path, path_bytes, root, source.kind, source.session_id, project_of(source)),
            *(generation, batch.now, batch.now),
        ),
    )
    return ArchivedFile(row.lastrowid or 0, generation, 0, None, None, 0)


def _is_continued(
    conn: sqlite3.Connection, source: Source, known: ArchivedFile, now: os.stat_result, fd: int
) -> bool:
    """Whether the file still begins with the archived bytes."""
    if now.st_size < known.size:
        return False
    stars = load_stars(conn, known.id)
    if known.size and _mark(fd, known.size, stars) != known.mark:
        return False
    if source.is_left_out is not None and _is_blanked(conn, known, fd):
        return True
    if known.stat is not None:
        before = _unpack_stat(known.stat)
        is_same_file = (before.dev, before.ino) == (now.st_dev, now.st_ino)
        if is_same_file and now.st_size > before.size:
            return True  # appended
    return begins_with_archived(conn, known.id, fd)


def begins_with_archived(conn: sqlite3.Connection, file_id: int, fd: int) -> bool:
    """Compare all archived bytes of a file with an open file, by their checksums."""
    rows = conn.execute(
        "SELECT start, length, checksum FROM frames WHERE file_id = ?1 UNION ALL"
        " SELECT start, length, checksum FROM parts WHERE file_id = ?1",
        (file_id,),
    )
    places = load_stars(conn, file_id).places
    return all(
        checksum(star(pread(fd, length, start), start, places)) == known
        for start, length, known in rows
    )


def _mark(fd: int, offset: int, stars: Stars) -> bytes:
    """As `mark_of`, of the bytes as they are archived."""
    return mark_by(lambda length, at: star(pread(fd, length, at), at, stars.places), offset)


def _append(
    batch: _Batch,
    source: Source,
    known: ArchivedFile,
    fd: int,
    now: os.stat_result,
    *,
    takes_all: bool,
) -> None:
    at = known.size
    added = 0
    stars = load_stars(batch.conn, known.id) if at else NO_STARS
    end = now.st_size if source.end is None else source.end
    while data := _within(source, at, pread(fd, FRAME_BYTES, at)):
        is_last = len(data) < FRAME_BYTES
        data = complete(source, fd, at, data, is_last=is_last, takes_all=takes_all)
        data = _within(source, at, data)
        if data:
            data, found = without_secrets(source, fd, at, data)
            if found.places:
                stars = Stars((*stars.places, *found.places))
                _note_secrets(batch, known.id, at, found)
            batch.conn.execute(
                "INSERT INTO frames (file_id, start, length, checksum, data)"
                " VALUES (?, ?, ?, ?, ?)",
                (known.id, at, len(data), checksum(data), compress_frame(data)),
            )
            at += len(data)
            added += len(data)
            # Until its end is reached, it is noted as a file that was shorter then: so whatever
            # happens, the rest is added the next time.
            batch.conn.execute(
                "UPDATE files SET size = ?, mark = ?, stat = ?, archived_at = ? WHERE id = ?",
                (at, _mark(fd, at, stars), _pack_stat(now, at), batch.now, known.id),
            )
            batch.count(len(data))
        if is_last or not data:
            break
        if batch.is_full:
            batch.added.is_complete = False
            return
    batch.conn.execute(
        "UPDATE files SET stat = ?, has_all = ? WHERE id = ?",
        # A file that is not archived to its end is noted as a shorter one: should it be, some day.
        (_pack_stat(now, min(end, now.st_size)), at >= min(end, now.st_size), known.id),
    )
    if added:
        batch.added.files += 1
        if added < FRAME_BYTES:
            merge_if_enough(batch.conn, known.id)


def _within(source: Source, at: int, data: bytes) -> bytes:
    """What may be archived of the bytes at a place."""
    return data if source.end is None else data[: max(source.end - at, 0)]


def _note_secrets(batch: _Batch, file_id: int, at: int, found: Found) -> None:
    if any(place.start < at for place in found.places):
        # Part of it is archived already: the line was not finished then.
        batch.added.problems += put_stars(batch.conn, {file_id: found})
    else:
        note_stars(batch.conn, file_id, found)


def _is_blanked(conn: sqlite3.Connection, known: ArchivedFile, fd: int) -> bool:
    """Whether a file still begins with the archived bytes, but for lines that were left out."""
    from ctxdb.archive.read import ArchiveReader, generations

    at = 0
    places = load_stars(conn, known.id).places
    try:
        for file in generations(conn, "WHERE id = ?", (known.id,)):
            for piece in ArchiveReader(conn).pieces(file):
                if not is_blanked(piece, star(pread(fd, len(piece), at), at, places)):
                    return False
                at += len(piece)
    except DamagedBytes:
        return False
    return True


class _Stat(NamedTuple):
    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int


_STAT = struct.Struct("<QQQqq")
_INODE_BYTES = 16  # of it are device and inode, as in the index files_by_inode


def _pack_stat(now: os.stat_result, size: int | None = None) -> bytes:
    size = now.st_size if size is None else size
    return _STAT.pack(now.st_dev, now.st_ino, size, now.st_mtime_ns, now.st_ctime_ns)


def _unpack_stat(packed: bytes) -> _Stat:
    return _Stat(*_STAT.unpack(packed))
