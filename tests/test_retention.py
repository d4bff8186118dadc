"""Transcripts that Claude Code deletes before they are archived are named by `status`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from ctxdb.claude.client_settings import DEFAULT_DAYS, MAX_DAYS, cleanup_days
from ctxdb.config import Config
from ctxdb.doctor.daemon_checks import check_daemon, check_retention
from ctxdb.doctor.finding import NOTE, OK, TODO, Patient
from ctxdb.ingest import retention
from ctxdb.ingest.retention import Retention, find_at_risk
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from live_lab import Live, has, inside
from world import OTHER_SESSION, RUN, SESSION, World, line, run_python

DAY = 86_400


@pytest.mark.parametrize(
    ("text", "days"),
    [
        pytest.param(None, DEFAULT_DAYS, id="no file"),
        ('{"cleanupPeriodDays": 5, "env": {"KEY": "secret"}}', 5),
        ('{"cleanupPeriodDays": 0}', 0),
        ('{"cleanupPeriodDays": 99999999999999999999}', MAX_DAYS),
        ('{"cleanupPeriodDays": true}', DEFAULT_DAYS),
        ('{"cleanupPeriodDays": -3}', DEFAULT_DAYS),
        ('{"cleanupPeriodDays": "7"}', DEFAULT_DAYS),
        ("[1]", DEFAULT_DAYS),
        ("{torn", DEFAULT_DAYS),
    ],
)
def test_the_period_is_read_from_the_settings_of_claude_code(
    tmp_path: Path, text: str | None, days: int
) -> None:
    if text is not None:
        (tmp_path / "settings.json").write_text(text)
    assert cleanup_days([str(tmp_path)]) == days


def test_a_link_or_a_pipe_in_the_place_of_the_settings_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"cleanupPeriodDays": 5}')
    (tmp_path / "settings.json").symlink_to(tmp_path / "other.json")
    assert cleanup_days([str(tmp_path)]) == DEFAULT_DAYS
    (tmp_path / "settings.json").unlink()
    os.mkfifo(tmp_path / "settings.json")
    assert cleanup_days([str(tmp_path), str(tmp_path / "gone")]) == DEFAULT_DAYS


@pytest.fixture
def config(world: World) -> Config:
    return Config(world.db, (str(world.root),), archive=True)


def written(path: Path, days_ago: float) -> None:
    at = time.time() - days_ago * DAY
    os.utime(path, (at, at))


def test_a_forgotten_transcript_is_not_at_risk(world: World, config: Config) -> None:
    world.write(line(0))
    sync(config, progress=NullProgress())
    written(world.main, 25)
    assert find_at_risk(config).files_at_risk == 0
    run_python(RUN, "--db", world.db, "forget", "--session", SESSION, "--yes")
    assert find_at_risk(config).files_at_risk == 0
    other = world.write(line(1, sessionId=OTHER_SESSION), world.file("-work-tides/other.jsonl"))
    written(other, 25)
    assert find_at_risk(config).files_at_risk == 1


def test_a_transcript_is_at_risk_in_its_last_week_until_it_is_archived(
    world: World, config: Config
) -> None:
    world.write(line(0))
    for days_ago, is_at_risk in ((1, False), (20, False), (24, True), (40, True)):
        written(world.main, days_ago)
        assert bool(find_at_risk(config).files_at_risk) is is_at_risk, days_ago
    found = find_at_risk(config)
    assert found.bytes_at_risk == len(line(0))
    assert found.first_at is not None
    assert "no daemon runs: `ctxdb sync` archives them now" in str(found.reason)
    sync(config, progress=NullProgress())
    assert find_at_risk(config) == Retention(30)
    world.append(line(1))
    written(world.main, 24)
    assert find_at_risk(config).bytes_at_risk == len(line(1))


def test_rows_without_an_archive_do_not_save_a_transcript(world: World, config: Config) -> None:
    world.write(line(0))
    written(world.main, 29)
    off = config._replace(archive=False)
    sync(off, progress=NullProgress())
    found = find_at_risk(off)
    assert found.files_at_risk == 1
    assert "the archive is switched off" in str(found.reason)
    first, second = found.lines()
    assert "1 transcript (" in first
    assert "after 30 days" in first
    assert "config set archive true" in second


def test_a_daemon_that_archives_leaves_nothing_at_risk(
    world: World, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_RECENT_SECONDS", 0)
    world.write(line(0))
    written(world.main, 40)
    with inside(world) as daemon:  # it archives nothing: the world's configuration has it off
        has(world, 1)
        assert "--no-archive" in str(find_at_risk(config).reason)
        daemon.health.archive = True
        daemon.heartbeat.beat(force=True)
        assert find_at_risk(config).files_at_risk == 0
        daemon.health.archive_problem = "cannot write the archive: the disk is full"
        daemon.heartbeat.beat(force=True)
        assert find_at_risk(config).reason == "cannot write the archive: the disk is full"


def test_status_names_what_is_at_risk(home: Path) -> None:
    path = home / ".claude/projects/-work-tides/a.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(line(0))
    written(path, 29)
    (home / ".claude/settings.json").write_text('{"cleanupPeriodDays": 30}')
    shown = run_python(RUN, "status").stdout
    assert "At risk      1 transcript" in shown
    found = json.loads(run_python(RUN, "status", "--json").stdout)["retention"]
    assert (found["cleanup_days"], found["files_at_risk"]) == (30, 1)
    run_python(RUN, "sync")
    assert "At risk" not in run_python(RUN, "status").stdout


def test_doctor_names_what_is_at_risk_and_a_daemon_that_is_frozen(
    world: World, config: Config
) -> None:
    world.write(line(0))
    sync(config._replace(archive=False), progress=NullProgress())
    written(world.main, 29)
    patient = Patient(config, NullProgress())
    (found,) = check_retention(patient)
    assert (found.state, found.check) == (TODO, "retention")
    assert "1 transcript not archived will be deleted soon" in found.text
    (found,) = check_daemon(patient)
    assert found.state == NOTE
    with Live(world) as live:
        (found,) = check_daemon(patient)
        assert found.state == OK
        with live.stopped():
            (found,) = check_daemon(patient)
            assert found.state == TODO
            assert "frozen" in found.text
    sync(config, progress=NullProgress())
    (found,) = check_retention(patient)
    assert found.state == OK
