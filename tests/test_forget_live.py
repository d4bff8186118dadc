"""`ctxdb forget` beside a running daemon, and a daemon that is told to ignore a project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ctxdb.daemon_health import log_path, refuse_frozen
from ctxdb.lock import lock_of_daemon, wanted_path
from live_lab import Live, has, own_line, session, transcript, until
from private_lab import found_in
from world import World


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.fixture
def live(world: World) -> World:
    for n in (1, 2):
        transcript(world, n).write_bytes(own_line(n, 1) + own_line(n, 2))
    return world


def test_a_daemon_lends_the_database_to_forget_and_goes_on(live: World) -> None:
    with Live(live) as daemon:
        has(live, 4)
        done = live.cli("forget", "--session", session(1), "--yes")
        assert done.returncode == 0, done
        assert live.ask("SELECT id FROM sessions") == [(session(2),)]
        append(transcript(live, 1), own_line(1, 3))
        append(transcript(live, 2), own_line(2, 3))
        has(live, 3)
        assert live.ask("SELECT DISTINCT session_id FROM messages") == [(session(2),)]
        assert not wanted_path(live.db).exists()
        assert daemon.process.poll() is None
    assert found_in(live.db.parent, session(1)) == []
    assert found_in(log_path(live.db).parent, session(1)) == []
    assert live.verify().ok


def test_case_84_forget_does_not_wait_for_a_frozen_daemon(live: World) -> None:
    with Live(live) as daemon:
        has(live, 4)
        with daemon.stopped():
            until(lambda: daemon.health().is_suspended)
            done = live.cli("forget", "--session", session(1), "--yes")
        assert done.returncode == 3, done
        assert "is frozen" in done.stderr
        assert "kill -CONT" in done.stderr
        assert live.cli("forget", "--session", session(1), "--yes").returncode == 0


def test_a_process_that_died_with_the_lock_does_not_hold_a_daemon_up(live: World) -> None:
    wanted_path(live.db).write_text("999999999")
    with Live(live):
        has(live, 4)
        with lock_of_daemon(live.db, refuse_frozen):
            assert int(wanted_path(live.db).read_text()) == os.getpid()
        append(transcript(live, 1), own_line(1, 3))
        has(live, 5)


def test_a_marker_stops_a_running_daemon_at_once(live: World, tmp_path: Path) -> None:
    project = tmp_path / "quiet"
    project.mkdir()
    with Live(live):
        has(live, 4)
        (project / ".ctxdb-ignore").touch()
        path = live.file(f"-quiet/{session(3)}.jsonl")
        path.write_bytes(own_line(3, 1).replace(b"/work/tides", str(project).encode()))
        append(transcript(live, 1), own_line(1, 3))
        has(live, 5)
        until(lambda: live.ask("SELECT count(*) FROM _kept_out WHERE kind = 'file'") == [(1,)])
        assert live.ask("SELECT count(*) FROM messages") == [(5,)]
        # and so does a pattern that comes into config.toml
        settings = Path(os.environ["XDG_CONFIG_HOME"]) / "ctxdb/config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text('ignore = ["/work/tides"]\n')
        append(transcript(live, 1), own_line(1, 4))
        append(transcript(live, 2), own_line(2, 3))
        until(lambda: live.ask("SELECT value FROM _meta WHERE key = 'ignore'"))
        assert live.ask("SELECT count(*) FROM messages") == [(5,)]
    assert found_in(live.db.parent, session(3)) == []
