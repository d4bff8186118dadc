"""The folder of a backup: its files, its lock, and what `backup.json` says."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ctxdb.errors import BackupError
from ctxdb.lock import refuse_unsafe
from ctxdb.store.known_backups import DATABASE_NAME

ARCHIVE_NAME = f"{DATABASE_NAME}.archive"
MANIFEST_NAME = "backup.json"
NEW = ".new"  # added to the name of a file that is not complete yet
VERSION = 1
_LOCK_NAME = ".lock"
_MOST_MANIFEST_BYTES = 1 << 20
_READ_BYTES = 1 << 20


@dataclass(slots=True)
class DatabaseCopy:
    """A copy of the database that may be in the folder."""

    checksum: str
    bytes: int
    made_at: str


@dataclass(slots=True)
class Manifest:
    """What `backup.json` says."""

    made_at: str
    source: str  # path of the database
    name: str  # random name of the database
    copies: list[DatabaseCopy] = field(default_factory=list)  # the newest first; one is there
    version: int = VERSION

    @property
    def checksums(self) -> set[str]:
        """Those that the database in the folder may have."""
        return {copy.checksum for copy in self.copies}


def read_manifest(folder: Path) -> Manifest | None:
    """What was backed up into this folder; None if nothing was. Raises BackupError."""
    path = folder / MANIFEST_NAME
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_MOST_MANIFEST_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as e:
        raise BackupError(f"{path}: cannot be read: {e}") from e
    try:
        return _manifest_of(found)
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise BackupError(f"{path}: is not what ctxdb writes; move it away") from e


def _manifest_of(found: dict[str, Any]) -> Manifest:
    if int(found["version"]) > VERSION:
        raise BackupError("this backup was made by a newer ctxdb; update ctxdb")
    copies = [
        DatabaseCopy(str(one["checksum"]), int(one["bytes"]), str(one["made_at"]))
        for one in found["copies"]
    ]
    return Manifest(str(found["made_at"]), str(found["source"]), str(found["name"]), copies)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace `backup.json` as a whole."""
    aside = folder / (MANIFEST_NAME + NEW)
    with private_file(aside) as fd:
        os.write(fd, json.dumps(asdict(manifest), indent=2).encode() + b"\n")
        os.fsync(fd)
    aside.replace(folder / MANIFEST_NAME)
    sync_folder(folder)


def prepare_folder(folder: Path) -> None:
    """Make the folder, private; refuse one that is a link, a file or another user's."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except FileExistsError:
        raise BackupError(f"{folder}: is not a folder") from None
    except OSError as e:
        raise BackupError(f"{folder}: {e.strerror}") from e
    if not stat.S_ISDIR(found.st_mode):
        raise BackupError(f"{folder}: is not a folder; name the folder itself")
    if found.st_uid != os.geteuid() and os.geteuid() != 0:
        raise BackupError(f"{folder}: belongs to another user")
    if found.st_mode & 0o077:
        if any(name not in _OWN_NAMES for name in (path.name for path in folder.iterdir())):
            why = "others can read it, and it holds other files"
            raise BackupError(f"{folder}: {why}; name a folder for the backup alone")
        folder.chmod(0o700)
    for name in (DATABASE_NAME, ARCHIVE_NAME, MANIFEST_NAME):
        refuse_unsafe(folder / name)


_OWN_NAMES = frozenset(
    {DATABASE_NAME, ARCHIVE_NAME, MANIFEST_NAME, _LOCK_NAME}
    | {name + NEW for name in (DATABASE_NAME, ARCHIVE_NAME, MANIFEST_NAME)}
    # What SQLite leaves if a backup is killed.
    | {f"{name}-journal" for name in (ARCHIVE_NAME, ARCHIVE_NAME + NEW, DATABASE_NAME + NEW)}
)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One backup at a time. Where the file system has no locks, there is none."""
    with private_file(folder / _LOCK_NAME) as fd:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupError(f"{folder}: another backup is running") from None
        except OSError:
            pass
        yield


@contextmanager
def private_file(path: Path) -> Iterator[int]:
    """Open a file for writing that only its owner can read."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o600)
    except OSError as e:
        raise BackupError(f"{path}: {e.strerror}") from e
    try:
        os.fchmod(fd, 0o600)
        os.ftruncate(fd, 0)
        yield fd
    finally:
        os.close(fd)


def sync_folder(folder: Path) -> None:
    """Make new names last through a power cut, where that can be asked for."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def checksum_of(path: Path) -> str:
    """BLAKE2b of a file, after it is safely on disk."""
    digest = blake2b(digest_size=32)
    with path.open("rb") as file:
        with suppress(OSError):
            os.fsync(file.fileno())
        while data := file.read(_READ_BYTES):
            digest.update(data)
    return digest.hexdigest()
