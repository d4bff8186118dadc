"""The archived bytes of a transcript that is gone or was rewritten."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

from ctxdb.archive.archive_file import open_archive_to_read
from ctxdb.archive.read import ArchiveReader, Generation, generations
from ctxdb.archive.stars import load_stars
from ctxdb.errors import CtxdbError
from ctxdb.files.identity import mark_by
from ctxdb.store.connection import path_of

ReadBytes = Callable[[int, int], bytes]  # length, first byte


class ArchivedFiles:
    """The archive beside the database of a connection; opened when it is first asked."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn
        self._archive: sqlite3.Connection | None = None
        self._is_open = False

    def close(self) -> None:
        """Close the archive, if it was opened."""
        if self._archive is not None:
            self._archive.close()
            self._archive = None

    def readers(self, path: str) -> Iterator[ReadBytes]:
        """A function for each generation of a file, the newest first, that reads bytes of it."""
        for file, reader in self._generations(path):
            yield _reading(reader, file)

    def lines(self, path: str, offset: int, mark: bytes | None) -> Iterator[bytes] | None:
        """The lines up to an offset of the generation that was read into the database, or None."""
        for file, reader in self._generations(path):
            try:
                is_same = mark_by(_reading(reader, file), offset) == mark
                # With a secret overwritten there, the mark cannot be compared.
                is_same = is_same or load_stars(reader.conn, file.id).is_in_mark(offset)
                if file.size >= offset and (not offset or is_same):
                    for _ in reader.pieces(file, 0, offset):
                        pass  # a damaged file is found before a line of it is given out
                    return _lines(reader.pieces(file, 0, offset))
            except CtxdbError:
                continue
        return None

    def _generations(self, path: str) -> Iterator[tuple[Generation, ArchiveReader]]:
        archive = self._opened()
        if archive is None:
            return
        try:
            found = generations(archive, "WHERE path = ?", (path,))
        except sqlite3.Error:
            return  # damaged: `archive verify` says so
        reader = ArchiveReader(archive)
        for file in reversed(found):
            yield file, reader

    def _opened(self) -> sqlite3.Connection | None:
        if not self._is_open:
            self._is_open = True
            db_path = path_of(self._conn)
            try:
                self._archive = open_archive_to_read(db_path) if db_path.name else None
            except CtxdbError:
                self._archive = None  # another program's or damaged: `archive verify` says so
        return self._archive


def _reading(reader: ArchiveReader, file: Generation) -> ReadBytes:
    return lambda length, at: reader.read(file, at, at + length) if length > 0 else b""


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The lines of consecutive pieces, each with its newline."""
    rest: list[bytes] = []
    for piece in pieces:
        *whole, last = piece.split(b"\n")
        for line in whole:
            yield b"".join((*rest, line, b"\n"))
            rest = []
        rest.append(last)
    if any(rest):
        yield b"".join(rest)
