"""What the daemon does when nothing is wrong: it looks where it should, and nowhere else."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxdb.claude.layout import is_transcript
from ctxdb.daemon import rhythm
from ctxdb.daemon.database import Database
from ctxdb.daemon.intake import LAG_MINUTES
from ctxdb.daemon.queue import SLICE_FILES, Queue, Waiting
from ctxdb.daemon.rhythm import Storm
from ctxdb.daemon.slice import Limits, Slice
from ctxdb.files import tail
from ctxdb.files.walk import FoundFile, scan
from ctxdb.ingest import line_reader
from live_forks import Live, has, until
from live_lab import count, events_come, inside, own_line, session, transcript
from world import World, line, lines, texts


class Recorder:
    """Notes what each slice was given, in order."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.slices: list[list[str]] = []
        self.limits = limits

    def __call__(self, conn: sqlite3.Connection, limits: Limits) -> Slice:
        slices = self.slices

        class Noted(Slice):
            def take(self, files: Any) -> Any:
                slices.append([Path(file.path).stem for file in files])
                return super().take(files)

        return Noted(conn, self.limits or limits)


# -- what wakes it ---------------------------------------------------------------------------------


def test_a_line_is_read_when_its_newline_comes_and_only_once(world: World) -> None:
    with Live(world):
        world.write(lines(0)[:20])
        world.append(lines(0)[20:] + lines(1)[:-1])
        has(world, 1)
        world.append(b"\n")
        has(world, 2)
    world.settled([0, 1])


def test_reading_transcripts_does_not_wake_it(world: World) -> None:
    world.write(lines(0))
    with inside(world) as daemon:
        has(world, 1)
        until(lambda: not daemon.intake.has_work)
        before = daemon.health.events
        for _ in range(500):
            world.main.read_bytes()
        world.append(line(1))
        has(world, 2)
        until(lambda: daemon.health.events > before)
        assert daemon.health.events - before < 100
    world.settled([0, 1])


def test_a_file_or_folder_renamed_while_it_watches_is_not_read_again(world: World) -> None:
    world.write(lines(0, 1))
    with inside(world) as daemon:
        has(world, 2)
        first = world.source()["id"]
        moved = world.main.with_name(f"{session(7)}.jsonl")
        world.main.rename(moved)
        until(lambda: path_of(world, first) == str(moved))
        moved.parent.rename(world.root / "-work-elsewhere")
        there = world.root / "-work-elsewhere" / moved.name
        until(lambda: path_of(world, first) == str(there))
        world.append(line(2), there)
        has(world, 3)
        until(lambda: daemon.health.lines >= 3)  # counted when they are stored
        assert daemon.health.lines == 3
        assert world.one("SELECT count(*) FROM source_files") == 1
        assert world.one("SELECT count(missing_since) FROM source_files") == 0
    world.sound()


def path_of(world: World, file_id: int) -> str:
    return str(world.one("SELECT path FROM source_files WHERE id = ?", file_id))


def test_a_deleted_transcript_is_told_of_and_its_rows_stay(world: World) -> None:
    world.write(lines(0, 1))
    world.write(own_line(1, 0), transcript(world, 1))
    with Live(world):
        has(world, 3)
        world.main.unlink()
        until(lambda: world.source()["missing_since"])
        until(lambda: world.one("SELECT count(source_deleted_at) FROM sessions") == 1)
        assert count(world) == 3


def test_a_transcript_that_becomes_readable_is_read(world: World) -> None:
    """Root may read anything: what is tested is that the change of mode is seen."""
    world.write(lines(0))
    with inside(world) as daemon:
        has(world, 1)
        until(lambda: not daemon.intake.has_work)
        before = daemon.health.events
        world.main.chmod(0o400)
        until(lambda: daemon.health.events > before)


def test_on_sighup_it_looks_at_everything(world: World) -> None:
    with Live(world) as live:
        before = live.health().rescans
        live.send(signal.SIGHUP)
        until(lambda: live.health().rescans > before)


def test_a_root_that_is_a_link_is_watched(world: World, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(world.root)
    world.write(lines(0))
    with inside(world, roots=[link]) as daemon:
        has(world, 1)
        before = daemon.health.events
        world.append(line(1))
        has(world, 2)
        until(lambda: daemon.health.events > before)
        (path,) = world.ask("SELECT path FROM source_files")
        assert path[0].startswith(str(link))


def test_a_root_within_another_brings_no_file_twice(world: World) -> None:
    world.write(lines(0))
    with inside(world, roots=[world.main.parent, world.root]):
        has(world, 1)
        world.append(line(1))
        has(world, 2)
        world.write(own_line(1, 0), transcript(world, 1))
        has(world, 3)
        assert world.one("SELECT count(*) FROM source_files") == 2


@pytest.mark.parametrize("given", ["both whole", "inner by its real name", "inner by the link"])
def test_a_folder_with_two_names_is_read_once_and_watched_by_events(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """~/.config/claude may be a link to ~/.claude: both are usual places."""
    fast = rhythm.RHYTHMS["events"]._replace(tick=0.02, hot=0.02)
    monkeypatch.setitem(rhythm.RHYTHMS, "events", fast)
    link = tmp_path / "link"  # before `projects` by the alphabet
    link.symlink_to(world.root)
    roots = {
        "both whole": [world.root, link],
        "inner by its real name": [world.main.parent, link],
        "inner by the link": [link / world.main.parent.name, world.root],
    }[given]
    outer = world.root if given == "inner by the link" else link
    world.write(lines(0))
    with inside(world, roots=roots) as daemon:
        has(world, 1)
        events_come(world, daemon, 1)
        world.write(own_line(1, 0), transcript(world, 1))
        world.write(own_line(2, 0), transcript(world, 2, "-work-new"))
        until(lambda: world.one("SELECT count(*) FROM source_files") >= 3)
        rescans = daemon.health.rescans
        until(lambda: daemon.health.rescans > rescans + 2)  # rounds over all files
        daemon.rescan_asked = True
        daemon.wakeup.set()
        until(lambda: not daemon.rescan_asked)
        until(lambda: not daemon.intake.has_work)
        assert (daemon.health.mode, daemon.health.mode_reason) == ("events", "")
        assert daemon.health.files == 3
        found = world.ask("SELECT path, state FROM source_files")
        assert {Path(path).parent.parent for path, _ in found} == {outer}
        assert {state for _, state in found} == {"ok"}


def test_when_a_root_becomes_another_name_of_one_its_files_are_renamed_and_go_on(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = rhythm.RHYTHMS["events"]._replace(tick=0.02)
    monkeypatch.setitem(rhythm.RHYTHMS, "events", fast)
    link = tmp_path / "link"
    world.write(lines(0))

    def is_below(root: Path) -> bool:
        [(path,)] = world.ask("SELECT path FROM source_files WHERE missing_since IS NULL")
        return str(path).startswith(f"{root}/")

    with inside(world, roots=[world.root, link]) as daemon:
        has(world, 1)
        assert is_below(world.root)
        until(lambda: daemon.health.missing_roots == [str(link)])
        link.symlink_to(world.root)
        until(lambda: is_below(link))
        until(lambda: list(daemon.loop.watcher.watched) == [str(link)])
        n = events_come(world, daemon, 1)
        link.unlink()
        until(lambda: is_below(world.root))
        until(lambda: list(daemon.loop.watcher.watched) == [str(world.root)])
        events_come(world, daemon, n)
        assert world.one("SELECT count(*) FROM source_files") == 1


def test_two_missing_roots_in_one_folder_are_both_seen_when_they_come(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = rhythm.RHYTHMS["events"]._replace(tick=3600.0)
    monkeypatch.setitem(rhythm.RHYTHMS, "events", slow)
    first, second = tmp_path / "first", tmp_path / "second"
    with inside(world, roots=[first, second]):
        for n, root in enumerate((first, second)):
            path = root / "-work-tides" / f"{session(n)}.jsonl"
            path.parent.mkdir(parents=True)
            path.write_bytes(own_line(n, 0))
            has(world, n + 1)


def test_when_nothing_happens_it_writes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many looks at unchanged files, and not one change to the database."""
    fast = rhythm.RHYTHMS["events"]._replace(tick=0.01, walk=0.01, hot=0.01, walk_share=1000.0)
    monkeypatch.setitem(rhythm.RHYTHMS, "events", fast)
    world.write(lines(0))
    with inside(world) as daemon:
        has(world, 1)
        until(lambda: not daemon.intake.has_work)
        until(
            lambda: '"watching"' in str(world.ask("SELECT value FROM _meta WHERE key = 'daemon'"))
        )
        with world.connect() as conn:
            (version,) = conn.execute("PRAGMA data_version").fetchone()
            rescans = daemon.health.rescans
            until(lambda: daemon.health.rescans > rescans + 20)
            assert conn.execute("PRAGMA data_version").fetchone() == (version,)
        assert daemon.health.slices == 1


# -- which files come next -------------------------------------------------------------------------


def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "CHUNK_BYTES", 1)
    monkeypatch.setattr(tail.read_block, "__defaults__", (2000, tail.MAX_LINE_BYTES))


def test_a_huge_file_does_not_keep_the_others_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_chunks(monkeypatch)
    recorder = Recorder()
    world.write(b"".join(own_line(0, k) for k in range(200)), transcript(world, 0))
    world.write(own_line(1, 0), transcript(world, 1))
    with inside(world, change=lambda d: setattr(d.intake, "make_slice", recorder)):
        has(world, 201)
    reads = [taken for taken in recorder.slices if session(0) in taken]
    assert len(reads) > 10  # a bit of it in each slice
    done = max(n for n, taken in enumerate(recorder.slices) if session(1) in taken)
    last = max(n for n, taken in enumerate(recorder.slices) if session(0) in taken)
    assert done < last - 5
    world.sound()


def test_a_file_that_makes_a_slice_fail_does_not_stop_the_others(world: World) -> None:
    class Picky(Slice):
        def take(self, files: Any) -> Any:
            if any(session(1) in file.path for file in files) and not healed:
                raise ValueError("a bug, with words of a transcript")
            return super().take(files)

    healed: list[bool] = []
    for n in range(4):
        world.write(own_line(n, 0), transcript(world, n))
    with inside(world, change=lambda d: setattr(d.intake, "make_slice", Picky)) as daemon:
        has(world, 3)
        until(lambda: "ValueError" in (daemon.health.last_error or ""))
        assert "words" not in (daemon.health.last_error or "")
        assert "words" not in daemon.log.stream.getvalue()  # type: ignore[union-attr]
        world.append(own_line(0, 1), transcript(world, 0))
        has(world, 4)
        healed.append(True)
        world.append(own_line(1, 1), transcript(world, 1))
        has(world, 6)
    world.sound()


def test_a_bug_in_a_round_is_told_without_words_and_the_next_round_goes_on(world: World) -> None:
    broken = [True]

    def change(daemon: Any) -> None:
        real = daemon.rescan.look_at_paths

        def look_at_paths(paths: Any) -> Any:
            if broken[0] and paths:
                raise LookupError("words of a transcript")
            return real(paths)

        daemon.loop.rescan = daemon.rescan = Broken(daemon.rescan, look_at_paths)

    class Broken:
        def __init__(self, real: Any, look: Any) -> None:
            self._real, self.look_at_paths = real, look

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    world.write(lines(0))
    with inside(world, change=change) as daemon:
        has(world, 1)
        world.append(line(1))
        until(lambda: "LookupError" in (daemon.health.last_error or ""))
        broken[0] = False
        has(world, 2)
        assert "words" not in daemon.log.stream.getvalue()  # type: ignore[union-attr]
    world.settled([0, 1])


def test_a_transaction_holds_all_files_of_a_slice(world: World) -> None:
    recorder = Recorder(Limits(seconds=1e9))  # a slow machine has as many files in a slice
    for n in range(30):
        world.write(own_line(n, 0), transcript(world, n))
    with inside(world, change=lambda d: setattr(d.intake, "make_slice", recorder)):
        has(world, 30)
    assert len(recorder.slices) == 1
    assert len(recorder.slices[0]) == 30


def test_a_slice_brings_something_however_late_it_is(world: World) -> None:
    """Waiting for a lock, or a slow machine, can take all the time that a slice has."""
    recorder = Recorder(Limits(seconds=-1.0))
    for n in range(3):
        world.write(own_line(n, 0), transcript(world, n))
    with inside(world, change=lambda d: setattr(d.intake, "make_slice", recorder)):
        has(world, 3)
    assert [len(taken) for taken in recorder.slices] == [3, 2, 1]


def test_files_that_were_touched_are_compared_a_slice_at_a_time(world: World) -> None:
    """A chmod over all transcripts must keep neither a new line nor a stop waiting."""
    paths = [world.write(own_line(n, 0), transcript(world, n)) for n in range(3)]
    world.sync()
    for path in paths:
        path.touch()
    database = Database(world.db)
    database.open()
    known = (
        "SELECT path, stat FROM source_files JOIN _file_marks ON source_file_id = id ORDER BY path"
    )
    before = world.ask(known)
    files = Slice(database.conn).find(scan((str(world.root),), is_transcript))
    assert sorted(file.path for file in files) == [path for path, _ in before]
    assert world.ask(known) == before  # for their slices, all of them
    left = files
    for n in (2, 1, 0):
        taken = Slice(database.conn, Limits(seconds=-1.0))
        taken.take(left)
        left = [file for file in left if file.path in taken.unreached]
        assert len(left) == n
        assert len(set(world.ask(known)) & set(before)) == n
    assert world.one("SELECT max(generation) FROM _file_marks") == 0
    database.drop()


def test_case_83_catching_up_reads_each_byte_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-read file is read on, not compared with what was read of it before."""
    sizes: list[int] = []
    real = os.pread

    def pread(fd: int, count: int, offset: int) -> bytes:
        data = real(fd, count, offset)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(line_reader, "CHUNK_BYTES", 1 << 18)
    recorder = Recorder()
    padding = "some words " * 2000
    for n in range(4):
        made = [line(n * 1000 + k, sessionId=session(n), padding=padding) for k in range(100)]
        world.write(b"".join(made), transcript(world, n))
    total = sum(path.stat().st_size for path in world.root.rglob("*.jsonl"))
    monkeypatch.setattr(os, "pread", pread)
    with inside(world, change=lambda d: setattr(d.intake, "make_slice", recorder)):
        has(world, 400)
    assert len(recorder.slices) >= 4
    # A line at the end of a block is read twice, and the marks of each slice are small.
    assert sum(sizes) < 1.5 * total


def test_a_half_read_file_that_is_edited_is_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_chunks(monkeypatch)
    data = b"".join(own_line(0, k) for k in range(20))
    path = world.write(data, transcript(world, 0))
    world.db.unlink()
    database = Database(world.db)
    database.open()
    known = (
        'SELECT b.generation, f."offset" FROM source_files f'
        " JOIN _file_marks b ON b.source_file_id = f.id"
    )

    def read_on() -> tuple[int, int]:
        Slice(database.conn).take(scan((str(world.root),), is_transcript).files)
        ((generation, offset),) = world.ask(known)
        return generation, offset

    _, first = read_on()
    _, second = read_on()
    assert 0 < first < second < len(data)
    path.write_bytes(data.replace(b"line 00001", b"LINE XXXXX"))
    later = path.stat().st_mtime_ns + 10**9
    os.utime(path, ns=(later, later))
    assert read_on() == (1, first)
    database.drop()


def test_the_longest_lag_is_kept_by_the_minute(world: World) -> None:
    with inside(world) as daemon:
        for n in range(5):
            world.append(line(n))
            has(world, n + 1)
        until(lambda: daemon.health.slices >= 5)
        until(lambda: daemon.health.max_lag_ms == round(max(daemon.intake.lags.values()), 1))
        minutes = sorted(daemon.intake.lags)
        assert minutes[-1] - minutes[0] < LAG_MINUTES
        assert len(minutes) < 5  # not one for each


def found(n: int, mtime: int = 0) -> FoundFile:
    return FoundFile(f"/r/{n:04}.jsonl", "/r", 1, n, 10, mtime, mtime)


def names(taken: list[Waiting]) -> list[int]:
    return [one.file.ino for one in taken]


def test_new_changes_come_before_what_is_left_of_long_files() -> None:
    queue = Queue()
    queue.add_backlog([found(3, 30), found(1, 10), found(2, 20)], 0.0)
    queue.add([found(9)], 1.0)
    taken = queue.take()
    assert names(taken) == [9, 1, 2, 3]
    queue.put_back(taken[2:3])
    queue.put_off(taken[1:2])
    queue.add([found(8)], 2.0)
    assert names(queue.take()) == [8, 2, 1]


def test_now_and_then_what_is_left_comes_first() -> None:
    queue = Queue()
    firsts = set()
    for n in range(8):
        queue.add([found(100 + n)], 0.0)
        queue.add_backlog([found(n)], 0.0)
        firsts.add(queue.take()[0].is_fresh)
    assert firsts == {True, False}


def test_a_slice_has_so_many_files_and_no_more() -> None:
    queue = Queue()
    queue.add_backlog([found(n) for n in range(3 * SLICE_FILES)], 0.0)
    taken = [len(queue.take()) for _ in range(4)]
    assert taken == [SLICE_FILES, SLICE_FILES, SLICE_FILES, 0]


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "backlog", "take", "back", "off"]), st.integers(0, 9)),
        max_size=60,
    )
)
@settings(max_examples=2 * settings.default.max_examples)
def test_no_file_is_lost_or_doubled_whatever_happens_to_slices(
    steps: list[tuple[str, int]],
) -> None:
    queue = Queue()
    expected: set[int] = set()
    taken: list[Waiting] = []
    for what, n in steps:
        if what == "add":
            queue.add([found(n)], 0.0)
            expected.add(n)
        elif what == "backlog":
            queue.add_backlog([found(n)], 0.0)
            expected.add(n)
        elif what == "take":
            taken = queue.take()
            assert set(names(taken)) == expected
            assert len(taken) == len(expected)
            expected = set()
        else:
            (queue.put_back if what == "back" else queue.put_off)(taken[:n])
            expected.update(names(taken[:n]))
            taken = []
    assert len(queue) == len(expected)
    assert sorted(names(queue.take())) == sorted(expected)


# -- storms ----------------------------------------------------------------------------------------


def test_a_storm_begins_with_many_events_in_a_second_and_ends_with_calm() -> None:
    storm = Storm()
    assert not storm.begins(100.0, rhythm.STORM_EVENTS - 1)
    assert not storm.begins(101.5, rhythm.STORM_EVENTS - 1)  # another second
    assert storm.begins(101.6, 1)
    assert not storm.begins(101.7, 10_000)  # it is on already
    assert not storm.ends(102.0, rhythm.CALM_FILES + 1)
    assert not storm.ends(103.9, 0)
    assert storm.ends(104.1, 0)
    assert not storm.ends(110.0, 0)


def test_a_storm_that_comes_back_at_once_is_waited_for_longer() -> None:
    storm = Storm()
    now = 0.0
    calms = []
    for _ in range(6):
        assert storm.begins(now, rhythm.STORM_EVENTS)
        calms.append(storm.calm)
        now += storm.calm + 0.1
        assert storm.ends(now, 0)
    assert calms == sorted(calms)
    assert calms[0] < calms[-1] <= rhythm.MAX_CALM_SECONDS
    assert storm.begins(now + rhythm.AGAIN_SECONDS + 1, rhythm.STORM_EVENTS)
    assert storm.calm == rhythm.CALM_SECONDS


# -- descriptors -----------------------------------------------------------------------------------


def test_arming_again_and_again_leaves_no_descriptor_and_no_thread_behind(world: World) -> None:
    import threading

    from ctxdb.daemon.hints import Hints, Wakeup
    from ctxdb.daemon.watch import Watcher

    wakeup = Wakeup()
    hints = Hints(wakeup)
    watcher = Watcher([str(world.root)], hints)

    def arm_and_disarm() -> None:
        watcher.arm()
        assert watcher.is_alive
        # watchdog 7.1 closes nothing when it is stopped before its thread has begun to read.
        hints.take()
        world.append(b"\n")
        until(lambda: hints.events)
        watcher.disarm()

    arm_and_disarm()
    before = (len(os.listdir("/proc/self/fd")), threading.active_count())
    for _ in range(20):
        arm_and_disarm()
    until(lambda: len(os.listdir("/proc/self/fd")) <= before[0])
    until(lambda: threading.active_count() <= before[1])
    wakeup.close()


def test_a_waiting_thread_is_woken_however_often_it_was_told() -> None:
    from ctxdb.daemon.hints import Wakeup

    wakeup = Wakeup()
    for _ in range(100_000):
        wakeup.set()
    assert wakeup.wait(0)
    while wakeup.wait(0):
        pass
    began = time.monotonic()
    assert not wakeup.wait(0.01)
    assert time.monotonic() >= began + 0.009
    wakeup.close()


def test_many_sessions_at_once_are_all_there(world: World) -> None:
    with Live(world):
        for k in range(5):
            for n in range(20):
                world.append(own_line(n, k), transcript(world, n, f"-work-{n % 3}"))
        has(world, 100)
    expected = texts(n * 1000 + k for n in range(20) for k in range(5))
    assert world.texts() == sorted(expected)
