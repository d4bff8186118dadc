from __future__ import annotations

import fcntl
import multiprocessing
import os
import shutil
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from ctxdb import __version__
from ctxdb.errors import CtxdbError, LockHeld, UnsafeDatabase
from ctxdb.lock import Writer, WriterLock, current_writer, lock_path
from world import SESSION, World, lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLD = """
import sys
import threading
from pathlib import Path
from ctxdb.lock import WriterLock
with WriterLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "data" / "my.db"


@contextmanager
def another_process_holding(db: Path) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, db],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        try:
            yield child
        finally:
            child.kill()


def test_a_second_process_is_refused_and_told_who_holds_the_lock(db: Path) -> None:
    with another_process_holding(db) as child:
        with pytest.raises(LockHeld) as caught:
            WriterLock(db).acquire()
        assert caught.value.exit_code == 3
        assert caught.value.pid == child.pid
        assert f"process {child.pid} (ctxdb {__version__})" in str(caught.value)
        assert current_writer(db) == Writer(child.pid, __version__)


WRITES = (
    ("archive", "add"),
    ("backup", "--restore", "{backup}"),
    ("daemon", "start"),
    ("forget", "--session", SESSION, "--yes"),
    ("merge", "{other}"),
    ("rebuild",),
    ("redact", "--apply"),
    ("sync",),
    ("watch",),
)
HAS_WAIT = {("sync",), ("watch",)}


@pytest.mark.parametrize("words", WRITES, ids=" ".join)
def test_a_command_advises_wait_only_if_it_has_that_option(
    world: World, tmp_path: Path, words: tuple[str, ...]
) -> None:
    world.write(lines(0))
    world.sync()
    assert world.cli("backup", tmp_path / "backup").returncode == 0
    other = shutil.copy(world.db, tmp_path / "other.db")
    given = [word.format(backup=tmp_path / "backup", other=other) for word in words]
    with WriterLock(world.db):
        done = world.cli(*given)
        assert done.returncode == 3, done.stderr
        assert f"process {os.getpid()} (ctxdb {__version__}) is writing to" in done.stderr
        assert done.stderr.splitlines()[-1].startswith("Error: process ")
        assert ("use --wait" in done.stderr) == (words in HAS_WAIT)
        assert ("--wait" in world.cli(*words[:2], "--help").stdout) == (words in HAS_WAIT)
    with WriterLock(world.db, role="daemon"):
        if words[0] == "forget":  # waits until the daemon gives it the lock
            return
        done = world.cli(*given)
        assert done.returncode == 3, done.stderr
        reads_what_is_new = words in {("sync",), ("watch",), ("daemon", "start")}
        assert ("`ctxdb daemon stop`" in done.stderr) != reads_what_is_new
        assert "use --wait" not in done.stderr


def test_a_killed_process_leaves_no_lock_behind(db: Path) -> None:
    with another_process_holding(db) as child:
        child.kill()
        child.wait()
        assert lock_path(db).read_text() == f"{child.pid} {__version__}\n"
        assert current_writer(db) is None
        with WriterLock(db):
            assert current_writer(db) == Writer(os.getpid(), __version__)


def test_the_lock_file_stays_after_release_private_and_without_a_pid(db: Path) -> None:
    with WriterLock(db):
        assert stat.S_IMODE(lock_path(db).stat().st_mode) == 0o600
        assert stat.S_IMODE(db.parent.stat().st_mode) == 0o700
    assert lock_path(db).read_bytes() == b""
    assert current_writer(db) is None


def test_a_lock_file_that_others_could_read_is_made_private(db: Path) -> None:
    db.parent.mkdir()
    lock_path(db).touch(mode=0o644)
    with WriterLock(db):
        assert stat.S_IMODE(lock_path(db).stat().st_mode) == 0o600


def test_a_lock_can_be_taken_again_after_release(db: Path) -> None:
    lock = WriterLock(db)
    for _ in range(2):
        with lock:
            pass
    lock.release()  # once too often does no harm


def test_a_lock_that_was_removed_while_it_was_taken_is_not_the_lock(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = WriterLock(db)
    real, calls = lock._flock, []

    def remove_then_lock(fd: int) -> None:
        if not calls:
            lock_path(db).unlink()
        calls.append(fd)
        real(fd)

    monkeypatch.setattr(lock, "_flock", remove_then_lock)
    with lock, pytest.raises(LockHeld):
        WriterLock(db).acquire()
    assert len(calls) == 2


def _child_after_fork(ready: int, go_on: int) -> None:
    os.write(ready, b"x")
    os.read(go_on, 1)


# Python 3.12 and later warn of forking beside threads, which pytest-xdist has.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_worker_does_not_keep_the_lock_of_its_parent(db: Path) -> None:
    ready_out, ready_in = os.pipe()
    go_on_out, go_on_in = os.pipe()
    lock = WriterLock(db)
    lock.acquire()
    worker = multiprocessing.get_context("fork").Process(
        target=_child_after_fork, args=(ready_in, go_on_out)
    )
    worker.start()
    try:
        os.read(ready_out, 1)
        with pytest.raises(LockHeld):  # the child's close unlocked nothing here
            WriterLock(db).acquire()
        lock.release()
        with WriterLock(db):  # and the worker, still alive, holds nothing
            assert worker.is_alive()
    finally:
        os.write(go_on_in, b"x")
        worker.join()
        for fd in (ready_out, ready_in, go_on_out, go_on_in):
            os.close(fd)


def test_what_a_killed_process_forked_a_moment_before_is_waited_for(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.parent.mkdir(parents=True, exist_ok=True)
    lock_path(db).write_bytes(b"%d 0.1.0\n" % (2**31 - 1))  # no process has such a number
    held = os.open(lock_path(db), os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)  # as the child of it holds it, which has not run yet

    def sleep(_: float) -> None:
        nonlocal held
        os.close(held)  # now it has run
        held = -1

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    monkeypatch.setattr("ctxdb.lock.time", clock)
    with WriterLock(db):
        assert held == -1
        assert current_writer(db) == Writer(os.getpid(), __version__)


def test_a_symbolic_link_in_place_of_the_lock_file_is_refused(db: Path, tmp_path: Path) -> None:
    db.parent.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    lock_path(db).symlink_to(victim)
    with pytest.raises(UnsafeDatabase):
        WriterLock(db).acquire()
    assert victim.read_text() == "precious"


def test_a_folder_that_cannot_be_made_is_a_reason_and_not_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CtxdbError, match="file"):
        WriterLock(tmp_path / "file" / "my.db").acquire()


@pytest.mark.parametrize(
    "text",
    [b"", b"\n", b"hello", b"-1 0.1.0\n", b"0 0.1.0", b"9" * 40, b"\xff\xfe", "１２".encode()],  # noqa: RUF001
)
def test_nonsense_in_the_lock_file_names_nobody(db: Path, text: bytes) -> None:
    db.parent.mkdir()
    lock_path(db).write_bytes(text)
    assert current_writer(db) is None
    with WriterLock(db):
        pass
