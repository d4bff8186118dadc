"""The faults that the other tests rely on do happen."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kill_lab import (
    FILES,
    KILLED,
    STATEMENTS,
    WRITES,
    Saved,
    failures,
    kills,
    photographs,
    run_with_fault,
)
from world import World, lines, texts

if TYPE_CHECKING:
    from pathlib import Path

# Writes a row with SQLite, then gives a file another name.
WORK = """
import os, sqlite3, sys
conn = sqlite3.connect(sys.argv[1], isolation_level=None)
conn.execute("BEGIN IMMEDIATE")
conn.execute("INSERT INTO t VALUES (1)")
conn.execute("COMMIT")
conn.close()
os.rename(sys.argv[1] + ".a", sys.argv[1] + ".b")
"""


@pytest.fixture
def db(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "t.db")) as conn:
        conn.execute("CREATE TABLE t (x)")
    (folder / "t.db.a").touch()
    return folder / "t.db"


def state(db: Path) -> tuple[int, bool]:
    """How many rows there are, and whether the file has its new name."""
    with closing(sqlite3.connect(db)) as conn:
        (rows,) = conn.execute("SELECT count(*) FROM t").fetchone()
    return rows, db.with_name("t.db.b").exists()


def test_a_process_is_killed_at_each_statement_and_each_change_of_a_file(db: Path) -> None:
    saved = Saved(db.parent)
    seen = [state(db) for _ in kills(1, [db], saved.put_back, code=WORK)]
    # Before BEGIN, INSERT, COMMIT and before the new name.
    assert seen == [(0, False)] * 3 + [(1, False)]
    assert state(db) == (1, True)


@pytest.mark.parametrize("what", [[STATEMENTS, FILES], [WRITES]])
def test_a_photograph_shows_what_a_kill_leaves(db: Path, what: list[str]) -> None:
    saved = Saved(db.parent)
    photographed = [
        state(folder / db.name)
        for _, folder in photographs(1, [db], db.parent, what=what, code=WORK)
    ]
    assert state(db) == (1, True)
    killed = [state(db) for _ in kills(1, [db], saved.put_back, what=what, code=WORK)]
    assert photographed == killed


def test_a_process_is_killed_at_each_write(db: Path) -> None:
    saved = Saved(db.parent)
    seen = [state(db) for _ in kills(1, [db], saved.put_back, what=[WRITES], code=WORK)]
    assert len(seen) > 4
    assert (seen[0], seen[-1]) == ((0, False), (0, False))  # the last one removes the journal
    assert state(db) == (1, True)


def test_each_write_of_sqlite_and_each_change_of_a_file_can_fail(db: Path) -> None:
    saved = Saved(db.parent)
    safe = f"try:\n{''.join(f'    {row}{chr(10)}' for row in WORK.strip().splitlines())}"
    safe += "except (OSError, sqlite3.Error) as e:\n    print(type(e).__name__, e)\n"
    said = {}
    for failed in failures(1, [db], saved.put_back, error="ENOSPC", code=safe):
        said.setdefault(failed.done.stdout.strip(), state(db))
    assert said["OperationalError database or disk is full"] == (0, False)
    assert [text for text in said if text.startswith("OSError [Errno 28] No space left")]
    assert state(db) == (1, True)


def test_a_command_is_killed_and_the_next_one_goes_on(world: World) -> None:
    world.write(lines(0, 1, 2))
    command = ["--db", world.db, "sync", "--root", world.root, "--json"]
    done, happened = run_with_fault("kill", 10, command, what=[STATEMENTS, FILES])
    assert (done.returncode, happened, world.texts()) == (KILLED, False, [])
    world.sync()
    assert world.texts() == texts([0, 1, 2])


def test_a_lasting_fault_fails_every_later_write(world: World) -> None:
    world.write(lines(0, 1, 2))
    command = ["--db", world.db, "sync", "--root", world.root]
    done, happened = run_with_fault("ENOSPC+", 3, command, what=[WRITES, FILES])
    assert (done.returncode, happened) == (1, True)
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    world.sync()
    assert world.texts() == texts([0, 1, 2])
