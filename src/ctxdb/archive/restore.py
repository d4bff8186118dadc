"""Putting the files of a session back where they were, or below another folder.

All or nothing: every file is written under a temporary name first. Only when all are complete do
they get their names. A file that is already there is left alone if it has the archived bytes or
begins with them. If any file has other bytes, nothing is written. A secret that is overwritten in
the archive is `***` in the file too.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from ctxdb.archive.read import ArchiveReader, Generation, generations
from ctxdb.archive.stars import load_stars, star
from ctxdb.elsewhere import is_elsewhere, split_name
from ctxdb.errors import ArchiveError
from ctxdb.files.identity import open_regular, pread

_TEMPORARY = ".ctxdb-restoring"


class Target(NamedTuple):
    """An archived file, and where it goes."""

    file: Generation
    path: str


@dataclass(slots=True)
class Restored:
    """What was done."""

    written: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)  # were there already, with these bytes
    bytes: int = 0
    overwritten: dict[str, int] = field(default_factory=dict)  # secrets, by file that was written


def files_of_session(
    conn: sqlite3.Connection, session_id: str, generation: int | None = None
) -> list[Generation]:
    """The archived files of a session: of each the newest generation, or the one that is named."""
    chosen: dict[str, Generation] = {}
    for file in generations(conn, "WHERE session_id = ?", (session_id,)):
        if generation is None or file.generation <= generation:
            chosen[file.path] = file
    if generation is not None and not any(f.generation == generation for f in chosen.values()):
        newest = max((f.generation for f in chosen.values()), default=0)
        why = f"session {session_id} has no generation {generation} in the archive"
        raise ArchiveError(f"{why}; the newest is {newest}" if newest else why)
    return [*chosen.values()]


def place_below(files: Sequence[Generation], folder: str | None) -> list[Target]:
    """Where each file goes: to its own place, or to the same place below another folder.

    A file of another machine goes to the same path here. If that is also a file of this machine,
    the longer one is put back, unless there is a file already. Raises ArchiveError if a folder that
    Claude Code keeps its files in is not there.
    """
    targets: dict[str, Target] = {}
    for file in files:
        _, path = split_name(file.open_path)
        _, root = split_name(file.root)
        inside = os.path.relpath(path, root)
        if inside.startswith(".."):
            raise ArchiveError(f"{path}: is not below {root}; nothing was restored")
        if folder is None and not os.path.isdir(os.path.dirname(root)):
            why = f"there is no {os.path.dirname(root)} on this machine"
            raise ArchiveError(f"{path}: {why}; nothing was restored; use --to DIR")
        target = Target(file, path if folder is None else os.path.join(folder, inside))
        other = targets.get(target.path)
        if other is None or _is_better(target, other):
            targets[target.path] = target
    return [*targets.values()]


def _is_better(target: Target, other: Target) -> bool:
    """Whether the first of two files for one place is to be put there."""
    if os.path.lexists(target.path):
        return not is_elsewhere(target.file.open_path)
    return target.file.size > other.file.size


def restore(conn: sqlite3.Connection, targets: Sequence[Target]) -> Restored:
    """Write the files. Raises ArchiveError, and then nothing has been written."""
    done = Restored()
    reader = ArchiveReader(conn)
    missing: list[Target] = []
    for target in targets:
        if _is_there(reader, target):
            done.present.append(target.path)
            with suppress(OSError):  # left by a restore that was killed
                os.unlink(f"{target.path}{_TEMPORARY}")
        else:
            missing.append(target)
    folders: list[str] = []
    temporary: list[tuple[str, str]] = []  # temporary name, final name
    try:
        for target in missing:
            folders += _make_folders(os.path.dirname(target.path))
            aside = f"{target.path}{_TEMPORARY}"
            temporary.append((aside, target.path))
            done.bytes += _write(reader, target.file, aside)
            if secrets := len(load_stars(conn, target.file.id).places):
                done.overwritten[target.path] = secrets
        for aside, path in temporary:
            os.link(aside, path)  # fails if a file has come meanwhile
            done.written.append(path)
    except OSError as e:
        for path in done.written:
            with suppress(OSError):
                os.unlink(path)
        _remove_empty(folders, temporary)
        raise ArchiveError(_why(e)) from e
    except BaseException:
        _remove_empty(folders, temporary)
        raise
    for aside, _ in temporary:
        with suppress(OSError):
            os.unlink(aside)
    return done


def _why(error: OSError) -> str:
    found = error.filename2 or error.filename
    name = os.fsdecode(found) if isinstance(found, str | bytes) else "a file"
    return f"{name.removesuffix(_TEMPORARY)}: {error.strerror or error}; nothing was restored"


def _is_there(reader: ArchiveReader, target: Target) -> bool:
    """Whether the file exists with the archived bytes. Raises ArchiveError if it has others."""
    try:
        fd = open_regular(target.path)
    except FileNotFoundError:
        return False
    except OSError as e:
        why = f"{target.path}: is in the way ({e.strerror}); nothing was restored"
        raise ArchiveError(why) from e
    try:
        at = 0
        places = load_stars(reader.conn, target.file.id).places
        for piece in reader.pieces(target.file):
            if star(pread(fd, len(piece), at), at, places) != piece:
                why = f"{target.path}: exists with other content; nothing was restored"
                raise ArchiveError(f"{why}; use --to DIR")
            at += len(piece)
    finally:
        os.close(fd)
    return True


def _make_folders(folder: str) -> list[str]:
    """Make a folder and those above it, private; returns those that were made, topmost first."""
    missing: list[str] = []
    while folder and not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    missing.reverse()
    for one in missing:
        os.mkdir(one, 0o700)
    return missing


def _write(reader: ArchiveReader, file: Generation, path: str) -> int:
    with suppress(FileNotFoundError):  # left by a restore that was killed
        os.unlink(path)
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    size = 0
    with os.fdopen(fd, "wb") as out:
        for piece in reader.pieces(file):
            out.write(piece)
            size += len(piece)
        out.flush()
        os.fsync(out.fileno())
    return size


def _remove_empty(folders: Sequence[str], temporary: Sequence[tuple[str, str]]) -> None:
    for aside, _ in temporary:
        with suppress(OSError):
            os.unlink(aside)
    for folder in reversed(folders):
        with suppress(OSError):
            os.rmdir(folder)
