"""Each check of `ctxdb doctor` finds what it is for, and says what to do about it."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from ctxdb import __version__, mounts
from ctxdb.archive.archive_file import archive_path
from ctxdb.claude.versions import NEWEST_TESTED, version_key
from ctxdb.daemon_health import Health
from ctxdb.doctor import (
    archive_checks,
    content_checks,
    daemon_checks,
    database_checks,
    machine_checks,
    place_checks,
)
from ctxdb.doctor.checks import CHECKS, examine
from ctxdb.doctor.finding import NOTE, OK, TODO, Finding, Patient
from ctxdb.progress import NullProgress
from ctxdb.settings import DEFAULTS
from world import World, line, lines

Check = Callable[[Patient], Iterable[Finding]]


class Disk(NamedTuple):
    total: int
    used: int
    free: int


def found(world: World, check: Check, **settings: object) -> Finding:
    """The one finding of a check."""
    config = world.config._replace(settings={**DEFAULTS, **settings})
    (one,) = check(Patient(config, NullProgress()))
    assert one.state == OK or one.fix, "it says what to do"
    return one


@pytest.fixture
def read(world: World) -> World:
    world.write(lines(0, 1))
    world.sync()
    return world


REPLY = {
    "id": "msg_01",
    "role": "assistant",
    "model": "no-such-model",
    "content": [{"type": "text", "text": "yes"}],
    "usage": {"input_tokens": 3, "output_tokens": 5},
    "stop_reason": "end_turn",
}


def test_a_database_that_was_just_made_is_well(read: World) -> None:
    for check in (
        place_checks.check_roots,
        place_checks.check_file_systems,
        place_checks.check_disk_space,
        content_checks.check_clock,
        content_checks.check_prices,
        content_checks.check_masking,
    ):
        assert found(read, check).state == OK, check


def test_a_folder_that_is_missing_is_named(read: World) -> None:
    shutil.rmtree(read.root)
    one = found(read, place_checks.check_roots)
    assert (one.state, str(read.root) in one.text) == (TODO, True)


def test_of_several_folders_only_a_missing_one_that_was_asked_for_needs_doing(read: World) -> None:
    there, gone = str(read.root), str(read.root / "gone")
    for roots, states in (([], [OK]), ([there, gone], [TODO, OK])):
        config = read.config._replace(roots=(there, gone), settings={**DEFAULTS, "roots": roots})
        findings = list(place_checks.check_roots(Patient(config, NullProgress())))
        assert [one.state for one in findings] == states


def test_a_folder_that_cannot_be_read_is_named(
    read: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may read everything
    one = found(read, place_checks.check_roots)
    assert (one.state, one.fix) == (TODO, f"chmod u+rx {read.root}")


@pytest.mark.parametrize(("kind", "states"), [("nfs4", [TODO, NOTE]), ("9p", [NOTE])])
def test_case_77_a_network_file_system_is_named(
    read: World, monkeypatch: pytest.MonkeyPatch, kind: str, states: list[str]
) -> None:
    monkeypatch.setattr(mounts, "file_system_of", lambda *_: kind)
    findings = list(place_checks.check_file_systems(Patient(read.config, NullProgress())))
    assert [one.state for one in findings] == states
    assert all(kind in one.text and one.fix for one in findings)


@pytest.mark.parametrize(("free", "state"), [(1 << 20, TODO), (1 << 40, OK)])
def test_a_disk_that_is_nearly_full_is_named(
    read: World, monkeypatch: pytest.MonkeyPatch, free: int, state: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(1 << 41, 0, free))
    assert found(read, place_checks.check_disk_space).state == state


def test_too_little_room_for_a_rebuild_is_worth_knowing(
    read: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_checks, "LEAST_FREE_BYTES", 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(1 << 41, 0, 1000))
    assert found(read, place_checks.check_disk_space).state == NOTE


@pytest.mark.parametrize(
    ("watches", "instances", "state"), [(1, 128, TODO), (8192, 0, TODO), (8192, 128, OK)]
)
def test_limits_of_inotify_that_are_too_low_are_named(
    read: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    watches: int,
    instances: int,
    state: str,
) -> None:
    (tmp_path / "max_user_watches").write_text(f"{watches}\n")
    (tmp_path / "max_user_instances").write_text(f"{instances}\n")
    monkeypatch.setattr(place_checks, "LIMITS", tmp_path)
    one = found(read, place_checks.check_event_limits)
    assert (one.state, "sysctl" in (one.fix or "")) == (state, state == TODO)


def test_where_there_is_no_inotify_its_limits_are_not_checked(
    read: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_checks, "LIMITS", tmp_path / "none")
    assert not list(place_checks.check_event_limits(Patient(read.config, NullProgress())))


def test_an_entry_of_the_future_is_named(world: World) -> None:
    ahead = datetime.now(UTC) + timedelta(days=2)
    world.write(line(0, timestamp=f"{ahead:%Y-%m-%dT%H:%M:%S}.000Z"))
    world.sync()
    one = found(world, content_checks.check_clock)
    assert one.state == TODO
    assert "hours ahead" in one.text


def test_a_version_newer_than_tested_and_its_new_key_are_named(world: World) -> None:
    world.write(line(0, version="9.8.7", brandNewKey=1))
    world.sync()
    versions, keys = content_checks.check_unknown(Patient(world.config, NullProgress()))
    assert (versions.state, "9.8.7" in versions.text, NEWEST_TESTED in versions.text) == (
        *(NOTE, True),
        True,
    )
    assert (keys.state, keys.text.startswith("1 key ")) == (NOTE, True)
    assert all(one.fix for one in (versions, keys))


def test_a_model_without_a_price_is_named_with_the_command_that_adds_one(world: World) -> None:
    world.write(line(0) + line(1, type="assistant", message=REPLY, requestId="req_1"))
    world.sync()
    one = found(world, content_checks.check_prices)
    assert one.state == TODO
    assert "ctxdb prices add no-such-model" in (one.fix or "")


@pytest.mark.parametrize("settings", [{"redact.enabled": False}, {"redact.off": ["mailgun-key"]}])
def test_masking_that_is_off_is_named(read: World, settings: dict[str, object]) -> None:
    assert found(read, content_checks.check_masking, **settings).state == NOTE


@pytest.mark.parametrize(
    ("health", "state"),
    [
        (None, NOTE),
        (Health(version="0.0.1"), TODO),
        (Health(version=__version__, archive_problem="the archive cannot be written to"), TODO),
        (Health(version=__version__, mode="events"), OK),
    ],
)
def test_a_daemon_of_another_version_is_named(
    read: World, monkeypatch: pytest.MonkeyPatch, health: Health | None, state: str
) -> None:
    monkeypatch.setattr(daemon_checks, "running", lambda _: health)
    assert found(read, daemon_checks.check_daemon).state == state


@pytest.mark.parametrize(
    ("version", "state"),
    [((3, 40, 1), NOTE), ((3, 50, 7), OK), ((3, 51, 2), NOTE), ((3, 51, 3), OK), ((3, 53, 0), OK)],
)
def test_a_sqlite_with_the_bug_of_the_log_is_named(
    read: World, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int], state: str
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    assert found(read, machine_checks.check_sqlite).state == state


def test_a_database_that_others_can_read_is_named(read: World) -> None:
    read.db.chmod(0o644)
    one = found(read, machine_checks.check_permissions)
    assert (one.state, one.fix) == (TODO, f"chmod go-rwx {read.db}")


def test_a_damaged_page_is_named(read: World) -> None:
    size = read.db.stat().st_size
    with read.db.open("r+b") as file:
        for page in range(size // 3, size, 4096):
            file.seek(page)
            file.write(b"\xff" * 64)
    one = found(read, database_checks.check_integrity)
    assert (one.state, one.fix) == (TODO, database_checks.REPAIR)


def test_versions_are_compared_by_number() -> None:
    assert version_key("2.1.9") < version_key("2.1.280") < version_key("10.0.0")
    assert version_key("2.1.280-beta") == () == version_key("")


def test_every_check_is_in_the_list() -> None:
    modules = (place_checks, content_checks, daemon_checks, database_checks, machine_checks)
    made = {getattr(m, name) for m in modules for name in vars(m) if name.startswith("check_")}
    assert made <= {*CHECKS}


def test_every_check_is_on_the_page_of_troubles() -> None:
    page = (Path(__file__).parents[1] / "docs/troubleshooting.md").read_text()
    sources = (Path(daemon_checks.__file__).parent).glob("*_checks.py")
    names = {
        name for path in sources for name in re.findall(r'Finding\(\s*"(\w+)"', path.read_text())
    }
    assert len(names) > 15
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_what_is_no_database_needs_one_thing_done(read: World) -> None:
    read.db.write_bytes(b"no database\n" * 500)
    report = examine(Patient(read.config, NullProgress()))
    todo = {one.check: one.fix for one in report.findings if one.state == TODO}
    assert todo["integrity"] == database_checks.REPAIR
    unchecked = [one for one in report.findings if one.text.startswith("could not be checked")]
    assert {"values", "unknown_keys"} <= {one.check for one in unchecked}
    for one in unchecked:
        assert (one.state, one.text) == (NOTE, "could not be checked: the database is damaged")


def test_an_archive_that_is_switched_off_says_how_to_switch_it_on(read: World) -> None:
    archive_path(read.db).unlink(missing_ok=True)
    config = read.config._replace(settings={**DEFAULTS, "archive": False}, archive=False)
    (one,) = archive_checks.check_archive_file(Patient(config, NullProgress()))
    assert (one.state, one.fix) == (NOTE, "`ctxdb config set archive true` turns it on")
