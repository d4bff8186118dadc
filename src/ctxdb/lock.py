"""One writer per database.

The lock is an flock on ``<database>.lock``: the kernel drops it when the process dies, however it
dies, so there is never a stale one to clean up. The file itself stays (removing it would let two
processes lock two different files of the same name) and says who holds the lock: ``pid version``.
The daemon adds that word. They are for people; only the flock counts.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from typing import TYPE_CHECKING, NamedTuple, Self

from ctxdb import __version__
from ctxdb.errors import CtxdbError, LockHeld, UnsafeDatabase

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType


ORPHAN_SECONDS = 2.0


class Writer(NamedTuple):
    """Who holds a lock, as the lock file says."""

    pid: int
    version: str


class WriterLock:
    """The right to write to one database, as a context manager."""

    def __init__(self, db_path: Path, *, role: str = "") -> None:
        self.db_path = db_path
        self.role = role  # told to whoever finds it held
        self.path = lock_path(db_path)
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock, or raise LockHeld."""
        if self._fd is not None:
            raise RuntimeError("this lock is already held")
        _check_file_system(self.db_path)
        # The database and its side files hold transcripts: nobody else looks into a folder we make.
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as e:
            raise CtxdbError(f"{self.path.parent}: {e.strerror}") from e
        while True:
            fd = self._open()
            try:
                self._flock(fd)
                if self._is_still_there(fd):
                    break
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # somebody removed the file meanwhile
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()} {__version__} {self.role}".rstrip().encode() + b"\n", 0)
        except OSError as e:
            os.close(fd)
            raise CtxdbError(f"{self.path}: {e.strerror}") from e
        self._fd = fd
        _held.add(self)

    @property
    def is_kept(self) -> bool:
        """True while the file that is locked is the one that others would lock."""
        return self._fd is not None and self._is_still_there(self._fd)

    def release(self) -> None:
        """Give the lock back. Safe to call twice."""
        fd, self._fd = self._fd, None
        _held.discard(self)
        if fd is not None:
            os.ftruncate(fd, 0)
            os.close(fd)

    def _open(self) -> int:
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as e:
            if e.errno == errno.ELOOP:
                raise UnsafeDatabase(self.path, "the lock file is a symbolic link") from e
            raise CtxdbError(f"{self.path}: {e.strerror}") from e
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if mode & 0o077 and os.fstat(fd).st_uid == os.geteuid():
            os.fchmod(fd, 0o600)
        return fd

    def _flock(self, fd: int) -> None:
        give_up = time.monotonic() + ORPHAN_SECONDS
        try:
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    writer = _parse(os.pread(fd, 100, 0))
                    pid, version = writer or (None, "")
                    # What a process forked just before it was killed lets go when it first runs.
                    if pid is None or is_alive(pid) or time.monotonic() > give_up:
                        raise LockHeld(self.db_path, pid, version) from None
                    time.sleep(0.01)
                else:
                    return
        except OSError as e:
            # Some network file systems have no locks. Two writers would still not corrupt the
            # database, SQLite sees to that, but there SQLite has no locks either.
            raise CtxdbError(f"{self.path}: cannot be locked: {e.strerror}") from e

    def _is_still_there(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), os.stat(self.path, follow_symlinks=False))  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True  # its folder cannot be looked into: nobody else gets at it either

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.release()


# Shared between machines. Others that inotify cannot watch (9p, FUSE) belong to this machine alone.
SHARED = frozenset(
    {"afs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"ocfs2", "smb2", "smb3", "smbfs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs"}
)


def _check_file_system(db_path: Path) -> None:
    """Writers and readers share memory beside the database, which two machines cannot."""
    from ctxdb.daemon.mounts import file_system_of

    kind = file_system_of(str(db_path))
    if kind in SHARED:
        raise CtxdbError(
            f"{db_path}: is on a network file system ({kind}), where SQLite can damage it;"
            " keep it on a disk of this machine: --db FILE or CTXDB_DB"
        )


def lock_path(db_path: Path) -> Path:
    """Return the lock file of that database."""
    return db_path.with_name(db_path.name + ".lock")


def current_writer(db_path: Path) -> Writer | None:
    """Return who is writing to that database, as far as one can tell without touching the lock.

    A reader that tried the lock could make a writer that starts at the same moment believe that
    it is taken. So this goes by what the holder wrote, and whether that process lives and holds it.
    """
    try:
        writer = _parse(lock_path(db_path).read_bytes()[:100])
    except OSError:
        return None
    if writer is None or not is_alive(writer.pid) or not holds_lock(db_path, writer):
        return None
    return writer


def holds_lock(db_path: Path, writer: Writer) -> bool:
    """True when that process really holds the lock.

    One that was killed has left its number in the file, which may be another process's by now.
    """
    try:
        inode = os.stat(lock_path(db_path)).st_ino  # noqa: PTH116
        with open("/proc/locks", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            rows = file.read().splitlines()
    except OSError:
        return True  # no such list here: the words in the lock file must do
    held = (row.split()[4:6] for row in rows if "FLOCK" in row)
    return any(pid == str(writer.pid) and place.endswith(f":{inode}") for pid, place in held)


def is_alive(pid: int) -> bool:
    """Whether there is a process of that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # and not ours
    return True


def _parse(text: bytes) -> Writer | None:
    pid, _, version = text.decode("ascii", "replace").strip().partition(" ")
    # 0 and below mean process groups to kill(2), and pid_t has 32 bits.
    if pid.isascii() and pid.isdigit() and 0 < int(pid) < 2**31:
        return Writer(int(pid), version)
    return None


# A forked worker inherits the descriptor, and with it the lock: if this process were killed, the
# orphan would keep the database locked. So children close it; that does not unlock it here.
_held: set[WriterLock] = set()


def _close_in_child() -> None:
    for lock in list(_held):
        if lock._fd is not None:  # noqa: SLF001
            os.close(lock._fd)  # noqa: SLF001
            lock._fd = None  # noqa: SLF001
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)
