"""One writer per database.

The lock is an flock on ``<database>.lock``. The kernel releases it when the process ends, however
it ends, so a stale lock never has to be cleaned up. The file itself stays (if it were removed, two
processes could lock two different files of the same name). It names the process that holds the
lock: ``pid version``, and after that ``daemon`` if it is one. This text is for people; only the
flock decides who may write.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, Self

from ctxdb import __version__
from ctxdb.errors import CtxdbError, LockHeld, NotOurDatabase, UnsafeDatabase
from ctxdb.mounts import shared_file_system_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType


ORPHAN_SECONDS = 15.0  # a busy machine may not run a process for a while


class Writer(NamedTuple):
    """The process that holds a lock, as the lock file names it."""

    pid: int
    version: str

    @property
    def is_daemon(self) -> bool:
        """Whether it keeps the database up to date until it is stopped."""
        return self.version.endswith(" daemon")


class WriterLock:
    """The right to write to one database, as a context manager."""

    def __init__(self, db_path: Path, *, role: str = "") -> None:
        self.db_path = db_path
        self.role = role  # written into the lock file, after the version
        self.path = lock_path(db_path)
        self._fd: int | None = None
        self.is_after_crash = False  # the process that had it before was killed

    def acquire(self) -> None:
        """Take the lock, or raise LockHeld.

        A path that cannot be a database is refused before a lock file is made beside it.
        """
        if self._fd is not None:
            raise RuntimeError("this lock is already held")
        refuse_unsafe(self.db_path)
        _refuse_shared_file_system(self.db_path)
        # The database and the files beside it hold transcripts, so a new folder is private.
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
            os.close(fd)  # the file was removed meanwhile: lock the new one
        try:
            self.is_after_crash = _parse(os.pread(fd, 100, 0)) is not None
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()} {__version__} {self.role}".rstrip().encode() + b"\n", 0)
        except OSError as e:
            os.close(fd)
            raise CtxdbError(f"{self.path}: {e.strerror}") from e
        self._fd = fd
        _held.add(self)

    @property
    def is_kept(self) -> bool:
        """True while the locked file is the one that other processes would lock."""
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
                    # A process that was forked just before its parent was killed still has the
                    # lock; it closes it when it first runs.
                    if pid is None or is_alive(pid) or time.monotonic() > give_up:
                        raise LockHeld(self.db_path, pid, version) from None
                    time.sleep(0.01)
                else:
                    return
        except OSError as e:
            # Some network file systems have no locks. Then SQLite has none either.
            raise CtxdbError(f"{self.path}: cannot be locked: {e.strerror}") from e

    def _is_still_there(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), os.stat(self.path, follow_symlinks=False))  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True  # its folder cannot be read, so no other process can replace it

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


WANTED_SECONDS = 60.0  # a daemon gives the lock up between two slices
WAKE_SIGNAL = signal.SIGURG  # wakes a daemon; a process that does not know it ignores it


@contextmanager
def lock_of_daemon(db_path: Path, check: Callable[[Path], None]) -> Iterator[WriterLock]:
    """Hold the writer lock; a daemon that has it gives it up meanwhile, and goes on afterwards.

    The daemon looks for a file beside the database that names the process which wants the lock.
    `check` is called while it has not given it up; it raises if the daemon never will.
    """
    lock = WriterLock(db_path)
    wanted = wanted_path(db_path)
    give_up = time.monotonic() + WANTED_SECONDS
    try:
        while True:
            try:
                lock.acquire()
                break
            except LockHeld as e:
                # Without a pid it is being taken or given up at this moment.
                if time.monotonic() > give_up or not (e.is_daemon or e.pid is None):
                    raise
                if e.pid is not None:
                    check(db_path)
                    _ask_for(wanted, e.pid)
            time.sleep(0.05)
        try:
            yield lock
        finally:
            lock.release()
    finally:
        with suppress(OSError):
            if _parse(wanted.read_bytes()[:100]) == Writer(os.getpid(), ""):
                wanted.unlink()


def _ask_for(wanted: Path, daemon: int) -> None:
    if wanted_by(wanted) is None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(wanted, flags, 0o600)
        try:
            os.write(fd, str(os.getpid()).encode())
        finally:
            os.close(fd)
    with suppress(ProcessLookupError, PermissionError):
        os.kill(daemon, WAKE_SIGNAL)


def wanted_by(wanted: Path) -> int | None:
    """The process that wants the lock, if it lives."""
    try:
        writer = _parse(wanted.read_bytes()[:100])
    except OSError:
        return None
    return writer.pid if writer is not None and is_alive(writer.pid) else None


def wanted_path(db_path: Path) -> Path:
    """The file that asks a daemon to give the lock up."""
    return db_path.with_name(db_path.name + ".wanted")


def refuse_unsafe(db_path: Path) -> None:
    """Raise if something is at this path that must not be used as the database."""
    try:
        found = db_path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as e:
        raise CtxdbError(f"{db_path}: {e.strerror}") from e
    if stat.S_ISLNK(found.st_mode):
        raise UnsafeDatabase(db_path, "is a symbolic link; name the file itself")
    if not stat.S_ISREG(found.st_mode):
        raise NotOurDatabase(db_path, "is not a regular file")
    if found.st_uid != os.geteuid() and os.geteuid() != 0:
        raise UnsafeDatabase(db_path, "belongs to another user")
    if found.st_nlink > 1 and not _is_being_named(db_path, found):
        why = "has another name too (a hard link), under which SQLite would not find its log"
        raise UnsafeDatabase(db_path, f"{why}; copy it to a file of its own")


def _is_being_named(db_path: Path, found: os.stat_result) -> bool:
    """Whether the other name is the one that ctxdb made it under, and was killed before removing.

    The next writer removes that name.
    """
    try:
        made = db_path.with_name(db_path.name + "-building").lstat()
    except OSError:
        return False
    return found.st_nlink == 2 and os.path.samestat(made, found)


def _refuse_shared_file_system(db_path: Path) -> None:
    if kind := shared_file_system_of(str(db_path)):
        raise CtxdbError(
            f"{db_path}: is on a network file system ({kind}), where SQLite can damage it;"
            " keep it on a disk of this machine: --db FILE or CTXDB_DB"
        )


def lock_path(db_path: Path) -> Path:
    """Return the path of a database's lock file."""
    return db_path.with_name(db_path.name + ".lock")


def current_writer(db_path: Path) -> Writer | None:
    """Return the process that is writing to a database, or None.

    This does not try the lock: a writer that starts at the same moment would find it taken. It
    reads the lock file, and checks that the named process lives and holds the lock.
    """
    try:
        writer = _parse(lock_path(db_path).read_bytes()[:100])
    except OSError:
        return None
    if writer is None or not is_alive(writer.pid) or not holds_lock(db_path, writer):
        return None
    return writer


def holds_lock(db_path: Path, writer: Writer) -> bool:
    """Whether that process really holds the lock.

    A process that was killed has left its number in the file, and the number may be in use again.
    """
    try:
        inode = os.stat(lock_path(db_path)).st_ino  # noqa: PTH116
        with open("/proc/locks", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            rows = file.read().splitlines()
    except OSError:
        return True  # macOS has no such list: trust the lock file
    for row in rows:
        match row.split():
            case [_, "FLOCK", _, _, pid, place, *_]:
                if pid == str(writer.pid) and place.endswith(f":{inode}"):
                    return True
    return False


def is_alive(pid: int) -> bool:
    """Whether there is a process with that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is another user's
    return True


def _parse(text: bytes) -> Writer | None:
    pid, _, version = text.decode("ascii", "replace").strip().partition(" ")
    # 0 and below mean process groups to kill(2), and pid_t has 32 bits.
    if pid.isascii() and pid.isdigit() and 0 < int(pid) < 2**31:
        return Writer(int(pid), version)
    return None


# A forked worker inherits the descriptor, and with it the lock. If this process were killed, the
# worker would keep the database locked. So workers close it; that does not unlock it here.
_held: set[WriterLock] = set()


def _close_in_child() -> None:
    for lock in list(_held):
        if lock._fd is not None:  # noqa: SLF001
            os.close(lock._fd)  # noqa: SLF001
            lock._fd = None  # noqa: SLF001
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)
