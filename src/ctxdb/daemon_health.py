"""The daemon's health file: small, in the runtime folder, written by it and read by others.

The file does not prove that the daemon is alive: `running` also checks its process and the writer
lock. The time of the file's last change is the daemon's last sign of life, every few seconds. The
file holds no transcript text.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path

from ctxdb.errors import FrozenDaemon
from ctxdb.formatting import day_and_time
from ctxdb.lock import current_writer

BEAT_SECONDS = 4.0
LATE_BEATS = 3  # then it is frozen: 12 s, far longer than any slice takes
STATE_FIELD = 0  # of /proc/<pid>/stat, after the name: the state of the process
START_FIELD = 19  # and starttime
STOPPED_STATES = ("T", "t")  # of a process: by SIGSTOP, by a debugger


@dataclass(slots=True)
class Health:
    """What the daemon says about itself."""

    pid: int = 0
    process_started: int = 0  # by the kernel's clock: the pid may be reused
    version: str = ""
    database: str = ""
    roots: list[str] = field(default_factory=list)
    given_roots: list[str] | None = None  # not from the configuration file
    state: str = "starting"  # starting, catching_up, watching, blocked, waiting, stopped
    why: str = ""  # what it is blocked by or waits for
    since: str = ""  # when that state began
    mode: str = ""  # events, polling, storm
    mode_reason: str = ""  # why it polls, and what to do about it
    started_at: str = ""
    written_at: str = ""
    written: float = 0.0  # the same as seconds since 1970
    beat_seconds: float = 0.0  # how often the file is touched when nothing happens; 0: never
    is_on_disk: bool = False  # not in memory: it is then written less often
    files: int = 0
    folders: int = 0
    watches: int = 0
    pending: int = 0  # files known to have something to read
    missing_roots: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)  # folders, and roots that are none
    lag_ms: float | None = None  # of the last slice: from the first sign of a change to its commit
    max_lag_ms: float | None = None  # over the last minutes
    last_read_at: str | None = None
    lines: int = 0
    bytes: int = 0
    slices: int = 0
    events: int = 0
    overflows: int = 0
    rescans: int = 0
    storms: int = 0
    rearms: int = 0
    wal_bytes: int = 0
    wal_reason: str = ""  # why the last checkpoint did not empty the -wal, as far as SQLite says
    archive: bool = True  # False: it was started with --no-archive, or archive = false
    archive_problem: str = ""  # why the archive cannot be written to; lines are stored all the same
    errors: int = 0
    last_error: str | None = None
    last_error_at: str | None = None

    @property
    def is_frozen(self) -> bool:
        """Its process is there, but it was stopped or has given no sign of life for too long."""
        return self.is_suspended or (
            self.beat_seconds > 0 and time.time() - self.written > LATE_BEATS * self.beat_seconds
        )

    @property
    def is_suspended(self) -> bool:
        """Its process was stopped with SIGSTOP, or by a debugger."""
        return _field_of(self.pid, STATE_FIELD) in STOPPED_STATES

    @property
    def frozen_text(self) -> str:
        """What is wrong with a frozen daemon, and what to do."""
        if self.is_suspended:
            return f"process {self.pid} was stopped by a signal; `kill -CONT {self.pid}` resumes it"
        at = day_and_time(self.written_at) or self.written_at
        return f"no sign of life since {at}; `ctxdb daemon restart` starts it again"

    @property
    def was_stopped(self) -> bool:
        """It was told to stop: it was not killed, and did not end by itself."""
        return self.state == "stopped" and not self.why

    def differs(self, other: Health | None) -> bool:
        """Whether there is something to write. On a disk, rescans alone are not worth a write."""
        if other is None or not self.is_on_disk:
            return self != other
        return self != replace(other, rescans=self.rescans, rearms=self.rearms)

    def as_dict(self) -> dict[str, object]:
        """Stable names for programs."""
        found = asdict(self)
        for name in ("process_started", "written", "beat_seconds", "given_roots", "is_on_disk"):
            del found[name]
        return found


def runtime_dir() -> Path | None:
    """The user's runtime folder, if there is one that only the user can write to."""
    value = os.environ.get("XDG_RUNTIME_DIR", "") or f"/run/user/{os.geteuid()}"
    try:
        found = Path(value).stat()
    except OSError:
        return None
    is_private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o022
    return Path(value) if is_private and found.st_uid == os.geteuid() else None


def health_path(db_path: Path) -> Path:
    """Where the daemon of that database writes now: the runtime folder, or beside the database."""
    first, *_ = _places(db_path)
    return first


def _places(db_path: Path) -> list[Path]:
    """Where a daemon may have written; the first is where it writes now.

    The runtime folder goes away at logout, and the daemon may have begun before or after that.
    """
    beside = db_path.with_name(db_path.name + ".daemon")
    folder = runtime_dir()
    if folder is None:
        return [beside]
    name = hashlib.blake2b(os.path.realpath(db_path).encode(errors="surrogateescape"))
    return [folder / "ctxdb" / f"{name.hexdigest()[:16]}.json", beside]


def log_path(db_path: Path) -> Path:
    """The log file of that database's daemon."""
    value = os.environ.get("XDG_STATE_HOME", "")
    state = Path(value) if value.startswith("/") else Path("~/.local/state").expanduser()
    name = hashlib.blake2b(os.path.realpath(db_path).encode(errors="surrogateescape"))
    return state / "ctxdb" / f"{db_path.stem}-{name.hexdigest()[:8]}.log"


def files_of_daemon(db_path: Path) -> list[Path]:
    """All files that daemons of that database may have left: logs and health files."""
    log = log_path(db_path)
    logs = sorted(log.parent.glob(f"{log.name}*")) if log.parent.is_dir() else []
    return [*logs, *(place for place in _places(db_path) if place.exists())]


def write(path: Path, health: Health) -> None:
    """Replace the file as a whole, readable by its owner only. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    other = path.with_name(f"{path.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(other, flags, 0o600)
    try:
        with os.fdopen(fd, "w") as file:
            json.dump(asdict(health), file)
        other.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            other.unlink()
        raise


def touch(path: Path) -> bool:
    """Say that the daemon lives, without writing the file again; False if it is not there."""
    try:
        os.utime(path, follow_symlinks=False)
    except OSError:
        return False
    return True


def read(db_path: Path) -> Health | None:
    """What the last daemon of that database wrote, whether it is alive or not."""
    found = [health for path in _places(db_path) if (health := _read(path)) is not None]
    return max(found, key=lambda health: health.written, default=None)


def _read(path: Path) -> Health | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            info = os.fstat(fd)
            if info.st_uid != os.geteuid():
                return None
            found = json.loads(file.read(1 << 20))
        names = {one.name for one in fields(Health)}
        health = Health(**{key: value for key, value in found.items() if key in names})
        health.written = float(health.written)
        if info.st_mtime - health.written > 1.0:  # it was touched since it was written
            health.written = info.st_mtime
            moment = datetime.fromtimestamp(info.st_mtime, UTC).isoformat(timespec="milliseconds")
            health.written_at = moment.replace("+00:00", "Z")
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return health


def running(db_path: Path) -> Health | None:
    """The daemon that writes to that database now, if there is one."""
    found = read(db_path)
    if found is None or found.state == "stopped":
        return None
    writer = current_writer(db_path)
    if writer is None or writer.pid != found.pid:
        return None
    started = process_started(found.pid)
    if found.process_started and started and started != found.process_started:
        return None
    return found


def refuse_frozen(db_path: Path) -> None:
    """Raise FrozenDaemon if the daemon is there but does nothing."""
    daemon = running(db_path)
    if daemon is not None and daemon.is_frozen:
        raise FrozenDaemon(db_path, daemon.pid, daemon.frozen_text)


def process_started(pid: int) -> int:
    """When a process began, in ticks since boot; 0 where that cannot be told."""
    try:
        return int(_field_of(pid, START_FIELD))
    except ValueError:
        return 0


def _field_of(pid: int, number: int) -> str:
    """A field of /proc/<pid>/stat after the name; empty where that cannot be told."""
    try:
        with Path(f"/proc/{pid}/stat").open("rb") as file:
            # The name in parentheses may hold anything; after it the fields have no spaces.
            _, _, fields = file.read().rpartition(b")")
            return fields.split()[number].decode()
    except (OSError, IndexError, ValueError):
        return ""
