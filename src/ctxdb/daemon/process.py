"""Start the daemon in the background, and stop it."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from ctxdb.daemon_health import log_path, process_started
from ctxdb.errors import CtxdbError, LockHeld
from ctxdb.lock import current_writer, holds_lock

READY_FD = "CTXDB_READY_FD"  # pipe on which a started daemon says that it is ready, or why not
# Only a daemon that hangs or waits takes so long on a busy machine. One that ends is noticed.
START_SECONDS = 120.0
STOP_SECONDS = 120.0
MOST_DESCRIPTORS = 1 << 16  # a shell or a script may have left some open


class StartFailed(CtxdbError):
    """The daemon ended before it was ready; it gave a reason and an exit code."""

    def __init__(self, reason: str, exit_code: int) -> None:
        super().__init__(reason)
        self.exit_code = exit_code  # type: ignore[misc]


def command_line(
    db_path: Path, roots: list[str], *more: str, claude_dirs: Iterable[str] = ()
) -> list[str]:
    """How to run the daemon in the foreground, with this Python and this ctxdb."""
    words = [sys.executable, "-P", "-m", "ctxdb", "--db", str(db_path), "watch", *more]
    for root in roots:
        words += ["--root", root]
    for folder in claude_dirs:
        words += ["--claude-dir", folder]
    return words


def start(
    db_path: Path, roots: list[str], claude_dirs: Iterable[str] = (), *, archive: bool = True
) -> int:
    """Start a daemon that outlives this terminal; return its pid once it is ready."""
    writer = current_writer(db_path)
    if writer is not None:
        held = LockHeld(db_path, writer.pid, writer.version)
        held.say_to_reader(has_wait=False)
        raise held
    log = log_path(db_path)
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    ours, theirs = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        more = () if archive else ("--no-archive",)
        _detach(command_line(db_path, roots, *more, claude_dirs=claude_dirs), theirs, log)
    os.close(theirs)
    with suppress(ChildProcessError):  # SIGCHLD is ignored, as in the parent process
        os.waitpid(child, 0)
    with os.fdopen(ours, "rb") as pipe:
        told = _read_all(pipe.fileno(), START_SECONDS)
    word, _, rest = told.partition(" ")
    if word == "ready" and rest.isdigit():
        return int(rest)
    if word.isdigit():
        raise StartFailed(rest, int(word))
    if told == "late":
        raise CtxdbError(f"the daemon is not ready after {START_SECONDS:.0f} s; see {log}")
    raise CtxdbError(f"the daemon ended at once; see {log}")


def _detach(words: list[str], ready: int, log: Path) -> NoReturn:
    """Become a process without terminal that leads no session, then run the words."""
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.chdir("/")
        os.umask(0o077)
        # The daemon must not hold locks and pipes of the process that started it.
        os.closerange(3, ready)
        os.closerange(ready + 1, MOST_DESCRIPTORS)
        nothing = os.open(os.devnull, os.O_RDONLY)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        output = os.open(log, flags, 0o600)
        for fd, target in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(fd, target)
        os.set_inheritable(ready, True)
        os.execve(words[0], words, {**os.environ, READY_FD: str(ready)})  # noqa: S606
    except BaseException as e:  # noqa: BLE001  (this is a fork: the caller must not go on in it)
        with suppress(OSError):
            os.write(ready, f"1 cannot start: {e}".encode(errors="replace"))
    finally:
        os._exit(1)


def _read_all(fd: int, seconds: float) -> str:
    """What the daemon writes before it closes its end of the pipe."""
    give_up = time.monotonic() + seconds
    told = b""
    while (left := give_up - time.monotonic()) > 0:
        readable, _, _ = select.select([fd], [], [], left)
        if not readable:
            continue
        part = os.read(fd, 4096)
        if not part:
            return told.decode(errors="replace")
        told += part
    return "late"


class Announcement:
    """Tells the process that started the daemon; does nothing for a daemon in the foreground."""

    def __init__(self) -> None:
        value = os.environ.pop(READY_FD, "")
        self.fd: int | None = int(value) if value.isdigit() else None

    @property
    def is_detached(self) -> bool:
        """True when this daemon was started into the background."""
        return self.fd is not None

    def ready(self) -> None:
        """Say that the daemon is ready."""
        self._say(f"ready {os.getpid()}")

    def failed(self, code: int, reason: str) -> None:
        """Say why the daemon could not start."""
        self._say(f"{code} {reason}")

    def _say(self, text: str) -> None:
        fd, self.fd = self.fd, None
        if fd is not None:
            with suppress(OSError):
                os.write(fd, text.encode(errors="backslashreplace"))
                os.close(fd)


def stop(db_path: Path) -> int | None:
    """Ask the daemon to end and wait for it; return its pid, or None if there is none."""
    writer = current_writer(db_path)
    if writer is None:
        return None
    if not writer.is_daemon:
        raise CtxdbError(f"process {writer.pid} is writing to {db_path}, but it is no daemon")
    began = process_started(writer.pid)
    try:
        os.kill(writer.pid, signal.SIGTERM)
        os.kill(writer.pid, signal.SIGCONT)  # a stopped process must go on to end
    except ProcessLookupError:
        return writer.pid
    except PermissionError as e:
        raise CtxdbError(f"process {writer.pid} belongs to another user") from e
    give_up = time.monotonic() + STOP_SECONDS
    while _lives(writer.pid, began) and holds_lock(db_path, writer):
        if time.monotonic() > give_up:
            raise CtxdbError(f"process {writer.pid} does not end; `kill -9 {writer.pid}` ends it")
        time.sleep(0.02)
    return writer.pid


def _lives(pid: int, began: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return process_started(pid) == began
