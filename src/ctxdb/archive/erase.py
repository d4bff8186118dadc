"""Taking bytes out of the archive for good, because their owner wants them forgotten.

A block is replaced by one without them. Lines of history.jsonl become blanks of the same length, so
that every other byte stays where it was. Freed pages are overwritten (secure_delete) and given back
to the file system.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ctxdb.archive.archive_file import archive_transaction
from ctxdb.archive.blank import LeftOut, blank
from ctxdb.archive.compression import (
    NotDecompressed,
    checksum,
    compress_block,
    compress_frame,
    decompress,
)
from ctxdb.archive.merge import FRAME_BYTES
from ctxdb.archive.read import ArchiveReader, Generation, generations
from ctxdb.archive.sources import HISTORY
from ctxdb.archive.stars import forget_stars, keep_stars_in
from ctxdb.errors import DamagedBytes
from ctxdb.page_gaps import clear_gaps


@dataclass(slots=True)
class Erased:
    """What was taken out."""

    files: int = 0
    bytes: int = 0  # before compression
    lines: int = 0  # of history.jsonl
    problems: list[str] = field(default_factory=list)


def erase_files(
    conn: sqlite3.Connection,
    is_gone: Callable[[Generation], bool],
    is_left_out: LeftOut | None = None,
) -> Erased:
    """Take out whole files, and lines of history.jsonl."""
    conn.execute("PRAGMA secure_delete = ON")
    erased = Erased()
    files = generations(conn)
    gone = [file for file in files if is_gone(file)]
    if gone:
        with archive_transaction(conn):
            _drop_bytes(conn, [file.id for file in gone], erased)
            forget_stars(conn, [file.id for file in gone])
            conn.executemany("DELETE FROM files WHERE id = ?", [(file.id,) for file in gone])
        erased.files = len(gone)
        erased.bytes = sum(file.size for file in gone)
    kept = [file for file in files if file.kind == HISTORY and file not in gone]
    if is_left_out is not None:
        for file in kept:
            _blank_lines(conn, file, is_left_out, erased)
    return erased


def _blank_lines(
    conn: sqlite3.Connection, file: Generation, is_left_out: LeftOut, erased: Erased
) -> None:
    try:
        data = ArchiveReader(conn).read(file)
    except DamagedBytes as e:
        erased.problems.append(str(e))
        return
    blanked = blank(data, is_left_out)
    if blanked == data:
        return
    erased.lines += sum(
        one != other for one, other in zip(data.split(b"\n"), blanked.split(b"\n"), strict=True)
    )
    with archive_transaction(conn):
        _drop_bytes(conn, [file.id], erased)
        keep_stars_in(conn, file.id, blanked)
        at = 0
        for piece in line_pieces(blanked):
            conn.execute(
                "INSERT INTO frames (file_id, start, length, checksum, data)"
                " VALUES (?, ?, ?, ?, ?)",
                (file.id, at, len(piece), checksum(piece), compress_frame(piece)),
            )
            at += len(piece)


def line_pieces(data: bytes) -> Iterable[bytes]:
    """Pieces of about a frame's size that end where a line ends."""
    at = 0
    while at < len(data):
        end = data.rfind(b"\n", at, at + FRAME_BYTES) + 1
        if not end:
            end = data.find(b"\n", at) + 1 or len(data)
        yield data[at:end]
        at = end


def _drop_bytes(conn: sqlite3.Connection, file_ids: list[int], erased: Erased) -> None:
    """Delete all bytes of files. Blocks that hold bytes of other files are made again."""
    gone = set(file_ids)
    blocks: set[int] = set()
    for file_id in file_ids:
        sql = "SELECT DISTINCT block_id FROM parts WHERE file_id = ?"
        blocks.update(block_id for (block_id,) in conn.execute(sql, (file_id,)))
    for block_id in sorted(blocks):
        _replace_block(conn, block_id, gone, erased)
    names = [(file_id,) for file_id in file_ids]
    conn.executemany("DELETE FROM parts WHERE file_id = ?", names)
    conn.executemany("DELETE FROM frames WHERE file_id = ?", names)


def _replace_block(conn: sqlite3.Connection, block_id: int, gone: set[int], erased: Erased) -> None:
    row = conn.execute(
        "SELECT project, length, data, made_at FROM blocks WHERE id = ?", (block_id,)
    ).fetchone()
    parts = conn.execute(
        "SELECT id, at, file_id, length FROM parts WHERE block_id = ? ORDER BY at", (block_id,)
    ).fetchall()
    kept = bytearray()
    moved: list[tuple[int, int]] = []  # new place, part
    if row is not None and any(file_id not in gone for _, _, file_id, _ in parts):
        project, length, packed, made_at = row
        try:
            data = decompress(packed, length)
        except NotDecompressed:
            data = b""
            erased.problems.append(f"block {block_id} was damaged, and is gone with all in it")
        for part_id, at, file_id, size in parts if data else ():
            if file_id not in gone:
                moved.append((len(kept), part_id))
                kept += data[at : at + size]
        if moved:
            _insert_block(conn, project, bytes(kept), made_at, moved)
    conn.execute("DELETE FROM blocks WHERE id = ?", (block_id,))
    conn.execute("DELETE FROM parts WHERE block_id = ?", (block_id,))


def _insert_block(
    conn: sqlite3.Connection, project: str, data: bytes, made_at: str, parts: list[tuple[int, int]]
) -> None:
    packed = compress_block(data)
    new = conn.execute(
        "INSERT INTO blocks (project, length, data, made_at, checksum) VALUES (?, ?, ?, ?, ?)",
        (project, len(data), packed, made_at, checksum(packed)),
    ).lastrowid
    conn.executemany(
        "UPDATE parts SET block_id = ?, at = ? WHERE id = ?",
        [(new, at, part_id) for at, part_id in parts],
    )


def clear_free_pages(conn: sqlite3.Connection) -> str | None:
    """Give free pages back, empty the log, clear what is unused; returns why it cannot be done."""
    conn.execute("PRAGMA incremental_vacuum").fetchall()
    busy, _, _ = conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return "another program is reading it" if busy else clear_gaps(conn)
