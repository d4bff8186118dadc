"""Fault cases 79 to 82, 92 and 100: damaged files, edited rows, links, modes, killed rebuilds.

Whatever is in the file: one line that says what is wrong and what to do, never a traceback.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import stat
from contextlib import closing
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from ctxdb.archive.archive_file import archive_path
from ctxdb.config import Config
from ctxdb.demo import write_demo
from ctxdb.errors import DamagedDatabase, UnsafeDatabase
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from ctxdb.rebuild.rebuild import rebuild
from ctxdb.rebuild.swap import kept_path
from ctxdb.store import integrity
from demo_db import demo_folder
from kill_lab import EVERY_20TH, FILES, STATEMENTS, WRITES, Saved, failures, kills, photographs
from lab import must_equal
from quick_tables import copy_tables
from seen_files import state_of
from snapshot import content
from thinning import thinned
from world import OTHER_SESSION, Done, World, lines, run_python, texts

RUN = "from ctxdb.cli.main import main; main()"
PAGE = 8192


@cache
def prepared() -> Path:
    """The demo with its archive, and some free pages in the database."""
    folder = demo_folder().with_name(demo_folder().name + "-archived")
    if not folder.exists():
        write_demo(folder / "projects")
        db = folder / "data/ctxdb.db"
        sync(Config(db, (str(folder / "projects"),), archive=True), progress=NullProgress())
        with closing(sqlite3.connect(db)) as conn:
            conn.execute("CREATE TABLE junk (text)")
            conn.executemany("INSERT INTO junk VALUES (?)", [("x" * 5000,)] * 40)
            conn.commit()
            conn.execute("DROP TABLE junk")
            conn.commit()
            conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder


@cache
def prepared_content() -> dict[str, list[str]]:
    return content(prepared() / "data/ctxdb.db")


class Ill(NamedTuple):
    """A copy of the demo's database, to be damaged."""

    db: Path
    root: Path

    def run(self, *words: str | Path) -> Done:
        return run_python(RUN, "--db", self.db, *words)


@pytest.fixture(autouse=True)
def _quick_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    copy_tables(monkeypatch)


@pytest.fixture
def ill(tmp_path: Path) -> Ill:
    made = prepared()
    shutil.copytree(made / "data", tmp_path / "data")
    (tmp_path / "data/ctxdb.db.lock").unlink(missing_ok=True)
    return Ill(tmp_path / "data/ctxdb.db", made / "projects")


# -- damage ---------------------------------------------------------------------------------------

PLACES = ("header", "schema", "table", "index", "full text", "free")
EDITS = ("zeros", "noise", "flips", "pointers")
KINDS = [f"{place}: {edit}" for place, edit in product(PLACES, EDITS)]
A_FEW = ["header: zeros", "schema: noise", "table: pointers", "index: flips", "full text: noise"]


def damage(db: Path, kind: str) -> None:
    place, edit = kind.split(": ")
    with closing(sqlite3.connect(db)) as conn:
        roots = dict(conn.execute("SELECT name, rootpage FROM sqlite_master"))
    data = bytearray(db.read_bytes())
    free = int.from_bytes(data[32:36], "big")
    page = {
        "header": 1,
        "schema": 1,
        "table": roots["tool_uses"],
        "index": roots["messages_uuid"],
        "full text": roots["messages_fts_data"],
        "free": free,
    }[place]
    start, size = (page - 1) * PAGE, PAGE
    if place == "header":
        size = 100
    elif place == "schema":
        start, size = 100, PAGE - 100
    noise = random.Random(kind)
    if edit == "zeros":
        data[start : start + size] = bytes(size)
    elif edit == "noise":
        data[start : start + size] = noise.randbytes(size)
    elif edit == "flips":
        for at in range(start, start + min(size, 64)):
            data[at] ^= 0xFF
    else:
        at = start + (16 if place == "header" else 8)
        data[at : at + 40] = b"\xff" * 40
    db.write_bytes(data)


def one_line(done: Done, *codes: int) -> None:
    assert "Traceback" not in done.stderr + done.stdout, done
    assert done.returncode in codes, done
    if done.returncode == 1 and not done.stdout:
        assert done.stderr.count("\n") == 1, done


def must_be_noticed(ill: Ill, kind: str) -> None:
    damage(ill.db, kind)
    before = ill.db.read_bytes()
    for words in (["doctor"], ["verify", "--root", ill.root]):
        done = ill.run(*words)
        one_line(done, 1)
        assert "damaged" in done.stdout + done.stderr, (kind, done)
        assert "ctxdb rebuild" in done.stdout + done.stderr
    one_line(ill.run("sync", "--root", ill.root), 0, 1)
    if "free" not in kind:  # a sync may use these pages
        assert ill.db.read_bytes()[: 1 << 16] == before[: 1 << 16]


@pytest.mark.parametrize("kind", A_FEW)
def test_case_79_a_damaged_page_is_reported_in_one_line(ill: Ill, kind: str) -> None:
    must_be_noticed(ill, kind)


@pytest.mark.crash
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in A_FEW])
def test_case_79_every_kind_of_damage_is_reported_in_one_line(ill: Ill, kind: str) -> None:
    must_be_noticed(ill, kind)


def must_be_repaired(ill: Ill, kind: str) -> None:
    damage(ill.db, kind)
    broken = ill.db.read_bytes()
    config = Config(ill.db, (str(ill.root),), archive=True)
    report = rebuild(config, NullProgress())
    assert report.damage is not None
    assert report.carried_sessions == 0
    must_equal(prepared_content(), content(ill.db))
    assert kept_path(ill.db).read_bytes() == broken
    assert stat.S_IMODE(ill.db.stat().st_mode) == 0o600
    assert integrity.find_damage(ill.db, everything=True) is None


@pytest.mark.parametrize("kind", ["header: zeros", "table: noise"])
def test_case_81_rebuild_repairs_a_damaged_database(ill: Ill, kind: str) -> None:
    must_be_repaired(ill, kind)


@pytest.mark.parametrize("kind", ["header: noise", "schema: zeros", "table: noise"])
def test_case_81_the_command_that_every_message_names_repairs_it(ill: Ill, kind: str) -> None:
    damage(ill.db, kind)
    done = ill.run("verify", "--root", ill.root)
    assert "`ctxdb rebuild` repairs it" in done.stderr
    done = ill.run("rebuild", "--root", ill.root)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done
    must_equal(prepared_content(), content(ill.db))
    assert ill.run("verify", "--root", ill.root).returncode == 0


@pytest.mark.crash
@pytest.mark.parametrize("kind", KINDS)
def test_case_81_rebuild_repairs_every_kind_of_damage(ill: Ill, kind: str) -> None:
    must_be_repaired(ill, kind)


def test_case_81_what_exists_nowhere_else_is_carried_over_from_what_can_be_read(
    world: World,
) -> None:
    world.write(lines(*range(40)))
    gone = world.file(f"p/{OTHER_SESSION}.jsonl")
    world.write(lines(*range(50, 60), sessionId=OTHER_SESSION), gone)
    world.sync()
    gone.unlink()
    world.sync()
    with world.connect(write=True) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damage(world.db, "index: noise")
    with pytest.raises(DamagedDatabase, match="1 session is only in it; `ctxdb rebuild`"):
        world.verify()
    report = rebuild(world.config, NullProgress())
    assert (report.carried_sessions, report.salvaged_rows or 0) > (0, 100)
    assert world.texts() == texts([*range(40), *range(50, 60)])
    world.settled([*range(40), *range(50, 60)])


@pytest.mark.parametrize("garbled", ["\ufffd\x05c34", "0c34e1b2-3be1-4c1b-9d5e-77a1c0b2d3e4"])
def test_case_81_a_damaged_session_id_makes_no_session(ill: Ill, garbled: str) -> None:
    """Nothing is kept as stored because of it: all bytes are there."""
    with closing(sqlite3.connect(ill.db)) as conn:
        (of_message, message) = conn.execute("SELECT session_id, min(id) FROM messages").fetchone()
        conn.execute("UPDATE messages SET session_id = ? WHERE id = ?", (garbled, message))
        if not garbled.isprintable():  # a session alone, without rows
            conn.execute(
                "UPDATE sessions SET id = ? WHERE id = ?", (f"{garbled}{of_message}", of_message)
            )
        conn.commit()
    damage(ill.db, "index: noise")
    report = rebuild(Config(ill.db, (str(ill.root),), archive=True), NullProgress())
    assert report.damage is not None
    assert report.carried_sessions == 0
    must_equal(prepared_content(), content(ill.db))
    said = "\n".join(report.lines())
    assert "damaged" in said
    assert "edited" not in said
    assert "by hand" not in said


@pytest.mark.parametrize("is_schema_gone", [True, False])
def test_case_81_it_is_told_if_what_was_forgotten_cannot_be_read(
    ill: Ill, is_schema_gone: bool
) -> None:
    damage(ill.db, "schema: zeros" if is_schema_gone else "free: noise")
    report = rebuild(Config(ill.db, (str(ill.root),), archive=True), NullProgress())
    told = [line for line in report.lines() if "all of what was forgotten" in line]
    assert bool(told) == is_schema_gone


def test_case_79_a_sync_looks_for_damage_after_a_writer_was_killed_and_once_a_week(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write(lines(0, 1))
    world.sync()
    looked: list[Path] = []
    real = integrity.find_damage
    monkeypatch.setattr(integrity, "find_damage", lambda path: looked.append(path) or real(path))
    world.sync()
    assert len(looked) <= 1  # the first sync has found no database to look at
    looked.clear()
    world.sync()
    assert looked == []
    lock = world.db.with_name(f"{world.db.name}.lock")
    lock.write_text("4194303 1.0\n")  # left by a process that was killed
    world.sync()
    assert looked == [world.db]
    world.change("UPDATE _meta SET value = '2026-01-01T00:00:00+00:00' WHERE key = 'checked'")
    world.sync()
    assert looked == [world.db] * 2


def test_case_79_a_sync_that_finds_damage_exits_1(world: World) -> None:
    world.write(lines(0, 1))
    world.sync()
    with world.connect(write=True) as conn:
        conn.execute("DELETE FROM _meta WHERE key = 'checked'")
        conn.commit()
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damage(world.db, "full text: noise")
    done = world.cli("sync")
    one_line(done, 1)
    assert f"Error: {world.db}: is damaged (" in done.stderr
    assert "no session is only in it; `ctxdb rebuild` repairs it" in done.stderr


def test_a_large_database_is_checked_table_by_table_for_a_bounded_time(
    ill: Ill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(integrity, "SMALL_BYTES", 0)
    integrity.check_if_due(ill.db, after_crash=True)
    with closing(sqlite3.connect(ill.db)) as conn:
        meta = dict(conn.execute("SELECT key, value FROM _meta WHERE key LIKE 'check%'"))
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert meta.keys() == {"checked", "check next"}
    damage(ill.db, "index: noise")
    monkeypatch.setattr(integrity, "CHECK_SECONDS", 60.0)
    with pytest.raises(DamagedDatabase):
        integrity.check_if_due(ill.db, after_crash=True)


# -- edits by hand --------------------------------------------------------------------------------

EVERYWHERE = {  # what is changed, and how
    "a path that is not UTF-8": "UPDATE source_files SET path = CAST(x'2fff2f' || id AS TEXT)",
    "a title that is not UTF-8": "UPDATE sessions SET title = CAST(x'ff41' AS TEXT)",
    "a prompt that is not UTF-8": "UPDATE turns SET prompt = CAST(x'41ff' AS TEXT)",
    "a text that is not UTF-8": "UPDATE messages SET text = CAST(x'41ff' AS TEXT)",
    "an input that is a blob": "UPDATE tool_uses SET input = x'00ff'",
    "an input that is no JSON": "UPDATE tool_uses SET input = 'not {JSON'",
    "data that is no JSON": "UPDATE messages SET data = '{'",
    "events that are no JSON": "UPDATE events SET data = 'x'",
    "text in tokens": "UPDATE usage SET input_tokens = 'many'",
    "text in an offset": "UPDATE source_files SET \"offset\" = 'far'",
    "a negative offset": 'UPDATE source_files SET "offset" = -5',
    "a huge offset": 'UPDATE source_files SET "offset" = 9223372036854775807',
    "text in a place": "UPDATE messages SET byte_start = 'here'",
    "no session": "UPDATE messages SET session_id = NULL",
    "no project": "UPDATE sessions SET project_id = NULL",
    "a project that is not there": "UPDATE sessions SET project_id = 99999",
    "times that are none": "UPDATE sessions SET started_at = 'then', ended_at = 7",
    "timestamps that are blobs": "UPDATE messages SET timestamp = x'00'",
    "a mark that is text": "UPDATE _file_marks SET mark = 'no mark', stat = 5",
    "a root that is a number": "UPDATE _file_marks SET root = 17",
    "a session without an id": "UPDATE sessions SET id = NULL WHERE rowid = 1",
    "numbers in names": "UPDATE tool_uses SET name = 5, target = 1.5",
    "text in line counts": "UPDATE line_counts SET lines = 'three'",
    "a note that is a blob": "UPDATE _meta SET value = x'ff' WHERE key <> 'schema'",
    "agents of no kind": "UPDATE agents SET agent_id = CAST(id AS BLOB), depth = 'deep'",
}
COMMANDS = (
    ("status",),
    ("status", "--json"),
    ("query", "sessions_overview", "--no-sync", "--since", "all"),
    ("query", "daily_usage", "--no-sync", "--since", "all", "--json"),
    ("query", "turns_overview", "--no-sync", "--since", "all", "--format", "csv"),
    ("search", "the", "--no-sync"),
    ("show", "last", "--no-sync", "--tools"),
    ("export", "last", "--no-sync", "--format", "md"),
    ("export", "last", "--no-sync", "--format", "jsonl"),
    ("sync", "--root", "ROOT"),
    ("verify", "--root", "ROOT"),
    ("doctor",),
    ("archive", "status"),
    ("archive", "verify"),
    ("restore", "--list"),
    ("prices", "missing"),
    ("rebuild", "--check", "--root", "ROOT"),
)


def edit(db: Path, sql: str) -> None:
    with closing(sqlite3.connect(db)) as conn:
        conn.execute("PRAGMA ignore_check_constraints = ON")
        conn.execute(sql)
        conn.commit()


def must_survive(ill: Ill, sql: str, *commands: tuple[str, ...]) -> None:
    edit(ill.db, sql)
    saved = Saved(ill.db.parent)
    for words in commands:
        saved.put_back()
        done = ill.run(*(str(ill.root) if word == "ROOT" else word for word in words))
        assert "Traceback" not in done.stderr + done.stdout, (words, done.stderr[-3000:])
        assert done.returncode in (0, 1, 2), (words, done)
        if done.returncode and not done.stdout:
            assert done.stderr.strip(), words


@pytest.mark.parametrize("what", thinned(EVERYWHERE, 5))
def test_case_80_an_edited_value_gives_an_answer_or_one_line(ill: Ill, what: str) -> None:
    """Two commands for each edit, every command for some edit."""
    n = [*EVERYWHERE].index(what)
    chosen = (COMMANDS[n % len(COMMANDS)], COMMANDS[(n * 5 + 3) % len(COMMANDS)])
    must_survive(ill, EVERYWHERE[what], *chosen)


@pytest.mark.crash
@pytest.mark.parametrize("what", EVERYWHERE)
def test_case_80_an_edited_value_gives_an_answer_or_one_line_in_every_command(
    ill: Ill, what: str
) -> None:
    must_survive(ill, EVERYWHERE[what], *COMMANDS)


# -- links and modes ------------------------------------------------------------------------------


def test_case_82_a_hard_link_to_the_database_is_refused(world: World) -> None:
    world.write(lines(0))
    world.sync()
    link = world.db.with_name("link.db")
    os.link(world.db, link)
    for path in (world.db, link):
        with pytest.raises(UnsafeDatabase, match="a hard link"):
            World(world.root, path).sync()
    link.unlink()
    world.sync()
    assert world.texts() == texts([0])


def test_case_82_the_name_that_a_killed_first_sync_has_left_is_removed(world: World) -> None:
    world.write(lines(0))
    world.sync()
    os.link(world.db, world.db.with_name(f"{world.db.name}-building"))
    world.sync()
    assert world.db.stat().st_nlink == 1


@pytest.mark.parametrize("command", [("query", "overview", "--no-sync"), ("status",), ("doctor",)])
def test_case_92_a_database_that_others_can_read_is_fixed_by_any_command(
    ill: Ill, command: tuple[str, ...]
) -> None:
    ill.db.chmod(0o666)
    ill.run(*command)
    assert stat.S_IMODE(ill.db.stat().st_mode) == 0o600


@pytest.mark.parametrize("words", [("query", "overview", "--no-sync"), ("sync",)])
def test_case_92_the_files_beside_it_are_fixed_too(ill: Ill, words: tuple[str, ...]) -> None:
    with closing(sqlite3.connect(ill.db)) as conn:
        conn.execute("UPDATE _meta SET value = value WHERE key = 'checked'")  # makes a log
        conn.execute("SELECT 1 FROM sqlite_master").fetchone()
        conn.commit()
        beside = [ill.db.with_name(f"{ill.db.name}{suffix}") for suffix in ("", "-wal", "-shm")]
        for path in beside:
            path.chmod(0o666)
        given = ("--root", ill.root) if words == ("sync",) else ()
        assert ill.run(*words, *given).returncode == 0
        assert [stat.S_IMODE(path.stat().st_mode) for path in beside] == [0o600] * 3


def test_case_92_it_is_reported_if_it_cannot_be_fixed(
    ill: Ill, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ctxdb.store.connection import open_reader

    ill.db.chmod(0o644)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    open_reader(ill.db).close()
    assert f"other users can read {ill.db}, and it stays so" in capsys.readouterr().err


# -- a rebuild that is killed, or cannot write ----------------------------------------------------


@pytest.fixture
def three_files(world: World) -> World:
    world.write(lines(0, 1))
    world.write(lines(5, sessionId=OTHER_SESSION), world.file(f"p/{OTHER_SESSION}.jsonl"))
    gone = world.write(lines(9, sessionId="gone"), world.file("p/gone.jsonl"))
    world.sync()
    gone.unlink()
    world.sync()
    world.change("DELETE FROM messages WHERE text = 'line 00001'")
    with world.connect(write=True) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return world


# Making a new database takes thousands of statements, so few of the kills are real ones.
OLD, NEW = texts([0, 5, 9]), texts([0, 1, 5, 9])


def rebuild_words(world: World) -> list[str | Path]:
    return ["--db", world.db, "rebuild", "--root", world.root]


class OldOrNew:
    """All rows of one of the two are there, and nothing is damaged; says how many messages.

    The old file stays as it is while the new one is made, so few moments leave something new.
    """

    def __init__(self) -> None:
        self.messages: dict[bytes, int] = {}

    def must_be(self, world: World, moment: int) -> int:
        names = f"{world.db.name}{{}}"
        files = [names.format(end) for end in ("", "-wal", "-shm", "-journal")]
        state = b"".join(state_of(world.db.parent, name) for name in files)
        if state not in self.messages:
            found = world.texts()
            assert found in (OLD, NEW), moment
            assert integrity.find_damage(world.db) is None, moment
            self.messages[state] = len(found)
        return self.messages[state]


@EVERY_20TH
def test_case_100_a_rebuild_killed_at_any_statement_leaves_the_old_or_the_new_database(
    three_files: World, every: int
) -> None:
    world = three_files
    saved = Saved(world.db.parent)
    words = rebuild_words(world)
    checked = OldOrNew()
    seen = {
        checked.must_be(World(world.root, folder / world.db.name), moment)
        for moment, folder in photographs(every, words, world.db.parent, what=[STATEMENTS, FILES])
    }
    assert len(OLD) in seen
    assert checked.must_be(world, -1) == len(NEW)  # it was not killed in the end
    for moment in kills(every * 20, words, saved.put_back):
        checked.must_be(world, moment)
    assert world.texts() == NEW
    world.sync()
    assert list(world.db.parent.glob("*-building*")) == []


@EVERY_20TH
def test_case_100_a_rebuild_killed_at_any_write_leaves_the_old_or_the_new_database(
    three_files: World, every: int
) -> None:
    world = three_files
    saved = Saved(world.db.parent)
    words = rebuild_words(world)
    checked = OldOrNew()
    for moment, folder in photographs(every, words, world.db.parent, what=[WRITES]):
        checked.must_be(World(world.root, folder / world.db.name), moment)
    for moment in kills(every * 20, words, saved.put_back, what=[WRITES]):
        checked.must_be(world, moment)
    assert world.texts() == NEW


@EVERY_20TH
def test_case_100_a_rebuild_that_cannot_write_leaves_the_old_database(
    three_files: World, every: int
) -> None:
    world = three_files
    saved = Saved(world.db.parent)
    words = rebuild_words(world)
    for failed in failures(every * 10 if every > 1 else 1, words, saved.put_back, lasting=True):
        assert world.texts() in (OLD, NEW), failed
        if failed.done.returncode:
            assert failed.done.stderr.count("\n") == 1, failed
        assert archive_path(world.db).exists() is False
    assert world.texts() == NEW
