"""Run the ctxdb of a source tree from its command line, and measure what a run costs.

Nothing of ctxdb is imported, so the same bench measures any two source trees. Every process gets
the tree's src/ first on its path and folders of its own instead of the user's.

CPU time is that of a process and its children, as the kernel counts it. Memory is the proportional
set size (PSS) of all processes of a run together, sampled: a page that two processes share counts
once. Linux only.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
TICKS = os.sysconf("SC_CLK_TCK")  # in a second of CPU time
SAMPLE_SECONDS = 0.05  # between two looks at memory; each takes some milliseconds
LIST_EVERY = 4  # looks: a process that lives shorter than that is missed
QUIET_SECONDS = 2.0  # a daemon that uses no CPU time for so long has caught up
GIVE_UP_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run of a command cost."""

    wall: float  # seconds
    cpu: float  # seconds, with children
    memory_mb: float  # peak PSS of all processes; 0 if it was not sampled


class Tree:
    """A checkout of ctxdb, run with the Python and the packages of this bench."""

    def __init__(self, name: str, checkout: Path, folder: Path, *, masks: bool = False) -> None:
        self.name = name
        self.folder = folder
        home = folder / f"home-{name}"
        config = home / ".config" / "ctxdb"
        config.mkdir(parents=True, exist_ok=True)
        # What older trees do not have is not part of what is compared; they refuse its name.
        source = checkout / "src" / "ctxdb"
        settings = "archive = false\n" if (source / "archive").is_dir() else ""
        if (source / "ingest" / "masked_line.py").exists() and not masks:
            settings += "[redact]\nenabled = false\n"
        (config / "config.toml").write_text(settings)
        # PYTHONDONTWRITEBYTECODE alone would triple the time that a cold start takes.
        drop = ("CTXDB_", "CLAUDE_", "XDG_CONFIG_", "XDG_DATA_", "XDG_STATE_", "PYTHON")
        self.env = {key: value for key, value in os.environ.items() if not key.startswith(drop)}
        self.env |= {"HOME": str(home), "PYTHONPATH": str(checkout / "src"), "PAGER": "cat"}
        where = "import ctxdb; print(ctxdb.__file__)"
        found = subprocess.run(
            [sys.executable, "-c", where],
            env=self.env,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        if not Path(found).is_relative_to(checkout):
            sys.exit(f"{checkout}/src is not what Python imports, but {found}")
        self.run(["--version"])  # compiles the modules

    def command(self, words: list[str | Path]) -> list[str | Path]:
        """The whole command line."""
        return [sys.executable, "-m", "ctxdb", *words]

    def run(self, words: list[str | Path], sample_seconds: float = 0.0) -> Cost:
        """Run a command to its end. It must succeed."""
        began = time.perf_counter()
        process = subprocess.Popen(
            self.command(words),
            env=self.env,
            cwd=self.folder,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        memory = Memory(process.pid, sample_seconds) if sample_seconds else None
        error = process.stderr.read() if process.stderr else b""
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{' '.join(map(str, words))}: {error.decode(errors='replace')}")
        peak = memory.stop() if memory else 0.0
        return Cost(wall, used.ru_utime + used.ru_stime, peak)

    def sync(self, db: Path, *roots: Path, sample_seconds: float = 0.0) -> Cost:
        """Run `ctxdb sync`."""
        return self.run(["--db", db, "sync", "--quiet", *_named(roots)], sample_seconds)

    def first_sync(self, db: Path, *roots: Path, sample_seconds: float = 0.0) -> Cost:
        """Run `ctxdb sync` without a database, and with a disk that has nothing left to write."""
        remove(db)
        os.sync()
        return self.sync(db, *roots, sample_seconds=sample_seconds)

    @contextmanager
    def watch(self, db: Path, *roots: Path) -> Iterator[Daemon]:
        """Run `ctxdb watch`, the process that `ctxdb daemon start` puts into the background."""
        process = subprocess.Popen(
            self.command(["--db", db, "watch", *_named(roots)]),
            env=self.env,
            cwd=self.folder,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield Daemon(process, db)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


class Daemon:
    """A running daemon, and what the kernel knows of it."""

    def __init__(self, process: subprocess.Popen[bytes], db: Path) -> None:
        self.process = process
        self.db = db

    def cpu(self) -> float:
        """Seconds of CPU time: all its threads and children, also those that have ended."""
        total = 0
        for pid in processes(self.process.pid):
            with suppress(OSError):
                total += sum(map(int, _stat(pid)[11:15]))
        return total / TICKS

    def cpu_of_threads(self) -> float:
        """The same to the nanosecond, without children and threads that have ended."""
        total = 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9

    def written(self) -> int:
        """Bytes that it caused to be written to disk."""
        rows = Path(f"/proc/{self.process.pid}/io").read_text().splitlines()
        return next(int(row.split()[1]) for row in rows if row.startswith("write_bytes"))

    def megabytes(self) -> float:
        """Resident memory now."""
        rows = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(row.split()[1]) for row in rows if row.startswith("VmRSS")) / 1024

    def wait_for_lines(self, lines: int) -> None:
        """Wait until so many messages are in the database."""
        self._wait("SELECT count(*) FROM messages", lines)

    def wait_for_bytes(self, size: int) -> None:
        """Wait until so many bytes of transcripts are read."""
        self._wait('SELECT sum("offset") FROM source_files', size)

    def wait_until_quiet(self) -> float:
        """Wait until it has nothing more to do; return its CPU time so far."""
        give_up = time.monotonic() + GIVE_UP_SECONDS
        used, since = self.cpu(), time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS:
            if time.monotonic() > give_up:
                sys.exit("the daemon does not come to rest")
            time.sleep(0.1)
            now = self.cpu()
            if now > used + 1.5 / TICKS:  # one tick may be the rest of what was rounded down
                used, since = now, time.monotonic()
        return self.cpu()

    def _wait(self, sql: str, number: int) -> None:
        give_up = time.monotonic() + GIVE_UP_SECONDS
        while time.monotonic() < give_up:
            if self.process.poll() is not None:
                sys.exit(f"the daemon has ended with exit code {self.process.returncode}")
            with suppress(sqlite3.Error), closing(reader(self.db)) as conn:
                if (conn.execute(sql).fetchone()[0] or 0) >= number:
                    return
            time.sleep(0.1)
        sys.exit("the daemon does not catch up")


class Memory(threading.Thread):
    """The peak memory of all processes of a session, sampled until stopped."""

    def __init__(self, session: int, seconds: float) -> None:
        super().__init__(daemon=True)
        self.session = session
        self.seconds = seconds
        self.peak_kb = 0
        self.ended = threading.Event()
        self.start()

    def run(self) -> None:
        """Sample."""
        looks = 0
        pids: list[int] = []
        while not self.ended.wait(self.seconds):
            if looks % LIST_EVERY == 0:
                pids = processes(self.session)
            looks += 1
            self.peak_kb = max(self.peak_kb, sum(map(_pss_kb, pids)))

    def stop(self) -> float:
        """The peak in megabytes."""
        self.ended.set()
        self.join()
        return self.peak_kb * 1024 / 1e6


@contextmanager
def workplace(keep: Path | None) -> Iterator[Path]:
    """A folder for corpora and databases: the one to keep, or one that is removed at the end.

    The runtime folder, with the daemon's health file, is in memory, as that of a login is.
    """
    folder = keep.absolute() if keep else Path(tempfile.mkdtemp(prefix="ctxdb-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    memory = Path("/dev/shm")  # noqa: S108
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else folder) as runtime:
        os.environ["XDG_RUNTIME_DIR"] = runtime
        try:
            yield folder
        finally:
            if keep is None:
                shutil.rmtree(folder)


def processes(session: int) -> list[int]:
    """The processes of a session: the one that began it and all that it started."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                if int(_stat(int(entry.name))[3]) == session:
                    found.append(int(entry.name))
    return found


def reader(db: Path) -> sqlite3.Connection:
    """A read-only connection."""
    return sqlite3.connect(f"file:{db}?mode=ro", uri=True, isolation_level=None)


def remove(db: Path) -> None:
    """Remove a database and the files beside it."""
    for path in db.parent.glob(f"{db.name}*"):
        path.unlink()


def copy(db: Path, other: Path) -> None:
    """Copy a database that no process has open."""
    remove(other)
    for end in ("", "-wal"):
        source = db.with_name(db.name + end)
        if source.exists():
            shutil.copyfile(source, other.with_name(other.name + end))
            other.with_name(other.name + end).chmod(0o600)


def bytes_of(db: Path) -> int:
    """Size of a database with its log."""
    return sum(
        path.stat().st_size for path in (db, db.with_name(db.name + "-wal")) if path.exists()
    )


def _named(roots: tuple[Path, ...]) -> list[str | Path]:
    return [word for root in roots for word in ("--root", root)]


def _stat(pid: int) -> list[str]:
    """/proc/PID/stat from the state on: the name before it may contain spaces."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _pss_kb(pid: int) -> int:
    with suppress(OSError, StopIteration):
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(row.split()[1]) for row in rows if row.startswith("Pss:"))
    return 0
