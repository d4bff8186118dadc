"""The daemon makes the archive small while nothing else happens, and never makes a line wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ctxdb.archive import seal_process
from ctxdb.archive.archive_file import archive_path, open_archive_to_read
from ctxdb.archive.read import ArchiveReader, generations
from ctxdb.daemon import archiver
from ctxdb.daemon.archiver import Archiver
from ctxdb.daemon.main import Daemon
from live_forks import has, until
from live_lab import inside
from world import World, line


def asked(db: Path, sql: str) -> int:
    """A number of the archive; 0 while there is no archive."""
    conn = open_archive_to_read(db)
    if conn is None:
        return 0
    with closing(conn):
        (value,) = conn.execute(sql).fetchone()
    return int(value or 0)


def count(db: Path, table: str) -> int:
    return asked(db, f"SELECT count(*) FROM {table}")


def archived(db: Path) -> dict[str, bytes]:
    conn = open_archive_to_read(db)
    if conn is None:
        return {}
    with closing(conn):
        reader = ArchiveReader(conn)
        return {file.path: reader.read(file) for file in generations(conn)}


def soon(world: World) -> Callable[[Daemon], None]:
    """Let a daemon archive, and make the archive smaller after moments instead of minutes."""

    def change(daemon: Daemon) -> None:
        daemon.intake.archiver = Archiver(world.db, idle_seconds=0.2, seal_seconds=0.0)

    return change


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiver, "PAUSE_SECONDS", 0.05)


def sleeping(seconds: float = 600) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", str(seconds)], stderr=subprocess.PIPE)


def test_frames_are_sealed_when_no_line_comes(world: World) -> None:
    text = "tide " * 30_000
    for n in range(8):
        world.append(line(n, f"{n} {text}"))
    with inside(world, change=soon(world)) as daemon:
        has(world, 8)
        until(lambda: count(world.db, "blocks"))
        until(lambda: not count(world.db, "frames"))
        assert archived(world.db) == {str(world.main): world.main.read_bytes()}
        world.append(line(8))
        has(world, 9)
        until(lambda: archived(world.db) == {str(world.main): world.main.read_bytes()})
        assert not daemon.health.archive_problem


def test_small_frames_become_one_when_their_file_has_been_quiet(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiver, "QUIET_SECONDS", -1.0)
    with inside(world, change=soon(world)) as daemon:
        daemon.intake.archiver.idle_seconds = 600.0
        for n in range(3):
            world.append(line(n))
            until(lambda n=n: count(world.db, "frames") == n + 1)

        def is_tidied() -> bool:
            daemon.intake.archiver.tidy_at = 0.0  # it may just be setting the next time
            daemon.wakeup.set()
            return count(world.db, "frames") == 1

        until(is_tidied)
        assert archived(world.db) == {str(world.main): world.main.read_bytes()}


def test_the_unfinished_last_line_of_a_quiet_file_is_archived_and_continued(world: World) -> None:
    whole = line(0) + line(1)
    world.write(whole[:-20])
    os.utime(world.main, (1_600_000_000, 1_600_000_000))
    with inside(world, change=soon(world)):
        has(world, 1)
        until(lambda: archived(world.db) == {str(world.main): whole[:-20]})
        world.append(whole[-20:])
        has(world, 2)
        until(lambda: archived(world.db) == {str(world.main): whole})


def test_sealing_ends_as_soon_as_a_line_comes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiver, "has_work", lambda *_, **__: True)
    started: list[subprocess.Popen[bytes]] = []

    def start(*_: object) -> subprocess.Popen[bytes]:
        started.append(sleeping())
        return started[-1]

    monkeypatch.setattr(seal_process, "start", start)
    world.append(line(0))
    with inside(world, change=soon(world)) as daemon:
        until(lambda: started)
        daemon.intake.archiver.idle_seconds = 600.0
        first = started[0]
        world.append(line(1))
        has(world, 2)
        until(lambda: first.poll() is not None)
        assert first.returncode == -signal.SIGKILL


def test_sealing_ends_with_the_daemon(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiver, "has_work", lambda *_, **__: True)
    started: list[subprocess.Popen[bytes]] = []

    def start(*_: object) -> subprocess.Popen[bytes]:
        started.append(sleeping())
        return started[-1]

    monkeypatch.setattr(seal_process, "start", start)
    world.append(line(0))
    with inside(world, change=soon(world)):
        until(lambda: started)
    assert all(child.returncode == -signal.SIGKILL for child in started)


def test_the_process_that_seals_is_niced_and_ends_when_it_is_an_orphan(
    world: World, tmp_path: Path
) -> None:
    world.append(line(0))
    with inside(world, change=soon(world)):
        has(world, 1)
        until(lambda: count(world.db, "frames"))
    # Its parent is gone when it looks: it leaves the archive to whoever writes it now.
    ran = tmp_path / "ran"
    code = (
        "import os, sys, time, pathlib\n"
        "from ctxdb.archive import seal_process\n"
        f"sys.argv = ['', {str(world.db)!r}, '0', '0']\n"
        "parent = os.getppid()\n"
        "if os.fork() == 0:\n"
        "    while os.getppid() == parent: time.sleep(0.01)\n"
        "    code = seal_process.main()\n"
        f"    pathlib.Path({str(ran)!r}).write_text(f'{{code}} {{os.nice(0)}}')\n"
        "    os._exit(0)\n"
        "time.sleep(0.2)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    until(lambda: ran.exists() and ran.read_text())
    assert ran.read_text() == "0 19"


def test_a_sealing_that_fails_is_logged_and_lines_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sh", "-c", "echo no space left >&2; exit 1"], stderr=-1)

    monkeypatch.setattr(archiver, "has_work", lambda *_, **__: True)
    monkeypatch.setattr(seal_process, "start", start)
    world.append(line(0))
    with inside(world, change=soon(world)) as daemon:
        said = daemon.log.stream
        assert said is not None
        until(lambda: "cannot make the archive smaller: no space left" in said.getvalue())  # type: ignore[attr-defined]
        world.append(line(1))
        has(world, 2)


def test_case_97_a_daemon_says_that_it_cannot_archive_and_catches_up_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiver, "RETRY_SECONDS", 0.1)
    archive_path(world.db).write_bytes(b"in the way" * 100)
    archive_path(world.db).chmod(0o600)
    world.append(line(0))
    with inside(world, change=soon(world)) as daemon:
        has(world, 1)
        until(lambda: "cannot write the archive" in daemon.health.archive_problem)
        world.append(line(1))
        has(world, 2)
        archive_path(world.db).unlink()
        until(lambda: archived(world.db) == {str(world.main): world.main.read_bytes()})
        until(lambda: not daemon.health.archive_problem)


def test_a_long_catching_up_of_the_archive_is_done_in_parts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiver, "MOST_BYTES", 1000)
    monkeypatch.setattr("ctxdb.archive.add.FRAME_BYTES", 1000)
    for n in range(20):
        world.append(line(n, "x" * 400))
    sizes: set[int] = set()
    with inside(world, change=soon(world)):
        until(lambda: count(world.db, "files"))
        give_up = time.monotonic() + 100
        while time.monotonic() < give_up:
            sizes.add(asked(world.db, "SELECT max(size) FROM files"))
            if world.main.stat().st_size in sizes:
                break
            time.sleep(0.01)
    assert archived(world.db) == {str(world.main): world.main.read_bytes()}
    assert len(sizes) > 2
