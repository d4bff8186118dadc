"""Checking a backup: the database's checksum and structure, and every byte of the archive."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb.archive.archive_file import open_archive_to_read
from ctxdb.archive.check import check_archive
from ctxdb.backup.folder import Manifest, checksum_of, read_manifest
from ctxdb.errors import BackupError, CtxdbError
from ctxdb.progress import human_bytes
from ctxdb.store.connection import open_reader
from ctxdb.store.known_backups import DATABASE_NAME

if TYPE_CHECKING:
    from ctxdb.progress import Progress


@dataclass(slots=True)
class BackupCheck:
    """What was found."""

    folder: str
    made_at: str
    sessions: int = 0
    archived_bytes: int = 0  # before compression
    damage: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether all of it can be restored."""
        return not self.damage

    def as_dict(self) -> dict[str, object]:
        """Stable names for programs."""
        return {"ok": self.ok, **asdict(self)}

    def lines(self) -> Iterator[str]:
        """The same for people."""
        yield f"{self.folder}: backup of {self.made_at}"
        yield f"{self.sessions:,} sessions, {human_bytes(self.archived_bytes)} archived"
        yield from self.damage
        yield "The backup is intact." if self.ok else "The backup is damaged."


def check_backup(folder: Path, progress: Progress) -> BackupCheck:
    """Check everything. Raises BackupError if there is no backup."""
    manifest = manifest_of(folder)
    found = BackupCheck(str(folder), manifest.made_at)
    _check_database(folder / DATABASE_NAME, manifest, found)
    try:
        archive = open_archive_to_read(folder / DATABASE_NAME)
        if archive is not None:
            with closing(archive):
                (size,) = archive.execute("SELECT sum(size) FROM files").fetchone()
                progress.start(size or 0, "Checking the archive")
                checked = check_archive(archive, progress.advance, compare_sources=False)
                found.archived_bytes = checked.bytes
                found.damage += checked.damaged
    except (CtxdbError, sqlite3.Error) as e:
        found.damage.append(str(e))
    return found


def manifest_of(folder: Path) -> Manifest:
    """What the backup says of itself. Raises BackupError if there is none."""
    manifest = read_manifest(folder)
    if manifest is None or not (folder / DATABASE_NAME).exists():
        raise BackupError(f"{folder}: there is no backup; `ctxdb backup DIR` makes one")
    return manifest


def _check_database(path: Path, manifest: Manifest, found: BackupCheck) -> None:
    try:
        if checksum_of(path) not in manifest.checksums:
            found.damage.append(f"{path}: is not as it was backed up")
        with closing(open_reader(path)) as conn:
            (answer,) = conn.execute("PRAGMA quick_check(1)").fetchone()
            if answer != "ok":
                found.damage.append(f"{path}: is damaged")
            (found.sessions,) = conn.execute("SELECT count(*) FROM sessions").fetchone()
    except (CtxdbError, sqlite3.Error) as e:
        found.damage.append(str(e))
    except OSError as e:
        found.damage.append(f"{path}: {e.strerror}")
