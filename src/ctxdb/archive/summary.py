"""What the archive holds, in numbers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from ctxdb.archive.archive_file import archive_path, open_archive_to_read
from ctxdb.formatting import counted
from ctxdb.progress import human_bytes


@dataclass(slots=True)
class ArchiveSummary:
    """The state of the archive."""

    archive: str
    exists: bool = False
    files: int = 0  # paths
    generations: int = 0
    bytes: int = 0  # before compression
    bytes_on_disk: int = 0
    bytes_sealed: int = 0  # of `bytes`
    newest_at: str | None = None
    files_waiting: int = 0  # whose last bytes are not archived
    files_not_archived: int = 0  # read into the database, but not in the archive

    def as_dict(self) -> dict[str, object]:
        """Return it as data with stable names."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Return it as lines of text."""
        if not self.exists:
            yield f"Archive      {self.archive}: does not exist; `ctxdb archive add` makes it"
            return
        share = f" ({self.bytes_on_disk / self.bytes:.0%} of" if self.bytes else " ("
        size = human_bytes(self.bytes_on_disk)
        yield f"Archive      {self.archive}: {size}{share} {human_bytes(self.bytes)})"
        more = self.generations - self.files
        older = f", and {counted(more, 'older generation')}" if more else ""
        yield f"Files        {self.files:,}{older}; newest {self.newest_at or 'none'}"
        yield f"Sealed       {human_bytes(self.bytes_sealed)} of {human_bytes(self.bytes)}"
        if self.files_waiting:
            waiting = counted(self.files_waiting, "file")
            yield f"Waiting      {waiting} with an unfinished last line"
        if self.files_not_archived:
            missing = counted(self.files_not_archived, "file")
            yield f"Not archived {missing} that the database has read; run `ctxdb archive add`"


def summarize(db_path: Path, database: sqlite3.Connection | None) -> ArchiveSummary:
    """Count what the archive has, and what of the database's files it lacks."""
    path = archive_path(db_path)
    found = ArchiveSummary(str(path))
    archive = open_archive_to_read(db_path)
    archived: set[str] = set()
    if archive is not None:
        try:
            found.exists = True
            found.files, found.generations, size, found.newest_at = archive.execute(
                "SELECT count(DISTINCT path), count(*), sum(size), max(archived_at) FROM files"
            ).fetchone()
            found.bytes = size or 0
            (sealed,) = archive.execute("SELECT sum(length) FROM parts").fetchone()
            found.bytes_sealed = sealed or 0
            (found.files_waiting,) = archive.execute(
                "SELECT count(*) FROM files f WHERE has_all = 0"
                " AND generation = (SELECT max(generation) FROM files n WHERE n.path = f.path)"
            ).fetchone()
            archived = {name for (name,) in archive.execute("SELECT path FROM files")}
        finally:
            archive.close()
        for suffix in ("", "-wal"):
            side = path.with_name(path.name + suffix)
            found.bytes_on_disk += side.stat().st_size if side.exists() else 0
    if database is not None:
        found.files_not_archived = sum(
            name not in archived
            for (name,) in database.execute('SELECT path FROM source_files WHERE "offset" > 0')
        )
    return found
