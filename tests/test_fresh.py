"""What is new is taken in before a question is answered, and nothing else is."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import ctxdb.ingest.sync
from builder import World as Transcripts
from ctxdb.config import Config
from ctxdb.ingest import run as ingest
from ctxdb.lock import WriterLock, lock_path
from ctxdb.progress import NullProgress
from ctxdb.query import fresh
from ctxdb.query.fresh import freshen, look
from lab import put_empty_database

if TYPE_CHECKING:
    from pathlib import Path

    from builder import Transcript


@pytest.fixture
def written(home: Path) -> Transcript:
    """One transcript where Claude Code would have put it."""
    made = Transcripts()
    session = made.session()
    session.prompt("hello")
    made.write(home / ".claude/projects")
    return session


@pytest.fixture
def config(home: Path) -> Config:
    return Config(home / "data/ctxdb.db", (str(home / ".claude/projects"),))


def sync(config: Config) -> None:
    put_empty_database(config.db_path)
    ctxdb.ingest.sync.sync(config, progress=NullProgress())


def messages(config: Config) -> int:
    with closing(sqlite3.connect(config.db_path)) as db:
        return int(db.execute("SELECT count(*) FROM messages").fetchone()[0])


def line(n: int) -> str:
    return json.dumps(
        {
            "type": "user",
            "uuid": f"00000000-0000-4000-8000-{n:012x}",
            "timestamp": "2026-03-01T10:00:00.000Z",
            "message": {"role": "user", "content": f"line {n}"},
        }
    )


def append(config: Config, session: Transcript, *lines: int, age: float = 0) -> Path:
    from pathlib import Path

    path = Path(config.roots[0]) / session.path
    with path.open("a") as file:
        file.writelines(line(n) + "\n" for n in lines)
    if age:
        then = path.stat().st_mtime - age
        os.utime(path, (then, then))
    return path


def said(config: Config, **more: object) -> list[str]:
    lines: list[str] = []
    freshen(config, say=lines.append, **more)  # type: ignore[arg-type]
    return lines


def test_new_lines_are_there_and_nothing_is_said(config: Config, written: Transcript) -> None:
    sync(config)
    before = messages(config)
    append(config, written, 1, 2)
    assert said(config) == []
    assert messages(config) == before + 2


def test_with_nothing_new_the_database_is_not_written_to(
    config: Config, written: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(config)
    monkeypatch.setattr(
        "ctxdb.ingest.sync.sync", lambda *_, **__: pytest.fail("a sync for nothing")
    )
    assert said(config) == []
    glance = look(config)
    assert glance is not None
    assert glance.nothing_new


@pytest.mark.parametrize(
    "change",
    ["grown", "rewritten", "renamed", "deleted", "another", "deeper"],
)
def test_the_glance_sees_what_a_sync_would_see(
    config: Config, written: Transcript, change: str
) -> None:
    sync(config)
    path = append(config, written)
    if change == "grown":
        append(config, written, 1)
    elif change == "rewritten":
        found = path.stat()
        data = path.read_bytes()
        path.write_bytes(data.replace(b"hello", b"HELLO"))
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    elif change == "renamed":
        path.rename(path.with_name("00000000-0000-4000-8000-0000000000ff.jsonl"))
    elif change == "deleted":
        path.unlink()
    elif change == "another":
        path.with_name("00000000-0000-4000-8000-0000000000ff.jsonl").write_text(line(1) + "\n")
    else:
        deep = path.with_suffix("") / "subagents/agent-x.jsonl"
        deep.parent.mkdir(parents=True)
        deep.write_text(line(1) + "\n")
    glance = look(config)
    assert glance is not None
    assert not glance.nothing_new
    sync(config)
    glance = look(config)
    assert glance is not None
    assert glance.nothing_new


@pytest.mark.parametrize("name", ["journal.jsonl", "notes.txt", "fifo.jsonl", "link.jsonl"])
def test_what_is_no_transcript_is_nothing_new(
    config: Config, written: Transcript, name: str
) -> None:
    sync(config)
    path = append(config, written).with_name(name)
    if name.startswith("fifo"):
        os.mkfifo(path)
    elif name.startswith("link"):
        path.symlink_to(append(config, written))
    else:
        path.write_text("{}\n")
    glance = look(config)
    assert glance is not None
    assert glance.nothing_new


def test_odd_names_are_recognized(config: Config, written: Transcript) -> None:
    for name in (b"a\\x41.jsonl", b"\xff.jsonl", b"new\nline.jsonl"):
        folder = os.fsencode(config.roots[0])
        with open(os.path.join(folder, name), "w") as file:
            file.write(line(7) + "\n")
    sync(config)
    glance = look(config)
    assert glance is not None
    assert glance.nothing_new


def test_a_database_made_from_other_folders_is_left_alone(
    config: Config, written: Transcript, tmp_path: Path
) -> None:
    others = Transcripts()
    others.session().prompt("somebody else's")
    others.write(tmp_path / "other")
    foreign = Config(tmp_path / "foreign.db", (str(tmp_path / "other"),))
    sync(foreign)
    before = messages(foreign)
    assert said(Config(foreign.db_path, config.roots)) == []
    assert messages(foreign) == before


def test_a_database_that_the_command_line_names_is_not_made(
    config: Config, written: Transcript
) -> None:
    assert said(config, named=True) == []
    assert not config.db_path.exists()


def test_the_first_question_makes_the_database_and_says_so(
    config: Config, written: Transcript
) -> None:
    (told,) = said(config)
    assert str(config.db_path) in told
    assert messages(config) > 0


def test_without_any_transcript_no_database_is_made(config: Config) -> None:
    assert said(config) == []
    assert not config.db_path.exists()


def test_while_another_process_writes_what_is_stale_is_said(
    config: Config, written: Transcript
) -> None:
    sync(config)
    before = messages(config)
    append(config, written, 1, age=3600)
    with WriterLock(config.db_path):
        (told,) = said(config)
    assert "Another process" in told
    assert messages(config) == before


def test_while_another_process_writes_what_is_seconds_old_is_not_worth_a_word(
    config: Config, written: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh, "STALE_SECONDS", 3600.0)
    sync(config)
    append(config, written, 1)
    with WriterLock(config.db_path):
        assert said(config) == []


def test_while_somebody_edits_the_database_by_hand_the_question_is_answered_and_that_said(
    config: Config, written: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh, "BUSY_SECONDS", 0.01)
    sync(config)
    before = messages(config)
    append(config, written, 1)
    with closing(sqlite3.connect(config.db_path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        (told,) = said(config)
        assert told == f"Not brought up to date: {config.db_path}: database is locked"
        assert messages(config) == before
    assert said(config) == []
    assert messages(config) == before + 1


def test_a_lock_file_that_a_killed_process_has_left_keeps_nothing_from_being_read(
    config: Config, written: Transcript
) -> None:
    sync(config)
    before = messages(config)
    append(config, written, 1, age=3600)
    lock_path(config.db_path).write_text(f"{os.getpid()} 0.1.0 daemon\n")  # its number lives on
    assert said(config) == []
    assert messages(config) == before + 1


def test_what_takes_too_long_is_left_for_sync_and_said(
    config: Config, written: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(config)
    monkeypatch.setattr(ingest, "BATCH_LINES", 1)
    made = Transcripts()
    for n in range(3):
        other = made.session(session=f"00000000-0000-4000-9000-00000000000{n}")
        other.prompt(f"prompt {n}")
    made.write(config.db_path.parent.parent / ".claude/projects")
    before = messages(config)
    (told,) = said(config, budget=-1.0)
    assert "ctxdb sync" in told
    assert before < messages(config)
    assert said(config, budget=math.inf) == []
    with closing(sqlite3.connect(config.db_path)) as db:
        assert db.execute('SELECT count(*) FROM source_files WHERE "offset" < size').fetchone() == (
            0,
        )


def test_a_database_of_an_older_version_is_upgraded(config: Config, written: Transcript) -> None:
    sync(config)
    with closing(sqlite3.connect(config.db_path)) as db:
        db.execute("UPDATE _meta SET value = 'old' WHERE key = 'schema'")
        db.execute("DROP VIEW entry_counts")
        db.commit()
    assert said(config) == []
    with closing(sqlite3.connect(config.db_path)) as db:
        db.execute("SELECT * FROM entry_counts")


def test_a_file_that_is_no_database_is_left_as_it_is(config: Config, written: Transcript) -> None:
    config.db_path.parent.mkdir()
    config.db_path.write_text("not a database")
    assert all("\n" not in told for told in said(config))
    assert config.db_path.read_text() == "not a database"
