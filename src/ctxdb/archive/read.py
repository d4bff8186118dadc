"""Reading archived bytes back, each piece checked against its checksum."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from ctxdb.archive.compression import NotDecompressed, checksum, decompress
from ctxdb.errors import DamagedBytes
from ctxdb.files.walk import text_of

# What reading a row of the archive may raise: any value can be in a damaged file.
UNREADABLE = (
    *(NotDecompressed, sqlite3.DatabaseError),
    *(LookupError, TypeError, ValueError, OverflowError),
)


class Generation(NamedTuple):
    """One generation of an archived file."""

    id: int
    path: str
    path_bytes: bytes | None
    root: str
    kind: str
    session_id: str | None
    generation: int
    size: int
    has_all: int
    archived_at: str

    @property
    def open_path(self) -> str:
        """The path to give to the operating system."""
        return os.fsdecode(self.path_bytes or self.path)


def archived_name(path: str, path_bytes: bytes | None) -> str:
    """What the archive knows a file by that the database knows by these two."""
    return path if path_bytes is None else text_of(os.fsdecode(path_bytes))


class _Piece(NamedTuple):
    start: int
    length: int
    checksum: bytes
    frame_id: int | None
    block_id: int | None
    at: int | None


GENERATIONS = (
    "SELECT id, path, path_bytes, root, kind, session_id, generation, size, has_all, archived_at"
    " FROM files"
)


def generations(
    conn: sqlite3.Connection, where: str = "", values: tuple[object, ...] = ()
) -> list[Generation]:
    """Archived files, oldest generation first."""
    sql = f"{GENERATIONS} {where} ORDER BY path, generation"
    return [*map(Generation._make, conn.execute(sql, values))]


class ArchiveReader:
    """Reads bytes; keeps the last block that it decompressed, because neighbours follow."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self._block: tuple[int, bytes] | None = None

    def pieces(self, file: Generation, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of a file from `start` up to `end`, in order. Raises DamagedBytes."""
        end = file.size if end is None else min(end, file.size)
        at = start
        for piece in self._pieces(file.id, start, end):
            if piece.start > at:
                raise DamagedBytes(file.path, at, piece.start - at)
            data = self.data_of(file, piece)
            wanted = data[max(start - piece.start, 0) : end - piece.start]
            at = piece.start + piece.length
            if wanted:
                yield wanted
        if at < end:
            raise DamagedBytes(file.path, at, end - at)

    def read(self, file: Generation, start: int = 0, end: int | None = None) -> bytes:
        """The same in one piece."""
        return b"".join(self.pieces(file, start, end))

    def damaged(self, file: Generation) -> Iterator[DamagedBytes]:
        """Every stretch of a file that cannot be read."""
        at = 0
        for piece in self._pieces(file.id, 0, file.size):
            if piece.start > at:
                yield DamagedBytes(file.path, at, piece.start - at)
            try:
                self.data_of(file, piece)
            except DamagedBytes as e:
                yield e
            at = max(at, piece.start + piece.length)
        if at < file.size:
            yield DamagedBytes(file.path, at, file.size - at)

    def _pieces(self, file_id: int, start: int, end: int) -> list[_Piece]:
        rows = self.conn.execute(
            "SELECT start, length, checksum, id, NULL, NULL FROM frames WHERE file_id = ?1"
            " AND start < ?3 AND start + length > ?2 UNION ALL"
            " SELECT start, length, checksum, NULL, block_id, at FROM parts WHERE file_id = ?1"
            " AND start < ?3 AND start + length > ?2 ORDER BY 1",
            (file_id, start, end),
        )
        return [*map(_Piece._make, rows)]

    def data_of(self, file: Generation, piece: _Piece) -> bytes:
        """The bytes of one piece, checked."""
        try:
            if piece.block_id is None:
                data = self._frame(piece)
            else:
                at = piece.at or 0
                data = self.block_data(piece.block_id)[at : at + piece.length]
        except UNREADABLE as e:
            raise DamagedBytes(file.path, piece.start, piece.length) from e
        if checksum(data) != piece.checksum:
            raise DamagedBytes(file.path, piece.start, piece.length)
        return data

    def _frame(self, piece: _Piece) -> bytes:
        (data,) = self.conn.execute(
            "SELECT data FROM frames WHERE id = ?", (piece.frame_id,)
        ).fetchone()
        return decompress(data, piece.length)

    def block_data(self, block_id: int) -> bytes:
        """All bytes of a block. Raises LookupError or NotDecompressed."""
        if self._block is not None:
            kept_id, kept = self._block
            if kept_id == block_id:
                return kept
        row = self.conn.execute(
            "SELECT length, data FROM blocks WHERE id = ?", (block_id,)
        ).fetchone()
        if row is None:
            raise LookupError(block_id)
        length, data = row
        self._block = None  # so that two are never in memory
        self._block = (block_id, decompress(data, length))
        return self.block_data(block_id)
