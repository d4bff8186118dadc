"""A first sync builds its database aside: it is all there, or nothing is."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ctxdb.demo import write_demo
from ctxdb.files.walk import FoundFile, Scan
from ctxdb.ingest import first_sync, line_reader, workers
from ctxdb.ingest import run as ingest
from ctxdb.ingest.plan import FileChanges, Work
from ctxdb.ingest.storing import ChunkWriter
from lab import Content, Lab, lab, must_equal
from thinning import thinned
from world import RUN, stalled

SESSION = "5e551000-0000-4000-8000-00000000000a"


@pytest.fixture(autouse=True)
def two_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with more than two cores."""
    monkeypatch.setattr(workers, "READERS", 2)


def write_one_project(root: Path) -> None:
    """The first project of the demo: 100 of its 340 kB, with agents."""
    write_demo(root)
    for folder in sorted(root.iterdir())[1:]:
        shutil.rmtree(folder)


@pytest.fixture
def one(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """Transcripts of a project, and no database."""
    monkeypatch.setattr(first_sync, "MIN_BYTES", 1)
    monkeypatch.setattr(ingest, "BATCH_BYTES", 20_000)
    with lab() as made:
        made.db.unlink()
        write_one_project(made.root)
        yield made


@pytest.fixture(scope="module")
def in_place() -> Content:
    """What an ordinary sync of the same makes."""
    with lab() as made:
        write_one_project(made.root)
        made.sync()
        return made.content()


@pytest.fixture
def whole_demo(one: Lab) -> Lab:
    """The transcripts of all projects, and no database."""
    write_demo(one.root)
    return one


@pytest.fixture(scope="module")
def whole_in_place() -> Content:
    """What an ordinary sync of the same makes."""
    with lab() as made:
        write_demo(made.root)
        made.sync()
        return made.content()


def must_be_whole(one: Lab, expected: Content) -> None:
    one.must_verify()
    must_equal(expected, one.content())
    names = {path.name for path in one.db.parent.iterdir()}
    assert names <= {"ctxdb.db", "ctxdb.db.lock", "ctxdb.db-wal", "ctxdb.db-shm"}


def line(text: str) -> bytes:
    entry = {
        "type": "user",
        "uuid": "00000001-0000-4000-8000-000000000000",
        "sessionId": SESSION,
        "timestamp": "2026-08-24T22:43:22.764Z",
        "message": {"role": "user", "content": text},
    }
    return json.dumps(entry).encode() + b"\n"


def test_a_built_database_has_its_full_text_and_keeps_it_in_step(one: Lab) -> None:
    def triggers(path: Path) -> set[str]:
        with closing(sqlite3.connect(path)) as conn:
            found = conn.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        return {sql for (sql,) in found}

    one.sync()
    built = triggers(one.db)
    with lab() as other:  # which a sync of nothing has made in place
        assert built == triggers(other.db)
    with closing(sqlite3.connect(one.db)) as conn:
        (left,) = conn.execute("SELECT count(*) FROM _meta WHERE key LIKE 'full text%'").fetchone()
        assert left == 0
        for table, column in (("messages", "text"), ("turns", "prompt"), ("sessions", "title")):
            words = f"SELECT count(*) FROM {table}_fts WHERE {table}_fts MATCH 'zyzzyva'"
            assert conn.execute(words).fetchone() == (0,)
            conn.execute(
                f"UPDATE {table} SET {column} = 'zyzzyva' WHERE rowid ="
                f" (SELECT min(rowid) FROM {table} WHERE {column} IS NOT NULL)"
            )
            assert conn.execute(words).fetchone() == (1,)


def test_a_built_database_is_private_complete_and_says_so(one: Lab, in_place: Content) -> None:
    report = one.sync()
    must_be_whole(one, in_place)
    assert stat.S_IMODE(one.db.stat().st_mode) == 0o600
    files, lines = one.rows("SELECT count(*), sum(lines) FROM source_files")[0]
    assert (report.files, report.new_files, report.lines_read) == (files, files, lines)
    assert report.grown_files == 0
    assert one.sync().lines_read == 0
    with closing(sqlite3.connect(one.db)) as conn:
        assert conn.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_database_that_is_there_is_added_to_in_place(
    one: Lab, in_place: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.db.touch()
    monkeypatch.setattr(first_sync, "open_aside", lambda _: pytest.fail("there is a database"))
    one.sync()
    must_be_whole(one, in_place)


IDS = {
    "messages": "id, uuid, turn_id, text",
    "tool_uses": "id, tool_use_id",
    "turns": "id, session_id, prompt",
    "events": "id, data",
    "usage": "id, request_key",
    "source_files": "id, path",
}


def test_the_same_files_always_get_the_same_ids(one: Lab) -> None:
    found = []
    for _ in range(2):
        for path in one.db.parent.glob("ctxdb.db*"):
            path.unlink()
        one.sync()
        found.append({t: one.rows(f"SELECT {ids} FROM {t} ORDER BY id") for t, ids in IDS.items()})
    assert found[0] == found[1]


def test_readers_share_the_work_by_sessions_and_in_order() -> None:
    sizes = [5, 1, 1, 9, 2, 2, 4, 3, 3]
    sessions = ["a", "b", "a", "c", None, "b", None, "d", "a"]
    tasks = [
        workers.Task(f"{n}.jsonl", 0, None, size, session, None)
        for n, (size, session) in enumerate(zip(sizes, sessions, strict=True))
    ]
    shares = workers._shared_out(tasks, 2)
    assert sorted(n for share in shares for n, _ in share) == list(range(len(tasks)))
    assert all(task is tasks[n] for share in shares for n, task in share)
    assert all([n for n, _ in share] == sorted(n for n, _ in share) for share in shares)
    by_reader = [{task.session_id for _, task in share} - {None} for share in shares]
    assert by_reader[0].isdisjoint(by_reader[1])
    assert {sum(task.size for _, task in share) for share in shares} == {15}
    assert len(workers._shared_out(tasks[:1], 2)) == 1


SMALL = ("build.MIN_BYTES = 1", "ingest.BATCH_BYTES = 20_000")
STALLED = stalled(*SMALL)


def stop_a_building(one: Lab, batches: int, with_signal: int) -> int:
    child = subprocess.Popen(
        [sys.executable, "-c", STALLED, str(batches), "--db", one.db, "sync", "--root", one.root],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        process_group=0,
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "here\n"
        assert not one.db.exists()
        os.killpg(child.pid, with_signal)
    return child.returncode


@pytest.mark.parametrize("batches", thinned([1, 0, 3], 3))
def test_a_building_that_is_killed_leaves_no_database_and_the_next_sync_has_it_all(
    one: Lab, in_place: Content, batches: int
) -> None:
    assert stop_a_building(one, batches, signal.SIGKILL) == -signal.SIGKILL
    assert not one.db.exists()
    assert one.db.with_name("ctxdb.db-building").exists()
    one.sync()
    must_be_whole(one, in_place)


def test_control_c_while_building_leaves_nothing_behind(one: Lab, in_place: Content) -> None:
    assert stop_a_building(one, 1, signal.SIGINT) == 130
    assert {path.name for path in one.db.parent.iterdir()} == {"ctxdb.db.lock"}
    one.sync()
    must_be_whole(one, in_place)


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("open_aside", sqlite3.OperationalError("unable to open database file")),
        ("prepare", sqlite3.OperationalError("database or disk is full")),
        ("put_in_place", OSError(errno.ENOSPC, "No space left on device")),
    ],
)
def test_what_cannot_be_built_aside_is_read_in_place(
    one: Lab, in_place: Content, monkeypatch: pytest.MonkeyPatch, where: str, error: Exception
) -> None:
    def fail(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(first_sync, where, fail)
    one.sync()
    must_be_whole(one, in_place)


FULL = """
set -e
mount -t tmpfs -o size={size}k none {place}
python=$1; shift
"$python" -c "$CODE" --db {place}/ctxdb.db sync --root {root} && code=0 || code=$?
ls {place}
mount -o remount,size=64m {place}
cp {place}/ctxdb.db* {out}
exit $code
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a small file system")
@pytest.mark.parametrize("share", thinned([0.9, 0.2, 1], 3))
def test_wherever_the_disk_is_full_the_next_sync_has_it_all(
    one: Lab, in_place: Content, tmp_path: Path, share: float
) -> None:
    """While tables are made, while rows are stored, when the database is whole but for its log."""
    tried = ["unshare", "-Urm", "mount", "-t", "tmpfs", "none", tmp_path]
    if subprocess.run(tried, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a file system here")
    one.sync()
    size = 8 + int(one.db.stat().st_size / 1024 * share)
    for path in one.db.parent.iterdir():
        path.unlink()
    place = tmp_path / "small"
    place.mkdir()
    script = FULL.format(size=size, place=place, root=one.root, out=one.db.parent)
    code = "\n".join(["from ctxdb.ingest import first_sync as build, run as ingest", *SMALL, RUN])
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script, "sh", sys.executable],
        env={**os.environ, "CODE": code},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert "building" not in done.stdout
    one.sync()
    must_be_whole(one, in_place)


def test_a_database_that_comes_while_one_is_built_stays(
    one: Lab, in_place: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = first_sync.put_in_place

    def put(aside: Path, path: Path) -> None:
        with closing(sqlite3.connect(path)) as conn:
            conn.execute("CREATE TABLE mine (a)")
            conn.execute("PRAGMA application_id = 1129601092")  # ours
        real(aside, path)

    monkeypatch.setattr(first_sync, "put_in_place", put)
    one.sync()
    assert one.rows("SELECT count(*) FROM mine") == [(0,)]
    one.must_verify()
    assert one.content()["messages"] == in_place["messages"]


def test_a_file_system_without_links_is_enough(
    one: Lab, in_place: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    one.sync()
    must_be_whole(one, in_place)


@pytest.mark.parametrize("way", thinned(["some aside", "all aside", "into a database"], 3))
def test_case_87_other_processes_read_all_of_a_large_sync(
    one: Lab, in_place: Content, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """However much there is: no file is read in the process that writes."""
    monkeypatch.setattr(ingest, "READ_AHEAD_BYTES", 1)
    if way == "some aside":
        monkeypatch.setattr(first_sync, "MAX_BYTES", 60_000)
    elif way == "into a database":
        one.db.touch()
    tasks: list[workers.Task] = []
    real = workers.ReaderProcesses.__init__

    def start(self: workers.ReaderProcesses, new: Any, limits: workers.Limits, *more: Any) -> None:
        tasks.extend(new)
        real(self, new, limits, *more)

    with monkeypatch.context() as patch:
        patch.setattr(workers.ReaderProcesses, "__init__", start)
        patch.setattr(ingest, "read_file", lambda path, *_, **__: pytest.fail(path))
        report = one.sync()
    assert sorted(task.path for task in tasks) == sorted(map(str, one.root.rglob("*.jsonl")))
    must_be_whole(one, in_place)
    assert one.rows("SELECT count(*), sum(lines) FROM source_files") == [
        (report.new_files, report.lines_read)
    ]


def test_a_huge_line_waits_for_the_database_in_which_it_is_announced(
    one: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_reader, "LARGE_LINE_BYTES", 20_000)
    one.put(f"p/{SESSION}.jsonl", line("x" * 30_000))
    announced: list[str] = []
    real = ChunkWriter.announce

    def announce(self: ChunkWriter, *args: Any) -> None:
        announced.append(self.conn.execute("PRAGMA journal_mode").fetchone()[0])
        real(self, *args)

    monkeypatch.setattr(ChunkWriter, "announce", announce)
    one.sync()
    one.must_verify()
    assert announced
    assert set(announced) == {"wal"}
    assert one.rows(f"SELECT length(text) FROM messages WHERE session_id = '{SESSION}'") == [
        (30_000,)
    ]


def test_a_file_that_goes_away_while_the_tables_are_made_is_no_matter(
    one: Lab, in_place: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = first_sync.scan
    gone = one.put(f"p/{SESSION}.jsonl", line("gone"))

    def find_and_lose(*words: Any) -> Scan:
        found = real(*words)
        gone.unlink()
        return found

    monkeypatch.setattr(first_sync, "scan", find_and_lose)
    assert one.sync().problems == []
    gone.parent.rmdir()
    must_be_whole(one, in_place)


def test_a_file_that_only_the_second_process_has_seen_is_read_afterwards(
    one: Lab, in_place: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = FileChanges.look_at
    missed = sorted(one.root.rglob("*.jsonl"))[1::2]

    def look_at(self: FileChanges, item: Any, file: FoundFile, *more: Any) -> Work | None:
        is_aside = self.conn.execute("PRAGMA journal_mode").fetchone() == ("off",)
        return None if is_aside and Path(file.path) in missed else real(self, item, file, *more)

    monkeypatch.setattr(FileChanges, "look_at", look_at)
    one.sync()
    must_be_whole(one, in_place)


@pytest.mark.parametrize("which", [0, 1])
def test_a_reading_process_that_dies_is_done_without(
    whole_demo: Lab, whole_in_place: Content, monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    real = workers.ReaderProcesses.batches
    died: list[bool] = []

    def some(self: workers.ReaderProcesses) -> Iterator[workers.Arrived]:
        monkeypatch.setattr(workers.ReaderProcesses, "batches", real)
        assert len(self.readers) == 2
        process = self.readers[which].process
        try:
            for n, arrived in enumerate(real(self)):
                if n == 1:
                    process.kill()
                    process.join()
                yield arrived
        except line_reader.ReaderDied:
            died.append(True)
            raise

    monkeypatch.setattr(workers.ReaderProcesses, "batches", some)
    monkeypatch.setattr(workers, "AHEAD_BYTES", 1 << 16)  # it has not sent everything by then
    monkeypatch.setattr(ingest, "BATCH_BYTES", 1 << 14)
    whole_demo.sync()
    assert died
    must_be_whole(whole_demo, whole_in_place)


def test_ctrl_c_while_readers_are_started_ends_them(
    one: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, started = workers.ReaderProcesses._start, []

    def start(self: workers.ReaderProcesses, *args: Any) -> None:
        real(self, *args)
        started.append(self.readers[-1].process)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    monkeypatch.setattr(workers.ReaderProcesses, "_start", start)
    with pytest.raises(KeyboardInterrupt):
        one.sync()
    assert len(started) == 2
    assert not any(process.is_alive() for process in started)
    assert [path.name for path in one.db.parent.iterdir()] == ["ctxdb.db.lock"]


@pytest.mark.parametrize("aside", [True, False])
@pytest.mark.parametrize("started", thinned([1, 0], 2))
def test_processes_that_cannot_be_started_are_done_without(
    one: Lab, in_place: Content, monkeypatch: pytest.MonkeyPatch, started: int, aside: bool
) -> None:
    if not aside:
        one.db.touch()
        monkeypatch.setattr(ingest, "READ_AHEAD_BYTES", 1)
    real, children, failures = os.fork, [], []

    def fork() -> int:
        if len(children) - started * len(failures) == started:
            failures.append(True)
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        children.append(real())
        return children[-1]

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "fork", fork)
    one.sync()
    assert len(children) == started * len(failures)
    for child in children:
        with pytest.raises(ChildProcessError):  # it was waited for
            os.waitpid(child, os.WNOHANG)
    # Where it cannot fork, multiprocessing may leave two pipes of its own behind.
    assert len(os.listdir("/proc/self/fd")) <= before + 4 * len(failures)
    must_be_whole(one, in_place)


def test_nobody_waits_for_a_database_that_does_not_grow(one: Lab) -> None:
    lock = one.db.with_name("ctxdb.db.lock")
    lock.write_text(
        f"{os.getpid()} 0.1.0\n"
    )  # of a process that was killed; its number is another's
    aside = one.db.with_name("ctxdb.db-building")
    for age in (None, 3600):
        if age is not None:
            aside.touch()
            os.utime(aside, (time.time() - age,) * 2)
        asked = [sys.executable, "-m", "ctxdb", "--db", str(one.db), "query", "SELECT 1"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=False)
        assert answer.returncode == 1
        assert "no database yet" in answer.stderr


def test_who_asks_while_the_database_is_made_waits_for_it(one: Lab) -> None:
    waiting = stalled(*SMALL, wait="sys.stdin.read()")
    made = [sys.executable, "-c", waiting, "1"]
    where = ["--db", str(one.db)]
    ctxdb = [sys.executable, "-m", "ctxdb", *where]
    sync = subprocess.Popen(
        [*made, *where, "sync", "--quiet", "--root", one.root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with sync:
        assert sync.stdout is not None
        assert sync.stdout.readline() == "here\n"
        status = subprocess.run([*ctxdb, "status"], capture_output=True, text=True, check=True)
        assert f"does not exist yet; process {sync.pid} is making it" in status.stdout
        asked = subprocess.Popen(
            [*ctxdb, "query", "SELECT count(*) AS n FROM messages", "--format", "json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with asked:
            assert asked.stderr is not None
            assert f"Process {sync.pid} is making" in asked.stderr.readline()
            sync.communicate()
            answer, _ = asked.communicate()
    assert sync.returncode == asked.returncode == 0
    (counted,) = one.rows("SELECT count(*) FROM messages")[0]
    assert json.loads(answer) == [{"n": counted}]


def test_what_a_killed_building_has_left_is_removed_by_whoever_writes_next(one: Lab) -> None:
    left = one.db.with_name(one.db.name + "-building")
    one.sync()
    left.write_bytes(b"full of transcripts")
    one.sync()
    assert not left.exists()
