"""SQL from anybody: it can read this database and nothing else, and it ends."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from ctxdb.errors import CtxdbError, NoDatabase, NotOurDatabase, UsageError
from ctxdb.query import guard
from ctxdb.query.guard import Guarded, TooMuch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from world import World


@pytest.fixture
def db(world: World) -> Iterator[Guarded]:
    """An empty database with one message in it, guarded."""
    with closing(sqlite3.connect(world.db)) as conn:
        conn.execute(
            "INSERT INTO messages (id, uuid, type, kind, text, is_sidechain)"
            " VALUES (1, 'u', 'user', 'human', 'tide tables', 0)"
        )
        conn.execute("INSERT INTO messages_fts(messages_fts) VALUES ('rebuild')")
        conn.commit()
    guarded = Guarded(world.db)
    yield guarded
    guarded.close()


def ask(db: Guarded, sql: str, **values: Any) -> list[tuple[Any, ...]]:
    with db.asking() as conn:
        return conn.execute(sql, values).fetchall()


# -- what reading needs -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT text FROM messages",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 9) SELECT i FROM n",
        "SELECT snippet(messages_fts, 0, '[', ']', '…', 9) FROM messages_fts('tide')",
        "SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'tide'",
        "SELECT highlight(messages_fts, 0, '', ''), bm25(messages_fts) FROM messages_fts('tables')",
        "SELECT value FROM json_each('[1, 2]')",
        "SELECT key FROM json_tree('{\"a\": 1}')",
        "SELECT name FROM pragma_table_info('messages')",
        "PRAGMA table_info(messages)",
        "PRAGMA journal_mode",
        "EXPLAIN QUERY PLAN SELECT * FROM messages",
        "SELECT sum(id) OVER (ORDER BY id) FROM messages",
        "SELECT name FROM sqlite_master",
        "SELECT * FROM schema_docs",
        "VALUES (1), (2)",
    ],
)
def test_reading_works(db: Guarded, sql: str) -> None:
    assert ask(db, sql)


def test_text_that_is_no_utf_8_is_shown_all_the_same(db: Guarded) -> None:
    assert ask(db, "SELECT CAST(x'61ff' AS TEXT)") == [("a\ufffd",)]


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM messages",
        "INSERT INTO _meta VALUES ('a', 'b')",
        "UPDATE messages SET text = NULL",
        "UPDATE sqlite_master SET sql = ''",
        "REPLACE INTO _meta VALUES ('a', 'b')",
        "WITH x AS (SELECT 1) DELETE FROM messages",
        "INSERT INTO messages_fts(messages_fts) VALUES ('rebuild')",
        "DROP TABLE messages",
        "ALTER TABLE messages RENAME TO mine",
        "CREATE TABLE x (a)",
        "CREATE TEMP TABLE x (a)",
        "CREATE TEMP VIEW x AS SELECT 1",
        "CREATE VIRTUAL TABLE temp.x USING fts5(a)",
        "CREATE INDEX x ON messages (text)",
        "CREATE TRIGGER x AFTER DELETE ON messages BEGIN SELECT 1; END",
        "ATTACH 'evil.db' AS evil",
        "ATTACH ':memory:' AS evil",
        "DETACH main",
        "VACUUM",
        "VACUUM INTO 'evil.db'",
        "REINDEX",
        "ANALYZE",
        "BEGIN",
        "BEGIN IMMEDIATE",
        "SAVEPOINT x",
        "PRAGMA query_only = 0",
        "PRAGMA writable_schema = 1",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA user_version = 7",
        "PRAGMA temp_store_directory = '.'",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "PRAGMA hard_heap_limit = 0",
        "SELECT * FROM pragma_journal_mode('delete')",
        "SELECT load_extension('evil.so')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('evil', 'x')",
        "SELECT edit('x')",
        "SELECT * FROM fsdir('/')",
        "SELECT 1; SELECT 2",
        "SELECT 1; DELETE FROM messages",
    ],
)
def test_everything_else_is_refused_in_one_line(db: Guarded, sql: str, world: World) -> None:
    before = world.db.read_bytes()
    with pytest.raises(UsageError) as refused:
        ask(db, sql)
    assert "\n" not in str(refused.value)
    db.close()
    assert world.db.read_bytes() == before
    assert not list(world.db.parent.glob("*evil*"))


def test_attach_makes_no_file_beside_it(db: Guarded, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only reading"):
        ask(db, "ATTACH :path AS evil", path=str(tmp_path / "evil.db"))
    assert not (tmp_path / "evil.db").exists()


def test_a_missing_value_is_asked_for_by_its_name(db: Guarded) -> None:
    with pytest.raises(UsageError, match="-p path VALUE"):
        ask(db, "SELECT :path")


def test_bad_sql_is_the_user_s_mistake(db: Guarded) -> None:
    with pytest.raises(UsageError, match="no such column: nope"):
        ask(db, "SELECT nope FROM messages")
    with pytest.raises(UsageError, match="syntax error"):
        ask(db, "SELEC 1")


def test_a_file_that_is_no_database_and_none_at_all(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("hello, I am a text file")
    with pytest.raises(NotOurDatabase):
        Guarded(tmp_path / "x.db")
    with pytest.raises(NoDatabase):
        Guarded(tmp_path / "none.db")


# -- queries of death ---------------------------------------------------------------------------

COUNTING = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
ENDLESS = {
    "recursive CTE": f"{COUNTING} SELECT count(*) FROM n",
    "cartesian join": "WITH n(i) AS (SELECT value FROM json_each('[1,2,3,4,5,6,7,8,9,10]'))"
    " SELECT count(*) FROM n a, n b, n c, n d, n e, n f, n g, n h, n i, n j, n k, n l, n m",
    "endless search for a row": f"{COUNTING} SELECT i FROM n WHERE i < 0",
    "endless randomblob": f"{COUNTING} SELECT sum(length(randomblob(9999))) FROM n",
}


@pytest.mark.parametrize("sql", ENDLESS.values(), ids=ENDLESS.keys())
def test_case_78_an_endless_query_is_stopped_at_the_time_limit(world: World, sql: str) -> None:
    with (
        closing(Guarded(world.db, seconds=0.2)) as db,
        pytest.raises(TooMuch, match=r"0\.2 seconds"),
    ):
        ask(db, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT hex(zeroblob(400000000))",
        "SELECT replace(hex(zeroblob(4e8)), '0', 'abc')",
        "SELECT length(randomblob(400000000))",
        "SELECT group_concat(zeroblob(30000000)) FROM (VALUES (1), (2))",
        "SELECT 'x' LIKE :pattern",
    ],
)
def test_case_78_a_value_that_is_too_large_is_refused(db: Guarded, sql: str) -> None:
    values = {"pattern": "%a" * 1000} if ":pattern" in sql else {}
    with pytest.raises(CtxdbError):
        ask(db, sql, **values)


def test_case_78_a_sort_that_needs_too_much_memory_is_stopped(world: World) -> None:
    # In a process of its own: the limit is SQLite's, for the whole process and for good.
    code = f"""
from pathlib import Path
from ctxdb.query import guard
guard.SQLITE_BYTES = 20 << 20
db = guard.Guarded(Path({str(world.db)!r}))
try:
    with db.asking() as conn:
        conn.execute('''WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000)
            SELECT i, hex(randomblob(500)) AS x FROM n ORDER BY x''').fetchone()
except guard.TooMuch as e:
    print(e)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "memory" in out.stdout


def test_case_78_a_single_step_that_nothing_interrupts_ends_the_process(world: World) -> None:
    code = f"""
from pathlib import Path
from ctxdb.query import guard
guard.GRACE_SECONDS = 0.5
db = guard.Guarded(Path({str(world.db)!r}), seconds=0.5, hard=True)
with db.asking() as conn:
    needle = "CAST(zeroblob(9000000) || 'x' AS BLOB)"
    conn.execute(f"SELECT instr(zeroblob(40000000), {{needle}})").fetchall()
print("it ended")
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (out.returncode, out.stdout) == (1, "")
    assert out.stderr == "Error: stopped after 0.5 seconds\n"


def test_the_clock_stops_between_two_questions(world: World) -> None:
    with closing(Guarded(world.db, seconds=5.0)) as db:
        ask(db, "SELECT 1")
        assert db._left > 0
        db._until = 0.0  # as if long ago
        assert ask(db, "SELECT 1") == [(1,)]


def test_all_questions_together_have_the_time(world: World) -> None:
    with closing(Guarded(world.db, seconds=5.0)) as db:
        db._left = -1.0
        with pytest.raises(TooMuch):
            ask(db, ENDLESS["recursive CTE"])


def test_ctrl_c_in_the_middle_is_ctrl_c(world: World) -> None:
    class Interrupted(Guarded):
        def _is_over(self) -> bool:
            os.kill(os.getpid(), signal.SIGINT)
            return super()._is_over()

    sqlite3.enable_callback_tracebacks(False)  # other packages turn it on for the whole process
    with closing(Interrupted(world.db)) as db, pytest.raises(KeyboardInterrupt):
        ask(db, ENDLESS["recursive CTE"])


def test_memory_is_limited_and_never_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: asked.append(pair))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 30, 1 << 30))
    guard.limit_memory()
    assert asked == [(1 << 30, 1 << 30)]
