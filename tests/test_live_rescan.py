"""Looking by stat: what is found without any event, and how soon."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from ctxdb.daemon import rescan
from ctxdb.daemon.rescan import ROUND_PARTS, Rescan
from ctxdb.daemon.rhythm import RHYTHMS
from ctxdb.files.walk import FoundFile
from lab import put_empty_database
from live_forks import has, until
from live_lab import events_come, inside, put_in_place
from world import World, as_nobody, line, lines, public_world

DAY = 86_400


def make(folder: Path, name: str, age: float = 0.0, text: str = "{}\n") -> str:
    """A transcript that was last written to so many seconds ago."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    at = time.time() - age
    os.utime(path, (at, at))
    return str(path)


def grow(path: str, age: float = 0.0) -> None:
    """Add a line, without making the file look younger than said."""
    with open(path, "a") as file:
        file.write("{}\n")
    at = time.time() - age
    os.utime(path, (at, at))


def names(files: list[FoundFile]) -> list[str]:
    return sorted(Path(file.path).name for file in files)


@pytest.fixture
def look(tmp_path: Path) -> Rescan:
    """29 files that have not changed for days, and one of today; all are known."""
    for n in range(29):
        make(tmp_path, f"p{n % 5}/old{n}.jsonl", 5 * DAY)
    make(tmp_path, "p0/today.jsonl", 3600)
    found = Rescan([str(tmp_path)])
    found.walk()
    return found


def test_a_file_of_today_is_looked_at_with_every_tick(look: Rescan, tmp_path: Path) -> None:
    assert look.look_at_warm() == []
    grow(str(tmp_path / "p0/today.jsonl"), 3600)
    assert names(look.look_at_warm()) == ["today.jsonl"]
    assert look.look_at_warm() == []


def test_every_file_is_looked_at_once_in_a_round(look: Rescan, tmp_path: Path) -> None:
    for n in range(29):
        grow(str(tmp_path / f"p{n % 5}/old{n}.jsonl"), 5 * DAY)
    parts = [names(look.look_at_part()) for _ in range(ROUND_PARTS)]
    assert look.has_round_ended
    assert sorted(name for part in parts for name in part) == sorted(
        f"old{n}.jsonl" for n in range(29)
    )
    assert max(map(len, parts)) == 3  # a part at a time
    assert [look.look_at_part() for _ in range(ROUND_PARTS)] == [[]] * ROUND_PARTS


def test_few_files_are_a_round_as_well(tmp_path: Path) -> None:
    look = Rescan([str(tmp_path)])
    look.walk()
    assert look.look_at_part() == []
    path = make(tmp_path, "p/x.jsonl")
    look.walk()
    assert look.look_at_part() == []
    assert look.has_round_ended
    grow(path, DAY)
    assert names(look.look_at_part()) == ["x.jsonl"]


def test_a_round_tells_which_files_are_of_today(
    look: Rescan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "p1/old1.jsonl")
    os.utime(path)
    for _ in range(ROUND_PARTS):
        look.look_at_part()
    today = str(tmp_path / "p0/today.jsonl")
    assert set(look.warm) == {path, today}
    monkeypatch.setattr(rescan, "MAX_WARM", 1)  # then those that changed last
    for _ in range(ROUND_PARTS):
        look.look_at_part()
    assert set(look.warm) == {path}


def test_a_file_that_cools_down_is_still_one_of_today(
    look: Rescan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "p1/old1.jsonl")
    grow(path)
    assert names(look.look_at_paths([path])) == ["old1.jsonl"]
    assert path in look.hot
    monkeypatch.setattr(rescan, "HOT_SECONDS", -1.0)
    assert look.look_at_hot() == []
    assert path not in look.hot
    assert path in look.warm


@pytest.mark.parametrize("gone", ["p1/old1.jsonl", "p1"])
def test_what_is_gone_is_for_a_walk_to_say(look: Rescan, tmp_path: Path, gone: str) -> None:
    for _ in range(ROUND_PARTS):
        look.look_at_part()
    look.look_at_warm()
    assert not look.needs_walk
    (tmp_path / gone).rename(tmp_path.with_name(f"{tmp_path.name}-away"))
    for _ in range(ROUND_PARTS):
        look.look_at_part()
    assert look.needs_walk
    assert look.walk().gone
    assert not look.needs_walk
    for _ in range(ROUND_PARTS):
        look.look_at_part()
    look.look_at_warm()
    assert not look.needs_walk  # it is forgotten: no walk for it again


def test_new_files_and_folders_are_found_by_the_times_of_folders(
    look: Rescan, tmp_path: Path
) -> None:
    look.look_at_warm()
    make(tmp_path, "p2/new.jsonl", 9 * DAY)
    make(tmp_path, "p3/deep/deeper/new2.jsonl", 9 * DAY)
    assert names(look.look_at_warm()) == ["new.jsonl", "new2.jsonl"]


# -- the loop --------------------------------------------------------------------------------------


def deaf(monkeypatch: pytest.MonkeyPatch, **rhythm: float) -> Any:
    """Events that are lost without a word; ticks that come fast."""
    monkeypatch.setattr("ctxdb.daemon.events.RootEvents._note", lambda _self, _event: None)
    fast = RHYTHMS["events"]._replace(**rhythm)
    monkeypatch.setitem(RHYTHMS, "events", fast)


def test_lost_events_are_made_up_for_without_a_walk(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf(monkeypatch, tick=0.02)
    world.write(lines(0))
    os.utime(world.main, (1_700_000_000, 1_700_000_000))  # long ago
    with inside(world) as daemon:
        has(world, 1)
        world.append(line(1))
        os.utime(world.main, (1_700_000_000, 1_700_000_000))
        has(world, 2)
        other = world.write(line(2), world.file("-work-new/2.jsonl"))
        has(world, 3)
        other.unlink()
        until(lambda: world.one("SELECT count(missing_since) FROM source_files") == 1)
        assert daemon.health.mode == "events"
        assert daemon.health.events == 0
        until(lambda: daemon.health.files == 1)


def test_a_folder_that_can_be_read_again_is_read_and_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fast = RHYTHMS["events"]._replace(tick=0.02)
    monkeypatch.setitem(RHYTHMS, "events", fast)
    with public_world() as world:
        world.write(lines(0))
        closed = world.write(line(1), world.file("-work-closed/1.jsonl")).parent
        if os.geteuid() == 0:
            for path in (world.root, world.main.parent, world.main, closed, closed / "1.jsonl"):
                os.chown(path, 65534, 65534)

        def work() -> Any:
            put_empty_database(world.db)
            closed.chmod(0)
            with inside(world) as daemon:
                has(world, 1)
                before = daemon.health.mode
                closed.chmod(0o755)
                has(world, 2)
                until(lambda: daemon.loop.watcher.count() == 3 and daemon.health.mode == "events")
                events_come(world, daemon, 2, closed / "1.jsonl")
                return [before, daemon.health.mode, daemon.health.mode_reason]

        monkeypatch.setenv("XDG_RUNTIME_DIR", str(world.db.parent))
        assert as_nobody(work) == ["events", "events", ""]


def test_while_the_database_is_away_it_does_not_look_again_and_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A walk that is due waits for the database, and the loop does not spin until then."""
    rounds: list[float] = []

    def change(daemon: Any) -> None:
        real = daemon.loop.once
        monkeypatch.setattr(daemon.loop, "once", lambda most: (rounds.append(most), real(most)))

    world.write(lines(0))
    with inside(world, change=change) as daemon:
        has(world, 1)
        until(lambda: not daemon.intake.has_work)
        os.link(world.db, world.db.with_name("away.db"))
        put_in_place(world.db, b"not a database, but somebody's file " * 100)
        world.append(line(1))
        until(lambda: daemon.health.state == "waiting" and daemon.intake.wait > 1.0)
        daemon.loop.walk_at = 0.0
        until(lambda: daemon.loop._until_next() > 0.0)
        assert daemon.loop.walk_at == 0.0
        world.db.unlink()
        daemon.intake.retry_at = 0.0
        daemon.wakeup.set()
        has(world, 2)
