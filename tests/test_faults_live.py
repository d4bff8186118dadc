"""Fault cases 3, 4, 7, 8, 42 to 44, 49 to 60 and 62 to 66: the daemon, whatever happens.

Numbers are those of the fault catalogue. Real files, real inotify, real processes; where a fault
cannot be caused from outside (a clock that jumps, a thread that dies) it is put in.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from ctxdb import daemon_health as beats
from ctxdb import mounts
from ctxdb.assets import asset_dir
from ctxdb.claude.layout import is_transcript
from ctxdb.daemon import events, intake, loop, rhythm, watch
from ctxdb.daemon.database import Database
from ctxdb.daemon.logs import Log
from ctxdb.daemon.main import Daemon
from ctxdb.daemon.rescan import Rescan
from ctxdb.daemon.slice import Slice
from ctxdb.daemon.status_words import DaemonReport
from ctxdb.files import tail
from ctxdb.files.walk import scan
from ctxdb.lock import WriterLock
from lab import put_empty_database
from live_forks import Live, has, until
from live_lab import (
    PATIENCE,
    count,
    events_come,
    inside,
    own_line,
    paused,
    put_in_place,
    runtime_folder,
    session,
    transcript,
)
from live_lab import Live as NewLive
from thinning import thinned
from world import World, as_nobody, line, lines, public_world, texts


def unshared(*options: str) -> bool:
    """True where a namespace of one's own can be had."""
    if shutil.which("unshare") is None:
        return False
    return (
        subprocess.run(["unshare", *options, "true"], check=False, capture_output=True).returncode
        == 0
    )


# -- stopping and starting again -------------------------------------------------------------------


@pytest.mark.parametrize("seed", thinned(range(3), 3))
def test_case_3_a_daemon_told_to_stop_while_it_reads_ends_with_0_and_whole_batches(
    world: World, seed: int
) -> None:
    rng = random.Random(seed)
    for n in range(8):
        world.write(b"".join(own_line(n, k) for k in range(75)), transcript(world, n))
    live = Live(world)
    until(lambda: live.health().pid == live.pid)
    enough = rng.choice([0, 1, 150])
    until(lambda: count(world) >= enough)
    assert live.end() == 0
    world.offsets_agree()
    last = beats.read(world.db)
    assert last is not None
    assert last.state == "stopped"
    assert beats.running(world.db) is None
    world.sync()
    assert count(world) == 600
    world.sound()


STUCK = """
import os, time
from ctxdb.daemon.main import Daemon
from ctxdb.daemon.slice import Slice
from ctxdb.lock import WriterLock
def take(self, files):
    os.write(1, b"in a slice. ")
    while True:
        time.sleep(60)
Slice.take = take
stop = Daemon.stop
def told(self, number):
    stop(self, number)
    os.write(1, b"told to stop. ")
Daemon.stop = told
from ctxdb.cli.main import main
main()
"""


def test_case_4_a_second_interrupt_ends_it_at_once_and_the_database_is_whole(world: World) -> None:
    world.write(lines(0, 1))
    live = Live(world, code=STUCK)
    until(lambda: "in a slice" in live.stderr())
    live.send(signal.SIGINT)
    until(lambda: "told to stop" in live.stderr())  # else two that come at once would be one
    assert live.end(signal.SIGINT) == 130
    world.sync()
    world.settled([0, 1])


def test_case_4_one_interrupt_ends_it_when_the_slice_is_done(world: World) -> None:
    world.write(lines(0, 1))
    with Live(world) as live:
        assert live.end(signal.SIGINT) == 130
    world.settled([0, 1])
    assert "Traceback" not in live.stderr()


def test_case_7_after_a_while_away_it_catches_up_oldest_first(world: World) -> None:
    order = [4, 0, 3, 1, 2]
    for n in range(5):
        world.write(own_line(n, 0), transcript(world, n))
    with Live(world) as live:
        has(world, 5)
        assert live.end() == 0
    for age, n in enumerate(order):
        path = transcript(world, n)
        world.append(own_line(n, 1), path)
        os.utime(path, (1_700_000_000 + age, 1_700_000_000 + age))
    taken: list[str] = []

    class Noted(Slice):
        def take(self, files: Any) -> Any:
            taken.extend(Path(file.path).stem for file in files)
            return super().take(files)

    with inside(world, change=lambda daemon: setattr(daemon.intake, "make_slice", Noted)):
        has(world, 10)
    assert list(dict.fromkeys(taken)) == [session(n) for n in order]
    world.sound()


def test_case_8_a_killed_daemon_leaves_no_lock_and_the_next_one_goes_on(world: World) -> None:
    world.write(lines(0, 1))
    with Live(world) as live:
        has(world, 2)
        live.send(signal.SIGKILL)
        live.process.wait()
    assert str(live.pid) in world.db.with_name("ctxdb.db.lock").read_text()
    assert beats.running(world.db) is None
    world.append(line(2))
    with Live(world):
        has(world, 3)
    world.settled(range(3))


# -- roots -----------------------------------------------------------------------------------------


def test_case_42_a_root_that_cannot_be_read_for_a_while_loses_nothing() -> None:
    with public_world() as world:
        world.write(lines(0, 1))
        if os.geteuid() == 0:
            for path in (world.root, world.main.parent, world.main):
                os.chown(path, 65534, 65534)

        def work() -> Any:
            put_empty_database(world.db)
            with inside(world) as daemon:
                has(world, 2)
                generation = world.source()["generation"]
                world.root.chmod(0)
                rescans = daemon.health.rescans
                daemon.rescan_asked = True
                daemon.wakeup.set()
                until(lambda: daemon.health.rescans > rescans)
                until(lambda: not daemon.intake.has_work)
                during = world.one("SELECT count(missing_since) FROM source_files")
                world.root.chmod(0o755)
                world.append(line(2))
                has(world, 3)
                source = world.source()
                same = source["generation"] == generation
                return [during, source["missing_since"], same, world.texts()]

        os.environ["XDG_RUNTIME_DIR"] = str(world.db.parent)
        assert as_nobody(work) == [0, None, True, texts(range(3))]


def test_case_42_a_root_that_is_gone_for_a_while_loses_nothing(world: World) -> None:
    world.write(lines(0, 1))
    away = world.root.with_name("away")
    with inside(world) as daemon:
        has(world, 2)
        world.root.rename(away)
        daemon.rescan_asked = True
        daemon.wakeup.set()
        until(lambda: daemon.health.missing_roots or scan_again(daemon))
        until(lambda: not daemon.intake.has_work)
        assert world.one("SELECT count(missing_since) FROM source_files") == 0
        away.rename(world.root)
        world.append(line(2))
        scan_again(daemon)
        has(world, 3)
    world.settled(range(3))


def scan_again(daemon: Daemon) -> bool:
    daemon.rescan_asked = True
    daemon.wakeup.set()
    return False


def test_case_43_a_root_that_is_not_there_yet_is_waited_for(world: World, tmp_path: Path) -> None:
    root = tmp_path / "not/yet/projects"
    other = World(root, world.db)
    with inside(other) as daemon:
        assert daemon.health.missing_roots == [str(root)]
        assert daemon.health.mode == "events"
        other.write(lines(0, 1))  # makes the folders
        has(other, 2)
        until(lambda: daemon.health.missing_roots == [])
        n = events_come(other, daemon, 2)  # watched now, not only looked at
    assert other.texts() == texts(range(n))


def test_case_44_a_root_that_is_deleted_and_made_again_is_watched_again(world: World) -> None:
    world.write(lines(0, 1))
    with inside(world) as daemon:
        has(world, 2)
        for n in (2, 3, 4):
            shutil.rmtree(world.root)
            world.root.mkdir()
            world.write(lines(n))
            has(world, n + 1)
        until(lambda: not daemon.intake.has_work)
        n = events_come(world, daemon, 5)
    assert world.texts() == texts(range(n))


def test_case_49_after_the_machine_has_slept_everything_is_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(rhythm.RHYTHMS, "events", rhythm.RHYTHMS["events"]._replace(tick=0.05))
    slept = [False]

    class Sleepy:
        def slept(self) -> bool:
            answer, slept[0] = slept[0], False
            return answer

    with inside(world, change=lambda d: setattr(d.loop, "clock", Sleepy())) as daemon:
        rescans = daemon.health.rescans
        slept[0] = True
        until(lambda: "slept" in daemon.log.stream.getvalue())  # type: ignore[union-attr]
        until(lambda: daemon.health.rescans > rescans)


def test_case_49_the_clocks_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    from ctxdb.daemon import clock

    moved = [0.0]
    monkeypatch.setattr(clock, "_since_boot", lambda: time.monotonic() + moved[0])
    watch = clock.Clock()
    assert not watch.slept()
    moved[0] = 3600.0
    assert watch.slept()
    assert not watch.slept()


# -- watching --------------------------------------------------------------------------------------


NO_STORMS = """
from ctxdb.daemon import rhythm
rhythm.STORM_EVENTS = 1_000_000
from ctxdb.cli.main import main
main()
"""


def test_case_50_lost_events_are_made_up_for_by_looking(world: World) -> None:
    noise = [world.file(f"noise/{n}.jsonl") for n in range(2)]
    world.write(lines(0))
    with Live(world, code=NO_STORMS) as live:
        has(world, 1)
        with live.stopped():
            limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
            fds = [os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) for path in noise]
            for n in range(limit + 2000):  # alternating: equal events in a row would be folded
                os.write(fds[n % 2], b"\n")
            for fd in fds:
                os.close(fd)
            world.append(line(1))  # there is no event for these
            world.write(line(2, sessionId=session(2)), transcript(world, 2, "-work-new"))
        has(world, 3)
        until(lambda: live.health().overflows >= 1, seconds=PATIENCE * 3)  # after all others
    assert world.texts() == texts(range(3))


FAST_POLLING = """
from ctxdb.daemon import rhythm
rhythm.RHYTHMS["polling"] = rhythm.RHYTHMS["polling"]._replace(hot=0.1, tick=0.2, walk=0.2)
from ctxdb.cli.main import main
main()
"""


@pytest.fixture
def fast_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = rhythm.RHYTHMS["polling"]._replace(hot=0.1, tick=0.2, walk=0.2)
    monkeypatch.setitem(rhythm.RHYTHMS, "polling", fast)


def limited(limit: str, value: int) -> list[str]:
    """Run what follows where the kernel allows that many watches or instances."""
    script = f'echo {value} > /proc/sys/user/{limit} && exec "$@"'
    return ["unshare", "-Ur", "sh", "-c", script, "sh"]


@pytest.mark.skipif(not unshared("-Ur"), reason="no user namespaces here")
@pytest.mark.parametrize(
    ("limit", "value", "advice"),
    [
        pytest.param("max_inotify_watches", 8, "fs.inotify.max_user_watches", id="case-51-watches"),
        pytest.param(
            "max_inotify_watches",
            0,
            "fs.inotify.max_user_watches",
            id="case-51-none",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "max_inotify_instances", 0, "fs.inotify.max_user_instances", id="case-52-instances"
        ),
    ],
)
def test_case_51_and_52_beyond_the_limits_of_inotify_it_polls_and_says_what_to_raise(
    world: World, limit: str, value: int, advice: str
) -> None:
    for n in range(12):
        world.write(own_line(n, 0), transcript(world, n, f"-work-{n}"))
    with NewLive(world, before=limited(limit, value), code=FAST_POLLING) as live:
        until(lambda: live.health().mode == "polling")
        for n in range(12):
            world.append(own_line(n, 1), transcript(world, n, f"-work-{n}"))
        world.write(own_line(12, 0), transcript(world, 12, "-work-12"))
        has(world, 25)
        shown = world.cli("status").stdout
        assert "polling" in shown
        assert f"sudo sysctl {advice}=" in shown
    world.sound()


def test_case_53_files_in_folders_that_were_just_made_are_found(world: World) -> None:
    with Live(world):
        for n in range(80):
            path = world.root / f"-work-{n}" / "deep" / "subagents" / f"agent-{n}.jsonl"
            path.parent.mkdir(parents=True)
            path.write_bytes(own_line(n, 0))
        has(world, 80)
    world.sound()


@pytest.mark.usefixtures("fast_polling")
def test_case_54_on_a_network_file_system_it_polls_and_says_why(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "mounts"
    table.write_text(
        f"/dev/vda / ext4 rw 0 0\nserver:/home {tmp_path} nfs4 rw 0 0\n"
        f"/dev/vdb {tmp_path}/with\\040space ext4 rw 0 0\n"
    )
    assert mounts.file_system_of(str(world.root), table) == "nfs4"
    assert mounts.file_system_of("/usr", table) == "ext4"
    assert mounts.file_system_of(f"{tmp_path}/with space/x", table) == "ext4"
    monkeypatch.setattr(watch, "why_no_events", lambda path: mounts.why_no_events(path, table))
    world.write(lines(0))
    with inside(world) as daemon:
        assert daemon.health.mode == "polling"
        assert "nfs4" in daemon.health.mode_reason
        world.append(line(1))
        has(world, 2)
        assert daemon.health.events == 0
    world.settled(range(2))


@pytest.mark.usefixtures("fast_polling")
def test_case_55_when_handling_an_event_fails_it_polls_and_then_watches_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = [True]
    real = events.RootEvents._note

    def note(self: Any, event: Any) -> None:
        if fails[0]:
            raise RuntimeError("no")
        real(self, event)

    monkeypatch.setattr(events.RootEvents, "_note", note)
    world.write(lines(0))
    with inside(world) as daemon:
        world.append(line(1))
        has(world, 2)  # by looking
        until(lambda: "RuntimeError" in (daemon.health.last_error or ""))
        fails[0] = False
        until(lambda: daemon.health.mode == "events")
        n = events_come(world, daemon, 2)
    world.settled(range(n))


@pytest.mark.usefixtures("fast_polling")
def test_case_55_when_a_watching_thread_dies_it_is_started_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from watchdog.observers.inotify import InotifyEmitter

    fails = [True]
    real = InotifyEmitter.queue_event

    def queue_event(self: Any, event: Any) -> None:
        if fails[0]:
            raise KeyError("gone")
        real(self, event)

    monkeypatch.setattr(InotifyEmitter, "queue_event", queue_event)
    world.write(lines(0))
    with inside(world) as daemon:
        world.append(line(1))
        has(world, 2)
        until(lambda: "KeyError" in (daemon.health.last_error or ""))
        fails[0] = False
        until(lambda: daemon.health.mode == "events")
        n = events_come(world, daemon, 2)
    world.settled(range(n))


def test_case_56_in_a_storm_of_events_it_looks_instead_and_every_line_is_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rhythm, "STORM_EVENTS", 50)
    monkeypatch.setattr(rhythm, "CALM_SECONDS", 0.3)
    files = 20
    for n in range(files):
        world.write(own_line(n, 0), transcript(world, n))
    modes: dict[str, bool] = {}  # and whether threads handle events meanwhile
    with inside(world) as daemon:
        real = daemon.loop._choose_mode

        def choose_mode(now: float) -> None:
            real(now)
            modes[daemon.loop.mode] = daemon.loop.watcher.observer is not None

        monkeypatch.setattr(daemon.loop, "_choose_mode", choose_mode)
        k = 0
        with paused(daemon):  # so that it is told of all at once, however slow the machine
            while daemon.hints.events < rhythm.STORM_EVENTS:
                k += 1
                for n in range(files):
                    world.append(own_line(n, k), transcript(world, n))
        until(lambda: "storm" in modes)
        k += 1
        for n in range(files):
            world.append(own_line(n, k), transcript(world, n))
        world.write(own_line(files, 0), transcript(world, files, "-work-new"))
        has(world, files * (k + 1) + 1)
        until(lambda: "events" in modes)
        assert modes == {"storm": False, "events": True}
        assert daemon.health.storms >= 1
        events = daemon.health.events
        world.append(own_line(files, 1), transcript(world, files, "-work-new"))
        has(world, files * (k + 1) + 2)
        until(lambda: daemon.health.events > events)
    world.sound()


# -- the database ----------------------------------------------------------------------------------


def test_case_57_a_second_daemon_names_the_first_and_exits_3(world: World) -> None:
    with Live(world) as live:
        done = world.cli("watch", "--root", world.root)
        assert done.returncode == 3
        assert f"process {live.pid} " in done.stderr
        assert "already running" in done.stderr
        assert str(world.db) in done.stderr
        assert done.stderr.count("\n") == 1


def test_case_58_a_sync_beside_the_daemon_says_that_it_is_not_needed(world: World) -> None:
    world.write(lines(0))
    with Live(world) as live:
        has(world, 1)
        done = world.cli("sync")
        assert done.returncode == 3
        assert f"process {live.pid} " in done.stderr
        assert "keeps" in done.stderr
    world.settled([0])


def test_case_59_a_reader_that_stays_does_not_stop_it_and_the_log_is_emptied_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.02)
    monkeypatch.setattr(intake, "WAL_BYTES", 1)
    monkeypatch.setattr(intake, "WAL_TRUNCATE_BYTES", 1)
    monkeypatch.setattr(intake, "WAL_WARN_BYTES", 1)
    world.write(lines(0))
    wal = world.db.with_name("ctxdb.db-wal")
    with inside(world) as daemon:
        has(world, 1)
        with closing(sqlite3.connect(f"file:{world.db}?mode=ro", uri=True)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM messages").fetchone() == (1,)
            for n in range(1, 6):
                world.append(line(n))
                has(world, n + 1)
            until(lambda: "an open read transaction needs" in (daemon.health.last_error or ""))
            assert wal.stat().st_size > 0
            assert reader.execute("SELECT count(*) FROM messages").fetchone() == (1,)
            reader.execute("ROLLBACK")
        until(lambda: wal.stat().st_size == 0)
    world.settled(range(6))


def test_case_59_it_tries_again_to_empty_the_log_only_while_a_reader_keeps_something_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A -wal that is all in the database is not made shorter each time, and no timer is set."""
    monkeypatch.setattr(intake, "WAL_BYTES", 1)
    world.sync()
    database = Database(world.db)
    database.open()
    stored = intake.Intake(database, Rescan([str(world.root)]), beats.Health(), Log(None))
    with closing(sqlite3.connect(f"file:{world.db}?mode=ro", uri=True)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM messages").fetchone()
        for is_last in (False, True):
            database.keep("something", "else")
            stored.checkpoint()
            assert database.wal_bytes() > 0
            assert (stored.wrote_at is None) == is_last
            if not is_last:
                reader.execute("ROLLBACK")
    database.drop()


def write_much(database: Database) -> None:
    """Make the -wal some pages long."""
    for n in range(20):
        database.keep(f"key {n}", "x" * 5000)


def test_case_85_a_checkpoint_gives_the_reason_that_sqlite_gives_and_no_other(
    world: World,
) -> None:
    world.sync()
    database = Database(world.db)
    database.open()
    write_much(database)
    assert database.checkpoint() == ""
    write_much(database)
    assert database.wal_bytes() > 50_000
    with closing(sqlite3.connect(world.db, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM messages").fetchone()
        # All of it is in the database; only the file cannot be cut while it is being read.
        assert database.checkpoint(truncate=True) == "another connection is using it"
        write_much(database)
        for truncate in (False, True):
            why = database.checkpoint(truncate=truncate)
            assert why.startswith("an open read transaction needs ")
        other.execute("ROLLBACK")
        assert database.checkpoint() == ""
        other.execute("BEGIN IMMEDIATE")
        assert database.checkpoint(truncate=True) == "another connection is using it"
        other.execute("ROLLBACK")
    database.conn.execute("BEGIN IMMEDIATE")
    assert database.checkpoint().startswith("the checkpoint failed: ")
    database.conn.execute("ROLLBACK")
    assert database.checkpoint(truncate=True) == ""
    assert database.wal_bytes() == 0
    database.drop()


def test_case_85_a_large_log_alone_is_not_blamed_on_a_reader() -> None:
    """While it catches up, the -wal grows before there is a checkpoint at all."""
    large = beats.Health(pid=1, wal_bytes=300 << 20)
    (shown,) = [row for row in DaemonReport(large, running=True).lines() if "-wal" in row]
    assert shown.strip() == "the -wal is 315 MB"
    large.wal_reason = "an open read transaction needs 2 of its 3 pages"
    (shown,) = [row for row in DaemonReport(large, running=True).lines() if "-wal" in row]
    assert shown.strip() == f"the -wal is 315 MB: {large.wal_reason}"


def test_case_85_the_reason_goes_when_the_log_can_be_emptied(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WAL_BYTES", "WAL_TRUNCATE_BYTES", "WAL_WARN_BYTES"):
        monkeypatch.setattr(intake, name, 1)
    world.sync()
    database = Database(world.db)
    database.open()
    stored = intake.Intake(database, Rescan([str(world.root)]), beats.Health(), Log(None))
    write_much(database)
    stored.checkpoint()
    assert (stored.health.wal_reason, stored.health.last_error) == ("", None)
    with closing(sqlite3.connect(f"file:{world.db}?mode=ro", uri=True)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM messages").fetchone()
        write_much(database)
        stored.checkpoint()
        assert "read transaction" in stored.health.wal_reason
        assert "read transaction" in str(stored.health.last_error)
    stored.checkpoint()
    assert stored.health.wal_reason == ""
    database.drop()


def test_case_59_the_log_is_emptied_while_lines_keep_coming(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 3600.0)  # no pause is long enough
    monkeypatch.setattr(loop, "MOST_CHECKPOINT_SECONDS", 0.05)
    monkeypatch.setattr(intake, "WAL_TRUNCATE_BYTES", 1)
    wal = world.db.with_name("ctxdb.db-wal")
    with inside(world) as daemon:
        for n in range(3):
            world.append(line(n))
            has(world, n + 1)
            until(lambda: wal.stat().st_size == 0)
            until(lambda: daemon.health.wal_bytes == 0)
    world.settled(range(3))


def test_case_89_the_daemon_searches_only_the_new_bytes_of_an_unfinished_line(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "UNFINISHED_BYTES", 1 << 18)
    long = line(1, padding="some words " * 60_000)
    world.write(line(0) + long[:-100])
    real = os.pread
    sizes: list[int] = []

    def pread(fd: int, count: int, offset: int) -> bytes:
        data = real(fd, count, offset)
        sizes.append(len(data))
        return data

    with inside(world):
        has(world, 1)
        monkeypatch.setattr(os, "pread", pread)
        for cut in range(100, 2, -7):
            world.append(long[-cut : 7 - cut])
            size = world.main.stat().st_size
            until(lambda size=size: world.source()["size"] == size)
        assert sum(sizes) < 14 * 16 * 1024
        world.append(long[-2:])
        has(world, 2)
    world.settled([0, 1])


def test_case_60_while_another_program_holds_the_write_lock_it_waits_and_says_so(
    world: World,
) -> None:
    world.write(lines(0))
    with Live(world) as live:
        has(world, 1)
        with closing(sqlite3.connect(world.db, isolation_level=None)) as browser:
            browser.execute("BEGIN IMMEDIATE")
            world.append(line(1))
            live.is_in("blocked")
            shown = world.cli("status").stdout
            assert "blocked by another writer since 2" in shown
            world.append(line(2))
            assert count(world) == 1
            browser.execute("ROLLBACK")
        has(world, 3)
        live.is_in("watching")
    world.settled(range(3))


def test_case_60_a_daemon_that_is_stopped_while_it_waits_does_not_call_that_its_reason(
    world: World,
) -> None:
    world.write(lines(0))
    with Live(world) as live, closing(sqlite3.connect(world.db)) as editor:
        has(world, 1)
        editor.execute("BEGIN IMMEDIATE")
        world.append(line(1))
        live.is_in("blocked")
        assert live.end() == 0
        assert live.health().was_stopped
        assert "stopped:" not in live.stderr()


def test_case_60_a_daemon_that_starts_while_the_database_is_locked_waits_too(world: World) -> None:
    world.write(lines(0))
    # Another version's views make the start write, too.
    world.change("UPDATE _meta SET value = 'old' WHERE key = 'schema'")
    with closing(sqlite3.connect(world.db, isolation_level=None)) as browser:
        browser.execute("BEGIN IMMEDIATE")
        live = Live(world).is_in("blocked")
        browser.execute("ROLLBACK")
    with live:
        has(world, 1)
    world.settled([0])


FULL = """
import subprocess, sys
folder, size = sys.argv[1:3]
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)
subprocess.run(["cp", sys.argv[3], f"{folder}/ctxdb.db"], check=True)
daemon = subprocess.Popen(sys.argv[4:])
print("mounted", flush=True)
for row in sys.stdin:
    subprocess.run(["mount", "-o", f"remount,size={row.strip()}", folder], check=True)
    print("grown", flush=True)
daemon.terminate()
code = daemon.wait()
subprocess.run(["cp", f"{folder}/ctxdb.db", f"{folder}-copy.db"], check=True)
sys.exit(code)
"""


@pytest.mark.skipif(not unshared("-Urm"), reason="no mount namespaces here")
def test_case_62_on_a_full_disk_it_waits_and_goes_on_when_there_is_room(
    world: World, tmp_path: Path
) -> None:
    runtime_folder()
    folder = tmp_path / "full"
    folder.mkdir(mode=0o700)
    db = folder / "ctxdb.db"
    filler = "word " * 4000
    for n in range(10):
        data = b"".join(line(n * 100 + k, f"{n} {k} {filler}") for k in range(10))
        world.write(data, transcript(world, n))
    driver = tmp_path / "driver.py"
    driver.write_text(textwrap.dedent(FULL))
    command = ["unshare", "-Urm", sys.executable, driver, folder, "3m", world.db, *LIVE_WORDS]
    process = subprocess.Popen(
        [*command, "--db", db, "watch", "--root", world.root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "mounted\n"

        def health() -> Any:
            return beats.read(db) or beats.Health()

        until(lambda: health().state == "waiting" and "full" in health().why, "waiting for room")
        process.stdin.write("100m\n")
        process.stdin.flush()
        assert process.stdout.readline() == "grown\n"
        until(lambda: health().state == "watching" and health().lines >= 100, "goes on")
    finally:
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        process.stdout.close()
    found = World(world.root, Path(f"{folder}-copy.db"))
    assert count(found) == 100
    found.sound()


LIVE_WORDS = [sys.executable, "-P", "-m", "ctxdb"]


@pytest.mark.parametrize("what", ["folder", "file"])
def test_case_63_a_database_that_cannot_be_written_is_named_with_what_to_do(what: str) -> None:
    from ctxdb.errors import CtxdbError

    with public_world() as world:
        world.write(lines(0))

        def work() -> str:
            if what == "file":
                put_empty_database(world.db)
                world.sync()
                world.db.chmod(0o444)
            world.db.with_name("ctxdb.db.lock").touch()
            world.db.parent.chmod(0o555)
            daemon = Daemon(world.config, Log(None))
            try:
                daemon.run(signals=False)
            except CtxdbError as e:
                return f"{e.exit_code} {e}"
            return "went on"

        os.environ["XDG_RUNTIME_DIR"] = str(world.root)
        told = as_nobody(work)
        assert told.startswith("1 ")
        assert str(world.db) in told
        assert "rmission denied" in told or "chmod u+w" in told


@pytest.mark.parametrize("mode", [0o444, 0o400])
def test_case_63_a_database_that_its_owner_made_read_only_stays_so_until_he_changes_it(
    mode: int,
) -> None:
    from ctxdb.errors import CtxdbError

    with public_world() as world:
        world.write(lines(0))

        def first() -> None:
            put_empty_database(world.db)
            world.sync()
            world.db.chmod(mode)

        def then() -> list[str]:
            told = []
            try:
                world.sync()
            except CtxdbError as e:
                told.append(f"{e.exit_code} {e}")
            world.db.chmod(0o600)
            world.sync()
            return told + world.texts()

        as_nobody(first)
        world.append(lines(1))
        (why, *said) = as_nobody(then)
        assert why.startswith(f"1 {world.db}: ")
        assert "chmod u+w" in why
        assert said == texts([0, 1])


def test_case_64_a_database_that_is_deleted_is_made_again_from_the_transcripts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(rhythm.RHYTHMS, "events", rhythm.RHYTHMS["events"]._replace(tick=0.1))
    world.write(lines(0, 1))
    with inside(world) as daemon:
        has(world, 2)
        inode = world.db.stat().st_ino
        keep = world.db.open("rb")  # so that the inode is not given away again
        try:
            world.db.unlink()
            until(lambda: world.db.exists() and world.db.stat().st_ino != inode)
        finally:
            keep.close()
        has(world, 2)
        world.append(line(2))
        has(world, 3)
        assert "file was deleted" in daemon.log.stream.getvalue()  # type: ignore[union-attr]
        assert daemon.database.abandoned == []
    world.settled(range(3))


def test_case_64_a_database_whose_loss_is_noticed_at_a_checkpoint_is_filled_again_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(rhythm.RHYTHMS, "events", rhythm.RHYTHMS["events"]._replace(tick=3600.0))
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 3600.0)
    monkeypatch.setattr(loop, "MOST_CHECKPOINT_SECONDS", 3600.0)
    world.write(lines(0, 1))
    with inside(world) as daemon:
        has(world, 2)
        until(lambda: not daemon.intake.has_work)
        world.db.unlink()
        monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)  # now is the time for one
        daemon.wakeup.set()
        until(world.db.exists)
        has(world, 2)
    world.settled(range(2))


def test_case_64_a_database_that_is_moved_away_takes_all_with_it_that_was_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 3600.0)
    monkeypatch.setattr(loop, "MOST_CHECKPOINT_SECONDS", 3600.0)
    world.write(lines(0, 1))
    away = World(world.root, world.db.with_name("away.db"))
    with inside(world):
        has(world, 2)
        world.db.rename(away.db)
        world.append(line(2))
        has(world, 3)
    assert away.texts() == texts(range(2))
    away.sound()
    world.settled(range(3))


def test_case_64_when_its_whole_folder_is_deleted_it_makes_all_of_it_again(world: World) -> None:
    world.write(lines(0, 1))
    with Live(world) as live:
        has(world, 2)
        with live.stopped():  # else it may make files in a folder that is being deleted
            shutil.rmtree(world.db.parent)
        world.append(line(2))
        has(world, 3)
        until(lambda: (beats.running(world.db) or beats.Health()).pid == live.pid)
        assert world.cli("watch", "--root", world.root).returncode == 3  # the lock is held
    world.settled(range(3))


def test_case_64_while_somebody_else_holds_the_lock_that_was_removed_it_does_not_write(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(rhythm.RHYTHMS, "events", rhythm.RHYTHMS["events"]._replace(tick=0.1))
    monkeypatch.setattr("ctxdb.daemon.database.MAX_WAIT_SECONDS", 0.2)
    world.write(lines(0))
    with inside(world) as daemon:
        has(world, 1)
        until(lambda: not daemon.intake.has_work)
        with ExitStack() as stack:
            with paused(daemon):  # else it may be the first to take the lock
                other = WriterLock(world.db)
                other.path.rename(other.path.with_name("another-lock"))
                stack.enter_context(other)
            until(lambda: "waiting: " in daemon.log.stream.getvalue())  # type: ignore[union-attr]
            world.append(line(1))
            slices = daemon.health.slices
            until(lambda: daemon.hints.files)  # it is told, and does not heed it
            assert daemon.health.slices == slices
        has(world, 2)
        assert daemon.lock.is_kept
    world.settled(range(2))


def test_case_64_while_something_else_is_in_its_place_it_waits_and_then_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(rhythm.RHYTHMS, "events", rhythm.RHYTHMS["events"]._replace(tick=0.1))
    monkeypatch.setattr("ctxdb.daemon.database.MAX_WAIT_SECONDS", 0.2)
    world.write(lines(0, 1))
    with inside(world) as daemon:
        has(world, 2)
        os.link(world.db, world.db.with_name("away.db"))
        put_in_place(world.db, b"not a database, but somebody's file " * 100)
        until(lambda: "is not a SQLite database" in daemon.health.why)
        assert daemon.health.state == "waiting"
        world.append(line(2))
        assert world.db.read_bytes().startswith(b"not a database")
        world.db.unlink()
        has(world, 3)
        until(lambda: daemon.health.state == "watching")
    world.settled(range(3))


def test_case_64_while_its_folder_is_something_else_it_waits_and_then_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxdb.daemon.database.MAX_WAIT_SECONDS", 0.2)
    folder = world.db.parent / "data"
    world = World(world.root, folder / "ctxdb.db")
    world.write(lines(0, 1))
    with inside(world) as daemon:
        has(world, 2)
        with paused(daemon):  # else it may make the folder again
            folder.rename(folder.with_name("away"))
            folder.touch()
        world.append(line(2))
        until(lambda: "waiting: " in daemon.log.stream.getvalue())  # type: ignore[union-attr]
        with paused(daemon, daemon.lock, "acquire"):
            folder.unlink()
            folder.with_name("away").rename(folder)
        has(world, 3)
        assert daemon.lock.is_kept
    world.settled(range(3))


def test_case_64_while_its_folder_cannot_be_looked_into_it_waits_and_then_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ctxdb.daemon.database.MAX_WAIT_SECONDS", 0.2)
    with public_world() as world:
        world.write(lines(0, 1))

        def work() -> list[str]:
            put_empty_database(world.db)
            with inside(world) as daemon:
                has(world, 2)
                world.db.parent.chmod(0)
                daemon.intake.queue.add(
                    scan([str(world.root)], is_transcript).files, time.monotonic()
                )
                daemon.wakeup.set()
                until(lambda: daemon.health.state == "waiting")
                world.db.parent.chmod(0o700)
                until(lambda: daemon.health.state == "watching")
                return world.texts()

        if os.geteuid() == 0:
            os.chown(world.root, 65534, 65534)
        os.environ["XDG_RUNTIME_DIR"] = str(world.root)
        assert as_nobody(work) == texts(range(2))


def test_case_65_a_database_replaced_by_an_older_one_is_brought_up_to_date(world: World) -> None:
    world.write(lines(0))
    world.sync()
    old = world.db.with_name("backup.db")
    shutil.copy(world.db, old)
    world.append(lines(1, 2))
    with Live(world) as live:
        has(world, 3)
        old.replace(world.db)
        world.append(line(3))
        has(world, 4)
        until(lambda: "file was replaced" in live.stderr())
    world.settled(range(4))


def test_case_65_an_older_copy_that_sqlite_has_written_back_is_brought_up_to_date(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By .restore, say: the file is the same one, and nothing shows before a checkpoint."""
    monkeypatch.setitem(rhythm.RHYTHMS, "events", rhythm.RHYTHMS["events"]._replace(tick=0.1))
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 3600.0)
    monkeypatch.setattr(loop, "MOST_CHECKPOINT_SECONDS", 3600.0)
    world.write(lines(0))
    with inside(world), closing(sqlite3.connect(":memory:")) as older:
        has(world, 1)
        with world.connect() as now:
            now.backup(older)
        world.append(lines(1, 2))
        has(world, 3)
        with world.connect(write=True) as now:
            older.backup(now)
        has(world, 3)
    world.settled(range(3))


def test_case_65_the_log_of_the_old_file_is_not_read_into_the_backup(world: World) -> None:
    """Here the log was moved into the file before, and begun again: SQLite would leave it there."""
    world.write(lines(*range(50)))
    world.sync()
    backup = world.db.with_name("backup.db")
    with world.connect(write=True) as conn:  # SQLite 3.40 cannot do it read-only
        conn.execute("VACUUM INTO ?", (str(backup),))
    database = Database(world.db)
    database.open()
    world.append(lines(*range(50, 400)))
    for n in range(400, 480, 20):
        Slice(database.conn).take(scan((str(world.root),), is_transcript).files)
        database.checkpoint()
        world.append(lines(*range(n, n + 20)))
    Slice(database.conn).take(scan((str(world.root),), is_transcript).files)
    database.note()
    assert database.wal_bytes() > 0
    assert database.changed() is None
    backup.replace(world.db)
    assert database.changed() == "the database file was replaced"
    database.drop()
    database.open()
    assert database.conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert count(world) == 50
    database.drop()
    world.sync()
    world.settled(range(480))


EMPTY_LOG = """
from ctxdb.daemon import intake, loop
intake.WAL_TRUNCATE_BYTES = 1
loop.CHECKPOINT_SECONDS = 0.05
from ctxdb.cli.main import main
main()
"""


def test_case_65_a_copy_over_the_live_file_is_noticed(world: World) -> None:
    """With all of it in the file and nothing in the log: else SQLite itself would mix the two."""
    world.write(lines(0))
    world.sync()
    old = world.db.with_name("backup.db")
    shutil.copy(world.db, old)
    wal = world.db.with_name("ctxdb.db-wal")
    world.append(lines(1, 2))

    with Live(world, code=EMPTY_LOG) as live:
        has(world, 3)
        # The last thing that it writes is that it watches; then it empties the log, and rests.
        until(lambda: '"watching"' in world.one("SELECT value FROM _meta WHERE key = 'daemon'"))
        until(lambda: wal.stat().st_size == 0)
        rescans = live.health().rescans
        live.send(signal.SIGHUP)
        until(lambda: live.health().rescans > rescans)
        inode = world.db.stat().st_ino
        # In another process: closing the file in this one would drop this one's locks on it.
        subprocess.run(["cp", old, world.db], check=True)
        assert world.db.stat().st_ino == inode
        world.append(line(3))
        until(lambda: count(world) >= 4, lambda: f"{live.health()} {live.stderr()}")
        until(lambda: "written to by another program" in live.stderr())
    world.settled(range(4))


def test_case_66_a_log_that_is_deleted_loses_nothing(world: World) -> None:
    world.write(lines(0, 1))
    with Live(world) as live:
        has(world, 2)
        world.db.with_name("ctxdb.db-wal").unlink()
        world.append(line(2))
        has(world, 3)
        until(lambda: "-wal file was removed" in live.stderr())
    world.settled(range(3))


# -- files that cannot be read ---------------------------------------------------------------------


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What opening any transcript fails with, as long as that is in here."""
    from ctxdb.ingest import plan

    real = plan.open_regular
    fails: dict[str, int] = {}

    def open_regular(path: str | bytes) -> int:
        for number in list(fails.values()):
            raise OSError(number, os.strerror(number), path)
        return real(path)

    monkeypatch.setattr(plan, "open_regular", open_regular)
    monkeypatch.setattr("ctxdb.daemon.intake.FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr("ctxdb.daemon.intake.MOST_RETRY_SECONDS", 0.1)
    return fails


WHEN = ("before it starts", "while it runs")


@pytest.mark.parametrize(
    ("number", "when"),
    thinned(
        [
            pytest.param(number, when, id=f"{when}-{number}")
            for pair in ((errno.EIO, errno.ESTALE), (errno.ENOMEM, errno.EMFILE))
            for number, whens in zip(pair, (WHEN, WHEN[::-1]), strict=True)
            for when in whens
        ],
        2,
    ),
)
def test_a_file_that_cannot_be_read_for_a_moment_is_read_though_it_does_not_change(
    world: World, broken: dict[str, int], monkeypatch: pytest.MonkeyPatch, number: int, when: str
) -> None:
    seldom = rhythm.RHYTHMS["events"]._replace(hot=3600.0, tick=3600.0)
    monkeypatch.setitem(rhythm.RHYTHMS, "events", seldom)
    world.write(lines(0))
    if when == "before it starts":
        broken["all"] = number
    with inside(world) as daemon:
        if when == "while it runs":
            has(world, 1)
            broken["all"] = number
            world.append(line(1))
        until(lambda: "cannot read" in daemon.log.stream.getvalue())  # type: ignore[union-attr]
        until(lambda: daemon.intake.retries)
        broken.clear()
        has(world, 1 if when == "before it starts" else 2)
        until(lambda: not daemon.intake.retries)
    world.sound()


def test_a_file_that_may_not_be_read_is_asked_for_again_only_when_told_to_look_at_everything(
    world: World, broken: dict[str, int]
) -> None:
    broken["all"] = errno.EACCES
    world.write(lines(0))
    with inside(world) as daemon:
        until(lambda: daemon.intake.retries)
        assert daemon.intake.retry_file_at == float("inf")
        broken.clear()
        scan_again(daemon)
        has(world, 1)
    world.settled([0])


def test_a_file_that_is_gone_before_it_could_be_read_is_not_waited_for(
    world: World, broken: dict[str, int]
) -> None:
    world.write(own_line(1, 0), transcript(world, 1))
    with inside(world) as daemon:
        has(world, 1)
        broken["all"] = errno.EIO
        world.write(lines(0))
        until(lambda: daemon.intake.retries)
        world.main.unlink()
        until(lambda: not daemon.intake.retries)
        broken.clear()
        until(lambda: world.source()["missing_since"])


def test_a_file_that_made_a_slice_fail_is_tried_again_though_it_does_not_change(
    world: World, broken: dict[str, int]
) -> None:
    class Picky(Slice):
        def take(self, files: Any) -> Any:
            if fails and any(session(1) in file.path for file in files):
                raise MemoryError
            return super().take(files)

    fails = [True]
    for n in range(3):
        world.write(own_line(n, 0), transcript(world, n))
    with inside(world, change=lambda d: setattr(d.intake, "make_slice", Picky)) as daemon:
        has(world, 2)
        until(lambda: "MemoryError" in (daemon.health.last_error or ""))
        fails.clear()
        has(world, 3)
    world.sound()


# -- other versions --------------------------------------------------------------------------------


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """migrations/ and sql/ of an installation that can be upgraded; this version's, so far."""
    folder = tmp_path / "assets"
    for name in ("migrations", "sql"):
        shutil.copytree(asset_dir(name), folder / name)
    monkeypatch.setenv("ASSETS", str(folder))
    return folder


def upgrade(assets: Path) -> None:
    step = "CREATE TABLE next_things (\n  id INTEGER PRIMARY KEY -- surrogate key\n);\n"
    (assets / "migrations/9000_next.sql").write_text(step)


INSTALLED = """
import os
from pathlib import Path
from ctxdb.store import shipped_prices, schema, version
version.asset_dir = schema.asset_dir = lambda name: Path(os.environ["ASSETS"]) / name
from ctxdb.cli.main import main
main()
"""


def steps_of(world: World) -> list[str]:
    found = world.ask("SELECT name FROM _sqlite_migrations WHERE migration_set = 'ctxdb'")
    return [name for (name,) in found]


def ended(live: Live) -> str:
    """Wait for a daemon that ends by itself; return its last word, which its health says too."""
    assert live.process.wait(PATIENCE) == 1
    assert "Traceback" not in live.stderr()
    health = live.health()
    assert health.state == "stopped"
    assert health.why in live.stderr()
    return health.why


def test_an_old_daemon_takes_no_step_of_the_version_that_was_installed_meanwhile(
    world: World, assets: Path
) -> None:
    world.write(lines(0))
    with Live(world, code=INSTALLED) as live:
        has(world, 1)
        upgrade(assets)
        world.append(line(1))
        has(world, 2)  # its own schema is still there
        world.db.unlink()
        world.append(line(2))
        why = ended(live)
    assert "upgraded while this daemon ran" in why
    assert "ctxdb daemon restart" in why
    assert not world.db.exists()


UNINSTALLED = """
import sys
from ctxdb.daemon.main import Daemon

class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "ctxdb":
            raise ModuleNotFoundError(name)

watch = Daemon._watch
def watch_alone(self, ready):
    sys.meta_path.insert(0, Gone())
    watch(self, ready)
Daemon._watch = watch_alone
from ctxdb.cli.main import main
main()
"""


def test_a_daemon_needs_nothing_more_of_its_installation_to_read_what_was_edited(
    world: World,
) -> None:
    """Of another version by then, perhaps, which does not fit."""
    world.write(lines(*range(20)))
    with NewLive(world, code=UNINSTALLED) as live:
        has(world, 20)
        generation = world.source()["generation"]
        content = world.main.read_bytes()
        middle = content.index(texts([10])[0].encode())
        with world.main.open("r+b") as file:
            file.seek(middle)
            file.write(content[middle : middle + 1].swapcase())
        until(lambda: world.source()["generation"] > generation, live.stderr)
        assert live.health().errors == 0
        world.append(line(20))
        until(lambda: texts([20])[0] in world.texts())


def test_prices_of_a_newer_version_do_not_migrate_beside_the_daemon(
    world: World, assets: Path
) -> None:
    world.write(lines(0))
    words = ("prices", "add", "my-model", "--input", "1", "--output", "2")
    with Live(world, code=INSTALLED):
        has(world, 1)
        before = steps_of(world)
        upgrade(assets)
        done = world.cli(*words, code=INSTALLED)
        assert done.returncode == 1
        assert "ctxdb daemon restart" in done.stderr
        assert done.stderr.count("\n") == 1
        assert steps_of(world) == before
        world.append(line(1))
        has(world, 2)
    assert world.cli(*words, code=INSTALLED).returncode == 0
    assert steps_of(world) == [*before, "9000_next"]


def test_a_daemon_writes_nothing_to_a_schema_that_it_does_not_know(world: World) -> None:
    world.write(lines(0))
    with Live(world) as live:
        has(world, 1)
        world.change("CREATE TABLE mine (x)")  # no step of ctxdb
        world.append(line(1))
        has(world, 2)
        with world.connect(write=True) as conn:
            conn.execute("BEGIN IMMEDIATE")
            conn.execute("CREATE TABLE next_things (x)")
            conn.execute(
                "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
                " VALUES ('ctxdb', '9000_next', 'now')"
            )
            conn.execute("COMMIT")
        world.append(line(2))
        why = ended(live)
    assert "made by a newer version of ctxdb (unknown migration 9000_next)" in why
    assert count(world) == 2


def test_what_a_killed_sync_has_set_for_the_full_text_is_taken_back(world: World) -> None:
    from ctxdb.store import fulltext

    def settings() -> set[tuple[str, int]]:
        return {
            (key, value)
            for table in fulltext.INDEXES
            for key, value in world.ask(f"SELECT k, v FROM {table}_config")
            if key in ("automerge", "hashsize")
        }

    with world.connect(write=True) as conn:
        fulltext.merge_later(conn)
    assert ("automerge", 0) in settings()
    with inside(world):
        assert settings() == {("automerge", 4), ("hashsize", 1 << 20)}


def test_a_database_that_came_with_its_own_log_keeps_it(world: World) -> None:
    """Closing the connection to the old one would remove the -wal of the new one by its name."""
    world.write(lines(0, 1))
    with inside(world) as daemon:
        has(world, 2)
        until(lambda: '"watching"' in world.one("SELECT value FROM _meta WHERE key = 'daemon'"))
        until(lambda: not daemon.intake.has_work)
        other = World(world.root, world.db.with_name("other.db"))
        with closing(sqlite3.connect(other.db)) as conn, closing(sqlite3.connect(world.db)) as own:
            own.backup(conn)
            conn.execute("PRAGMA journal_mode = WAL")
            conn.execute("CREATE TABLE mine (x)")
            conn.commit()
            with paused(daemon):  # else it may find some of them
                for suffix in ("-shm", "-wal", ""):
                    os.replace(f"{other.db}{suffix}", f"{world.db}{suffix}")
            world.append(line(2))
            has(world, 3)
            assert len(daemon.database.abandoned) == 1
        assert world.one("SELECT count(*) FROM mine") == 0
