"""Joining small frames of a file into larger ones, which compress better.

The daemon adds a frame for a few lines at a time. When 1 MiB of small frames has come together, or
when the file has gone quiet, they become one frame. The new frame is written and the old ones are
dropped in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ctxdb.archive.archive_file import archive_transaction
from ctxdb.archive.compression import checksum, compress_frame
from ctxdb.archive.read import ArchiveReader, Generation, generations
from ctxdb.errors import DamagedBytes

FRAME_BYTES = 1 << 20  # of a file in one frame, before compression


class _Frame(NamedTuple):
    id: int
    start: int
    length: int


def merge_if_enough(conn: sqlite3.Connection, file_id: int) -> None:
    """Merge the small frames of a file if there is 1 MiB of them; the caller has a transaction."""
    (small,) = conn.execute(
        "SELECT sum(length) FROM frames WHERE file_id = ? AND length < ?", (file_id, FRAME_BYTES)
    ).fetchone()
    if (small or 0) >= FRAME_BYTES:
        _merge_file(conn, file_id)


def files_to_merge(conn: sqlite3.Connection, quiet_since: str) -> list[int]:
    """Quiet files that have several small frames, and those with 1 MiB of them."""
    rows = conn.execute(
        "SELECT f.id FROM files f JOIN frames r ON r.file_id = f.id WHERE r.length < ?1"
        " GROUP BY f.id HAVING count(*) > 1 AND (sum(r.length) >= ?1 OR f.archived_at < ?2)",
        (FRAME_BYTES, quiet_since),
    )
    return [file_id for (file_id,) in rows]


def merge_frames(
    conn: sqlite3.Connection,
    *,
    quiet_since: str,
    is_time_to_stop: Callable[[], bool] = lambda: False,
) -> int:
    """Merge small frames of files that have 1 MiB of them or have been quiet; returns how many."""
    merged = 0
    for file_id in files_to_merge(conn, quiet_since):
        if is_time_to_stop():
            break
        with archive_transaction(conn):
            merged += _merge_file(conn, file_id)
    return merged


def _merge_file(conn: sqlite3.Connection, file_id: int) -> int:
    (file,) = generations(conn, "WHERE id = ?", (file_id,))
    merged = 0
    for group in _groups(conn, file_id):
        if len(group) > 1 and _merge_group(conn, file, group):
            merged += len(group)
    return merged


def _groups(conn: sqlite3.Connection, file_id: int) -> Iterator[list[_Frame]]:
    """Neighbouring frames that are not larger than one frame may be."""
    rows = conn.execute(
        "SELECT id, start, length FROM frames WHERE file_id = ? ORDER BY start", (file_id,)
    ).fetchall()
    group: list[_Frame] = []
    size = 0
    for frame in map(_Frame._make, rows):
        is_next = bool(group) and group[-1].start + group[-1].length == frame.start
        if group and (not is_next or size + frame.length > FRAME_BYTES):
            yield group
            group, size = [], 0
        group.append(frame)
        size += frame.length
    yield group


def _merge_group(conn: sqlite3.Connection, file: Generation, group: list[_Frame]) -> bool:
    first, last = group[0], group[-1]
    try:
        data = ArchiveReader(conn).read(file, first.start, last.start + last.length)
    except DamagedBytes:
        return False  # its frames stay as they are, for `archive verify` to name
    conn.executemany("DELETE FROM frames WHERE id = ?", [(frame.id,) for frame in group])
    conn.execute(
        "INSERT INTO frames (file_id, start, length, checksum, data) VALUES (?, ?, ?, ?, ?)",
        (file.id, first.start, len(data), checksum(data), compress_frame(data)),
    )
    return True
