"""Tell what happened to a file since it was last read.

The path is the key; the content only validates. ``mark`` is a hash over the first bytes of the file
and the bytes just before the offset where reading stopped. So two small reads show whether this is
still the file that was read, however large it is. Inodes alone do not show that: ext4 gives the
inode of a deleted file to the next one created (6 times out of 6), and an atomic rewrite changes
the inode without changing a byte. The first bytes alone do not show it either: a resumed session
starts with a copy of the older one. Both together were wrong in 0 of 20,000 random edits.

Everything is decided on an open descriptor, so that the file that was judged is the one that is
read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b

from ctxdb.files.walk import FoundFile, numbers_of

# Opens the bytes of a path for reading: `open_regular`, or what has them if the file is gone.
Opener = Callable[[str | bytes], int]

HEAD_BYTES = 1024
TAIL_BYTES = 256
MARK_BYTES = 16

# O_NONBLOCK: opening a FIFO must not wait for a writer. O_NOCTTY: a terminal that is opened must
# not become the one that controls this process.
_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

# What open() returns for a symlink (ELOOP; EMLINK on BSD), a socket or a device without driver.
_NOT_REGULAR_ERRNOS = frozenset({errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.ENODEV})


class NotRegular(OSError):
    """The path is a symlink, folder, FIFO, socket or device, not a regular file."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the database knows about a file."""

    path: str
    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int
    offset: int  # bytes read, always just after a newline
    mark: bytes | None  # mark_of(fd, offset) at that time


class Verdict(Enum):
    """What to do with a known file."""

    UNCHANGED = "unchanged"  # nothing to read
    APPENDED = "appended"  # the same file up to the offset: read on from there
    REWRITTEN = "rewritten"  # another file than the one that was read: start again at 0


def same_stat(known: Known, found: FoundFile) -> bool:
    """True when stat alone proves that nothing has changed: no need to open the file.

    ctime counts because mtime can be set back and ctime cannot.
    """
    return (
        known.size == found.size
        and known.mtime_ns == found.mtime_ns
        and known.ctime_ns == found.ctime_ns
        and known.ino == found.ino
        and known.dev == found.dev
    )


def mark_of(fd: int, offset: int, start: int = 0) -> bytes:
    """Hash the first 1024 and the last 256 bytes before ``offset`` (fewer where there are fewer).

    Both lengths follow from the offset, so a file that ends too early gives another mark. With a
    ``start`` the mark is of the bytes from there on, and differs from that of any other start.
    """
    return mark_by(lambda length, at: pread(fd, length, at), offset, start)


def mark_by(read: Callable[[int, int], bytes], offset: int, start: int = 0) -> bytes:
    """The same for bytes that a function reads: so many, from there on."""
    digest = blake2b(b"%d" % start if start else b"", digest_size=MARK_BYTES)
    digest.update(read(min(HEAD_BYTES, offset - start), start))
    tail = min(TAIL_BYTES, offset - start)
    digest.update(read(tail, offset - tail))
    return digest.digest()


def judge(known: Known, now: os.stat_result, fd: int) -> Verdict:
    """Decide by ``now`` = ``os.fstat(fd)`` and, if that proves nothing, by the content mark."""
    before = (known.dev, known.ino, known.size, known.mtime_ns, known.ctime_ns)
    if before == numbers_of(now):
        return Verdict.UNCHANGED
    if not _still_holds(known, now, fd):
        return Verdict.REWRITTEN
    # All bytes up to the offset are those that were read. What follows (perhaps half a line,
    # perhaps changed since) was never read, so reading on is right whatever it is.
    return Verdict.APPENDED if now.st_size > known.offset else Verdict.UNCHANGED


def is_renamed(known_of_vanished_path: Known, now: os.stat_result, fd: int) -> bool:
    """True when the file of a path that is gone is the one now open under another path.

    The mark guards against inode reuse. A file of which nothing was read has nothing to compare,
    and nothing is lost if it counts as new.
    """
    known = known_of_vanished_path
    dev, ino, *_ = numbers_of(now)
    is_same_inode = (known.dev, known.ino) == (dev, ino)
    return known.offset > 0 and is_same_inode and _still_holds(known, now, fd)


def open_regular(path: str | bytes) -> int:
    """Open a regular file for reading, never following a symlink, never blocking.

    Raises NotRegular for anything that is not a regular file, OSError as ``os.open`` does.
    """
    return open_regular_at(path, None)


def open_regular_at(path: str | bytes, folder: int | None) -> int:
    """As ``open_regular``, for a name in an open folder."""
    try:
        fd = os.open(path, _OPEN_FLAGS, dir_fd=folder)
    except OSError as error:
        if error.errno in _NOT_REGULAR_ERRNOS:
            raise NotRegular(error.errno, "not a regular file", path) from error
        raise
    try:
        regular = stat.S_ISREG(os.fstat(fd).st_mode)
    except BaseException:
        os.close(fd)
        raise
    if not regular:
        os.close(fd)
        raise NotRegular(errno.EINVAL, "not a regular file", path)
    return fd


def _still_holds(known: Known, now: os.stat_result, fd: int) -> bool:
    """True when the bytes before the known offset are still those that were read."""
    if known.offset == 0:
        return True
    return now.st_size >= known.offset and mark_of(fd, known.offset) == known.mark


def pread(fd: int, count: int, offset: int) -> bytes:
    """Read exactly ``count`` bytes, fewer only at the end of the file."""
    data = os.pread(fd, count, offset)
    if len(data) == count or not data:
        return data
    parts = [data]
    done = len(data)
    while done < count and (more := os.pread(fd, count - done, offset + done)):
        parts.append(more)
        done += len(more)
    return b"".join(parts)
