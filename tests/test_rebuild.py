"""All rows are derived again; what no bytes are left of is carried over."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from ctxdb.config import Config
from ctxdb.demo import write_demo
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from ctxdb.rebuild.carry import carry_sessions
from ctxdb.rebuild.rebuild import rebuild
from ctxdb.rebuild.session_rows import FILE_PARTS, PARTS
from ctxdb.rebuild.swap import kept_path
from ctxdb.store.connection import open_old, open_writer
from ctxdb.store.kept import KEPT_TABLES
from ctxdb.store.schema import prepare
from demo_db import demo_folder
from lab import must_equal
from quick_tables import copy_tables
from snapshot import content
from world import OTHER_SESSION, World, line, lines, texts

if TYPE_CHECKING:
    from pathlib import Path

    from ctxdb.rebuild.report import RebuildReport


@pytest.fixture(autouse=True)
def _quick_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    copy_tables(monkeypatch)


def again(world: World, *, check_only: bool = False) -> RebuildReport:
    return rebuild(world.config, NullProgress(), check_only=check_only)


def archiving(world: World) -> None:
    sync(world.config._replace(archive=True), progress=NullProgress())


def second(world: World) -> Path:
    return world.file(f"-work-tides/{OTHER_SESSION}.jsonl")


def two_sessions(world: World) -> None:
    world.write(lines(0, 1))
    world.write(lines(7, 8, sessionId=OTHER_SESSION), second(world))


def differing(report: RebuildReport) -> dict[str, tuple[int, int, int, int]]:
    """What differs: new, back, gone, changed."""
    return {
        one.table: (one.new, one.back, one.gone, one.changed)
        for one in report.changes.tables
        if one.differs
    }


def test_all_rows_are_the_same_when_nothing_has_changed(world: World) -> None:
    two_sessions(world)
    world.sync()
    before = content(world.db)
    report = again(world)
    assert (report.is_swapped, report.lines_read, report.carried_sessions) == (True, 4, 0)
    assert differing(report) == {}
    assert "All rows are the same as before." in [*report.lines()]
    must_equal(before, content(world.db))
    world.settled([0, 1, 7, 8])
    assert kept_path(world.db).stat().st_mode & 0o777 == 0o600
    must_equal(before, content(kept_path(world.db)))


def test_entries_of_no_session_are_kept_if_their_file_is_gone(world: World) -> None:
    two_sessions(world)
    entry = b'{"type":"file-history-snapshot","messageId":"m1","snapshot":{"messageId":"m1"}}\n'
    notes = world.file("-work-tides/notes.jsonl")
    notes.write_bytes(entry + b"{broken\n")
    world.sync()
    notes.unlink()
    world.sync()
    before = content(world.db)
    assert differing(again(world)) == {}
    must_equal(before, content(world.db))


def test_the_demo_is_the_same_from_the_archive_alone(home: Path) -> None:
    write_demo(home / ".claude/projects")
    config = Config(home / "data/ctxdb.db", (str(home / ".claude/projects"),), archive=True)
    sync(config, progress=NullProgress())
    before = content(config.db_path)
    first_seen = "SELECT path, first_seen_at FROM source_files ORDER BY path"
    with closing(open_old(config.db_path)) as conn:
        seen = conn.execute(first_seen).fetchall()
    shutil.rmtree(home / ".claude")
    report = rebuild(config, NullProgress())
    assert report.from_archive == report.transcripts > 10
    assert (report.carried_sessions, report.problems) == (0, [])
    after = content(config.db_path)
    after["source_files"] = [row.replace("'missing'", "'ok'") for row in after["source_files"]]
    must_equal(before, after)
    with closing(open_old(config.db_path)) as conn:
        assert conn.execute(first_seen).fetchall() == seen


def test_sessions_without_bytes_are_carried_over_whole_and_marked(world: World) -> None:
    two_sessions(world)
    world.sync()
    second(world).unlink()
    world.sync()
    deleted = world.one("SELECT max(source_deleted_at) FROM sessions")
    before = content(world.db)
    report = again(world)
    assert (report.carried_sessions, report.lines_read) == (1, 2)
    must_equal(before, content(world.db))
    assert world.one("SELECT max(source_deleted_at) FROM sessions") == deleted
    assert world.one("SELECT session_id FROM _carried_sessions") == OTHER_SESSION
    assert "1 session carried over as stored" in "\n".join(report.lines())
    world.settled([0, 1, 7, 8])
    # What is carried over is carried over again.
    assert again(world).carried_sessions == 1
    must_equal(before, content(world.db))


def test_a_carried_session_goes_on_when_its_file_comes_back(world: World) -> None:
    two_sessions(world)
    world.sync()
    data = second(world).read_bytes()
    second(world).unlink()
    world.sync()
    again(world)
    world.write(data + line(9, sessionId=OTHER_SESSION), second(world))
    assert world.sync().lines_read == 1
    world.settled([0, 1, 7, 8, 9])


def test_every_demo_session_can_be_carried_over(tmp_path: Path) -> None:
    source = tmp_path / "old.db"
    shutil.copy(demo_folder() / "demo.db", source)
    target = tmp_path / "new.db"
    with closing(open_old(source)) as old, closing(open_writer(target)) as new:
        prepare(new, target)
        sessions = {found for (found,) in old.execute("SELECT id FROM sessions")}
        done = carry_sessions(sessions, old, new)
        assert done.sessions == len(sessions)
        assert carry_sessions(sessions, old, new).sessions == 0
        assert new.execute("PRAGMA foreign_key_check").fetchall() == []
        for name in ("messages_fts", "tool_uses_fts", "turns_fts", "sessions_fts"):
            new.execute(f"INSERT INTO {name}({name}, rank) VALUES ('integrity-check', 1)")
    before, after = content(source), content(target)
    for beside in ("history", "plans", "todos"):  # of files, not of sessions
        before.pop(beside), after.pop(beside)
    must_equal(before, after)


def test_sessions_can_be_carried_into_a_database_that_has_others(world: World) -> None:
    two_sessions(world)
    world.sync()
    target = world.db.with_name("target.db")
    with closing(open_writer(target)) as new:
        prepare(new, target)
    other = World(world.root.parent / "elsewhere", target)
    other.root.mkdir()
    other.write(lines(20, 21, sessionId="5e551000-0000-4000-8000-00000000000c"))
    other.sync()
    with closing(open_old(world.db)) as old, closing(open_writer(target)) as new:
        assert carry_sessions({OTHER_SESSION}, old, new).sessions == 1
    assert other.texts() == texts([7, 8, 20, 21])
    assert other.one("SELECT count(*) FROM turns t JOIN messages m ON m.id = t.message_id") == 4
    assert other.ask("PRAGMA foreign_key_check") == []


def test_lines_that_a_rewritten_file_has_lost_are_kept(world: World) -> None:
    two_sessions(world)
    world.sync()
    world.write(lines(0))
    world.sync()
    before = content(world.db)
    report = again(world)
    assert report.carried_sessions == 1
    must_equal(before, content(world.db))


def test_they_come_from_the_archive_if_it_has_the_older_generation(world: World) -> None:
    two_sessions(world)
    archiving(world)
    world.write(lines(0))
    archiving(world)
    before = content(world.db)
    report = again(world)
    assert report.carried_sessions == 0
    must_equal(before, content(world.db))


def test_new_lines_and_rows_deleted_or_edited_by_hand_are_told_apart(world: World) -> None:
    two_sessions(world)
    world.sync()
    world.change("DELETE FROM messages WHERE text = 'line 00000'")
    world.change("UPDATE messages SET text = 'edited' WHERE text = 'line 00001'")
    world.append(line(9, sessionId=OTHER_SESSION), second(world))
    report = again(world)
    found = differing(report)
    assert found["messages"] == (1, 1, 0, 1)
    (messages,) = [one for one in report.changes.tables if one.table == "messages"]
    assert messages.columns == {"text": 1}
    said = "\n".join(report.lines())
    assert "messages: 3 rows, now 5: 1 new, 1 back, 1 changed (in text)" in said
    assert "deleted by hand, and their lines are still there" in said
    world.settled([0, 1, 7, 8, 9])


def test_with_check_nothing_is_changed(world: World) -> None:
    two_sessions(world)
    world.sync()
    world.change("DELETE FROM messages WHERE text = 'line 00000'")
    before = content(world.db)
    report = again(world, check_only=True)
    assert (report.is_swapped, report.kept) == (False, None)
    assert differing(report)["messages"] == (0, 1, 0, 0)
    must_equal(before, content(world.db))
    names = {path.name for path in world.db.parent.iterdir()}
    assert names - {"ctxdb.db-wal", "ctxdb.db-shm"} == {"ctxdb.db", "ctxdb.db.lock"}


def test_prices_tables_and_views_of_the_user_are_kept(world: World) -> None:
    two_sessions(world)
    world.sync()
    shipped = world.one("SELECT model FROM prices WHERE origin = 'shipped' LIMIT 1")
    world.change("DELETE FROM prices WHERE model = ?", shipped)
    world.change(
        "INSERT INTO prices (model, input_usd_per_mtok, output_usd_per_mtok,"
        " cache_write_5m_usd_per_mtok, cache_write_1h_usd_per_mtok, cache_read_usd_per_mtok,"
        " prompt_tokens_gt, origin) VALUES ('mine', 1, 2, 3, 4, 5, 0, 'user')"
    )
    world.change("CREATE TABLE notes (text TEXT)")
    world.change("INSERT INTO notes VALUES ('kept')")
    world.change("CREATE VIEW my_view AS SELECT text FROM notes")
    world.change("INSERT INTO _meta VALUES ('key test', 'abc')")
    again(world)
    assert world.one("SELECT input_usd_per_mtok FROM prices WHERE model = 'mine'") == 1
    assert world.ask("SELECT 1 FROM prices WHERE model = ?", shipped) == []
    assert world.ask("SELECT text FROM my_view") == [("kept",)]
    assert world.one("SELECT value FROM _meta WHERE key = 'key test'") == "abc"
    world.sync()
    assert world.ask("SELECT 1 FROM prices WHERE model = ?", shipped) == []


def test_a_program_that_has_the_database_open_sees_the_new_rows(world: World) -> None:
    two_sessions(world)
    world.sync()
    world.change("DELETE FROM messages WHERE text = 'line 00000'")
    with world.connect() as reader:
        count = "SELECT count(*) FROM messages"
        reader.execute("BEGIN")
        assert reader.execute(count).fetchone() == (3,)
        inode = world.db.stat().st_ino
        again(world)
        assert reader.execute(count).fetchone() == (3,)  # its transaction goes on
        reader.execute("COMMIT")
        assert reader.execute(count).fetchone() == (4,)
        assert world.db.stat().st_ino == inode


def test_the_kept_database_is_deleted_on_demand(world: World) -> None:
    two_sessions(world)
    world.sync()
    done = world.cli("rebuild")
    assert done.returncode == 0, done
    assert kept_path(world.db).exists()
    assert f"is kept: {kept_path(world.db)}" in done.stdout
    done = world.cli("rebuild", "--drop-old")
    assert (done.returncode, kept_path(world.db).exists()) == (0, False)
    assert world.cli("rebuild", "--drop-old").returncode == 0


def test_every_table_is_derived_carried_or_kept(world: World) -> None:
    """A new table is added to PARTS (rebuild/session_rows.py) or KEPT_TABLES (store/kept.py)."""
    made = {
        "_session_changes",
        "README",
        "_schema_docs",
        "_model_names",
        "_meta",
        "_sqlite_migrations",
    }
    beside = {"_side_files", "history", "_history_lines", "_history_places", "_turn_texts"}
    known = {*made, *beside, "projects", "source_files", "_carried_sessions"}
    known |= {part.table for part in (*PARTS, *FILE_PARTS)}
    known |= {table.name for table in KEPT_TABLES}
    tables = {
        name
        for (name,) in world.ask("SELECT name FROM sqlite_master WHERE type = 'table'")
        if "_fts" not in name and not name.startswith("sqlite_")
    }
    assert tables - known == set()
    assert known - tables == set()


def test_too_little_space_is_said_before_anything_is_done(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_sessions(world)
    world.sync()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 1000))
    with pytest.raises(Exception, match="are needed to make the database again") as e:
        again(world)
    assert "nothing was changed" in str(e.value)


def test_another_writer_is_not_disturbed(world: World) -> None:
    two_sessions(world)
    world.sync()
    with sqlite3.connect(world.db) as conn:
        conn.execute("UPDATE sessions SET slug = slug")
    conn.close()
    assert again(world).is_swapped
