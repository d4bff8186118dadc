"""`ctxdb merge`: two laptops of one person become one database."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jsonschema import Draft202012Validator

from ctxdb.archive.archive_file import archive_path, open_archive_to_read
from ctxdb.archive.restore import files_of_session, place_below, restore
from ctxdb.archive.summary import summarize
from ctxdb.config import Config
from ctxdb.errors import CtxdbError
from ctxdb.forget.run import forget
from ctxdb.ingest.plan import utc_now
from ctxdb.ingest.sync import sync
from ctxdb.merge.merge import merge, plan_merge
from ctxdb.merge.report import MergeReport
from ctxdb.progress import NullProgress
from ctxdb.rebuild.rebuild import rebuild
from ctxdb.store.connection import open_writer
from ctxdb.store.integrity import sessions_only_here
from ctxdb.verify import verify
from demo_db import demo_folder
from lab import must_equal, put_empty_database
from quick_tables import copy_tables
from real_corpus import CORPUS, HAS_CORPUS
from snapshot import content
from thinning import thinned
from world import run_ctxdb, run_python

# What tells how files were read, not what they say.
OF_FILES = ("source_files", "line_counts", "message_copies")


class Desk(NamedTuple):
    """One folder that both laptops call the same: whose turn it is has its files there."""

    folder: Path
    drawer: Path  # what laptops were after they had read their first files

    @property
    def projects(self) -> Path:
        return self.folder / "home/.claude/projects"

    def laptop(self, name: str) -> Laptop:
        return Laptop(self, name)


class Laptop(NamedTuple):
    """A database, and the files that are put in place before it is used."""

    desk: Desk
    name: str
    archive: bool = True

    @property
    def db(self) -> Path:
        return self.desk.folder / self.name / "ctxdb.db"

    @property
    def files(self) -> Path:
        return self.desk.folder / self.name / "files"

    @property
    def config(self) -> Config:
        return Config(self.db, (str(self.desk.projects),), archive=self.archive)

    def take(self, files: dict[str, bytes]) -> Laptop:
        """Have these files below ~/.claude, and read them."""
        if not self.db.parent.exists():
            made = self.desk.drawer / self.name / str(hash((self.archive, *files.items())))
            if not made.exists():
                self._read(files)
                shutil.copytree(self.db.parent, made)
                return self
            shutil.copytree(made, self.db.parent)
            self.sit_down()
        else:
            self._read(files)
        return self

    def _read(self, files: dict[str, bytes]) -> None:
        (self.files / "projects").mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            path = self.files / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            os.utime(path, (1_780_000_000, 1_780_000_000))
        self.sync()

    def sit_down(self) -> None:
        shutil.rmtree(self.desk.folder / "home", ignore_errors=True)
        shutil.copytree(self.files, self.desk.projects.parent)

    def sync(self) -> None:
        self.sit_down()
        if not self.db.exists():
            put_empty_database(self.db)
            with closing(sqlite3.connect(self.db)) as conn, conn:
                conn.execute(
                    "UPDATE _meta SET value = hex(randomblob(16)) WHERE key = 'database id'"
                )
        report = sync(self.config, progress=NullProgress())
        assert report.problems == []

    def merge(self, other: Laptop) -> MergeReport:
        self.sync()
        report = merge(self.config, other.db, NullProgress())
        assert report.problems == []
        return report

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.db)) as conn:
            return conn.execute(sql).fetchall()

    def run(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.db, isolation_level=None)) as conn:
            for statement in statements:
                conn.execute(statement)


def demo_files() -> dict[str, bytes]:
    top = demo_folder() / "projects"
    return {
        f"projects/{path.relative_to(top)}": path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file()
    }


def half(data: bytes) -> bytes:
    """The first lines of a file."""
    lines = data.splitlines(keepends=True)
    return b"".join(lines[: len(lines) // 2])


def split(files: dict[str, bytes]) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Give each laptop some files; every fourth is on both, half as long on the first."""
    first: dict[str, bytes] = {}
    second: dict[str, bytes] = {}
    for n, (name, data) in enumerate(files.items()):
        if n % 2 == 0 or not name.endswith(".jsonl"):
            second[name] = data
        else:
            first[name] = data
        if n % 4 == 0 and name.endswith(".jsonl"):
            first[name] = half(data)
    return first, second


def said(db: Path) -> dict[str, list[str]]:
    """What a database says, whichever files say it."""
    found = content(db)
    return {name: sorted(set(rows)) for name, rows in found.items() if name not in OF_FILES}


def must_be_whole(one: Laptop) -> None:
    one.sit_down()
    report = verify(one.config, NullProgress())
    assert report.shown == [], report.shown
    assert report.ok


@pytest.fixture(autouse=True)
def _quick_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    copy_tables(monkeypatch)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("room")


@pytest.fixture
def desk(room: Path) -> Desk:
    """A clean desk. It is always at the same place, so what was read there once need not be again.

    A laptop of a name has the same id in every test. Two of different names never have.
    """
    shutil.rmtree(room / "desk", ignore_errors=True)
    (room / "desk").mkdir()
    return Desk(room / "desk", room / "drawer")


def beside(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_both_ways_give_what_one_machine_would_have(desk: Desk) -> None:
    files = demo_files()
    first, second = split(files)
    one = desk.laptop("one").take(files)
    a, b = desk.laptop("a").take(first), desk.laptop("b").take(second)
    shutil.copytree(desk.folder / "a", desk.folder / "a-before")
    before = beside(b.db.parent)
    report = a.merge(b)
    assert beside(b.db.parent) == before
    assert report.sessions > 0
    assert report.sessions_without_bytes == 0
    wanted = said(one.db)
    must_equal(wanted, said(a.db))
    must_be_whole(a)
    again = a.merge(b)
    assert (again.files, again.bytes, again.sessions, again.messages) == (0, 0, 0, 0)
    must_equal(wanted, said(a.db))
    c = desk.laptop("a-before")
    b.merge(c)
    must_equal(wanted, said(b.db))
    # Each has all of the other by now: nothing is new, and own files do not become foreign.
    assert a.merge(b).files == 0
    assert a.rows("SELECT count(DISTINCT machine) FROM source_files") == [(2,)]


def session_names(files: dict[str, bytes]) -> list[str]:
    """Sessions of main transcripts, by file name."""
    return [Path(name).stem for name in files if name.count("/") == 2 and "agent-" not in name]


def forgetting(one: Laptop, *sessions: str) -> None:
    forget(one.db, sessions, utc_now(), NullProgress())


def remove_archive(one: Laptop) -> None:
    for suffix in ("", "-wal", "-shm"):
        path = archive_path(one.db)
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def test_a_merge_of_a_grown_database_adds_only_what_is_new(desk: Desk) -> None:
    files = demo_files()
    name = max(files, key=lambda one: len(files[one]))
    a = desk.laptop("a").take({})
    b = desk.laptop("b").take({**files, name: half(files[name])})
    a.merge(b)
    sessions = a.rows("SELECT count(*) FROM sessions")
    b.take({name: files[name]})
    report = a.merge(b)
    assert (report.files, report.bytes) == (1, len(files[name]) - len(half(files[name])))
    assert a.rows("SELECT count(*) FROM sessions") == sessions
    must_equal(said(desk.laptop("one").take(files).db), said(a.db))


def test_files_of_the_other_machine_are_not_missing(desk: Desk) -> None:
    files = demo_files()
    a, b = desk.laptop("a").take({}), desk.laptop("b").take(files)
    a.merge(b)
    a.sync()
    assert a.rows("SELECT DISTINCT machine = '', state, missing_since FROM source_files") == [
        (0, "ok", None)
    ]
    assert a.rows("SELECT count(*) FROM sessions WHERE source_deleted_at IS NOT NULL") == [(0,)]
    must_be_whole(a)


def test_the_bytes_are_in_this_archive_then(desk: Desk) -> None:
    files = demo_files()
    a, b = desk.laptop("a").take({}), desk.laptop("b").take(files)
    a.merge(b)
    before = said(a.db)
    shutil.rmtree(b.db.parent)
    report = rebuild(a.config, NullProgress())
    assert report.carried_sessions == 0
    must_equal(before, said(a.db))
    archive = open_archive_to_read(a.db)
    assert archive is not None
    with closing(archive):
        for session in session_names(files):
            restore(archive, place_below(files_of_session(archive, session), None))
    for name, data in files.items():
        assert (desk.projects.parent / name).read_bytes() == data
    # The restored files are of this machine. Their lines are here already.
    done = sync(a.config, progress=NullProgress())
    assert done.problems == []
    must_equal(before, said(a.db))


def test_sessions_without_bytes_are_copied_as_rows(desk: Desk) -> None:
    files = demo_files()
    a, b = desk.laptop("a").take({}), desk.laptop("b").take(files)
    remove_archive(b)
    report = a.merge(b)
    assert report.files == 0
    assert (
        report.sessions == report.sessions_without_bytes == len(b.rows("SELECT id FROM sessions"))
    )
    must_equal(said(b.db), said(a.db))
    assert a.merge(b).sessions_without_bytes == 0
    must_equal(said(b.db), said(a.db))
    a.sync()
    assert a.rows("SELECT count(*) FROM sessions WHERE source_deleted_at IS NOT NULL") == [(0,)]


def test_lines_that_could_not_be_read_are_copied_with_sessions_without_bytes(desk: Desk) -> None:
    name, data = next((n, d) for n, d in demo_files().items() if n.endswith(".jsonl"))
    a, b = desk.laptop("a").take({}), desk.laptop("b").take({name: data + b"{broken\n"})
    remove_archive(b)
    a.merge(b)
    assert len(a.rows("SELECT * FROM ingest_errors")) == 1
    must_equal(said(b.db), said(a.db))


def test_entries_of_no_session_are_copied_once_if_there_are_no_bytes(desk: Desk) -> None:
    entry = b'{"type":"file-history-snapshot","messageId":"m1","snapshot":{"messageId":"m1"}}\n'
    a = desk.laptop("a").take({})
    b = desk.laptop("b").take({"projects/-work/notes.jsonl": entry})
    remove_archive(b)
    a.merge(b)
    assert len(a.rows("SELECT * FROM events WHERE session_id IS NULL")) == 1
    must_equal(said(b.db), said(a.db))
    a.merge(b)
    must_equal(said(b.db), said(a.db))
    must_be_whole(a)


def test_a_session_without_bytes_that_has_grown_is_copied_again(desk: Desk) -> None:
    files = demo_files()
    name = max(files, key=lambda one: len(files[one]))
    a = desk.laptop("a").take({})
    b = desk.laptop("b")._replace(archive=False)
    b.take({**files, name: half(files[name])})
    a.merge(b)
    b.take({name: files[name]})
    report = a.merge(b)
    if report.sessions_not_updated:
        assert report.sessions_not_updated == [Path(name).stem]
        return
    must_equal(said(b.db), said(a.db))


def test_sessions_without_bytes_beside_a_copy_that_is_here(desk: Desk) -> None:
    files = demo_files()
    first, second = split(files)
    a, b = desk.laptop("a").take(first), desk.laptop("b").take(second)
    remove_archive(b)
    a.merge(b)
    sessions = {one for (one,) in a.rows("SELECT id FROM sessions")}
    assert sessions == {
        one for (one,) in desk.laptop("one").take(files).rows("SELECT id FROM sessions")
    }
    doubled = "SELECT uuid FROM messages WHERE uuid IS NOT NULL GROUP BY 1 HAVING count(*) > 1"
    assert a.rows(doubled) == []
    loose = "SELECT count(*) FROM tool_uses WHERE message_id NOT IN (SELECT id FROM messages)"
    assert a.rows(loose) == [(0,)]


def test_what_was_forgotten_here_stays_out(desk: Desk) -> None:
    files = demo_files()
    gone = session_names(files)[0]
    a, b = desk.laptop("a").take(files), desk.laptop("b").take(files)
    forgetting(a, gone)
    before = said(a.db)
    report = a.merge(b)
    assert report.files_left_out > 0
    assert a.rows(f"SELECT 1 FROM sessions WHERE id = '{gone}'") == []
    must_equal(before, said(a.db))
    for path in a.db.parent.iterdir():
        if path.is_file():
            assert gone.encode() not in path.read_bytes()


def test_what_was_forgotten_there_stays_out(desk: Desk) -> None:
    files = demo_files()
    gone, kept = session_names(files)[:2]
    a = desk.laptop("a").take({n: d for n, d in files.items() if gone not in n})
    b = desk.laptop("b").take(files)
    forgetting(b, gone, kept)
    report = a.merge(b)
    assert report.tombstones == 1
    assert report.forgotten_there == [kept]
    assert a.rows(f"SELECT 1 FROM sessions WHERE id = '{gone}'") == []
    assert a.rows(f"SELECT 1 FROM sessions WHERE id = '{kept}'") == [(1,)]
    a.take(files)  # its transcript comes: it is kept out
    assert a.rows(f"SELECT 1 FROM sessions WHERE id = '{gone}'") == []
    assert a.merge(b).tombstones == 0


def test_prices_of_both_are_kept_and_those_here_win(desk: Desk) -> None:
    a, b = desk.laptop("a").take({}), desk.laptop("b").take({})
    add = (
        "INSERT INTO prices (model, input_usd_per_mtok, output_usd_per_mtok,"
        " cache_write_5m_usd_per_mtok, cache_write_1h_usd_per_mtok, cache_read_usd_per_mtok)"
        " VALUES ('{}', {}, 2, 0, 0, 0)"
    )
    a.run(add.format("one", 1), add.format("both", 1))
    b.run(add.format("two", 1), add.format("both", 9))
    report = a.merge(b)
    assert (report.prices, report.prices_differing) == (1, ["both"])
    found = a.rows("SELECT model, input_usd_per_mtok FROM prices WHERE origin = 'user' ORDER BY 1")
    assert found == [("both", 1.0), ("one", 1.0), ("two", 1.0)]


def test_prompts_and_todos_of_both_are_there(desk: Desk) -> None:
    line = '{{"display": "{0}", "timestamp": {1}, "project": "/p", "pastedContents": {{}}}}\n'
    first = line.format("both", 1_780_000_000_000) + line.format("first", 1_780_000_001_000)
    second = line.format("both", 1_780_000_000_000) + line.format("second", 1_780_000_002_000)
    a = desk.laptop("a").take({"projects/x/a.jsonl": b"", "history.jsonl": first.encode()})
    b = desk.laptop("b").take({"projects/x/a.jsonl": b"", "history.jsonl": second.encode()})
    a.merge(b)
    assert a.rows("SELECT prompt FROM history ORDER BY timestamp") == [
        ("both",),
        ("first",),
        ("second",),
    ]
    a.merge(b)
    assert a.rows("SELECT count(*) FROM history") == [(3,)]


def test_a_dry_run_says_what_would_be_added(desk: Desk) -> None:
    files = demo_files()
    first, second = split(files)
    a, b = desk.laptop("a").take(first), desk.laptop("b").take(second)
    before = set(beside(a.db.parent))
    planned = plan_merge(a.config, b.db)
    assert set(beside(a.db.parent)) - before <= {"ctxdb.db-wal", "ctxdb.db-shm"}
    done = a.merge(b)
    assert (planned.files, planned.bytes, planned.sessions) == (
        done.files,
        done.bytes,
        done.sessions,
    )
    nothing = plan_merge(a.config, b.db)
    assert (nothing.files, nothing.bytes, nothing.sessions) == (0, 0, 0)


def test_a_database_with_a_log_is_read_from_a_copy(desk: Desk) -> None:
    a, b = desk.laptop("a").take({}), desk.laptop("b").take(demo_files())
    with closing(open_writer(b.db)) as conn:
        conn.execute("INSERT INTO _meta VALUES ('x', 'in the log')")
        for suffix in ("", "-wal"):
            shutil.copy(f"{b.db}{suffix}", f"{desk.folder}/copy.db{suffix}")
    shutil.copy(archive_path(b.db), desk.folder / "copy.db.archive")
    before = sorted(path.name for path in desk.folder.iterdir())
    a.sync()
    report = merge(a.config, desk.folder / "copy.db", NullProgress())
    assert report.sessions > 0
    assert sorted(path.name for path in desk.folder.iterdir()) == before
    assert [path for path in a.db.parent.iterdir() if path.name.startswith(".merging")] == []


REFUSED = {
    "missing": "there is no such file",
    "itself": "is this database itself",
    "link": "symbolic link",
    "text": "not a SQLite database",
    "other program": "another program's database",
    "older": "older ctxdb",
    "newer": "newer ctxdb",
    "damaged": "damaged",
    "damaged archive": "archive",
    "empty": "nothing to merge",
    "copy": "is a copy of this database",
}


def spoil(desk: Desk, a: Laptop, b: Laptop, how: str) -> Path:
    path = desk.folder / "other.db"
    if how == "itself":
        return a.db
    if how == "copy":
        shutil.copy(a.db, path)
        return path
    if how == "link":
        path.symlink_to(b.db)
    elif how == "text":
        path.write_text("no database at all\n")
    elif how == "empty":
        path.touch()
    elif how != "missing":
        shutil.copy(b.db, path)
        with closing(sqlite3.connect(path, isolation_level=None)) as conn:
            if how == "other program":
                conn.execute("PRAGMA application_id = 7")
                conn.execute("PRAGMA user_version = 0")
            elif how == "older":
                conn.execute("DELETE FROM _sqlite_migrations WHERE name LIKE '0008%'")
            elif how == "newer":
                conn.execute(
                    "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
                    " VALUES ('ctxdb', '9999_later', '')"
                )
            conn.execute("PRAGMA journal_mode = DELETE")
        if how == "damaged":
            data = bytearray(path.read_bytes())
            data[8192 * 6 : 8192 * 40] = b"\xaa" * (8192 * 34)
            path.write_bytes(data)
        if how == "damaged archive":
            archive_path(path).write_bytes(b"SQLite format 3\0" + b"\xaa" * 5000)
    return path


@pytest.mark.parametrize("how", REFUSED)
def test_what_cannot_be_merged_is_refused_in_one_line(desk: Desk, how: str) -> None:
    files = {name: data for name, data in demo_files().items() if "notes" in name}
    a, b = desk.laptop("a").take(files), desk.laptop("b").take(files)
    path = spoil(desk, a, b, how)
    before = said(a.db)
    beside_it = sorted(one.name for one in desk.folder.iterdir())
    for attempt in (
        lambda: merge(a.config, path, NullProgress()),
        lambda: plan_merge(a.config, path),
    ):
        with pytest.raises(CtxdbError) as raised:
            attempt()
        text = str(raised.value)
        assert REFUSED[how] in text
        assert "\n" not in text
    must_equal(before, said(a.db))
    assert sorted(one.name for one in desk.folder.iterdir()) == beside_it


@pytest.mark.parametrize("kill", thinned([4, 1, 2, 3, 5, 6], 6))
def test_a_killed_merge_is_completed_by_the_next(desk: Desk, kill: int) -> None:
    files = demo_files()
    first, second = split(files)
    a, b = desk.laptop("a").take(first), desk.laptop("b").take(second)
    code = (
        "import sys; from pathlib import Path; from ctxdb.config import Config;"
        "from ctxdb.merge.merge import merge; from ctxdb.progress import NullProgress;"
        "db, other, root = sys.argv[1:];"
        "merge(Config(Path(db), (root,), archive=True), Path(other), NullProgress())"
    )
    a.sit_down()
    env = {**os.environ, "CTXDB_TEST_KILL": f"before_commit:{kill}"}
    done = run_python(code, a.db, b.db, desk.projects, env=env)
    assert done.returncode in (0, -9), done.stderr
    a.merge(b)
    must_equal(said(desk.laptop("one").take(files).db), said(a.db))


def test_the_command_says_what_it_did(desk: Desk) -> None:
    schema = Path(__file__).parents[1] / "docs/schemas/merge.schema.json"
    check = Draft202012Validator(json.loads(schema.read_text()))
    files = {name: data for name, data in demo_files().items() if "notes" in name}
    a, b = desk.laptop("a").take({}), desk.laptop("b").take(files)
    a.sit_down()
    words = ["--db", str(a.db), "merge", str(b.db), "--root", str(desk.projects)]
    for more in (["--dry-run"], []):
        done = run_ctxdb(*words, *more, "--json")
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert [error.message for error in check.iter_errors(answer)] == []
        assert answer["sessions"] == 1
    assert "Nothing new in" in run_ctxdb(*words).stdout
    refused = run_ctxdb("--db", str(a.db), "merge", str(desk.folder / "none.db"))
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)


def test_rows_without_bytes_are_named_as_only_here(desk: Desk) -> None:
    files = {name: data for name, data in demo_files().items() if "notes" in name}
    a = desk.laptop("a").take({})
    a.merge(desk.laptop("b")._replace(archive=False).take(files))
    assert sessions_only_here(a.db) == 1
    with closing(sqlite3.connect(a.db)) as conn:
        assert summarize(a.db, conn).files_not_archived == 0


def real_files() -> dict[str, bytes]:
    with tarfile.open(CORPUS) as tar:
        return {
            member.name.removeprefix("./"): found.read()
            for member in tar.getmembers()
            if (found := tar.extractfile(member)) is not None
        }


@pytest.mark.slow
@pytest.mark.corpus
@HAS_CORPUS
@pytest.mark.parametrize("has_archive", [True, False])
def test_two_halves_of_the_real_transcripts_make_the_whole(desk: Desk, has_archive: bool) -> None:
    files = real_files()
    projects = sorted({name.split("/")[1] for name in files})[::2]
    first = {name: data for name, data in files.items() if name.split("/")[1] in projects}
    second = {name: data for name, data in files.items() if name not in first}
    if has_archive:  # and some on both, at other lengths
        second |= {name: half(data) for name, data in [*first.items()][::9]}
    one = desk.laptop("one").take(files)
    a = desk.laptop("a").take(first)
    b = Laptop(desk, "b", has_archive).take(second)
    a.merge(b)
    money = "SELECT count(*), sum(cost) FROM _costs"
    assert a.rows(money) == one.rows(money)
    must_equal(said(one.db), said(a.db))
    must_be_whole(a)
    again = a.merge(b)
    assert (again.files, again.sessions, again.messages) == (0, 0, 0)
    must_equal(said(one.db), said(a.db))
