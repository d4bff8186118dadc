"""Kill a command at any moment, or let any of its writes fail.

A moment is the beginning of an SQL statement (of any connection of the process, the archive's too),
a write of SQLite to a file (page, log, truncation, removal), or a change to a file by Python
(opened for writing, renamed, linked, removed). The kill is a real SIGKILL in a real process. A
failure is what the system would answer: SQLite's own system calls return EIO or ENOSPC, through the
table that SQLite keeps for such tests; Python's raise OSError.

A sweep runs the command again and again, each time a little further::

    @EVERY_20TH
    def test_case_100_...(world: World, every: int) -> None:
        before = Saved(world.db.parent)
        for moment in kills(every, ["--db", world.db, "rebuild"], before.put_back):
            assert the database is as it was (`moment` says in which run)
        # here the command ran to its end

        for failed in failures(every, ["--db", world.db, "rebuild"], before.put_back):
            assert failed.done.returncode == 1 ...

Before a sweep, close every connection to the files: the processes must not share them.

A kill leaves the files as they are at that moment. So a command with thousands of moments runs once
and waits at each while its files are copied: `photographs` yields the copies. A few real kills
beside it show the same.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from world import RUN, Done, run_python

KILLED = -signal.SIGKILL
STATEMENTS, WRITES, FILES = "statements", "writes", "files"
NO_SPACE, IO_ERROR = "ENOSPC", "EIO"

# `make test` takes every 20th moment, `make crash` all of them.
EVERY_20TH = pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.crash)])


class Failed(NamedTuple):
    """A run in which a write has failed."""

    moment: int
    done: Done


class Photograph(NamedTuple):
    """A folder as it was at a moment."""

    moment: int
    folder: Path


class Saved:
    """The files of a folder as they are now, to be put back before each run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        self.modes = {path: path.stat().st_mode & 0o777 for path in folder.rglob("*")}

    def put_back(self) -> None:
        """Remove what is in the folder, and write what was in it."""
        for path in self.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        for path in sorted(set(self.modes) - set(self.files)):
            path.mkdir(parents=True)
        for path, data in self.files.items():
            path.write_bytes(data)
        for path, mode in self.modes.items():
            path.chmod(mode)


def kills(
    every: int,
    command: Sequence[str | Path],
    prepare: Callable[[], None] = lambda: None,
    *,
    what: Sequence[str] = (STATEMENTS, FILES),
    first: int = 1,
    code: str = RUN,
) -> Iterator[int]:
    """Kill a command at its first moment, `every` moments later, and so on; yields after each kill.

    Ends when the command is not reached by the kill any more; it must then have done its work.
    """
    moment = first
    while True:
        prepare()
        done, _ = run_with_fault("kill", moment, command, what=what, code=code)
        if done.returncode != KILLED:
            assert (done.returncode, "Traceback" in done.stderr) == (0, False), done
            assert moment > first, "there was no moment to kill it at"
            return
        yield moment
        moment += every


def photographs(
    every: int,
    command: Sequence[str | Path],
    folder: Path,
    *,
    what: Sequence[str],
    code: str = RUN,
) -> Iterator[Photograph]:
    """Run a command once; yields a copy of the folder as a kill at each moment would leave it."""
    with tempfile.TemporaryDirectory() as aside, ThreadPoolExecutor(1) as thread:
        for name in ("said", "go"):
            os.mkfifo(f"{aside}/{name}")
        plan = f"photograph {every} {','.join(what)} {aside}/happened"
        env = {**os.environ, "FAULT": plan}
        running = thread.submit(run_python, HOOK + code, *command, env=env)
        moment = 0
        with open(f"{aside}/said", "rb", 0) as said, open(f"{aside}/go", "wb", 0) as go:
            while said.read(1):
                moment += every
                copy = Path(aside) / "copy"
                shutil.copytree(folder, copy)
                yield Photograph(moment, copy)
                shutil.rmtree(copy)
                go.write(b".")
        done = running.result()
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done
        assert moment, "there was no moment"


def failures(
    every: int,
    command: Sequence[str | Path],
    prepare: Callable[[], None] = lambda: None,
    *,
    error: str = IO_ERROR,
    lasting: bool = False,
    first: int = 1,
    code: str = RUN,
) -> Iterator[Failed]:
    """Let one write of a command fail, or with `lasting` all from there on; yields after each run.

    No run may end with a traceback. Ends when no write was left to fail.
    """
    moment = first
    while True:
        prepare()
        done, happened = run_with_fault(
            f"{error}+" if lasting else error, moment, command, what=(WRITES, FILES), code=code
        )
        if not happened:
            assert done.returncode == 0, done
            assert moment > first, "there was nothing to fail"
            return
        assert "Traceback" not in done.stderr, (moment, done)
        yield Failed(moment, done)
        moment += every


def run_with_fault(
    fault: str,
    moment: int,
    command: Sequence[str | Path],
    *,
    what: Sequence[str],
    code: str = RUN,
) -> tuple[Done, bool]:
    """Run a command with one fault at one moment; says whether that moment came."""
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder) / "happened"
        plan = f"{fault} {moment} {','.join(what)} {note}"
        done = run_python(HOOK + code, *command, env={**os.environ, "FAULT": plan})
        return done, note.exists()


# Runs in the process of the command, before it.
HOOK = '''
def _install():
    import ctypes, errno, os, signal, sqlite3, sys, _sqlite3

    fault, moment, what, note = os.environ.pop("FAULT").split()
    left, what, process = int(moment), what.split(","), os.getpid()
    lasting, fault = fault.endswith("+"), fault.rstrip("+")

    if fault == "photograph":
        folder = os.path.dirname(note)
        said, go = os.open(f"{folder}/said", os.O_WRONLY), os.open(f"{folder}/go", os.O_RDONLY)

    def is_time():
        """Count a moment; True if the fault is now."""
        nonlocal left
        if os.getpid() != process:  # a process that only reads
            return False
        left -= 1
        if left == 0 and fault == "photograph":
            os.write(said, b".")
            os.read(go, 1)
            left = int(moment)
            return False
        if left == 0 or (lasting and left < 0):
            if fault == "kill":
                os.kill(process, signal.SIGKILL)
            if left == 0:
                _write_note(note)
            return True
        return False

    def _write_note(path, open=os.open, close=os.close):
        nonlocal left
        kept, left = left, 1 << 60
        close(open(path, os.O_CREAT | os.O_WRONLY))
        left = kept

    def on_statement(sql):
        if not sql.startswith("--"):  # of a trigger: part of another statement
            is_time()

    CHANGES = {"os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir", "os.truncate",
               "os.symlink", "os.chmod"}
    WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    IGNORED = ("/dev/null", "/dev/tty", "/proc/", sys.prefix, sys.base_prefix,
               os.path.dirname(note))

    def is_of_interest(path):
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, (str, os.PathLike)):
            return True
        path = os.path.abspath(path)
        return not path.startswith(IGNORED) and "__pycache__" not in path

    def on_event(event, args):
        if event in CHANGES or (event == "open" and (args[2] or 0) & WRITING):
            if is_of_interest(args[0]) and is_time():
                raise OSError(getattr(errno, fault), os.strerror(getattr(errno, fault)), args[0])

    def watch_statements():
        real = sqlite3.connect

        def connect(*args, **named):
            conn = real(*args, **named)
            conn.set_trace_callback(on_statement)
            return conn

        sqlite3.connect = sqlite3.dbapi2.connect = connect

    def on_write(real):
        def call(*args):
            if is_time():
                ctypes.set_errno(getattr(errno, fault))
                return -1
            return real(*args)
        return call

    class Vfs(ctypes.Structure):
        _fields_ = [
            ("version", ctypes.c_int), ("file_size", ctypes.c_int), ("longest", ctypes.c_int),
            ("next", ctypes.c_void_p), ("name", ctypes.c_char_p), ("data", ctypes.c_void_p),
            *[(f"method{n}", ctypes.c_void_p) for n in range(13)],
            ("set_call", ctypes.CFUNCTYPE(
                ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)),
        ]

    def watch_writes():
        library = ctypes.CDLL(_sqlite3.__file__)
        library.sqlite3_vfs_find.restype = ctypes.POINTER(Vfs)
        vfs = library.sqlite3_vfs_find(None)
        system = ctypes.CDLL(None, use_errno=True)
        size, text, number = ctypes.c_ssize_t, ctypes.c_char_p, ctypes.c_int
        place, pointer = ctypes.c_int64, ctypes.c_void_p
        calls = {
            "write": (size, number, pointer, ctypes.c_size_t),
            "pwrite": (size, number, pointer, ctypes.c_size_t, place),
            "pwrite64": (size, number, pointer, ctypes.c_size_t, place),
            "ftruncate": (number, number, place),
            "unlink": (number, text),
        }
        for name, (result, *kinds) in calls.items():
            real = getattr(system, name, None)
            if real is None:
                continue
            real.restype, real.argtypes = result, kinds
            hook = ctypes.CFUNCTYPE(result, *kinds, use_errno=True)(on_write(real))
            kept.append(hook)
            vfs.contents.set_call(
                ctypes.cast(vfs, pointer), name.encode(), ctypes.cast(hook, pointer))

    if "writes" in what:
        watch_writes()
    if "statements" in what:
        watch_statements()
    if "files" in what:
        sys.addaudithook(on_event)

kept = []  # what C code points to
_install()
'''
