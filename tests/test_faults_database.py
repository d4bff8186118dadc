"""Fault cases 57, 58, 61, 63 and 65 to 77: what can happen to the database.

Numbers are those of the fault catalogue. `resync --file`, `rebuild` and `doctor`, which some cases
name, are other issues: what exists without them is tested, and each test says so.
"""

from __future__ import annotations

import os
import random
import runpy
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext, suppress
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from ctxdb.assets import asset_dir
from ctxdb.cli.main import main
from ctxdb.demo import write_demo
from ctxdb.errors import CtxdbError, NewerSchema
from ctxdb.ingest import sync as ingest_sync
from ctxdb.lock import WriterLock, current_writer
from ctxdb.store import schema
from ctxdb.store.connection import open_reader
from lab import lab
from live_lab import until
from thinning import thinned
from world import FORKS, PATIENCE, RUN, SMALL_BATCHES, World, lines, texts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

KILLED = -signal.SIGKILL
PUBLIC = [
    "projects", "sessions", "agents", "turns", "messages", "message_copies", "tool_uses",
    "files_touched", "git_operations", "usage", "events", "line_counts", "ingest_errors",
]  # fmt: skip


def side(world: World, suffix: str) -> Path:
    return world.db.with_name(world.db.name + suffix)


def one_line(done: Any, *words: str, code: int = 1) -> None:
    """The command failed as it should: an exit code, one line, no traceback, nothing on stdout."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr


def hold(world: World, umask: int, said: Connection, told: Connection, other: Connection) -> None:
    """Run the command line, and wait where it looks for files."""
    other.close()  # so that this process ends when the tests do
    real = ingest_sync.scan

    def wait(*words: Any) -> Any:
        said.send("holding")
        with suppress(EOFError):
            told.recv()
        return real(*words)

    ingest_sync.scan = wait
    os.umask(umask)
    sys.argv = ["ctxdb", "--db", str(world.db), "sync", "--root", str(world.root)]
    main()


class Holder:
    """A process in the middle of `ctxdb sync`."""

    def __init__(self, world: World, umask: int = 0o022) -> None:
        forking = get_context("fork")  # a new interpreter would take as long as ten syncs
        says, said = forking.Pipe(duplex=False)
        told, self.tell = forking.Pipe(duplex=False)
        self.process = forking.Process(
            target=hold, args=(world, umask, said, told, self.tell), daemon=True
        )
        self.process.start()
        told.close()
        said.close()
        with says, suppress(EOFError):
            if says.recv() == "holding":
                return
        pytest.fail("the sync did not get as far as looking for files")

    def __enter__(self) -> Self:
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.tell.close()

    def let_go(self) -> None:
        self.tell.close()
        self.process.join(PATIENCE)
        assert self.process.exitcode == 0

    def __exit__(self, *_: object) -> None:
        if self.process.is_alive():
            self.let_go()


def let_go_of(world: World, held: sqlite3.Connection) -> None:
    """Sync in another thread, and end the transaction of `held` when that has begun."""
    with ThreadPoolExecutor() as threads:
        syncing = threads.submit(world.sync)
        until(lambda: current_writer(world.db) or syncing.done())
        with pytest.raises(TimeoutError):
            syncing.result(0.1)
        held.rollback()
        syncing.result(PATIENCE)


# -- two writers ---------------------------------------------------------------------------------


def test_case_57_a_second_writer_says_who_is_writing_and_where_and_exits_3(world: World) -> None:
    """The daemon is another issue; it will hold the same lock as this sync."""
    world.write(lines(0, 1))
    with Holder(world) as holder:
        done = world.cli("sync")
        one_line(done, f"process {holder.process.pid} ", str(world.db), code=3)
        assert world.one("SELECT count(*) FROM messages") == 0
    world.settled([0, 1])


UNLOCKED = """
import sqlite3, sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
import ctxdb.ingest.sync
from ctxdb.ingest import run as ingest, line_reader, storing
from ctxdb.files import tail
from ctxdb.config import Config
from ctxdb.errors import CtxdbError
from ctxdb.progress import NullProgress
lock = SimpleNamespace(is_after_crash=False)
ctxdb.ingest.sync._writing = lambda *_: nullcontext(lock)
ingest.BATCH_LINES = 3
storing.COMMIT_BYTES = 1
line_reader.CHUNK_BYTES = 1
tail.read_block.__defaults__ = (2000, tail.MAX_LINE_BYTES)
config = Config(db_path=Path(sys.argv[1]), roots=(sys.argv[2],))
print("go", flush=True)
passes = conflicts = 0
for row in sys.stdin:
    while not (passes and Path(sys.argv[3]).exists()):
        try:
            ctxdb.ingest.sync.sync(config, progress=NullProgress())
            passes += 1
        except (CtxdbError, sqlite3.IntegrityError):
            conflicts += 1  # the other one was first: nothing of this batch is stored
print(passes, conflicts)
"""


def test_case_57_without_the_lock_two_writers_still_store_every_line_once(world: World) -> None:
    """The offset is compared and swapped in the transaction that stores the rows."""
    stop = world.root.parent / "stop"
    command = [sys.executable, "-c", UNLOCKED, world.db, world.root, stop]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    writers = [subprocess.Popen(command, text=True, **pipes) for _ in range(2)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdin is not None
        assert writer.stdout.readline() == "go\n"
        writer.stdin.write("\n")
        writer.stdin.close()
        writer.stdin = None
    chance = random.Random(57)
    number = 0
    for _ in range(60):
        some = range(number, number + chance.choice((1, 2, 9)))
        number = some.stop
        world.append(lines(*some), world.file(f"p/{chance.randrange(3)}.jsonl"))
        time.sleep(0.005)
    stop.touch()
    for writer in writers:
        _, errors = writer.communicate(timeout=PATIENCE)
        assert (writer.returncode, errors) == (0, "")
    world.sync()
    world.settled(range(number))


def test_case_58_a_sync_while_another_one_runs_waits_if_it_is_asked_to(world: World) -> None:
    world.write(lines(0, 1))
    with Holder(world) as holder:
        waiting = subprocess.Popen(
            [sys.executable, "-m", "ctxdb", "--db", world.db, "sync", "--wait", "--json", "--root",
             world.root],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith(f"Waiting for process {holder.process.pid}")
        assert waiting.poll() is None
        holder.let_go()
        said, _ = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 0
    assert '"lines_read": 0,' in said  # no work is done twice
    world.settled([0, 1])


def test_case_58_a_killed_writer_does_not_keep_the_next_one_out(world: World) -> None:
    world.write(lines(0, 1))
    holder = Holder(world)
    holder.kill()
    world.sync()
    world.settled([0, 1])


def test_reading_is_possible_while_a_sync_writes(world: World) -> None:
    world.write(lines(0, 1))
    world.sync()
    with Holder(world) as holder:
        shown = world.cli("status")
        assert shown.returncode == 0
        assert f"process {holder.process.pid} is writing now" in shown.stdout
        assert world.cli("verify").returncode == 0


# -- edited by hand ------------------------------------------------------------------------------


def halves(folder: Path, root: Path) -> list[tuple[Path, bytes]]:
    """Write the first half of every demo transcript below root; the second halves are returned."""
    write_demo(folder)
    rest = []
    for path in sorted(folder.rglob("*.json*")):
        new = root / path.relative_to(folder)
        new.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes()
        cut = data.find(b"\n", len(data) // 2) + 1 if path.suffix == ".jsonl" else len(data)
        new.write_bytes(data[:cut])
        rest.append((new, data[cut:]))
    return rest


@pytest.mark.parametrize("table", thinned(PUBLIC, 3))
def test_case_61_rows_deleted_by_hand_are_not_added_again_and_stop_nothing(
    world: World, table: str
) -> None:
    """`resync --file`, which can bring them back, is another issue."""
    rest = halves(world.root.parent / "demo", world.root)
    world.sync()
    world.change(f"DELETE FROM {table}")
    world.sync()
    if table not in ("line_counts", "ingest_errors"):
        assert world.one(f"SELECT count(*) FROM {table}") == 0
    for path, data in rest:
        world.append(data, path)
    report = world.sync()
    assert report.lines_read == sum(data.count(b"\n") for _, data in rest)
    assert world.sync().lines_read == 0
    with world.connect(write=True) as conn:
        for name in ("messages_fts", "tool_uses_fts", "turns_fts", "sessions_fts"):
            conn.execute(f"INSERT INTO {name}({name}, rank) VALUES ('integrity-check', 1)")


def test_case_61_a_deleted_message_stays_deleted_and_its_neighbours_stay(world: World) -> None:
    world.write(lines(0, 1, 2))
    world.sync()
    world.change("DELETE FROM messages WHERE text = 'line 00001'")
    world.append(lines(3))
    world.sync()
    assert world.texts() == texts([0, 2, 3])
    found = world.ask("SELECT 1 FROM messages_fts WHERE messages_fts MATCH '\"line 00001\"'")
    assert found == []


@pytest.mark.parametrize(
    ("table", "how"),
    thinned(
        [
            *(("messages", how) for how in ("touch", "chmod", "link", "rename")),
            *((table, "touch") for table in ("tool_uses", "events", "usage", "turns")),
        ],
        3,
    ),
)
def test_case_61_rows_deleted_by_hand_stay_deleted_when_the_file_is_only_touched(
    world: World, table: str, how: str
) -> None:
    """Such a file is compared with its rows, and one that lacks is no sign that it was edited."""
    write_demo(world.root)
    world.sync()
    world.change(f"DELETE FROM {table}")
    for path in list(world.root.rglob("*.jsonl")):
        if how == "chmod":
            path.chmod(0o640)
        elif how == "touch":
            path.touch()
        elif how == "link":
            os.link(path, path.with_suffix(".backup"))
        else:
            path.rename(path.with_name(f"{path.stem}.old.jsonl"))
    report = world.sync()
    assert (report.rewritten_files, report.lines_read) == (0, 0)
    assert world.one(f"SELECT count(*) FROM {table}") == 0


def test_case_61_an_edited_row_stays_as_it_was_edited(world: World) -> None:
    world.write(lines(0, 1))
    world.sync()
    world.change("UPDATE messages SET text = 'redacted' WHERE text = 'line 00001'")
    world.change("UPDATE sessions SET title = 'my title'")
    world.append(lines(2))
    world.sync()
    assert world.texts() == [*texts([0, 2]), "redacted"]
    assert world.ask("SELECT text FROM messages_fts WHERE messages_fts MATCH 'redacted'") == [
        ("redacted",)
    ]


def test_case_61_a_deleted_source_file_is_read_again_and_doubles_nothing(world: World) -> None:
    rest = halves(world.root.parent / "demo", world.root)
    for path, data in rest:
        world.append(data, path)
    world.sync()
    before = {name: world.one(f"SELECT count(*) FROM {name}") for name in PUBLIC[:-2]}
    world.change("DELETE FROM source_files")
    world.change("DELETE FROM line_counts")
    world.sync()
    for name in ("messages", "tool_uses", "usage", "turns", "sessions"):
        assert (name, world.one(f"SELECT count(*) FROM {name}")) == (name, before[name])


# -- replaced, restored, torn off its log --------------------------------------------------------


def test_case_65_an_older_backup_put_back_catches_up_exactly(world: World) -> None:
    world.write(lines(0, 1, 2))
    world.sync()
    backup = world.root.parent / "backup.db"
    shutil.copy2(world.db, backup)
    world.append(lines(3, 4))
    other = world.write(lines(7, 8), world.file("q/q.jsonl"))
    world.sync()
    os.truncate(world.main, len(lines(0, 1)))
    world.append(lines(5, 6))
    world.sync()
    shutil.copy2(backup, world.db)
    report = world.sync()
    assert report.lines_read == 6
    # Lines 3 and 4 were in no file any more when the backup was put back.
    world.settled([0, 1, 2, 5, 6, 7, 8])
    assert world.source(other)["lines"] == 2


def killed_sync(world: World, point: str) -> int:
    env = {**os.environ, "CTXDB_TEST_KILL": point}
    return int(world.cli("sync", code=SMALL_BATCHES, env=env).returncode)


@pytest.mark.parametrize("made_before", [True, False], ids=["second sync", "first sync"])
def test_case_66_a_database_without_its_log_is_the_last_checkpoint_and_catches_up(
    world: World, made_before: bool
) -> None:
    """`doctor`, which explains it, is another issue."""
    world.write(lines(0, 1, 2))
    if made_before:
        world.sync()
    else:
        world.db.unlink()
    world.append(lines(*range(3, 30)))
    assert killed_sync(world, "after_commit:6") == KILLED
    assert len(world.texts()) > 10
    side(world, "-wal").unlink()
    side(world, "-shm").unlink(missing_ok=True)
    with closing(sqlite3.connect(world.db)) as conn:
        tables = conn.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    assert bool(tables) == made_before
    if made_before:
        assert world.texts() == texts([0, 1, 2])
    world.sync()
    world.settled(range(30))


def test_case_66_a_copy_made_without_the_log_while_a_sync_writes_catches_up(world: World) -> None:
    world.write(lines(*range(5)))
    world.sync()
    world.append(lines(*range(5, 30)))
    assert killed_sync(world, "after_commit:4") == KILLED
    copied = World(world.root, world.root.parent / "copy/ctxdb.db")
    copied.db.parent.mkdir(mode=0o700)
    shutil.copy2(world.db, copied.db)
    copied.sync()
    copied.settled(range(30))
    world.sync()
    world.settled(range(30))


READ_ONLY = """
set -e
mount --bind {place} {place}
mount -o remount,ro,bind {place}
exec "$0" -c "$1"
"""


@pytest.fixture
def read_only(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """World.cli runs where the folder of the database is on a disk that cannot be written."""
    place = world.db.parent
    tried = ["unshare", "-Urm", "mount", "--bind", place, place]
    if subprocess.run(tried, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a folder here")
    command = ["unshare", "-Urm", "sh", "-c", READ_ONLY.format(place=place), sys.executable, FORKS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        monkeypatch.setattr("world.forks", lambda: process)
        yield


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a folder again")
def test_case_63_a_database_on_a_disk_that_cannot_be_written_is_read(
    world: World, read_only: None
) -> None:
    world.write(lines(0, 1))
    world.sync()
    there = world.cli
    for suffix in ("-wal", "-shm"):
        side(world, suffix).unlink(missing_ok=True)
    asked = there("query", "SELECT count(*) AS n FROM messages", "--no-sync", "--format", "csv")
    assert (asked.returncode, asked.stdout) == (0, "n\n2\n"), asked.stderr
    for words in (["query", "overview"], ["status"], ["search", "prompt"]):
        done = there(*words)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
    one_line(there("sync"), str(world.db))
    # What is in a log cannot be read without another file, and may not be left out in silence.
    side(world, "-wal").write_bytes(b"x" * 100)
    side(world, "-wal").chmod(0o600)
    for words in (["query", "overview", "--no-sync"], ["status"], ["verify"]):
        one_line(there(*words), str(world.db), "its folder cannot be written to", "copy it")


def test_a_database_that_has_been_dumped_and_loaded_again_is_ours(world: World) -> None:
    world.write(lines(0, 1))
    world.sync()
    with closing(sqlite3.connect(world.db)) as conn:
        conn.execute("PRAGMA application_id = 0")  # all that .dump does not carry over
    asked = world.cli("query", "SELECT count(*) AS n FROM messages", "--no-sync", "--format", "csv")
    assert asked.stdout == "n\n2\n", asked.stderr
    world.append(lines(2))
    world.sync()
    world.settled([0, 1, 2])
    with closing(sqlite3.connect(world.db)) as conn:
        assert conn.execute("PRAGMA application_id").fetchone() == (0x43545844,)


# -- damaged, or not ours ------------------------------------------------------------------------


@cache
def demo_database() -> bytes:
    """A database of the demo's transcripts, which are elsewhere."""
    with lab() as one:
        write_demo(one.root)
        one.sync()
        return one.db.read_bytes()


def damaged(world: World, how: str) -> bytes:
    data = bytearray(world.db.read_bytes())
    if how == "header":
        data[16:100] = bytes(84)
    elif how == "schema page":
        data[100:8000] = random.Random(67).randbytes(7900)
    elif how == "all other pages":
        data[8192:] = random.Random(67).randbytes(len(data) - 8192)
    elif how == "cut in half":
        del data[len(data) // 2 :]
    world.db.write_bytes(data)
    return bytes(data)


@pytest.mark.parametrize("how", ["header", "schema page", "all other pages", "cut in half"])
def test_case_67_a_damaged_database_is_said_to_be_damaged_and_left_untouched(
    world: World, how: str
) -> None:
    """What `rebuild` does with it is in test_damage.py."""
    world.db.write_bytes(demo_database())
    world.write(lines(0))
    before = damaged(world, how)
    for command in ("sync", "status", "verify"):
        done = world.cli(command)
        if command == "status" and done.returncode == 0 and how == "cut in half":
            continue  # what status asks for may all be in the half that is left
        one_line(done, str(world.db))
        assert "damaged" in done.stderr or "not a SQLite database" in done.stderr
        assert world.db.read_bytes() == before
    # Readers may leave an empty log behind; nothing was written to it.
    assert not side(world, "-wal").exists() or side(world, "-wal").stat().st_size == 0


def test_case_67_sessions_that_are_only_in_the_damaged_database_are_counted(world: World) -> None:
    write_demo(world.root)
    world.sync()
    shutil.rmtree(world.root)
    world.root.mkdir()
    world.sync()
    gone = world.one("SELECT count(*) FROM sessions WHERE source_deleted_at IS NOT NULL")
    assert gone > 10
    [(page,)] = world.ask("SELECT rootpage FROM sqlite_master WHERE name = 'source_files'")
    [(size,)] = world.ask("PRAGMA page_size")
    with world.db.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    world.write(lines(0))
    done = world.cli("sync")
    one_line(done, f"and {gone} sessions are only in it; `ctxdb rebuild` repairs it")


@pytest.mark.parametrize(
    "content", thinned([b"my novel\n" * 1000, b"SQLite format 2\0", b"\0" * 8192, b"x"], 2)
)
def test_case_67_what_is_no_database_is_refused_and_left_untouched(
    world: World, content: bytes
) -> None:
    world.db.write_bytes(content)
    world.write(lines(0))
    for command in ("sync", "status", "verify"):
        one_line(world.cli(command), str(world.db), "is not a SQLite database")
        assert world.db.read_bytes() == content


@pytest.mark.parametrize("application_id", [0, 0x66616C63])
def test_case_68_the_database_of_another_program_is_refused_and_left_untouched(
    world: World, application_id: int
) -> None:
    world.db.unlink()
    with closing(sqlite3.connect(world.db)) as conn:
        conn.execute(f"PRAGMA application_id = {application_id}")
        conn.execute("CREATE TABLE novel (chapter TEXT)")
        conn.commit()
    before = world.db.read_bytes()
    for command in ("sync", "status", "verify"):
        one_line(world.cli(command), str(world.db), "another program's database")
        assert world.db.read_bytes() == before
    assert not side(world, "-wal").exists()
    assert not side(world, "-journal").exists()


@pytest.mark.parametrize("what", ["a link", "a folder", "a fifo"])
def test_case_68_what_is_no_regular_file_is_refused(world: World, what: str) -> None:
    target = world.db.rename(world.db.with_name("real.db"))
    if what == "a link":
        world.db.symlink_to(target)
    elif what == "a folder":
        world.db.mkdir()
    else:
        os.mkfifo(world.db)
    before = target.read_bytes()
    code = 2 if what == "a folder" else 1
    one_line(world.cli("sync"), str(world.db), code=code)
    assert target.read_bytes() == before


# -- migrations ----------------------------------------------------------------------------------


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """migrations/ and sql/ of the ctxdb after this one."""
    assets = tmp_path / "assets"
    for name in ("migrations", "sql"):
        shutil.copytree(asset_dir(name), assets / name)
    (assets / "migrations/9000_next.sql").write_text(
        "-- Things that only the next version knows.\n"
        "CREATE TABLE next_things (\n"
        "  id INTEGER PRIMARY KEY, -- surrogate key\n"
        "  thing TEXT -- the thing\n"
        ");\n"
        "ALTER TABLE sessions ADD COLUMN mood TEXT; -- how it went\n"
        "INSERT INTO next_things (thing) SELECT title FROM sessions;\n"
        "CREATE INDEX next_things_thing ON next_things(thing);\n"
    )
    return assets


# The command line of another version: with its migrations and views, killed at the n-th statement.
OTHER_VERSION = """
import os
from pathlib import Path
import sqlite_utils
from ctxdb.store import schema, version
version.asset_dir = schema.asset_dir = lambda name: Path(os.environ["ASSETS"]) / name
left = int(os.environ.get("STATEMENTS", "0"))
real = sqlite_utils.Database.execute
def execute(self, *args):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), 9)
    return real(self, *args)
sqlite_utils.Database.execute = execute
from ctxdb.cli.main import main
main()
"""


def other_version(world: World, assets: Path, *args: str, **env: str) -> Any:
    return world.cli(*args, code=OTHER_VERSION, env={**os.environ, "ASSETS": str(assets), **env})


def layout(db: Path) -> list[tuple[Any, ...]]:
    """Everything that makes the schema, and what is written down about it."""
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as conn:
        return [
            *conn.execute(
                "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite%'"
                " ORDER BY type, name"
            ),
            *conn.execute("SELECT name FROM _sqlite_migrations ORDER BY id"),
            *conn.execute("SELECT * FROM _meta WHERE key IN ('schema', 'views') ORDER BY key"),
            *conn.execute("SELECT * FROM _schema_docs ORDER BY name, position"),
        ]


def test_case_69_a_newer_database_is_not_written_to_and_can_still_be_read(
    world: World, newer: Path
) -> None:
    world.write(lines(0, 1))
    assert other_version(world, newer, "sync").returncode == 0
    world.append(lines(2))
    before = world.db.read_bytes()
    one_line(world.cli("sync"), str(world.db), "newer version of ctxdb", "9000_next", "upgrade")
    with pytest.raises(NewerSchema):
        world.sync()
    assert world.db.read_bytes() == before
    shown = world.cli("status")
    assert shown.returncode == 0
    assert "made by a newer ctxdb (9000_next): upgrade" in shown.stdout
    assert "2 messages" in " ".join(shown.stdout.split())
    with closing(open_reader(world.db)) as conn:
        assert conn.execute("SELECT count(*) FROM messages").fetchone() == (2,)
    assert other_version(world, newer, "sync").returncode == 0
    assert world.texts() == texts([0, 1, 2])


@pytest.mark.parametrize("who", ["nobody", "another process", "other folders"])
def test_case_69_a_question_to_a_newer_database_is_answered_with_a_warning(
    world: World, newer: Path, who: str
) -> None:
    """Whether or not there is something to take in, and somebody else who does it."""
    world.write(lines(0, 1))
    assert other_version(world, newer, "sync").returncode == 0
    place = world.root.parent if who != "other folders" else world.root
    env = {**os.environ, "CLAUDE_CONFIG_DIR": str(place)}
    with WriterLock(world.db) if who == "another process" else nullcontext():
        done = world.cli("query", "SELECT text FROM messages", "-f", "csv", env=env)
    assert (done.returncode, done.stdout) == (0, "text\nline 00000\nline 00001\n")
    assert done.stderr.count("\n") == 1
    assert "made by a newer version of ctxdb (unknown migration 9000_next)" in done.stderr


def test_case_69_a_step_that_only_its_name_tells_is_refused_too(world: World) -> None:
    world.change(
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
        " VALUES ('ctxdb', '0999_from_the_future', 'now')"
    )
    one_line(world.cli("sync"), "0999_from_the_future")


def test_case_69_steps_of_other_programs_in_the_same_table_do_not_matter(world: World) -> None:
    world.change(
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
        " VALUES ('my-plugin', '0001_mine', 'now')"
    )
    world.write(lines(0))
    world.sync()
    world.settled([0])


@pytest.mark.parametrize("statement", thinned(["1", "2", "30", "60", "100"], 2))
def test_case_70_a_first_sync_killed_midway_through_its_schema_leaves_nothing(
    world: World, statement: str
) -> None:
    world.db.unlink()
    world.write(lines(0, 1))
    done = other_version(world, asset_dir("migrations").parent, "sync", STATEMENTS=statement)
    assert done.returncode == KILLED
    with closing(sqlite3.connect(world.db)) as conn:
        assert conn.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    world.sync()
    world.settled([0, 1])


@pytest.mark.parametrize(
    "killed", ["STATEMENTS=1", "STATEMENTS=3", "CTXDB_TEST_KILL=before_commit"]
)
def test_case_70_an_upgrade_killed_midway_leaves_the_old_schema_and_can_be_repeated(
    world: World, newer: Path, killed: str
) -> None:
    world.write(lines(0, 1))
    world.sync()
    before = layout(world.db)
    name, _, value = killed.partition("=")
    assert other_version(world, newer, "sync", **{name: value}).returncode == KILLED
    assert layout(world.db) == before
    world.append(lines(2))
    world.sync()  # the old version goes on with the old schema
    world.settled([0, 1, 2])
    assert other_version(world, newer, "sync").returncode == 0
    assert world.ask("SELECT thing FROM next_things") == [("line 00000",)]
    assert world.texts() == texts([0, 1, 2])


def test_case_70_an_upgrade_that_was_committed_is_not_repeated(world: World, newer: Path) -> None:
    world.write(lines(0, 1))
    world.sync()
    done = other_version(world, newer, "sync", CTXDB_TEST_KILL="after_commit")
    assert done.returncode == KILLED
    assert other_version(world, newer, "sync").returncode == 0
    assert world.one("SELECT count(*) FROM next_things") == 1


def test_case_70_an_upgrade_with_a_failing_statement_leaves_the_old_schema(
    world: World, newer: Path
) -> None:
    world.write(lines(0, 1))
    world.sync()
    before = layout(world.db)
    step = newer / "migrations/9000_next.sql"
    good = step.read_text()
    step.write_text(good + "INSERT INTO no_such_table VALUES (1);\n")
    assert other_version(world, newer, "sync").returncode == 1
    assert layout(world.db) == before
    step.write_text(good)
    assert other_version(world, newer, "sync").returncode == 0
    assert world.one("SELECT count(*) FROM next_things") == 1


FULL = """
set -e
mount -t tmpfs -o size={size}k none {place}
cp {db} {place}/ctxdb.db
python=$1; shift
"$python" -c "$CODE" --db {place}/ctxdb.db sync --root {root} && code=0 || code=$?
mount -o remount,size=64m {place}
cp {place}/ctxdb.db* {out}
exit $code
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a small file system")
def test_case_70_an_upgrade_on_a_full_disk_leaves_the_old_schema(
    world: World, newer: Path, tmp_path: Path
) -> None:
    tried = subprocess.run(
        ["unshare", "-Urm", "mount", "-t", "tmpfs", "none", tmp_path / "data"],
        capture_output=True,
        check=False,
    )
    if tried.returncode:
        pytest.skip("cannot mount a file system here")
    world.write(lines(*range(200)))
    world.sync()
    before = layout(world.db)
    step = newer / "migrations/9000_next.sql"
    step.write_text(
        step.read_text() + "INSERT INTO next_things (thing) SELECT hex(randomblob(20000))"
        " FROM messages;\n"
    )
    place, out = tmp_path / "small", tmp_path / "out"
    place.mkdir()
    out.mkdir()
    size = world.db.stat().st_size // 1024 + 1500
    script = FULL.format(size=size, place=place, db=world.db, root=world.root, out=out)
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script, "sh", sys.executable],
        env={**os.environ, "CODE": OTHER_VERSION, "ASSETS": str(newer)},
        capture_output=True,
        text=True,
        check=False,
    )
    one_line(done, "full")
    full = World(world.root, out / "ctxdb.db")
    assert layout(full.db) == before
    assert other_version(full, newer, "sync").returncode == 0
    assert full.one("SELECT count(*) FROM next_things") == 201
    assert full.texts() == texts(range(200))


# Four processes that go on from here at the same time; the first one waits for them.
FOUR = """
import os, sys
start, hold = os.pipe()
children = []
while len(children) < 4 and (not children or children[-1]):
    children.append(os.fork())
os.close(hold)
if children[-1]:
    sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
os.read(start, 1)  # ends when all others have closed it
"""
MIGRATE = (
    FOUR
    + """
from pathlib import Path
from ctxdb.store.connection import open_writer
from ctxdb.store.schema import prepare
path = Path(sys.argv[2])
conn = open_writer(path)
prepare(conn, path)
print(conn.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
"""
)


@pytest.mark.parametrize("attempt", thinned(range(3), 3))
def test_case_71_four_processes_that_migrate_at_once_all_succeed(
    world: World, attempt: int
) -> None:
    """Without the writer lock, which would let them in one by one."""
    world.db.unlink()
    done = world.cli(code=MIGRATE)
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.splitlines()
    assert len(said) == 4
    assert len(set(said)) == 1
    assert world.one("SELECT count(*) FROM _sqlite_migrations") == len(schema.steps())
    world.write(lines(0, 1))
    world.sync()
    world.settled([0, 1])


def test_case_71_the_change_to_a_write_ahead_log_waits_for_whoever_reads(world: World) -> None:
    """SQLite itself does not: of two that migrate at once, one would fail."""
    world.write(lines(0, 1))
    with closing(sqlite3.connect(world.db)) as reading:
        assert reading.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM messages").fetchone()
        let_go_of(world, reading)
    assert world.one("PRAGMA journal_mode") == "wal"
    world.settled([0, 1])


def test_case_71_four_first_syncs_at_once_all_succeed_if_they_may_wait(world: World) -> None:
    world.db.unlink()
    shutil.rmtree(world.db.parent)
    world.write(lines(*range(50)))
    done = world.cli("sync", "--wait", "--quiet", code=FOUR + RUN)
    assert done == (0, "", "")
    world.settled(range(50))


HIDDEN = 1  # as PRAGMA table_xinfo says it of a column that a virtual table adds
GOLDEN = Path(__file__).parent / "data/schema.txt"


def golden_text(db: Path) -> str:
    """The schema as people meet it: tables with their columns, indexes, triggers; no views."""
    rows = []
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as conn:
        for kind, name, sql in conn.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE type <> 'view'"
            " AND name NOT LIKE 'sqlite%' AND name NOT LIKE '%\\_fts\\_%' ESCAPE '\\'"
            " OR type = 'trigger' ORDER BY type <> 'table', type, name"
        ).fetchall():
            if kind != "table":
                rows.append(" ".join(sql.split()))
                continue
            rows.append(f"{'virtual ' if sql.startswith('CREATE VIRTUAL') else ''}table {name}")
            for _, column, affinity, not_null, default, key, hidden in conn.execute(
                f"PRAGMA table_xinfo({name})"
            ):
                if hidden == HIDDEN:
                    continue
                words = [column, affinity, *(["NOT NULL"] if not_null else [])]
                words += ["GENERATED"] if hidden else []
                words += [f"DEFAULT {default}"] if default is not None else []
                words += [f"PRIMARY KEY {key}"] if key else []
                rows.append("  " + " ".join(filter(None, words)))
    return "\n".join(rows) + "\n"


def test_case_72_the_schema_is_the_one_that_was_agreed_on(world: World) -> None:
    """A change must be meant: run this test with UPDATE_GOLDEN=1 and look at the difference."""
    world.db.unlink()
    world.sync()
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(golden_text(world.db))
    assert golden_text(world.db) == GOLDEN.read_text()


def test_case_72_a_database_of_every_earlier_step_is_upgraded_and_keeps_its_rows(
    world: World,
) -> None:
    """Nothing has been released yet. Every number of steps that a database may have applied stands
    for a release: sqlite-utils makes it, as an older ctxdb would have."""
    from sqlite_utils import Database

    wanted = layout(world.db)
    world.write(lines(0, 1))
    steps = schema.steps()
    found = runpy.run_path(str(asset_dir("migrations") / "migrations.py"))["migrations"]
    older = world.root.parent / "older.db"
    for name in [*steps[1:], None]:
        with closing(sqlite3.connect(older, isolation_level=None)) as conn:
            found.apply(Database(conn, execute_plugins=False), stop_before=name)
        shutil.copyfile(older, world.db)
        with closing(sqlite3.connect(world.db, isolation_level=None)) as conn:
            conn.execute("INSERT INTO prices (model, input_usd_per_mtok, output_usd_per_mtok,"
                         " cache_write_5m_usd_per_mtok, cache_write_1h_usd_per_mtok,"
                         " cache_read_usd_per_mtok) VALUES ('mine', 1, 2, 3, 4, 5)")  # fmt: skip
        world.sync()
        assert layout(world.db) == wanted
        assert world.one("SELECT count(*) FROM prices WHERE model = 'mine'") == 1
        assert world.texts() == texts([0, 1])
        if name in (steps[1], None):
            world.settled([0, 1])


def test_every_foreign_key_has_an_index_behind_it(world: World) -> None:
    with world.connect() as conn:
        tables = [name for (name,) in conn.execute("SELECT name FROM pragma_table_list")]
        keys = 0
        for table in tables:
            leading = {
                columns[0][2]
                for _, index, *_ in conn.execute(f'PRAGMA index_list("{table}")')
                if (columns := conn.execute(f'PRAGMA index_info("{index}")').fetchall())
            }
            leading |= {
                row[1] for row in conn.execute(f'PRAGMA table_info("{table}")') if row[5] == 1
            }
            for key in conn.execute(f'PRAGMA foreign_key_list("{table}")').fetchall():
                keys += 1
                assert key[3] in leading, f"{table}.{key[3]}"
    assert keys > 20


def test_every_table_view_and_column_is_described_in_the_database(world: World) -> None:
    with world.connect() as conn:
        described = {
            (name, column): text
            for name, column, text in conn.execute(
                'SELECT name, "column", description FROM _schema_docs'
            )
        }
        shown = {row[:2] for row in conn.execute('SELECT name, "column" FROM schema_docs')}
        for kind, name in conn.execute(
            "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view')"
            " AND name NOT LIKE 'sqlite%' AND name NOT LIKE '%\\_fts\\_%' ESCAPE '\\'"
            " AND name <> '_sqlite_migrations'"
        ).fetchall():
            columns = [
                row[1] for row in conn.execute(f'PRAGMA table_xinfo("{name}")') if row[6] != HIDDEN
            ]
            for column in ["", *columns]:
                assert described.pop((name, column), "").strip(), f"{kind} {name}.{column}"
                assert ((name, column) in shown) == (not name.startswith("_"))
    assert described == {}, "described, but not there"


# -- views ---------------------------------------------------------------------------------------


def test_case_73_a_view_that_has_changed_is_made_anew_and_a_dropped_one_is_removed(
    world: World, newer: Path
) -> None:
    (newer / "migrations/9000_next.sql").unlink()
    world.write(lines(0, 1))
    world.sync()
    (newer / "sql/entry_counts.sql").write_text("-- How many?\n--   n: so many\nSELECT 42 AS n\n")
    (newer / "sql/ingest_health.sql").unlink()
    (newer / "sql/brand_new.sql").write_text("-- Is it new?\n--   yes: it is\nSELECT 1 AS yes;\n")
    assert other_version(world, newer, "sync").returncode == 0
    assert world.ask("SELECT * FROM entry_counts") == [(42,)]
    assert world.ask("SELECT * FROM brand_new") == [(1,)]
    views = {name for (name,) in world.ask("SELECT name FROM sqlite_master WHERE type = 'view'")}
    assert views == {path.stem for path in (newer / "sql").glob("*.sql")}
    docs = dict(world.ask("SELECT name, description FROM schema_docs WHERE \"column\" = ''"))
    assert docs["brand_new"] == "Is it new?"
    assert "ingest_health" not in docs
    world.sync()  # and back again
    assert len(world.ask("SELECT * FROM ingest_health")) == 1
    assert "brand_new" not in dict(world.ask("SELECT name, 1 FROM sqlite_master"))


def test_case_73_views_of_ones_own_are_left_alone(world: World, newer: Path) -> None:
    world.change("CREATE VIEW my_favourites AS SELECT * FROM sessions WHERE title LIKE '%tide%'")
    assert other_version(world, newer, "sync").returncode == 0
    assert world.ask("SELECT * FROM my_favourites") == []


def test_case_73_nothing_is_made_anew_when_nothing_has_changed(world: World) -> None:
    world.write(lines(0))
    world.sync()
    before = world.one("PRAGMA schema_version")
    world.append(lines(1))
    world.sync()
    assert world.one("PRAGMA schema_version") == before


# -- SQLite, permissions, sqlite-utils -----------------------------------------------------------


def test_case_74_an_sqlite_that_is_too_old_is_refused_in_one_line(world: World) -> None:
    """`doctor` will warn of the versions with the WAL-reset bug; it is another issue."""
    old = "import sqlite3; sqlite3.sqlite_version_info = (3, 39, 4); "
    code = old + "sqlite3.sqlite_version = '3.39.4'; " + RUN
    for command in ("sync", "status", "verify"):
        one_line(world.cli(command, code=code), "SQLite 3.39.4 is too old", "3.40.0")


INDEXES = ("messages_fts", "tool_uses_fts", "turns_fts", "sessions_fts")


def check_full_text(world: World) -> None:
    with world.connect(write=True) as conn:
        for name in INDEXES:
            conn.execute(f"INSERT INTO {name}({name}, rank) VALUES ('integrity-check', 1)")


@pytest.mark.parametrize("index", thinned(INDEXES, 2))
def test_case_75_a_damaged_full_text_index_is_noticed_and_a_rebuild_repairs_it(
    world: World, index: str
) -> None:
    """`doctor` and `rebuild` are other issues: this is what they will run."""
    world.db.write_bytes(demo_database())
    check_full_text(world)
    before = world.cli("search", "tide", "--format", "jsonl", "--no-sync")
    assert before.stdout
    world.change(f"DELETE FROM {index}_data WHERE id > 10")
    with pytest.raises(sqlite3.DatabaseError):
        check_full_text(world)
    sql = f"SELECT count(*) FROM {index} WHERE {index} MATCH 'tide'"
    for asked in (("search", "tide"), ("query", sql)):
        one_line(world.cli(*asked, "--no-sync"), str(world.db), "rebuild")
    world.change(f"INSERT INTO {index}({index}) VALUES ('rebuild')")
    check_full_text(world)
    assert world.cli("search", "tide", "--format", "jsonl", "--no-sync").stdout == before.stdout


def test_case_76_a_vacuum_changes_nothing_that_is_found(world: World) -> None:
    world.write(lines(*range(20)))
    world.sync()
    world.change("DELETE FROM messages WHERE id % 3 = 0")  # VACUUM could give new numbers to rows
    found = "SELECT rowid, text FROM messages_fts WHERE messages_fts MATCH 'line' ORDER BY rowid"
    before = world.ask(found)
    world.change("VACUUM")
    assert world.ask(found) == before
    assert before == world.ask("SELECT id, text FROM messages ORDER BY id")
    world.append(lines(20))
    world.sync()
    assert len(world.ask(found)) == len(before) + 1
    check_full_text(world)


# What the kernel would list, were the database's folder a mount of this type.
MOUNTED = (
    """
import os
from pathlib import Path
from ctxdb import mounts
table = Path(os.environ["MOUNTS"])
mounts.file_system_of.__defaults__ = (table,)
"""
    + RUN
)


@pytest.mark.parametrize("kind", thinned(["nfs4", "nfs", "cifs", "smb3", "fuse.sshfs"], 2))
def test_case_77_a_database_on_a_network_file_system_is_not_written_to(
    world: World, tmp_path: Path, kind: str
) -> None:
    world.write(lines(0))
    world.sync()
    world.append(lines(1))
    table = tmp_path / "mounts"
    table.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/home {world.db.parent} {kind} rw 0 0\n")
    env = {**os.environ, "MOUNTS": str(table), "CLAUDE_CONFIG_DIR": str(world.root.parent)}
    one_line(world.cli("sync", code=MOUNTED, env=env), kind, "CTXDB_DB", str(world.db))
    done = world.cli("query", "SELECT text FROM messages", "-f", "csv", code=MOUNTED, env=env)
    assert done.stdout == "text\nline 00000\n"  # what is there can be read


def test_case_77_a_disk_of_this_machine_is_written_to(world: World, tmp_path: Path) -> None:
    world.write(lines(0))
    table = tmp_path / "mounts"
    table.write_text("server:/srv /srv nfs4 rw 0 0\nnone / 9p rw 0 0\n")
    env = {**os.environ, "MOUNTS": str(table)}
    assert world.cli("sync", code=MOUNTED, env=env).returncode == 0


def test_the_database_and_all_files_beside_it_are_private_under_umask_022(world: World) -> None:
    shutil.rmtree(world.db.parent)
    world.write(lines(0, 1))
    with Holder(world, umask=0o022):
        # A reader sees to it that -wal and -shm are there.
        with closing(sqlite3.connect(world.db)) as conn:
            conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
            modes = {
                path.name: stat.S_IMODE(path.stat().st_mode) for path in world.db.parent.iterdir()
            }
        assert modes == dict.fromkeys(
            ["ctxdb.db", "ctxdb.db-wal", "ctxdb.db-shm", "ctxdb.db.lock"], 0o600
        )
        assert stat.S_IMODE(world.db.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(side(world, ".archive").stat().st_mode) == 0o600


def test_a_database_that_others_could_read_is_made_private_by_the_next_sync(world: World) -> None:
    world.db.chmod(0o644)
    side(world, ".lock").touch(0o644)
    world.sync()
    assert stat.S_IMODE(world.db.stat().st_mode) == 0o600
    assert stat.S_IMODE(side(world, ".lock").stat().st_mode) == 0o600


def sqlite_utils(*args: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sqlite_utils", *args]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def test_sqlite_utils_itself_runs_our_migrations(world: World) -> None:
    made_by_ctxdb = golden_text(world.db)
    world.db.unlink()
    folder = asset_dir("migrations")
    sqlite_utils("migrate", world.db, folder)
    assert golden_text(world.db) == made_by_ctxdb
    assert world.one("PRAGMA application_id") == 0x43545844
    before = world.db.read_bytes()
    sqlite_utils("migrate", world.db, folder)  # a second time there is nothing to do
    assert world.db.read_bytes() == before
    listed = sqlite_utils("migrate", world.db, folder, "--list").stdout
    assert all(step in listed for step in schema.steps())
    world.write(lines(0, 1))
    world.sync()  # ctxdb takes it from there
    world.settled([0, 1])


def test_a_database_made_by_ctxdb_is_up_to_date_for_sqlite_utils(world: World) -> None:
    before = world.db.read_bytes()
    sqlite_utils("migrate", world.db, asset_dir("migrations"))
    assert world.db.read_bytes() == before


def test_a_writer_waits_for_someone_who_edits_by_hand(world: World) -> None:
    """Case 60 in short: DB Browser holds a write lock for a while."""
    world.write(lines(0, 1))
    with closing(sqlite3.connect(world.db, isolation_level=None)) as conn:
        conn.execute("BEGIN IMMEDIATE")
        let_go_of(world, conn)
    world.settled([0, 1])


def test_a_reader_that_stays_does_not_stop_the_writer(world: World) -> None:
    """Case 59 in short: a long read transaction, and the log grows."""
    world.write(lines(0, 1))
    world.sync()
    with closing(sqlite3.connect(world.db, isolation_level=None)) as conn:
        conn.execute("BEGIN")
        assert conn.execute("SELECT count(*) FROM messages").fetchone() == (2,)
        world.append(lines(2, 3))
        world.sync()
        assert conn.execute("SELECT count(*) FROM messages").fetchone() == (2,)
        conn.execute("COMMIT")
    world.settled([0, 1, 2, 3])


def test_a_table_with_the_name_of_a_view_of_ours_is_named_in_one_line(world: World) -> None:
    world.write(lines(1))
    world.sync()
    world.change("DROP VIEW entry_counts")
    world.change("CREATE TABLE entry_counts (mine)")
    world.change("DELETE FROM _meta WHERE key = 'schema'")
    with pytest.raises(CtxdbError, match="entry_counts: a table of that name is in the way"):
        world.sync()
    assert world.one("SELECT count(*) FROM entry_counts") == 0


def test_a_view_of_somebody_else_is_not_replaced_by_a_new_one_of_ours(world: World) -> None:
    world.change("DROP VIEW commits")
    world.change("CREATE VIEW commits AS SELECT 'my own' AS mine")
    world.change("UPDATE _meta SET value = replace(value, 'commits ', '') WHERE key = 'views'")
    world.change("DELETE FROM _meta WHERE key = 'schema'")
    with pytest.raises(CtxdbError, match="commits: a view of that name is in the way"):
        world.sync()
    assert world.one("SELECT mine FROM commits") == "my own"
    world.change("DROP VIEW commits")
    world.sync()
    assert world.one("SELECT count(*) FROM commits") == 0
