"""Fault cases 1, 2, 5, 6 and 9: crashes, at every point and at any.

Numbers are those of the fault catalogue. A crash is SIGKILL, sent to a real `sync` at a commit (the
hook CTXDB_TEST_KILL) or at a random moment, or a write-ahead log that ends anywhere. Cases 3, 4, 7
and 8 are about the daemon, which is another issue.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from ctxdb.files import tail
from ctxdb.ingest import line_reader
from ctxdb.ingest.batch import Batch
from ctxdb.lock import WriterLock
from live_lab import until
from thinning import thinned
from world import PATIENCE, SMALL_BATCHES, World, line, lines, texts, uuid_of

if TYPE_CHECKING:
    from pathlib import Path

KILLED = -signal.SIGKILL
HUGE = 50_000  # a line that is announced before it is parsed, with the limit below
# As in SMALL_BATCHES; and lines of 40 kB are what lines of 4 MB are elsewhere.
BATCHES = SMALL_BATCHES.replace(
    "from ctxdb.cli.main",
    "line_reader.LARGE_LINE_BYTES = tail.LONG_LINE_BYTES = 40_000\nfrom ctxdb.cli.main",
)


@pytest.fixture
def huge_is_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same limit in this process."""
    monkeypatch.setattr(line_reader, "LARGE_LINE_BYTES", 40_000)
    monkeypatch.setattr(tail, "LONG_LINE_BYTES", 40_000)


def killed_sync(world: World, point: str, reader: str = "first") -> Any:
    env = {**os.environ, "CTXDB_TEST_KILL": point, "READER": reader}
    return world.cli("sync", "--json", code=BATCHES, env=env)


def restore(world: World, data: bytes) -> None:
    for suffix in ("-wal", "-shm"):
        world.db.with_name(world.db.name + suffix).unlink(missing_ok=True)
    world.db.write_bytes(data)


# -- at every commit -----------------------------------------------------------------------------


@pytest.mark.parametrize("reader", thinned(["first", "second"], 2))
def test_case_1_and_2_killed_before_or_after_any_commit_a_sync_is_finished_by_the_next_one(
    world: World, reader: str
) -> None:
    """Case 1 is the kill after a commit, case 2 the kill before it."""
    world.write(lines(*range(12)))
    world.write(lines(*range(20, 26), sessionId="other"), world.file("p/other.jsonl"))
    numbers = [*range(12), *range(20, 26)]
    empty = world.db.read_bytes()
    seen: list[tuple[str, list[str]]] = []
    for n in range(1, 50):
        ends = []
        for point in ("before_commit", "after_commit"):
            restore(world, empty)
            done = killed_sync(world, f"{point}:{n}", reader)
            ends.append(done.returncode)
            if done.returncode == 0:
                continue
            assert (done.returncode, done.stdout) == (KILLED, "")
            world.offsets_agree()
            seen.append((point, world.texts()))
            world.sync()
            if n % 4 == 1 or reader == "second":  # the rest takes as long as ten syncs
                world.settled(numbers)
            assert world.texts() == texts(numbers)
            world.offsets_agree()
        if ends == [0, 0]:
            break
    before = [found for point, found in seen if point == "before_commit"]
    after = [found for point, found in seen if point == "after_commit"]
    # Nothing of a batch is there before its commit, all of it afterwards.
    assert before == [[], *after[:-1]]
    assert len(after) >= 5
    assert after[-1] == texts(numbers)


def test_case_2_a_killed_rewrite_keeps_what_the_old_file_said(world: World) -> None:
    world.write(lines(*range(12)))
    world.sync()
    world.write(lines(*range(6), *range(30, 42)))
    for n in range(1, 50):
        done = killed_sync(world, f"before_commit:{n}")
        if done.returncode == 0:
            break
        assert set(texts(range(12))) <= set(world.texts())
        assert len(world.texts()) == len(set(world.texts()))
    assert n > 2
    world.settled([*range(12), *range(30, 42)])


def test_case_2_a_sync_that_is_killed_again_and_again_gets_done_all_the_same(
    world: World,
) -> None:
    world.write(lines(*range(25)))
    kills = 0
    while killed_sync(world, "after_commit:2").returncode:
        kills += 1
        world.offsets_agree()
    assert kills > 3
    world.settled(range(25))


# -- at any moment -------------------------------------------------------------------------------

# Imports once; each line on its standard input starts a process that syncs until it is killed.
STARTER = """
import os, random, sys
from pathlib import Path
from ctxdb.ingest import run as ingest, line_reader, storing
from ctxdb.files import tail
from ctxdb.config import Config
from ctxdb.progress import NullProgress
from ctxdb.ingest.sync import sync
ingest.BATCH_LINES = 3
storing.COMMIT_BYTES = 1
line_reader.CHUNK_BYTES = 1
tail.read_block.__defaults__ = (2000, tail.MAX_LINE_BYTES)
config = Config(db_path=Path(sys.argv[1]), roots=(sys.argv[2],))
for row in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            if row == "second\\n":
                ingest.READ_AHEAD_BYTES = 1
            while True:
                sync(config, wait=True, progress=NullProgress())
        finally:
            import traceback
            traceback.print_exc()
            os._exit(1)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


class TornWriter(threading.Thread):
    """Appends lines to several files in pieces that end anywhere, as fast as a busy session."""

    def __init__(self, world: World, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.files = [world.file(f"p{n}/{n}.jsonl") for n in range(3)]
        self.rest = [b""] * len(self.files)
        self.numbers: list[int] = []
        self.stop = threading.Event()

    def run(self) -> None:
        while not self.stop.wait(0.001):
            at = self.random.randrange(len(self.files))
            if not self.rest[at]:
                self.rest[at] = self.some_lines()
            cut = self.random.randrange(1, len(self.rest[at]) + 1)
            self.write(at, cut)
        for at, rest in enumerate(self.rest):
            self.write(at, len(rest))

    def some_lines(self) -> bytes:
        first = len(self.numbers)
        new = range(first, first + self.random.choice((1, 1, 2, 7)))
        self.numbers += new
        return lines(*new)

    def write(self, at: int, cut: int) -> None:
        with self.files[at].open("ab") as file:
            file.write(self.rest[at][:cut])
        self.rest[at] = self.rest[at][cut:]


def kill_loop(world: World, kills: int, seed: int) -> None:
    writer = TornWriter(world, seed)
    chance = random.Random(seed)
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, world.db, world.root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert starter.stdin is not None
    assert starter.stdout is not None
    assert starter.stderr is not None
    writer.start()
    try:
        for n in range(kills):
            starter.stdin.write("second\n" if n % 3 == 2 else "first\n")
            starter.stdin.flush()
            child = int(starter.stdout.readline())
            time.sleep(chance.uniform(0.005, 0.25))
            os.kill(child, signal.SIGKILL)
            status = int(starter.stdout.readline())
            assert os.WIFSIGNALED(status), "the sync ended before it was killed"
            world.offsets_agree()
        until(lambda: len(writer.numbers) > kills)
    finally:
        writer.stop.set()
        writer.join()
        _, problems = starter.communicate(timeout=PATIENCE)
    assert problems == ""
    world.sync()
    world.settled(writer.numbers)


def test_case_1_killed_at_random_under_a_torn_writer_nothing_is_lost_or_doubled(
    world: World,
) -> None:
    kill_loop(world, kills=10, seed=1)


@pytest.mark.crash
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_case_1_killed_120_times_under_a_torn_writer_nothing_is_lost_or_doubled(
    world: World, seed: int
) -> None:
    kill_loop(world, kills=120, seed=seed)


def test_case_1_the_second_process_ends_when_the_first_one_is_killed(world: World) -> None:
    with world.main.open("wb") as file:
        for n in range(3000):
            file.write(line(n, "words " * 500))
    code = SMALL_BATCHES.replace(
        "from ctxdb.cli.main", "print('go', flush=True)\nfrom ctxdb.cli.main"
    )
    # Only this process and its reader hold the other end of the pipe.
    ours, theirs = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-c", code, "--db", world.db, "sync", "--root", world.root],
        stdout=theirs,
        pass_fds=(theirs,),
        env={**os.environ, "CTXDB_TEST_KILL": "after_commit:3", "READER": "second"},
    )
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        assert child.wait(PATIENCE) == KILLED
        ended = threading.Event()
        waiter = threading.Thread(target=lambda: (pipe.read(), ended.set()), daemon=True)
        waiter.start()
        assert ended.wait(PATIENCE), "the reading process lives on without its parent"
        waiter.join()
    with WriterLock(world.db):
        pass  # and holds no lock


# -- power loss ----------------------------------------------------------------------------------


# A world whose sync was killed, and all files beside its database as they were then.
_killed: list[tuple[World, dict[str, bytes]]] = []


@pytest.fixture
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world whose sync was killed: all that it wrote is still in the write-ahead log."""
    if not _killed:
        folder = tmp_path_factory.mktemp("unfinished")
        world = World(folder / "projects", folder / "data/ctxdb.db")
        world.db.parent.mkdir(mode=0o700)
        # There is no database, so that the schema is in the log too.
        world.write(lines(*range(60)))
        world.write(lines(*range(70, 80), sessionId="other"), world.file("p/other.jsonl"))
        done = killed_sync(world, "after_commit:12")
        assert done.returncode == KILLED
        assert side(world, "-wal").stat().st_size > 100_000
        left = {path.name: path.read_bytes() for path in world.db.parent.iterdir()}
        _killed.append((world, left))
    [(world, left)] = _killed
    for path in world.db.parent.iterdir():
        path.unlink()
    for name, data in left.items():
        world.db.with_name(name).write_bytes(data)
        world.db.with_name(name).chmod(0o600)
    return world


ALL_NUMBERS = [*range(60), *range(70, 80)]


def side(world: World, suffix: str) -> Path:
    return world.db.with_name(world.db.name + suffix)


def torn_wal_sweep(world: World, cuts: list[int]) -> None:
    database, log = world.db.read_bytes(), side(world, "-wal").read_bytes()
    states = set()
    for cut in [0, len(log), *cuts]:
        restore(world, database)
        side(world, "-wal").write_bytes(log[:cut])
        with closing(sqlite3.connect(world.db)) as conn:
            assert conn.execute("PRAGMA quick_check").fetchall() == [("ok",)]
            has_schema = conn.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0
        if has_schema:
            world.offsets_agree()
            states.add(world.one("SELECT count(*) FROM messages"))
        world.sync()
        assert world.texts() == texts(ALL_NUMBERS)
        world.offsets_agree()
    assert len(states) > 5
    world.settled(ALL_NUMBERS)


def cuts_of(world: World, count: int, seed: int) -> list[int]:
    """Random places in the log, one in each of so many equal parts."""
    size = side(world, "-wal").stat().st_size
    chance = random.Random(seed)
    return [(n * size + chance.randrange(size)) // count for n in range(count)]


def test_case_5_a_log_that_ends_anywhere_gives_rows_and_offsets_that_agree(
    unfinished: World,
) -> None:
    torn_wal_sweep(unfinished, cuts_of(unfinished, 12, seed=5))


@pytest.mark.slow
def test_case_5_a_log_that_ends_in_24_places_gives_rows_and_offsets_that_agree(
    unfinished: World,
) -> None:
    torn_wal_sweep(unfinished, cuts_of(unfinished, 24, seed=5))


@pytest.mark.crash
@pytest.mark.timeout(3600)
def test_case_5_a_log_that_ends_in_400_places_gives_rows_and_offsets_that_agree(
    unfinished: World,
) -> None:
    torn_wal_sweep(unfinished, cuts_of(unfinished, 400, seed=6))


@pytest.mark.parametrize("places", thinned([6, 10], 2))
def test_case_5_a_log_with_garbage_in_it_ends_where_the_garbage_begins(
    unfinished: World, places: int
) -> None:
    world = unfinished
    database, log = world.db.read_bytes(), side(world, "-wal").read_bytes()
    for at in cuts_of(world, places, seed=7):
        restore(world, database)
        side(world, "-wal").write_bytes(log[:at] + os.urandom(5000) + log[at + 5000 :])
        world.sync()
        assert world.texts() == texts(ALL_NUMBERS)
        world.offsets_agree()
    world.settled(ALL_NUMBERS)


@pytest.mark.parametrize("shm", thinned(["missing", "empty", "garbage", "zeros", "too long"], 2))
def test_case_6_a_log_without_its_index_or_with_a_broken_one_is_recovered(
    unfinished: World, shm: str
) -> None:
    world = unfinished
    index = side(world, "-shm")
    size = index.stat().st_size if index.exists() else 32768
    before = None
    if shm == "missing":
        index.unlink(missing_ok=True)
    else:
        index.write_bytes(
            {
                "empty": b"",
                "garbage": random.Random(1).randbytes(size),
                "zeros": bytes(size),
                "too long": bytes(size) + b"x" * 100_000,
            }[shm]
        )
    with closing(sqlite3.connect(world.db)) as conn:
        before = conn.execute("SELECT count(*) FROM messages").fetchone()[0]
    assert before > 0
    world.offsets_agree()
    world.sync()
    world.settled(ALL_NUMBERS)


# -- a huge line ---------------------------------------------------------------------------------


_announced: list[int] = []  # the number of the commit that announces the huge line: always the same


def write_huge(world: World) -> None:
    """A huge line between others."""
    world.write(line(0) + line(1, "words, " * (HUGE // 7)) + lines(2, 3))
    world.write(lines(5, 6), world.file("z/z.jsonl"))


def huge_world(world: World) -> int:
    """A huge line between others; the number of the commit that announces it."""
    write_huge(world)
    saved = world.db.read_bytes()
    for n in _announced or range(1, 20):
        restore(world, saved)
        done = killed_sync(world, f"after_commit:{n}")
        assert done.returncode == KILLED
        if world.one("SELECT count(*) FROM _file_marks WHERE attempting IS NOT NULL"):
            _announced[:] = [n]
            return n
    raise AssertionError("the line is never announced")


@pytest.mark.usefixtures("huge_is_less")
def test_case_9_a_process_that_dies_of_a_huge_line_does_not_die_of_it_for_ever(
    world: World,
) -> None:
    """Killed at the same line, the third time it is passed over and recorded."""
    nth = huge_world(world)  # and killed there
    for earlier in range(1, nth + 1):  # less is left to commit before the line
        assert killed_sync(world, f"after_commit:{earlier}").returncode == KILLED
        if world.one("SELECT count(*) FROM _file_marks WHERE attempting < 0"):  # the second time
            break
    world.sync()
    assert [reason for *_, reason in world.errors()] == ["too_large"]
    assert world.source()["attempting"] is None
    world.settled([0, 2, 3, 5, 6])


@pytest.mark.usefixtures("huge_is_less")
def test_case_9_a_huge_line_whose_process_was_killed_once_is_read_in_full(world: World) -> None:
    """It need not have been the line's doing: nothing complete is lost to a single crash."""
    huge_world(world)  # and killed there
    world.sync()
    assert world.errors() == []
    assert len(world.texts()) == 6
    assert world.one("SELECT length(text) FROM messages WHERE uuid = ?", uuid_of(1)) > HUGE - 10
    world.sound()


@pytest.mark.usefixtures("huge_is_less")
def test_case_9_a_huge_line_that_was_interrupted_is_read_in_full_however_often(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_huge(world)

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    for _ in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(Batch, "write", interrupt)
            with pytest.raises(KeyboardInterrupt):
                world.sync()
    assert world.source()["attempting"] is None
    world.sync()
    assert world.errors() == []
    assert len(world.texts()) == 6


LIMITED = """
import os, resource
from ctxdb.cli import typer_app, main
from ctxdb.ingest import run as ingest
import sqlite_utils
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
limit = used + (int(os.environ["MEGABYTES"]) << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
main.main()
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
@pytest.mark.parametrize(
    ("megabytes", "items"), thinned([("45", 900_000), ("90", 1_500_000)], 2), ids=["45", "90"]
)
def test_case_9_a_line_that_does_not_fit_in_memory_is_passed_over(
    world: World, megabytes: str, items: int
) -> None:
    """Under a limit on memory, as in a container. Whatever the parser does when there is none
    left, the next sync or the one after it gets past the line."""
    many = ",".join(f'"{n:05}"' for n in range(items)).encode()
    huge = line(1, extra="HERE").replace(b'"HERE"', b"[" + many + b"]")
    world.write(line(0) + huge + lines(2, 3))
    world.write(lines(5, 6), world.file("z/z.jsonl"))
    for _ in range(3):
        env = {**os.environ, "MEGABYTES": megabytes}
        done = world.cli("sync", "--json", code=LIMITED, env=env)
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr
    assert set(texts([0, 2, 3, 5, 6])) <= set(world.texts())
    assert [reason for *_, reason in world.errors()] == ["too_large"]
    world.settled([0, 2, 3, 5, 6])


@pytest.mark.usefixtures("huge_is_less")
def test_a_huge_line_does_not_mix_up_files_that_a_second_process_reads(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ctxdb.ingest import run as ingest

    monkeypatch.setattr(ingest, "READ_AHEAD_BYTES", 1)
    huge = line(1, "words, " * (HUGE // 7))
    world.write(line(0) + huge + lines(2), world.file("a/a.jsonl"))
    world.write(huge, world.file("b/b.jsonl"))
    world.write(lines(5, 6), world.file("c/c.jsonl"))
    world.write(lines(7, 8, 9), world.file("d/d.jsonl"))
    world.sync()
    assert [text for text in world.texts() if text.startswith("line")] == texts(
        [0, 2, *range(5, 10)]
    )
    assert world.ask("SELECT lines FROM source_files ORDER BY path") == [(3,), (1,), (2,), (3,)]
    world.sound()


def test_a_second_process_that_is_killed_is_replaced_by_the_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ctxdb.ingest import run as ingest

    monkeypatch.setattr(ingest, "READ_AHEAD_BYTES", 1)
    here = os.getpid()
    real = line_reader.read_chunk

    def die_midway(fd: int, offset: int, *where: Any, **more: Any) -> Any:
        if os.getpid() != here and offset > 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(fd, offset, *where, **{**more, "want_bytes": 1})

    monkeypatch.setattr(line_reader, "read_chunk", die_midway)
    monkeypatch.setattr(line_reader.read_block, "__defaults__", (2000, 1 << 24))
    world.write(lines(*range(30)))
    world.write(lines(*range(40, 50)), world.file("z/z.jsonl"))
    report = world.sync()
    assert report.lines_read == 40
    monkeypatch.undo()
    world.settled([*range(30), *range(40, 50)])


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_a_batch_that_is_interrupted_midway_leaves_nothing_of_itself(
    world: World, monkeypatch: pytest.MonkeyPatch, twice: bool
) -> None:
    """Case 4 in short: a second Ctrl-C comes before the first one has been dealt with."""
    from ctxdb.ingest import batch
    from ctxdb.ingest import run as ingest
    from ctxdb.store import connection

    class Interrupted(sqlite3.Connection):
        rollbacks = 0

        def execute(self, sql: str, *args: Any) -> Any:
            if sql == "ROLLBACK" and twice and not self.rollbacks:
                self.rollbacks += 1
                raise KeyboardInterrupt
            return super().execute(sql, *args)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    real = sqlite3.connect
    world.write(lines(0, 1))
    world.sync()
    world.append(lines(2, 3))
    world.write(lines(*range(10, 15)), world.file("q/q.jsonl"))
    monkeypatch.setattr(ingest, "BATCH_LINES", 1)
    with monkeypatch.context() as patch:
        patch.setattr(
            connection.sqlite3, "connect", lambda *a, **k: real(*a, **k, factory=Interrupted)
        )
        patch.setattr(batch.Batch, "_finish", interrupt)  # rows are in, offsets are not moved
        with pytest.raises(KeyboardInterrupt):
            world.sync()
    assert world.texts() == texts([0, 1])
    world.offsets_agree()
    world.sync()
    world.settled([0, 1, 2, 3, *range(10, 15)])
