"""Write an output file: complete or not at all, private, and over another file only if asked."""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb.errors import CtxdbError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

# Endings of the database and of the files beside it, which an output file must not replace.
DATABASE_ENDINGS = ("", "-wal", "-shm", "-journal", "-building", ".lock")
_DESCRIPTOR = re.compile(r"/dev/std(?P<name>out|err)|/(?:dev|proc/self)/fd/(?P<number>\d{1,9})")


@contextmanager
def writing(target: Path, *, force: bool, db_path: Path) -> Iterator[BinaryIO]:
    """Open the target for writing: a new file, or the pipe or device that is there already."""
    descriptor = _descriptor(target)
    if descriptor is None and not _is_stream(target):
        with (
            new_file(target, force=force, db_path=db_path) as waiting,
            waiting.open("r+b") as file,
        ):
            yield file
        return
    # If the descriptor is a file, something may be in it already: write after that.
    with target.open("wb") if descriptor is None else os.fdopen(descriptor, "wb") as stream:
        yield stream


@contextmanager
def new_file(target: Path, *, force: bool, db_path: Path) -> Iterator[Path]:
    """Give an empty file of mode 0600 to write to. It gets its name when it is complete.

    A symbolic link stays, and points to the new file. The database is never replaced.
    """
    if target.is_dir():
        raise UsageError(f"{target} is a folder; name a file")
    if _is_stream(target):
        raise UsageError(f"{target} is not a file")
    named, target = target, Path(os.path.realpath(target))
    if _is_database(target, db_path):
        raise UsageError(f"{named} is the database itself")
    if not force and os.path.lexists(target):
        raise _exists(named)
    waiting = target.with_name(f".{target.name[:100]}.{os.getpid()}.part")
    try:
        os.close(os.open(waiting, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
    except OSError as e:
        raise CtxdbError(f"{named}: cannot be written: {e.strerror}") from e
    try:
        yield waiting
        if force:
            waiting.replace(target)
        else:
            _name(waiting, target, named)
    finally:
        with suppress(OSError):
            waiting.unlink(missing_ok=True)


def _descriptor(target: Path) -> int | None:
    """A copy of the descriptor that a path such as /dev/stdout names, or None."""
    found = _DESCRIPTOR.fullmatch(str(target))
    if found is None:
        return None
    number = int(found["number"]) if found["number"] else 1 if found["name"] == "out" else 2
    try:
        return os.dup(number)
    except OSError as e:
        raise CtxdbError(f"{target}: cannot be written: {e.strerror}") from e


def _is_stream(target: Path) -> bool:
    """Whether it exists and is neither a file nor a folder: a pipe, a terminal, a device."""
    try:
        mode = target.stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _is_database(target: Path, db_path: Path) -> bool:
    """Whether it is the path of the database or of a file beside it, existing or not."""
    own = Path(os.path.realpath(db_path))
    for name in (own.name + end for end in DATABASE_ENDINGS):
        path = own.with_name(name)
        if path == target:
            return True
        with suppress(OSError):
            if path.samefile(target):
                return True
    return False


def _name(waiting: Path, target: Path, named: Path) -> None:
    """Rename, unless the name was taken meanwhile."""
    try:
        os.link(waiting, target)
    except FileExistsError as e:
        raise _exists(named) from e
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise _exists(named) from None
        waiting.replace(target)


def _exists(target: Path) -> UsageError:
    return UsageError(f"{target} is there already; --force replaces it")
