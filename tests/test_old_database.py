"""A database that an earlier version has made is made again, or refused and left as it is."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ctxdb.errors import OldDatabase
from ctxdb.files.identity import mark_of
from ctxdb.ingest import first_sync
from ctxdb.store.connection import APPLICATION_ID
from ctxdb.store.version import steps
from live_lab import Live, has
from quick_tables import copy_tables
from thinning import thinned
from world import OTHER_SESSION, Done, World, line, lines, texts

DATA = Path(__file__).parent / "data"
# Each schema that was ever in use before 0001_schema, with its steps.
OLD_SCHEMAS = {
    "old_schema.sql": (
        *("0001_initial", "0002_costs", "0003_view_indexes", "0004_present", "0005_search"),
    ),
    "old_schema_tables.sql": ("0001_tables",),
}
PRICE = (
    "INSERT INTO prices (model, input_usd_per_mtok, output_usd_per_mtok,"
    " cache_write_5m_usd_per_mtok, cache_write_1h_usd_per_mtok, cache_read_usd_per_mtok, origin)"
    " VALUES ('mine', 1, 2, 3, 4, 5, 'user')"
)


@pytest.fixture(autouse=True)
def _quick_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    copy_tables(monkeypatch)


@pytest.fixture(params=OLD_SCHEMAS)
def old(world: World, request: pytest.FixtureRequest) -> World:
    """A world whose database is an old one, made from two files."""
    return made_old(world, request.param)


@pytest.fixture(params=thinned(OLD_SCHEMAS, 2))
def any_old(world: World, request: pytest.FixtureRequest) -> World:
    """The same, for what does not look at the old tables: one schema, in `make check` each."""
    return made_old(world, request.param)


def made_old(world: World, schema: str) -> World:
    world.write(lines(0, 1))
    world.write(line(7, sessionId=OTHER_SESSION), second(world))
    make_old(world, world.main, second(world), schema=schema)
    return world


def second(world: World) -> Path:
    return world.file(f"-work-tides/{OTHER_SESSION}.jsonl")


def make_old(
    world: World, *read: Path, root: Path | None = None, schema: str = "old_schema.sql"
) -> None:
    """Put an old database in place of the empty one; these files have been read."""
    world.db.unlink(missing_ok=True)
    with closing(sqlite3.connect(world.db, isolation_level=None)) as conn:
        conn.execute("PRAGMA page_size = 8192")
        conn.execute("PRAGMA journal_mode = WAL")
        conn.executescript((DATA / schema).read_text())
        conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        conn.execute(
            'CREATE TABLE "_sqlite_migrations"'
            ' ("id" INTEGER PRIMARY KEY, "migration_set" TEXT, "name" TEXT, "applied_at" TEXT)'
        )
        conn.executemany(
            "INSERT INTO _sqlite_migrations (migration_set, name) VALUES ('ctxdb', ?)",
            [(name,) for name in OLD_SCHEMAS[schema]],
        )
        conn.execute("CREATE VIEW overview AS SELECT count(*) AS sessions FROM sessions")
        conn.execute("INSERT INTO _meta VALUES ('views', 'overview')")
        for path in read:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                mark = mark_of(file.fileno(), size)
            file_id = conn.execute(
                "INSERT INTO source_files (path, size, \"offset\", state) VALUES (?, ?, ?, 'ok')",
                (str(path), size, size),
            ).lastrowid
            marks = (mark, str(root or world.root), file_id)
            if schema == "old_schema.sql":
                sql = "UPDATE source_files SET mark = ?, root = ? WHERE id = ?"
            else:
                sql = "INSERT INTO _file_marks (mark, root, source_file_id) VALUES (?, ?, ?)"
            conn.execute(sql, marks)
        conn.execute(PRICE)


def refused(world: World, before: bytes, done: Done, *words: str) -> None:
    """One line, exit code 1, and the file is as it was."""
    assert (done.returncode, done.stdout) == (1, ""), done
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(f"Error: {world.db}: made by an earlier version of ctxdb")
    for word in words:
        assert word in done.stderr
    unchanged(world, before)


def unchanged(world: World, before: bytes) -> None:
    assert world.db.read_bytes() == before
    assert list(world.db.parent.glob("*-building*")) == []


def made_again(world: World) -> None:
    assert world.texts() == texts([0, 1, 7])
    assert [name for (name,) in world.ask("SELECT name FROM _sqlite_migrations")] == steps()
    assert world.ask("SELECT model, origin FROM prices WHERE origin = 'user'") == [("mine", "user")]
    assert list(world.db.parent.glob("*-building*")) == []
    assert world.db.stat().st_mode & 0o777 == 0o600
    world.settled([0, 1, 7])


def test_sync_makes_it_again_when_every_source_exists(old: World) -> None:
    report = old.sync()
    assert (report.rebuilt, report.lines_read) == (True, 3)
    made_again(old)
    assert old.sync().rebuilt is False


def test_many_transcripts_are_read_by_other_processes(
    any_old: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_sync, "MIN_BYTES", 1)
    monkeypatch.setattr(first_sync.os, "cpu_count", lambda: 2)
    assert any_old.sync().lines_read == 3
    made_again(any_old)


def test_lines_that_have_come_since_are_read_too(any_old: World) -> None:
    any_old.append(lines(2))
    assert any_old.cli("sync").returncode == 0
    assert any_old.texts() == texts([0, 1, 2, 7])


def test_the_command_says_that_it_was_made_again(any_old: World) -> None:
    done = any_old.cli("sync")
    assert done.returncode == 0
    assert "made by an earlier version of ctxdb; it has been made again." in done.stdout
    made_again(any_old)


def test_deleted_prices_stay_deleted(any_old: World) -> None:
    any_old.sync()
    shipped = "SELECT model, coalesce(effective_from, ''), prompt_tokens_gt FROM prices"
    model, since, size = any_old.ask(f"{shipped} WHERE origin = 'shipped'").pop()
    make_old(any_old, any_old.main, second(any_old))
    any_old.change("INSERT INTO _deleted_prices VALUES (?, ?, ?)", model, since, size)
    any_old.sync()
    assert (model, since, size) not in any_old.ask(shipped)
    assert (model, since, size) in any_old.ask("SELECT * FROM _deleted_prices")


def test_tables_and_views_of_ones_own_are_kept(old: World) -> None:
    old.change("CREATE TABLE notes (id INTEGER PRIMARY KEY, note TEXT)")
    old.change("INSERT INTO notes VALUES (3, 'ask again')")
    old.change("CREATE INDEX notes_note ON notes(note)")
    old.change("CREATE VIEW my_sessions AS SELECT id FROM sessions")
    old.sync()
    assert old.ask("SELECT * FROM notes") == [(3, "ask again")]
    assert len(old.ask("SELECT * FROM my_sessions")) == 2
    assert old.one("SELECT count(*) FROM sqlite_master WHERE name = 'notes_note'") == 1
    assert old.one("SELECT count(*) FROM sqlite_master WHERE name = '_tellings'") == 0


def test_files_of_other_roots_are_read_again_too(any_old: World, tmp_path: Path) -> None:
    other = tmp_path / "backup/-p" / f"{OTHER_SESSION}.jsonl"
    other.parent.mkdir(parents=True)
    second(any_old).rename(other)
    make_old(any_old, other, root=tmp_path / "backup")
    any_old.sync()
    assert any_old.texts() == texts([0, 1, 7])


@pytest.mark.parametrize("how", ["deleted", "shorter", "other"])
def test_it_is_refused_and_unchanged_when_a_source_is_gone(old: World, how: str) -> None:
    if how == "deleted":
        second(old).unlink()
    elif how == "shorter":
        os.truncate(second(old), 10)
    else:
        old.write(line(8, sessionId=OTHER_SESSION), second(old))
    before = old.db.read_bytes()
    refused(old, before, old.cli("sync"), str(second(old)), "--db FILE")
    refused(old, before, old.cli("query", "overview", "--no-sync"), "`ctxdb sync`")
    with pytest.raises(OldDatabase):
        old.sync()
    unchanged(old, before)


def test_it_is_refused_when_lines_are_only_in_it(old: World) -> None:
    old.change(
        "INSERT INTO messages (type, kind, source_file_id, byte_start, byte_length)"
        " VALUES ('user', 'human', 1, 0, -20)"
    )
    before = old.db.read_bytes()
    refused(old, before, old.cli("sync"), str(old.main))


@pytest.mark.parametrize(
    "command",
    [
        ("query", "overview", "--no-sync"),
        ("query", "SELECT 1", "--no-sync"),
        ("search", "line", "--no-sync"),
        ("show", "last", "--no-sync"),
        ("status",),
        ("verify",),
        ("prices", "list"),
        ("prices", "reset", "mine"),
    ],
    ids=" ".join,
)
def test_every_command_that_does_not_sync_refuses_it(
    any_old: World, command: tuple[str, ...]
) -> None:
    before = any_old.db.read_bytes()
    refused(
        any_old, before, any_old.cli(*command), "`ctxdb sync` makes it again from its transcripts"
    )


def test_a_query_that_syncs_makes_it_again_first(any_old: World) -> None:
    env = {**os.environ, "CLAUDE_CONFIG_DIR": str(any_old.root.parent)}
    done = any_old.cli("query", "SELECT count(*) AS n FROM messages", "--format", "csv", env=env)
    assert done.stdout == "n\n3\n", done.stderr
    assert "making it again" in done.stderr
    made_again(any_old)


def test_a_query_leaves_it_alone_when_it_is_made_from_other_folders(any_old: World) -> None:
    before = any_old.db.read_bytes()
    env = {**os.environ, "CLAUDE_CONFIG_DIR": str(any_old.root.parent / "another")}
    refused(any_old, before, any_old.cli("query", "overview", env=env))


def test_the_daemon_makes_it_again(any_old: World) -> None:
    with Live(any_old):
        has(any_old, 3)
        any_old.append(lines(2))
        has(any_old, 4)
    assert any_old.texts() == texts([0, 1, 2, 7])


def test_the_daemon_ends_with_one_line_when_a_source_is_gone(any_old: World) -> None:
    second(any_old).unlink()
    before = any_old.db.read_bytes()
    live = Live(any_old)
    assert live.process.wait(60) == 1
    assert f"{second(any_old)} is gone" in live.stderr()
    unchanged(any_old, before)


@pytest.mark.parametrize("point", thinned(["after_commit", "before_commit"], 2))
def test_killed_midway_it_leaves_the_old_file(any_old: World, point: str) -> None:
    settings = Path(os.environ["XDG_CONFIG_HOME"], "ctxdb/config.toml")
    settings.parent.mkdir(parents=True)
    settings.write_text("archive = false\n")  # else something is noted after the swap
    before = any_old.db.read_bytes()
    kills = 0
    while True:
        env = {**os.environ, "CTXDB_TEST_KILL": f"{point}:{kills + 1}"}
        done = any_old.cli("sync", env=env)
        if done.returncode == 0:
            break
        assert done.returncode == -9
        assert any_old.db.read_bytes() == before
        kills += 1
    assert kills >= 3
    made_again(any_old)


def test_killed_just_before_the_swap_it_leaves_the_old_file(any_old: World) -> None:
    before = any_old.db.read_bytes()
    code = (
        "import os; from ctxdb.ingest import old_database;"
        " old_database.put_in_place = lambda *_, **__: os.kill(os.getpid(), 9);"
        " from ctxdb.cli.main import main; main()"
    )
    assert any_old.cli("sync", code=code).returncode == -9
    assert any_old.db.read_bytes() == before
    any_old.sync()
    made_again(any_old)


def test_a_log_beside_the_old_file_is_not_read_into_the_new_one(any_old: World) -> None:
    with closing(sqlite3.connect(any_old.db)) as reader:
        assert reader.execute("SELECT count(*) FROM _meta").fetchone()
        with closing(sqlite3.connect(any_old.db)) as writer:
            writer.execute("INSERT INTO _meta VALUES ('late', '1')")
            writer.commit()
        assert any_old.db.with_name(f"{any_old.db.name}-wal").stat().st_size
        any_old.sync()
        made_again(any_old)
        assert reader.execute("SELECT count(*) FROM sqlite_master").fetchone()


def test_while_another_program_reads_it_the_old_one_stays(any_old: World) -> None:
    code = (
        "from ctxdb.ingest import sync; sync.sync.__kwdefaults__['busy'] = 0.1;"
        " from ctxdb.cli.main import main; main()"
    )
    with closing(sqlite3.connect(any_old.db, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM _meta").fetchall()
        with closing(sqlite3.connect(any_old.db)) as writer:
            writer.execute("INSERT INTO _meta VALUES ('late', '1')")
            writer.commit()
        done = any_old.cli("sync", code=code)
        assert done.returncode == 1
        assert "another program has it open" in done.stderr
        assert any_old.one("SELECT count(*) FROM _meta WHERE key = 'late'") == 1
    any_old.sync()
    made_again(any_old)
