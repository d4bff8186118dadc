"""`ctxdb watch` and `ctxdb daemon ...`, as a person or a service manager uses them."""

from __future__ import annotations

import fcntl
import json
import os
import plistlib
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from ctxdb import daemon_health as beats
from ctxdb.daemon import process, rhythm, service
from ctxdb.daemon.logs import Log, lines_of
from ctxdb.daemon.notify import Notifier
from ctxdb.daemon.status_words import DaemonReport, daemon_report
from ctxdb.daemon_health import log_path
from ctxdb.errors import CtxdbError
from ctxdb.lock import WriterLock, current_writer, holds_lock, lock_path
from live_forks import Live, has, until
from live_lab import PATIENCE, inside, runtime_folder
from world import World, line, lines, run_python

RUN = "from ctxdb.cli.main import main; main()"
# What programs find in `daemon status --json`, whether there is a daemon or not.
NAMES = {
    "running", "pid", "version", "database", "roots", "state", "why", "since", "mode",
    "mode_reason", "started_at", "written_at", "files", "folders", "watches", "pending",
    "missing_roots", "unreadable", "lag_ms", "max_lag_ms", "last_read_at", "lines", "bytes",
    "slices", "events", "overflows", "rescans", "storms", "rearms", "wal_bytes", "wal_reason",
    "archive", "archive_problem", "errors", "last_error", "last_error_at",
}  # fmt: skip


def ctxdb(world: World, *words: str | Path) -> Any:
    return run_python(RUN, "--db", world.db, *words)


@pytest.fixture
def started(world: World) -> Iterator[World]:
    """A daemon in the background, watching the world's root."""
    runtime_folder()
    done = ctxdb(world, "daemon", "start", "--root", world.root)
    assert done.returncode == 0, done.stderr
    yield world
    ctxdb(world, "daemon", "stop")


@pytest.fixture
def watched(world: World) -> Iterator[World]:
    """The same, where it does not matter how it was started: that is cheaper."""
    with Live(world):
        yield world


# -- start, stop, restart --------------------------------------------------------------------------


def test_start_returns_when_it_is_ready_and_leaves_a_process_without_terminal_or_session(
    started: World,
) -> None:
    health = beats.running(started.db)
    assert health is not None
    fields = Path(f"/proc/{health.pid}/stat").read_text().rpartition(")")[2].split()
    _state, _parent, group, its_session, terminal = fields[:5]
    assert its_session != str(health.pid)  # no leader: it cannot get a terminal by opening one
    assert its_session != str(os.getsid(0))
    assert group == its_session
    assert terminal == "0"
    assert os.readlink(f"/proc/{health.pid}/fd/0") == os.devnull
    assert os.readlink(f"/proc/{health.pid}/fd/2") == str(log_path(started.db))
    assert os.readlink(f"/proc/{health.pid}/cwd") == "/"
    started.write(lines(0, 1))
    has(started, 2)


def test_a_daemon_can_be_started_by_who_does_not_want_to_hear_of_its_children(world: World) -> None:
    runtime_folder()
    code = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n" + RUN
    done = run_python(code, "--db", world.db, "daemon", "start", "--root", world.root)
    try:
        assert done.returncode == 0, done.stderr
        assert "Watching, as process" in done.stderr
    finally:
        ctxdb(world, "daemon", "stop")


def test_a_started_daemon_holds_nothing_that_its_starter_had_open(world: World) -> None:
    runtime_folder()
    ours, its = os.pipe()
    words = ["--db", world.db, "daemon", "start", "--root", world.root]
    try:
        done = subprocess.run([sys.executable, "-c", RUN, *words], pass_fds=[its], check=False)
        os.close(its)
        assert done.returncode == 0
        os.set_blocking(ours, False)
        assert os.read(ours, 1) == b""  # an end, and not something that may still come
    finally:
        os.close(ours)
        ctxdb(world, "daemon", "stop")


def test_a_second_start_names_the_first_and_exits_3(watched: World) -> None:
    health = beats.running(watched.db)
    assert health is not None
    done = ctxdb(watched, "daemon", "start", "--root", watched.root)
    assert (done.returncode, done.stdout) == (3, "")
    assert f"process {health.pid} " in done.stderr
    assert done.stderr.count("\n") == 1


def test_start_says_why_the_daemon_could_not_start(world: World) -> None:
    runtime_folder()
    world.db.write_bytes(b"This is no database. " * 1000)
    done = ctxdb(world, "daemon", "start", "--root", world.root)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: {world.db}: is not a SQLite database; it is left as it is\n"
    assert beats.running(world.db) is None


def test_stop_waits_until_the_daemon_has_ended(started: World) -> None:
    health = beats.running(started.db)
    assert health is not None
    done = ctxdb(started, "daemon", "stop")
    assert (done.returncode, done.stderr) == (0, f"Stopped process {health.pid}.\n")
    assert beats.running(started.db) is None
    with WriterLock(started.db):  # free
        pass
    again = ctxdb(started, "daemon", "stop")
    assert (again.returncode, again.stderr) == (0, "No daemon is running.\n")


def test_stop_never_signals_a_process_that_does_not_hold_the_lock(world: World) -> None:
    """A killed daemon leaves its pid in the lock file, and another process may have it by now."""
    innocent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        lock_path(world.db).write_text(f"{innocent.pid} 0.1.0 daemon\n")
        assert process.stop(world.db) is None
        assert innocent.poll() is None
    finally:
        innocent.communicate(b"\n")
    assert innocent.returncode == 0


def test_stop_leaves_a_sync_alone(world: World) -> None:
    with WriterLock(world.db), pytest.raises(CtxdbError, match="no daemon"):
        process.stop(world.db)


def test_restart_watches_the_same_roots_with_another_process(started: World) -> None:
    before = beats.running(started.db)
    assert before is not None
    done = ctxdb(started, "daemon", "restart")
    assert done.returncode == 0, done.stderr
    after = beats.running(started.db)
    assert after is not None
    assert after.pid != before.pid
    assert after.roots == before.roots == [str(started.root)]
    started.write(lines(0))
    has(started, 1)


def test_after_a_daemon_was_killed_restart_watches_its_roots(started: World) -> None:
    before = beats.running(started.db)
    assert before is not None
    os.kill(before.pid, signal.SIGKILL)
    until(lambda: beats.running(started.db) is None)
    assert ctxdb(started, "daemon", "restart").returncode == 0
    assert (beats.running(started.db) or beats.Health()).roots == [str(started.root)]


def test_restart_goes_by_the_configuration_where_no_roots_were_given(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    runtime_folder()
    settings = Path(os.environ["XDG_CONFIG_HOME"]) / "ctxdb/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'roots = ["{tmp_path}/before"]\n')
    try:
        assert ctxdb(world, "daemon", "start").returncode == 0
        assert (beats.running(world.db) or beats.Health()).roots == [f"{tmp_path}/before"]
        settings.write_text(f'roots = ["{world.root}"]\n')
        done = ctxdb(world, "daemon", "restart")
        assert str(world.root) in done.stderr
        assert (beats.running(world.db) or beats.Health()).roots == [str(world.root)]
    finally:
        ctxdb(world, "daemon", "stop")


# The tests themselves may have been started by nohup, which children inherit.
TAKE_TERMINAL = (
    "import fcntl, signal, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
)
LIKE_NOHUP = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"


def on_terminal(world: World, code: str = "") -> tuple[subprocess.Popen[bytes], int]:
    """`ctxdb watch` that has a terminal, and the other end of that."""
    runtime_folder()
    ours, its = os.openpty()
    words = ["-c", TAKE_TERMINAL + code + RUN, "--db", world.db, "watch", "--root", world.root]
    process = subprocess.Popen(
        [sys.executable, *words], stdin=its, stdout=its, stderr=its, start_new_session=True
    )
    os.close(its)
    until(lambda: (beats.running(world.db) or beats.Health()).state == "watching")
    return process, ours


def test_watch_ends_with_its_terminal(world: World) -> None:
    process, terminal = on_terminal(world)
    os.close(terminal)
    try:
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
    assert beats.running(world.db) is None
    assert daemon_report(world.db).state == "stopped"


def test_watch_outlives_its_terminal_if_that_was_asked_for(world: World) -> None:
    process, terminal = on_terminal(world, LIKE_NOHUP)
    try:
        rescans = (beats.read(world.db) or beats.Health()).rescans
        os.close(terminal)
        process.send_signal(signal.SIGHUP)
        until(lambda: (beats.running(world.db) or beats.Health()).rescans > rescans)
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0


def test_watch_waits_for_another_writer_if_told_to(world: World) -> None:
    world.write(lines(0))
    with WriterLock(world.db):
        live = Live(world, "--wait")
        until(lambda: "waiting: " in live.stderr())
    with live:
        has(world, 1)


def test_a_waiting_watch_can_be_stopped(world: World) -> None:
    with WriterLock(world.db):
        live = Live(world, "--wait")
        until(lambda: "waiting: " in live.stderr())
        assert live.end() == 0


# -- status and logs -------------------------------------------------------------------------------


def test_status_shows_a_running_daemon_and_exits_1_without_one(watched: World) -> None:
    watched.write(lines(0, 1, 2))
    has(watched, 3)
    until(lambda: (beats.running(watched.db) or beats.Health()).lines == 3)
    done = ctxdb(watched, "daemon", "status")
    assert done.returncode == 0
    assert "watching" in done.stdout
    assert "events mode" in done.stdout
    assert "3 lines in" in done.stdout
    shown = json.loads(ctxdb(watched, "daemon", "status", "--json").stdout)
    assert shown["running"] is True
    assert shown["state"] == "watching"
    assert shown["lines"] == 3
    assert {"lag_ms", "events", "rescans", "mode", "mode_reason", "last_error"} <= set(shown)
    whole = json.loads(ctxdb(watched, "status", "--json").stdout)
    assert whole["daemon"]["pid"] == shown["pid"]
    ctxdb(watched, "daemon", "stop")
    gone = ctxdb(watched, "daemon", "status", "--json")
    assert set(json.loads(gone.stdout)) == set(shown) == NAMES
    assert gone.returncode == 1
    assert json.loads(gone.stdout)["running"] is False
    assert json.loads(gone.stdout)["state"] == "stopped"


def test_without_any_daemon_status_says_how_to_start_one(world: World) -> None:
    done = ctxdb(world, "daemon", "status")
    assert done.returncode == 1
    assert "ctxdb daemon start" in done.stdout
    shown = json.loads(ctxdb(world, "daemon", "status", "--json").stdout)
    assert shown == dict.fromkeys(NAMES) | {"running": False, "state": "none"}
    assert json.loads(ctxdb(world, "status", "--json").stdout)["daemon"] == shown


@pytest.mark.parametrize("what", ["nothing", "an empty file", "an empty database"])
def test_status_has_the_same_names_whatever_there_is(world: World, what: str) -> None:
    whole = json.loads(ctxdb(world, "status", "--json").stdout)
    assert set(whole["rows"]) >= {"sessions", "turns", "messages", "tool_uses", "usage"}
    assert whole["rows"]["sessions"] == 0
    for suffix in ("", "-wal", "-shm"):
        world.db.with_name(world.db.name + suffix).unlink(missing_ok=True)
    if what != "nothing":
        world.db.touch()
    if what == "an empty database":
        with closing(sqlite3.connect(world.db)) as conn:
            conn.execute("VACUUM")
    found = json.loads(ctxdb(world, "status", "--json").stdout)
    assert found["exists"] is (what != "nothing")
    assert set(found) == set(whole)
    assert found["daemon"] == whole["daemon"]
    assert found["rows"] == dict.fromkeys(whole["rows"])
    done = ctxdb(world, "status")
    assert done.returncode == 0
    assert "None" not in done.stdout


def test_status_names_a_root_that_cannot_be_read_until_it_can(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(rhythm.RHYTHMS, "events", rhythm.RHYTHMS["events"]._replace(tick=0.05))
    other = tmp_path / "other"
    other.write_text("a file where a folder was")
    with inside(world, roots=[world.root, other]) as daemon:
        assert daemon.health.unreadable == [str(other)]
        shown = "\n".join(DaemonReport(daemon.health, running=True).lines())
        assert f"cannot read {other};" in shown
        other.unlink()
        other.mkdir()
        until(lambda: not daemon.health.unreadable)
        shown = "\n".join(DaemonReport(daemon.health, running=True).lines())
        assert "cannot read" not in shown


def test_a_killed_daemon_is_told_from_a_stopped_one(watched: World) -> None:
    health = beats.running(watched.db)
    assert health is not None
    os.kill(health.pid, signal.SIGKILL)
    until(lambda: beats.running(watched.db) is None)
    report = daemon_report(watched.db)
    assert "not running: it was killed after 2" in "\n".join(report.lines())
    assert report.as_dict()["state"] == "killed"
    assert report.as_dict()["running"] is False


def test_the_log_tells_of_starts_and_stops_and_not_of_transcripts(watched: World) -> None:
    watched.write(line(0, "a secret that must not be logged") + b'{"torn": "secret"\n')
    has(watched, 1)
    ctxdb(watched, "daemon", "stop")
    shown = ctxdb(watched, "daemon", "logs").stdout
    assert "watching" in shown
    assert "stopped" in shown
    assert "secret" not in shown
    assert ctxdb(watched, "daemon", "logs", "-n", "1").stdout.count("\n") == 1


def test_health_and_log_are_private_and_the_database_tells_of_the_daemon(watched: World) -> None:
    for path in (beats.health_path(watched.db), log_path(watched.db)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    until(lambda: kept(watched)["state"] == "watching")
    ctxdb(watched, "daemon", "stop")
    assert kept(watched)["state"] == "stopped"


def kept(world: World) -> Any:
    return json.loads(world.one("SELECT value FROM _meta WHERE key = 'daemon'"))


def test_without_a_runtime_folder_the_health_file_is_beside_the_database(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere")
    assert beats.health_path(world.db) == world.db.with_name("ctxdb.db.daemon")


def test_a_daemon_that_began_without_a_runtime_folder_is_found_when_there_is_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that cron started, say, before anybody logged in."""
    runtime_folder()
    assert ctxdb(world, "daemon", "start", "--root", world.root / "before").returncode == 0
    assert ctxdb(world, "daemon", "stop").returncode == 0  # and has left its word there
    with monkeypatch.context() as early:
        early.setenv("XDG_RUNTIME_DIR", "/nowhere")
        assert ctxdb(world, "daemon", "start", "--root", world.root).returncode == 0
    try:
        assert ctxdb(world, "daemon", "status").returncode == 0
        assert ctxdb(world, "daemon", "restart").returncode == 0
        assert (beats.running(world.db) or beats.Health()).roots == [str(world.root)]
    finally:
        ctxdb(world, "daemon", "stop")


def test_when_the_runtime_folder_goes_the_daemon_says_beside_the_database_how_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxdb.daemon.heartbeat.WRITE_SECONDS", 0.0)
    world.write(lines(0))
    with inside(world):
        until(lambda: (beats.read(world.db) or beats.Health()).lines == 1)
        folder = Path(os.environ["XDG_RUNTIME_DIR"])
        folder.rename(folder.with_name("gone"))  # at once, as an unmount
        world.append(line(1))
        until(lambda: (beats.running(world.db) or beats.Health()).lines == 2)
        runtime_folder()
        world.append(line(2))
        until(lambda: (beats.running(world.db) or beats.Health()).lines == 3)
        assert beats.health_path(world.db).is_relative_to(folder)


def test_where_the_health_file_is_on_a_disk_it_is_not_written_while_nothing_happens(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By polling, too, which looks at everything again and again."""
    public = tmp_path / "public"
    public.mkdir()
    public.chmod(0o777)  # no folder of the user's own
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(public))
    fast = rhythm.RHYTHMS["polling"]._replace(tick=0.01, walk=0.01, hot=0.01, walk_share=1000.0)
    monkeypatch.setitem(rhythm.RHYTHMS, "polling", fast)
    monkeypatch.setattr("ctxdb.daemon.heartbeat.WRITE_SECONDS", 0.0)
    monkeypatch.setattr("ctxdb.daemon.loop.CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("ctxdb.daemon.watch.why_no_events", lambda _: "no events here")
    world.write(lines(0))
    path = beats.health_path(world.db)
    assert path.parent == world.db.parent
    with inside(world) as daemon:
        has(world, 1)
        until(lambda: (beats.read(world.db) or beats.Health()).lines == 1)
        until(lambda: kept(world)["state"] == "watching")  # the last that it stores
        until(lambda: daemon.intake.wrote_at is None)  # and moves into the database
        rescans = daemon.health.rescans
        until(lambda: daemon.health.rescans > rescans + 5)
        before = path.stat()
        rescans = daemon.health.rescans
        until(lambda: daemon.health.rescans > rescans + 20)
        after = path.stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
        world.append(line(1))
        until(lambda: (beats.read(world.db) or beats.Health()).lines == 2)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"pid": 1}',
        b'{"pid": "x", "state": 3}',
        b'{"written": []}',
        b"\xff" * 100,
    ],
)
def test_a_broken_health_file_is_no_daemon(world: World, content: bytes) -> None:
    runtime_folder()
    path = beats.health_path(world.db)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    assert beats.running(world.db) is None


def test_the_log_is_rotated_and_a_repeated_trouble_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxdb.daemon.logs.MAX_BYTES", 2000)
    log = Log(tmp_path / "state/x.log")
    for n in range(200):
        log.say(f"line {n} \x1b[31mred")
    names = sorted(path.name for path in (tmp_path / "state").iterdir())
    assert names == ["x.log", "x.log.1", "x.log.2"]
    for path in (tmp_path / "state").iterdir():
        assert path.stat().st_size <= 2000
        assert b"\x1b" not in path.read_bytes()
    assert "line 199" in log.path.read_text()  # type: ignore[union-attr]
    for _ in range(1000):
        log.trouble("full", "the disk is full")
    log.over("full", "there is room again")
    text = log.path.read_text()  # type: ignore[union-attr]
    assert text.count("the disk is full") == 1
    assert text.count("there is room again") == 1


def test_a_log_that_cannot_be_rotated_closes_no_descriptor_but_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxdb.daemon.logs.MAX_BYTES", 100)
    log = Log(tmp_path / "x.log")
    (tmp_path / "x.log.1/in the way").mkdir(parents=True)
    real, wrong = os.close, []

    def close(fd: int) -> None:
        try:
            real(fd)
        except OSError:
            wrong.append(fd)
            raise

    monkeypatch.setattr(os, "close", close)
    for n in range(10):
        log.say(f"line {n}")
    assert wrong == []
    assert (tmp_path / "x.log").stat().st_size <= 100


def test_who_follows_the_log_sees_what_comes_after_it_was_rotated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxdb.daemon.logs.FOLLOW_SECONDS", 0.0)
    log = Log(tmp_path / "x.log")
    for n in range(3):
        log.say(f"line {n}")
    assert log.path is not None
    seen = lines_of(log.path, 2, follow=True)
    assert [next(seen).split()[-1] for _ in range(2)] == ["1", "2"]
    log.say("line 3")
    log._rotate()
    log.say("line 4")
    assert [next(seen).split()[-1] for _ in range(2)] == ["3", "4"]
    log.say("line 5")
    assert next(seen).endswith("line 5\n")
    seen.close()  # type: ignore[attr-defined]


def test_a_daemon_that_holds_other_locks_too_is_found(world: World) -> None:
    """The kernel lists all locks of a process, in an order of its own."""
    with ExitStack() as stack:
        for name in ("first", "last"):
            file = stack.enter_context(world.db.with_name(name).open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)
            if name == "first":
                lock = stack.enter_context(WriterLock(world.db, role="daemon"))
        writer = current_writer(world.db)
        assert writer is not None
        assert holds_lock(world.db, writer)
        lock.release()
        assert not holds_lock(world.db, writer)


# -- service managers ------------------------------------------------------------------------------


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """What systemd is told, by a socket that somebody reads all the time."""
    words: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))

        def listen() -> None:
            while (word := listener.recv(100)) != b"over":
                words.append(word)

        thread = threading.Thread(target=listen)
        thread.start()
        yield words
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"over", str(tmp_path / "notify"))
        thread.join()


def test_systemd_is_told_when_it_is_ready_alive_and_stopping(
    world: World, told: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    with Live(world) as live:
        until(lambda: told.count(b"WATCHDOG=1") >= 3)
        assert told.count(b"READY=1") == 1
        assert b"STOPPING=1" not in told
        assert live.end() == 0
    until(lambda: b"STOPPING=1" in told)  # perhaps not the last: it lives until it has ended
    assert set(told) == {b"READY=1", b"WATCHDOG=1", b"STOPPING=1"}


def test_a_systemd_that_does_not_listen_does_not_keep_it_waiting(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxdb.daemon.notify.SEND_SECONDS", 0.01)
    limit = Path("/proc/sys/net/unix/max_dgram_qlen")
    most = int(limit.read_text()) if limit.exists() else 2000
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(str(tmp_path / "notify"))
        notifier = Notifier()
        for _ in range(most + 10):  # more than the queue of the kernel holds
            notifier.send("WATCHDOG=1")
        assert deaf.recv(100) == b"WATCHDOG=1"


SYSTEMCTL = """#!/bin/sh
echo "$@" >> {log}
case "$*" in *"enable --now"*) exit {code} ;; esac
"""


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A systemctl that only writes down what it was asked for."""
    return stub(tmp_path, monkeypatch, 0)


def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    asked = tmp_path / "asked"
    program = folder / "systemctl"
    program.write_text(SYSTEMCTL.format(log=asked, code=code))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return asked


def test_install_writes_and_enables_a_unit_and_uninstall_removes_it(
    world: World, systemctl: Path
) -> None:
    done = ctxdb(world, "daemon", "install", "--root", world.root)
    assert done.returncode == 0, done.stderr
    (unit,) = (Path(os.environ["XDG_CONFIG_HOME"]) / "systemd/user").iterdir()
    assert systemctl.read_text().splitlines() == [
        "--user show-environment",
        "--user daemon-reload",
        f"--user enable --now {unit.name}",
    ]
    assert str(unit) in done.stderr
    printed = ctxdb(world, "daemon", "install", "--root", world.root, "--print")
    assert printed.stdout == unit.read_text()
    systemctl.unlink()
    done = ctxdb(world, "daemon", "uninstall")
    assert done.returncode == 0, done.stderr
    assert not unit.exists()
    assert f"--user disable --now {unit.name}" in systemctl.read_text()
    assert "Not installed" in ctxdb(world, "daemon", "uninstall").stderr


NO_BUS = "#!/bin/sh\necho Failed to connect to bus: No medium found >&2\nexit 1\n"


def test_where_systemd_cannot_be_asked_nothing_is_installed_and_the_daemon_stays(
    watched: World, systemctl: Path, tmp_path: Path
) -> None:
    (tmp_path / "bin/systemctl").write_text(NO_BUS)
    done = ctxdb(watched, "daemon", "install", "--root", watched.root)
    assert done.returncode == 1
    assert "Failed to connect to bus" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (Path(os.environ["XDG_CONFIG_HOME"]) / "systemd").exists()
    assert beats.running(watched.db) is not None


def test_a_unit_is_removed_where_systemd_cannot_be_asked(
    world: World, systemctl: Path, tmp_path: Path
) -> None:
    assert ctxdb(world, "daemon", "install", "--root", world.root).returncode == 0
    (unit,) = (Path(os.environ["XDG_CONFIG_HOME"]) / "systemd/user").iterdir()
    link = unit.parent / "default.target.wants" / unit.name  # as systemd makes it
    link.parent.mkdir()
    link.symlink_to(unit)
    (tmp_path / "bin/systemctl").write_text(NO_BUS)
    done = ctxdb(world, "daemon", "uninstall")
    assert done.returncode == 0, done.stderr
    assert "Could not be stopped" in done.stderr
    assert f"Removed: {unit}" in done.stderr
    assert not unit.exists()
    assert not link.is_symlink()


def test_the_unit_is_hardened_and_names_this_database(world: World, systemctl: Path) -> None:
    text = ctxdb(world, "daemon", "install", "--root", world.root, "--print").stdout
    for wanted in (
        "ProtectSystem=strict",
        f'ReadWritePaths="{world.db.parent}"',
        "NoNewPrivileges=yes",
        "PrivateNetwork=yes",
        "UMask=0077",
        "MemoryMax=512M",
        "Restart=on-failure",
        "Type=notify",
        "WatchdogSec=",
        f'"--db" "{world.db}" "watch" "--wait" "--root" "{world.root}"',
    ):
        assert wanted in text
    assert not systemctl.exists()


def test_where_a_sandbox_is_not_to_be_had_the_unit_is_written_without(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = stub(tmp_path, monkeypatch, 1)
    done = ctxdb(world, "daemon", "install", "--root", world.root)
    assert done.returncode == 0, done.stderr
    assert "without" in done.stderr
    (unit,) = (Path(os.environ["XDG_CONFIG_HOME"]) / "systemd/user").iterdir()
    assert "ProtectSystem" not in unit.read_text()
    assert "NoNewPrivileges=yes" in unit.read_text()
    assert f"--user restart {unit.name}" in asked.read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_finds_no_fault_with_the_unit(tmp_path: Path) -> None:
    odd = tmp_path / 'data "100%" $HOME'
    odd.mkdir()
    made = service.service_for(odd / "x.db", [str(odd / "projects")], "linux")
    assert isinstance(made, service.Systemd)
    for name, text in (("sandbox", made.text), ("plain", made.plain_text)):
        unit = tmp_path / f"{name}.service"
        unit.write_text(text)
        done = subprocess.run(
            ["systemd-analyze", "--user", "verify", unit],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        )
        complaints = [row for row in done.stderr.splitlines() if unit.name in row]
        assert complaints == [], done.stderr


def test_on_a_mac_it_is_a_launchd_agent(world: World) -> None:
    made = service.service_for(world.db, [str(world.root)], "darwin")
    assert isinstance(made, service.Launchd)
    facts = plistlib.loads(made.text.encode())
    assert facts["ProgramArguments"][-6:] == [
        "--db", str(world.db), "watch", "--wait", "--root", str(world.root),
    ]  # fmt: skip
    assert facts["RunAtLoad"] is True
    assert facts["KeepAlive"] == {"SuccessfulExit": False}
    assert made.path.parent.name == "LaunchAgents"


def test_on_other_systems_it_says_what_to_do(world: World) -> None:
    with pytest.raises(CtxdbError, match="ctxdb daemon start"):
        service.service_for(world.db, [], "freebsd14")
