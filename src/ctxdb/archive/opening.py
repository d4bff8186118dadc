"""Archived bytes as an open file, so that whatever reads files can read them.

The bytes are put into a file without a name, beside the database. It is gone when it is closed.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO

from ctxdb.archive.archive_file import archive_path, open_archive_to_read
from ctxdb.archive.read import ArchiveReader, Generation, generations
from ctxdb.archive.stars import NO_STARS, Stars, count_stars, load_stars
from ctxdb.elsewhere import is_elsewhere
from ctxdb.errors import ArchiveError, DamagedBytes
from ctxdb.files.identity import open_regular
from ctxdb.files.walk import text_of, unpack

# Connections of the process that this one was forked from. They are never closed here.
_inherited: list[sqlite3.Connection | None] = []


class ArchiveOpener:
    """Opens a path: the generation that is chosen for it, else the file, else what is archived.

    Processes that are forked from this one can use it too.
    """

    def __init__(self, db_path: Path, newest: dict[str, Generation]) -> None:
        self.db_path = db_path
        self.newest = newest  # by the path to open
        self.chosen: dict[str, Generation] = {}
        self._conn: sqlite3.Connection | None = None
        self._reader: ArchiveReader | None = None
        self._process = os.getpid()

    def __call__(self, path: str | bytes) -> int:
        """Open it for reading. Raises OSError."""
        name = os.fsdecode(path)
        file = self.chosen.get(name)
        if file is None:
            try:
                return open_regular(path)
            except (FileNotFoundError, NotADirectoryError):  # the second: of another machine
                file = self.newest.get(name)
                if file is None:
                    raise
        return self.open(file)

    def open(self, file: Generation) -> int:
        """Open a generation. If some bytes of it are damaged, it ends before them."""
        reader = self._own_reader()
        import tempfile  # most runs open no archived file

        with tempfile.TemporaryFile(dir=self.db_path.parent, prefix=".ctxdb-") as out:
            self._write(reader, file, out)
            out.flush()
            _, _, _, mtime_ns, _ = unpack(stat_of(reader.conn, file))
            os.utime(out.fileno(), ns=(mtime_ns, mtime_ns))
            return os.dup(out.fileno())

    def stars(self, path: str | bytes) -> Stars:
        """What is overwritten in the bytes of a path, as it would be opened."""
        name = os.fsdecode(path)
        file = self.chosen.get(name) or self.newest.get(name)
        return NO_STARS if file is None else load_stars(self._own_reader().conn, file.id)

    def close(self) -> None:
        """Close the archive."""
        if self._conn is not None and self._process == os.getpid():
            self._conn.close()
            self._conn = self._reader = None

    def newest_of(self, name: str) -> Generation | None:
        """The newest generation of a file; None if it is not there, or cannot be read."""
        try:
            found = generations(self._own_reader().conn, "WHERE path = ?", (name,))
        except (OSError, ArchiveError, sqlite3.Error):
            return None
        return found[-1] if found else None

    def _write(self, reader: ArchiveReader, file: Generation, out: BinaryIO) -> None:
        try:
            out.writelines(reader.pieces(file))
        except DamagedBytes:
            return  # `archive verify` and `doctor` name them

    def _own_reader(self) -> ArchiveReader:
        if self._process != os.getpid():
            _inherited.append(self._conn)
            self._conn = self._reader = None
            self._process = os.getpid()
        if self._reader is None:
            self._conn = open_archive_to_read(self.db_path)
            if self._conn is None:
                raise FileNotFoundError(2, "there is no archive", str(self.db_path))
            self._reader = ArchiveReader(self._conn)
        return self._reader


class ElsewhereOpener:
    """Opens files of this machine as they are, and those of other machines from the archive."""

    def __init__(self, db_path: Path) -> None:
        self.archived = ArchiveOpener(db_path, {})

    def __call__(self, path: str | bytes) -> int:
        """Open it for reading. Raises OSError."""
        name = os.fsdecode(path)
        if not is_elsewhere(name):
            return open_regular(path)
        file = self.archived.newest_of(text_of(name))
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "it is not in the archive", name)
        return self.archived.open(file)


def stat_of(conn: sqlite3.Connection, file: Generation) -> bytes | None:
    """How the file looked when its last bytes were archived, packed as `walk.pack` does."""
    row = conn.execute("SELECT stat FROM files WHERE id = ?", (file.id,)).fetchone()
    (stat,) = row or (None,)
    return stat


def newest_opener(db_path: Path) -> ArchiveOpener:
    """Opens a file, or if it is gone what the archive has of it."""
    newest: dict[str, Generation] = {}
    with suppress(ArchiveError, sqlite3.Error):  # `archive verify` says what is wrong with it
        archive = open_archive_to_read(db_path)
        if archive is not None:
            with closing(archive):
                newest = {file.open_path: file for file in generations(archive)}
    return ArchiveOpener(db_path, newest)


class NewestStars:
    """What is overwritten in the newest generation of each file: a restored file has the same."""

    def __init__(self, db_path: Path) -> None:
        self.db_path = db_path
        self._known: dict[str, Stars] = {}
        self._changed_at: list[int] | None = None  # when the archive was last read

    def __call__(self, path: str | bytes) -> Stars:
        """What is overwritten in the file at a path, if it was restored."""
        name = archive_path(self.db_path)
        changed_at = [_mtime(name), _mtime(name.with_name(f"{name.name}-wal"))]
        if changed_at != self._changed_at:
            self._known, self._changed_at = _newest_stars(self.db_path), changed_at
        return self._known.get(os.fsdecode(path), NO_STARS)


def _mtime(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _newest_stars(db_path: Path) -> dict[str, Stars]:
    found: dict[str, Stars] = {}
    with suppress(ArchiveError, sqlite3.Error):  # `archive verify` says what is wrong with it
        archive = open_archive_to_read(db_path)
        if archive is not None:
            with closing(archive):
                if count_stars(archive):
                    where = "WHERE id IN (SELECT file_id FROM masked)"
                    for file in generations(archive, where):  # the newest of a path comes last
                        found[file.open_path] = load_stars(archive, file.id)
    return found


def archived_sizes(db_path: Path) -> dict[str, int]:
    """How many bytes of each file are archived, of the longest generation."""
    try:
        archive = open_archive_to_read(db_path)
        if archive is None:
            return {}
        with closing(archive):
            return dict(archive.execute("SELECT path, max(size) FROM files GROUP BY path"))
    except (ArchiveError, sqlite3.Error):
        return {}
