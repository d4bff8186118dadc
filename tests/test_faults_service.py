"""A daemon that does nothing is reported as such, and signals do what a service should do."""

from __future__ import annotations

import json
import os
import signal

import pytest

from ctxdb import daemon_health as beats
from ctxdb.daemon.status_words import daemon_report
from ctxdb.daemon_health import log_path
from live_forks import Live, has, until
from world import RUN, Done, World, line

# A watch whose loop stops to turn when a file says so. Signs of life come five times a second.
HANGS = (
    """
import os, time
from ctxdb import daemon_health
from ctxdb.daemon import loop
daemon_health.BEAT_SECONDS = 0.2
real = loop.Loop.once
def once(self, most):
    while os.path.exists(os.environ["HANG"]):
        time.sleep(0.05)
    real(self, min(most, 0.1))
loop.Loop.once = once
"""
    + RUN
)


# As far as this system has them; each of them would kill a process without a handler.
WITHOUT_MEANING = [
    name
    for name in ("SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGSTKFLT")
    if hasattr(signal, name)
]
OF_THE_SYSTEM = [name for name in ("SIGQUIT", "SIGXCPU", "SIGPWR") if hasattr(signal, name)]


def ctxdb(world: World, *words: str) -> Done:
    os.environ["CLAUDE_CONFIG_DIR"] = str(world.root.parent)  # tests/conftest.py restores it
    return world.cli(*words)


def state(world: World) -> str:
    shown = json.loads(ctxdb(world, "status", "--json").stdout)["daemon"]
    assert json.loads(ctxdb(world, "daemon", "status", "--json").stdout)["state"] == shown["state"]
    return str(shown["state"])


def test_case_84_a_stopped_daemon_is_reported_as_frozen_until_it_goes_on(world: World) -> None:
    world.append(line(0))
    assert state(world) == "none"
    with Live(world) as live:
        has(world, 1)
        assert state(world) == "watching"
        with live.stopped():
            assert state(world) == "frozen"
            for words in (["status"], ["daemon", "status"]):
                assert f"frozen: process {live.pid} was stopped" in ctxdb(world, *words).stdout
            assert ctxdb(world, "daemon", "status").returncode == 1
            world.append(line(1))
            asked = ctxdb(world, "query", "SELECT count(*) AS n FROM messages", "--json")
            assert json.loads(asked.stdout) == [{"n": 1}]
            assert f"frozen: process {live.pid} was stopped" in asked.stderr
            assert "This answer is without" in asked.stderr
            done = ctxdb(world, "sync")
            assert done.returncode == 3
            assert "is frozen" in done.stderr
        has(world, 2)
        until(lambda: state(world) == "watching")
        assert ctxdb(world, "query", "SELECT 1", "--json").stderr == ""
    assert state(world) == "stopped"


def test_case_84_a_daemon_that_hangs_is_reported_within_seconds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang = world.db.parent / "hang"
    monkeypatch.setenv("HANG", str(hang))
    with Live(world, code=HANGS):
        assert daemon_report(world.db).state == "watching"
        hang.touch()
        until(lambda: daemon_report(world.db).state == "frozen")
        (shown,) = daemon_report(world.db).lines()
        assert "frozen: no sign of life since" in shown
        assert "`ctxdb daemon restart`" in shown
        hang.unlink()
        until(lambda: daemon_report(world.db).state == "watching")


def test_case_84_it_takes_no_longer_than_15_seconds() -> None:
    assert beats.BEAT_SECONDS * beats.LATE_BEATS <= 13


def test_case_84_an_idle_daemon_gives_signs_of_life_without_writing_its_file_again(
    world: World,
) -> None:
    with Live(world, code=HANGS.replace('os.environ["HANG"]', '"/nowhere"')) as live:
        path = beats.health_path(world.db)
        until(lambda: live.health().state == "watching")
        seen: dict[str, int] = {}

        def is_only_touched() -> bool:
            with path.open() as file:
                content, changed = file.read(), os.fstat(file.fileno()).st_mtime_ns
            return changed > seen.setdefault(content, changed)  # it says when it was written

        until(is_only_touched)
        until(lambda: not live.health().differs(live.health()))
        assert not live.health().is_frozen


def test_a_frozen_daemon_can_be_stopped(world: World) -> None:
    with Live(world) as live:
        live.send(signal.SIGSTOP)
        until(lambda: live.health().is_suspended)
        done = ctxdb(world, "daemon", "stop")
        assert done.returncode == 0, done.stderr
        assert live.process.wait(60) == 0


def test_case_86_signals_without_a_meaning_leave_the_daemon_running(world: World) -> None:
    with Live(world) as live:
        for n, name in enumerate(WITHOUT_MEANING):
            live.send(getattr(signal, name))
            world.append(line(n))
            has(world, n + 1)
            assert live.process.poll() is None, name
        assert live.end() == 0


def test_case_86_usr1_writes_a_report_to_the_log(world: World) -> None:
    with Live(world) as live:
        live.send(signal.SIGUSR1)
        until(lambda: "Daemon       watching (process" in log_path(world.db).read_text())
        assert "events mode" in log_path(world.db).read_text()
        world.append(line(0))
        has(world, 1)


@pytest.mark.parametrize("name", OF_THE_SYSTEM)
def test_case_86_signals_of_the_system_end_it_in_order_and_say_why(world: World, name: str) -> None:
    world.append(line(0))
    with Live(world) as live:
        has(world, 1)
        assert live.end(getattr(signal, name)) == 1
    report = daemon_report(world.db)
    assert report.state == "stopped"
    assert f"told to end by {name}" in "\n".join(report.lines())
    assert world.one("PRAGMA quick_check") == "ok"
