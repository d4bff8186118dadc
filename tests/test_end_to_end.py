"""The installed command, as a person uses it: real processes on the demo's transcripts."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ctxdb.demo import write_demo
from ctxdb.lock import WriterLock
from world import PATIENCE, RUN, Done, run_ctxdb, run_python


@pytest.fixture
def projects(home: Path) -> Path:
    """The demo's transcripts where Claude Code would have put them."""
    folder = home / ".claude/projects"
    write_demo(folder)
    return folder


@pytest.fixture
def notes(projects: Path) -> Path:
    """The transcripts of one project only."""
    for folder in projects.iterdir():
        if folder.name != "-home-mira-notes":
            shutil.rmtree(folder)
    return projects


@pytest.fixture
def db_path(home: Path) -> Path:
    return home / ".local/share/ctxdb/ctxdb.db"


@pytest.fixture(scope="module")
def synced_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home where the demo's transcripts were synced once, for tests that only look at it."""
    folder = tmp_path_factory.mktemp("synced")
    write_demo(folder / ".claude/projects")
    env = {"HOME": str(folder), "PATH": os.environ["PATH"], "TZ": "UTC"}
    synced = run_python(RUN, "sync", env=env)
    assert (synced.returncode, synced.stderr.count("Traceback")) == (0, 0), synced.stderr
    assert synced.stdout
    return folder


@pytest.fixture
def synced(synced_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The database of that home, which is the one that commands use."""
    for name in list(os.environ):
        if name.startswith(("XDG_", "CLAUDE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(synced_home))
    return synced_home / ".local/share/ctxdb/ctxdb.db"


def ctxdb(*args: str | Path, **more: Any) -> Done:
    return run_ctxdb(*args, **more)


def done(*args: str | Path, **more: Any) -> str:
    result = ctxdb(*args, **more)
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout


def rows(db_path: Path) -> dict[str, list[tuple[Any, ...]]]:
    with closing(sqlite3.connect(f"file:{db_path}?mode=ro", uri=True)) as db:
        tables = [
            name
            for (name,) in db.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table'"
                " AND sql NOT LIKE 'CREATE VIRTUAL%'"
            )
        ]
        return {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in tables}


def count(db_path: Path, table: str) -> int:
    return len(rows(db_path)[table])


def test_sync_status_and_verify_on_the_demo(synced: Path) -> None:
    assert done("status")
    assert done("verify")
    assert count(synced, "sessions") >= 12
    assert count(synced, "ingest_errors") == 0


@pytest.mark.parametrize("command", ["sync", "status", "verify"])
@pytest.mark.usefixtures("synced")
def test_json_is_json_and_nothing_else(command: str) -> None:
    assert isinstance(json.loads(done(command, "--json")), dict)


def test_a_second_sync_changes_nothing_in_the_database(synced: Path) -> None:
    before = rows(synced)
    assert before["messages"]
    done("sync")
    assert rows(synced) == before


def test_an_appended_line_is_one_more_message(notes: Path, db_path: Path) -> None:
    done("sync")
    before = count(db_path, "messages")
    path = next(iter(sorted((notes / "-home-mira-notes").glob("*.jsonl"))))
    last = [json.loads(line) for line in path.read_text().splitlines() if '"uuid"' in line][-1]
    line = {**last, "uuid": "00000000-0000-4000-8000-000000000001", "parentUuid": last["uuid"]}
    with path.open("a") as file:
        file.write(json.dumps(line))
    done("sync")
    assert count(db_path, "messages") == before
    with path.open("a") as file:
        file.write("\n")
    done("sync")
    assert count(db_path, "messages") == before + 1
    done("verify")


def test_rows_stay_when_claude_code_deletes_the_transcripts(projects: Path, db_path: Path) -> None:
    done("sync")
    before = rows(db_path)
    shutil.rmtree(projects / "-home-mira-notes")
    done("sync")
    after = rows(db_path)
    for table in ("messages", "tool_uses", "turns", "files_touched", "usage", "events"):
        assert after[table] == before[table]


def test_database_and_side_files_are_private_whatever_the_umask(notes: Path, db_path: Path) -> None:
    done("sync", umask=0o000)
    reader = sqlite3.connect(db_path)
    try:
        reader.execute("SELECT count(*) FROM sessions").fetchone()
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in db_path.parent.iterdir()}
        names = {db_path.name + suffix for suffix in ("", "-wal", "-shm", ".lock", ".archive")}
        also = {f"{db_path.name}.archive{suffix}" for suffix in ("-wal", "-shm")}
        assert names <= modes.keys() <= names | also
        assert set(modes.values()) == {0o600}
        assert stat.S_IMODE(db_path.parent.stat().st_mode) == 0o700
    finally:
        reader.close()


def test_sync_while_another_process_writes_says_so_and_exits_3(
    projects: Path, db_path: Path
) -> None:
    with WriterLock(db_path):
        result = ctxdb("sync")
    assert result.returncode == 3
    assert result.stderr.startswith(f"Error: process {os.getpid()} ")
    assert result.stdout == ""


def test_sync_with_wait_waits_for_the_other_process(projects: Path, db_path: Path) -> None:
    with WriterLock(db_path):
        waiting = subprocess.Popen(
            [sys.executable, "-m", "ctxdb", "sync", "--wait"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith(f"Waiting for process {os.getpid()}")
    said, _ = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 0
    assert said
    assert count(db_path, "sessions") >= 12


def test_without_any_transcript_sync_is_content_with_nothing(db_path: Path) -> None:
    done("sync")
    assert count(db_path, "messages") == 0


@pytest.mark.parametrize("command", ["status", "verify", "path"])
def test_commands_that_read_make_no_database(db_path: Path, command: str) -> None:
    result = ctxdb(command)
    assert "Traceback" not in result.stderr
    assert not db_path.parent.exists() or not list(db_path.parent.iterdir())


@pytest.mark.parametrize("what", ["text", "another database"])
def test_a_file_that_is_not_ours_is_refused_and_left_alone(
    projects: Path, tmp_path: Path, what: str
) -> None:
    path = tmp_path / "precious"
    if what == "text":
        path.write_text("my novel\n" * 1000)
    else:
        with closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TABLE novel (chapter TEXT)")
            db.commit()
    before = path.read_bytes()
    result = ctxdb("--db", path, "sync")
    assert result.returncode == 1
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.stderr
    assert path.read_bytes() == before


def test_the_demo_can_be_made_without_touching_the_real_database(
    tmp_path: Path, synced: Path
) -> None:
    before = rows(synced)
    shown = done("demo", tmp_path / "demo")
    assert shown
    assert rows(synced) == before
    assert count(tmp_path / "demo/demo.db", "sessions") == len(before["sessions"])
    assert done("demo", tmp_path / "demo") == shown
