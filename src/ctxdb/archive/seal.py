"""Making the archive small while nothing else is going on.

Small frames of a file are merged when there is 1 MiB of them, or when the file has gone quiet. All
frames of a project that has been quiet are joined in blocks of at most 64 MiB and compressed well.
Each step is one transaction that writes the new bytes, checks them and drops the old ones.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from ctxdb.archive.add import FRAME_BYTES, checksum
from ctxdb.archive.archive_file import archive_transaction
from ctxdb.archive.compression import compress_block, compress_frame, decompress
from ctxdb.archive.read import ArchiveReader, Generation, generations
from ctxdb.errors import DamagedBytes

BLOCK_BYTES = 64 << 20  # before compression: all of it is in memory for a moment
SEAL_BYTES = 1 << 20  # a project with fewer unsealed bytes is not worth a block of its own yet
FREE_PAGES = 4096  # given back to the file system at a time


def merge_frames(conn: sqlite3.Connection, *, quiet_since: str) -> int:
    """Merge small frames of files that have 1 MiB of them or have been quiet; returns how many."""
    merged = 0
    files = conn.execute(
        "SELECT f.id FROM files f JOIN frames r ON r.file_id = f.id WHERE r.length < ?1"
        " GROUP BY f.id HAVING count(*) > 1 AND (sum(r.length) >= ?1 OR f.archived_at < ?2)",
        (FRAME_BYTES, quiet_since),
    ).fetchall()
    for (file_id,) in files:
        with archive_transaction(conn):
            merged += _merge_file(conn, file_id)
    return merged


def _merge_file(conn: sqlite3.Connection, file_id: int) -> int:
    (file,) = generations(conn, "WHERE id = ?", (file_id,))
    rows = conn.execute(
        "SELECT id, start, length FROM frames WHERE file_id = ? ORDER BY start", (file_id,)
    ).fetchall()
    groups: list[list[tuple[int, int, int]]] = [[]]
    size = 0
    for row in rows:
        _, _, length = row
        if size + length > FRAME_BYTES and groups[-1]:
            groups.append([])
            size = 0
        groups[-1].append(row)
        size += length
    merged = 0
    for group in groups:
        if len(group) > 1 and _merge_group(conn, file, group):
            merged += len(group)
    return merged


def _merge_group(
    conn: sqlite3.Connection, file: Generation, group: list[tuple[int, int, int]]
) -> bool:
    (_, start, _), (_, last_start, last_length) = group[0], group[-1]
    try:
        data = ArchiveReader(conn).read(file, start, last_start + last_length)
    except DamagedBytes:
        return False  # its frames stay as they are, for `archive verify` to name
    conn.executemany("DELETE FROM frames WHERE id = ?", [(id_,) for id_, _, _ in group])
    conn.execute(
        "INSERT INTO frames (file_id, start, length, checksum, data) VALUES (?, ?, ?, ?, ?)",
        (file.id, start, len(data), checksum(data), compress_frame(data)),
    )
    return True


def seal_projects(
    conn: sqlite3.Connection,
    now: str,
    *,
    quiet_since: str,
    smallest: int = SEAL_BYTES,
    is_time_to_stop: Callable[[], bool] = lambda: False,
) -> int:
    """Seal the frames of projects that have been quiet; returns how many blocks were made."""
    projects = conn.execute(
        "SELECT f.project FROM files f JOIN frames r ON r.file_id = f.id GROUP BY f.project"
        " HAVING max(f.archived_at) < ? AND sum(r.length) >= ? ORDER BY f.project",
        (quiet_since, smallest),
    ).fetchall()
    made = 0
    for (project,) in projects:
        while not is_time_to_stop() and _seal_block(conn, project, now):
            made += 1
    _give_back_pages(conn)
    return made


def _seal_block(conn: sqlite3.Connection, project: str, now: str) -> bool:
    """Make one block of the oldest frames of a project; False when none is left."""
    frames = conn.execute(
        "SELECT r.id, r.file_id, r.start, r.length FROM frames r JOIN files f ON f.id = r.file_id"
        " WHERE f.project = ? ORDER BY f.path, f.generation, r.start",
        (project,),
    ).fetchall()
    reader = ArchiveReader(conn)
    files = {file.id: file for file in generations(conn, "WHERE project = ?", (project,))}
    taken: list[int] = []
    parts: list[tuple[int, int, int, int, bytes]] = []  # at, file_id, start, length, checksum
    data = bytearray()
    for frame_id, file_id, start, length in frames:
        if len(data) + length > BLOCK_BYTES and data:
            break
        try:
            piece = reader.read(files[file_id], start, start + length)
        except DamagedBytes:
            continue
        parts.append((len(data), file_id, start, length, checksum(piece)))
        data += piece
        taken.append(frame_id)
    if not taken:
        return False
    packed = compress_block(bytes(data))
    if decompress(packed, len(data)) != data:
        raise AssertionError("zstd does not give back what it was given")
    with archive_transaction(conn):
        block = conn.execute(
            "INSERT INTO blocks (project, length, data, made_at) VALUES (?, ?, ?, ?)",
            (project, len(data), packed, now),
        ).lastrowid
        conn.executemany("DELETE FROM frames WHERE id = ?", [(id_,) for id_ in taken])
        conn.executemany(
            "INSERT INTO parts (block_id, at, file_id, start, length, checksum)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            [(block, *part) for part in parts],
        )
    return True


def _give_back_pages(conn: sqlite3.Connection) -> None:
    """Return free pages to the file system, a few at a time."""
    while True:
        (free,) = conn.execute("PRAGMA freelist_count").fetchone()
        if not free:
            break
        conn.execute(f"PRAGMA incremental_vacuum({FREE_PAGES})").fetchall()
        (left,) = conn.execute("PRAGMA freelist_count").fetchone()
        if left >= free:
            break
    conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
