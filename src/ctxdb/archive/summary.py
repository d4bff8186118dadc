"""What the archive holds, in numbers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from ctxdb.archive.archive_file import archive_path, as_archive_error, open_archive_to_read
from ctxdb.archive.read import archived_name
from ctxdb.archive.stars import count_stars, is_everywhere
from ctxdb.elsewhere import is_elsewhere
from ctxdb.errors import CtxdbError
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
    bytes_not_archived: int = 0  # of these files, and of others that were read further
    secrets_overwritten: int = 0
    is_searched: bool = False  # all of it was searched for secrets, which are overwritten
    problem: str | None = None  # why it cannot be read

    def as_dict(self) -> dict[str, object]:
        """Return it as data with stable names."""
        return asdict(self)

    @property
    def line(self) -> str:
        """The most important of it, in one line."""
        if self.problem:
            return f"Archive      {self.problem}"
        if not self.exists:
            return "Archive      does not exist yet; `ctxdb sync` makes it"
        share = f", {self.bytes_on_disk / self.bytes:.0%} of what it holds" if self.bytes else ""
        behind = ""
        if self.bytes_not_archived:
            size = human_bytes(self.bytes_not_archived)
            behind = f"; {size} not archived yet: `ctxdb archive add`"
        return f"Archive      {human_bytes(self.bytes_on_disk)}{share}{behind}"

    @property
    def secrets_line(self) -> str:
        """What became of the secrets in the archived bytes."""
        if not self.is_searched and not self.secrets_overwritten:
            return "as they are: the archive has the exact bytes"
        overwritten = f"{counted(self.secrets_overwritten, 'secret')} overwritten with *"
        if self.is_searched:
            return overwritten
        return f"{overwritten}, not in all of it: `ctxdb redact --apply`"

    def lines(self) -> Iterator[str]:
        """Return it as lines of text."""
        if self.problem:
            yield f"Archive      {self.problem}"
            return
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
        yield f"Secrets      {self.secrets_line}"
        if self.files_waiting:
            waiting = counted(self.files_waiting, "file")
            yield f"Waiting      {waiting} with an unfinished last line"
        if self.bytes_not_archived:
            size, missing = human_bytes(self.bytes_not_archived), ""
            if self.files_not_archived:
                missing = f", {counted(self.files_not_archived, 'file')} not at all"
            yield f"Not archived {size} that the database has read{missing}; `ctxdb archive add`"


def summarize(db_path: Path, database: sqlite3.Connection | None) -> ArchiveSummary:
    """Count what the archive has, and what of the database's files it lacks."""
    path = archive_path(db_path)
    found = ArchiveSummary(str(path))
    try:
        _summarize(db_path, path, database, found)
    except sqlite3.DatabaseError as e:
        found.problem = str(as_archive_error(path, e))
    except CtxdbError as e:
        found.problem = str(e)
    return found


def _summarize(
    db_path: Path, path: Path, database: sqlite3.Connection | None, found: ArchiveSummary
) -> None:
    archive = open_archive_to_read(db_path)
    archived: dict[str, int] = {}  # path -> bytes of its newest generation
    if archive is not None:
        try:
            found.exists = True
            found.files, found.generations, size, found.newest_at = archive.execute(
                "SELECT count(DISTINCT path), count(*), sum(size), max(archived_at) FROM files"
            ).fetchone()
            found.bytes = size or 0
            found.secrets_overwritten = count_stars(archive)
            found.is_searched = is_everywhere(archive)
            (sealed,) = archive.execute("SELECT sum(length) FROM parts").fetchone()
            found.bytes_sealed = sealed or 0
            (found.files_waiting,) = archive.execute(
                "SELECT count(*) FROM files f WHERE has_all = 0"
                " AND generation = (SELECT max(generation) FROM files n WHERE n.path = f.path)"
            ).fetchone()
            archived = dict(
                archive.execute("SELECT path, size FROM files ORDER BY generation").fetchall()
            )
        finally:
            archive.close()
        for suffix in ("", "-wal"):
            side = path.with_name(path.name + suffix)
            found.bytes_on_disk += side.stat().st_size if side.exists() else 0
    if database is not None:
        for at, path_bytes, offset in database.execute(
            'SELECT f.path, b.path_bytes, f."offset" FROM source_files f LEFT JOIN _file_marks b'
            " ON b.source_file_id = f.id WHERE f.\"offset\" > 0 AND f.state <> 'missing'"
        ):
            if is_elsewhere(path_bytes):
                continue  # what is not archived of it cannot be read here
            name = archived_name(at, path_bytes)
            found.files_not_archived += name not in archived
            found.bytes_not_archived += max(offset - archived.get(name, 0), 0)
