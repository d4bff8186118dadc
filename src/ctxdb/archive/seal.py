"""Making the archive small while nothing else is going on.

All frames of a project that has been quiet are joined in blocks of at most 64 MiB and compressed
well. Blocks of the project that are smaller than what is new are taken along, so that it does not
end up with many small ones; a byte is then compressed again a few times at most. Each block is one
transaction that writes the new bytes and drops the old ones, so it can be interrupted at any time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ctxdb.archive.archive_file import archive_transaction
from ctxdb.archive.compression import checksum, compress_block
from ctxdb.archive.merge import files_to_merge
from ctxdb.archive.read import UNREADABLE, ArchiveReader, generations
from ctxdb.errors import DamagedBytes

BLOCK_BYTES = 64 << 20  # before compression: all of it is in memory for a moment
SEAL_BYTES = 1 << 20  # a project with fewer unsealed bytes is not worth a block of its own yet
FREE_PAGES = 16_384  # given back to the file system at a time


class _Part(NamedTuple):
    """Bytes of a file in a block that is being made."""

    at: int
    file_id: int
    start: int
    length: int
    checksum: bytes


@dataclass(slots=True)
class _Block:
    """A block that is being made, and what it replaces."""

    data: bytearray = field(default_factory=bytearray)
    parts: list[_Part] = field(default_factory=list)
    frames: list[tuple[int]] = field(default_factory=list)  # ids
    blocks: list[tuple[int]] = field(default_factory=list)  # ids


def seal_projects(
    conn: sqlite3.Connection,
    now: str,
    *,
    quiet_since: str,
    smallest: int = SEAL_BYTES,
    is_time_to_stop: Callable[[], bool] = lambda: False,
) -> int:
    """Seal the frames of projects that have been quiet; returns how many blocks were made."""
    made = 0
    for project in projects_to_seal(conn, quiet_since, smallest):
        while not is_time_to_stop() and _seal_block(conn, project, now, is_time_to_stop):
            made += 1
    _give_back_pages(conn, is_time_to_stop)
    return made


def projects_to_seal(
    conn: sqlite3.Connection, quiet_since: str, smallest: int = SEAL_BYTES
) -> list[str]:
    """Projects that have been quiet and have enough unsealed bytes."""
    rows = conn.execute(
        "SELECT f.project FROM files f JOIN frames r ON r.file_id = f.id GROUP BY f.project"
        " HAVING max(f.archived_at) < ? AND sum(r.length) >= ? ORDER BY f.project",
        (quiet_since, smallest),
    )
    return [project for (project,) in rows]


def has_work(conn: sqlite3.Connection, *, merge_quiet: str, seal_quiet: str) -> bool:
    """Whether frames can be merged or sealed."""
    return bool(files_to_merge(conn, merge_quiet) or projects_to_seal(conn, seal_quiet))


def _seal_block(
    conn: sqlite3.Connection, project: str, now: str, is_time_to_stop: Callable[[], bool]
) -> bool:
    """Make one block of the oldest frames of a project; False when none is left."""
    block = _Block()
    _take_blocks(conn, project, block)
    _take_frames(conn, project, block)
    if not block.frames:
        return False
    packed = compress_block(block.data)
    if is_time_to_stop():
        return False
    with archive_transaction(conn):
        block_id = conn.execute(
            "INSERT INTO blocks (project, length, data, made_at, checksum) VALUES (?, ?, ?, ?, ?)",
            (project, len(block.data), packed, now, checksum(packed)),
        ).lastrowid
        conn.executemany("DELETE FROM frames WHERE id = ?", block.frames)
        conn.executemany("DELETE FROM parts WHERE block_id = ?", block.blocks)
        conn.executemany("DELETE FROM blocks WHERE id = ?", block.blocks)
        conn.executemany(
            "INSERT INTO parts (block_id, at, file_id, start, length, checksum)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            [(block_id, *part) for part in block.parts],
        )
    return True


def _take_blocks(conn: sqlite3.Connection, project: str, block: _Block) -> None:
    """Begin with the project's blocks that are smaller than what follows."""
    (total,) = conn.execute(
        "SELECT coalesce(sum(r.length), 0) FROM frames r JOIN files f ON f.id = r.file_id"
        " WHERE f.project = ?",
        (project,),
    ).fetchone()
    reader = ArchiveReader(conn)
    rows = conn.execute(
        "SELECT id, length FROM blocks WHERE project = ? ORDER BY length", (project,)
    ).fetchall()
    for block_id, length in rows:
        if length >= total or total + length > BLOCK_BYTES:
            break
        parts = _intact_parts(conn, reader, block_id)
        if parts is None:
            continue  # it stays, for `archive verify` to name
        base = len(block.data)
        block.data += reader.block_data(block_id)
        block.parts += (part._replace(at=base + part.at) for part in parts)
        block.blocks.append((block_id,))
        total += length


def _intact_parts(
    conn: sqlite3.Connection, reader: ArchiveReader, block_id: int
) -> list[_Part] | None:
    """The parts of a block; None if any of them is damaged."""
    rows = conn.execute(
        "SELECT at, file_id, start, length, checksum FROM parts WHERE block_id = ?", (block_id,)
    ).fetchall()
    try:
        data = memoryview(reader.block_data(block_id))
    except UNREADABLE:
        return None
    parts = [*map(_Part._make, rows)]
    is_intact = all(checksum(data[p.at : p.at + p.length]) == p.checksum for p in parts)
    return parts if is_intact else None


def _take_frames(conn: sqlite3.Connection, project: str, block: _Block) -> None:
    frames = conn.execute(
        "SELECT r.id, r.file_id, r.start, r.length FROM frames r JOIN files f ON f.id = r.file_id"
        " WHERE f.project = ? ORDER BY f.path, f.generation, r.start",
        (project,),
    ).fetchall()
    reader = ArchiveReader(conn)
    files = {file.id: file for file in generations(conn, "WHERE project = ?", (project,))}
    for frame_id, file_id, start, length in frames:
        if len(block.data) + length > BLOCK_BYTES and block.frames:
            break
        try:
            piece = reader.read(files[file_id], start, start + length)
        except DamagedBytes:
            continue
        block.parts.append(_Part(len(block.data), file_id, start, length, checksum(piece)))
        block.data += piece
        block.frames.append((frame_id,))


def _give_back_pages(conn: sqlite3.Connection, is_time_to_stop: Callable[[], bool]) -> None:
    """Return free pages to the file system, a few at a time."""
    while not is_time_to_stop():
        (free,) = conn.execute("PRAGMA freelist_count").fetchone()
        if not free:
            break
        conn.execute(f"PRAGMA incremental_vacuum({FREE_PAGES})").fetchall()
        (left,) = conn.execute("PRAGMA freelist_count").fetchone()
        if left >= free:
            break
    conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
