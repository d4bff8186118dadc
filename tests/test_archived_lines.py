"""`show --raw` and `export --format jsonl` read the archive where the transcript has changed."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from builder import PROJECT, Transcript
from builder import World as Story
from ctxdb.archive.archive_file import archive_path, open_archive, open_archive_to_read
from ctxdb.archive.read import ArchiveReader, generations
from ctxdb.archive.seal import seal_projects
from ctxdb.config import Config
from ctxdb.demo import write_demo
from ctxdb.errors import CtxdbError
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from ctxdb.session.jsonl_export import SessionLines
from ctxdb.session.source_line import SourceLine, source_line
from ctxdb.store.connection import open_reader
from world import NOBODY, RUN, SESSION, World, line, run_python

UUID = "00000000-0000-4000-8000-000000000001"
LINES = line(0) + line(1) + line(2)


@pytest.fixture
def filled(world: World) -> World:
    """Three lines, read and archived."""
    world.write(LINES)
    read(world)
    return world


def read(world: World) -> None:
    sync(Config(world.db, (str(world.root),), archive=True), progress=NullProgress())


def raw(world: World) -> SourceLine:
    with closing(open_reader(world.db)) as conn:
        return source_line(conn, UUID)


def exported(world: World) -> tuple[bytes, SessionLines]:
    with closing(open_reader(world.db)) as conn:
        lines = SessionLines(conn, SESSION)
        return b"".join(lines), lines


def remove_archive(world: World) -> None:
    for path in world.db.parent.glob("*.archive*"):
        path.unlink()


@pytest.mark.parametrize("is_sealed", [False, True])
def test_lines_of_a_deleted_transcript_come_from_the_archive(
    filled: World, *, is_sealed: bool
) -> None:
    if is_sealed:
        with closing(open_archive(filled.db)) as conn:
            seal_projects(conn, "2026", quiet_since="9999", smallest=0)
    filled.main.unlink()
    assert raw(filled).data + b"\n" == line(1)
    assert raw(filled).note == f"{filled.main} is gone; this is from the archive"
    data, lines = exported(filled)
    assert data == LINES
    assert (lines.archived, lines.rebuilt) == ([str(filled.main)], [])


def test_lines_of_a_rewritten_transcript_come_from_the_generation_that_was_read(
    filled: World,
) -> None:
    filled.write(b"x" * 50 + b"\n" + line(1)[:-20] + b"\n")
    assert raw(filled).data + b"\n" == line(1)
    assert "has changed" in raw(filled).note
    data, lines = exported(filled)
    assert data == LINES
    assert lines.archived == [str(filled.main)]
    read(filled)  # now there are two generations
    assert raw(filled).data + b"\n" == line(1)


def test_a_transcript_that_is_there_is_read_itself(filled: World) -> None:
    archive_path(filled.db).write_bytes(b"not read")
    assert raw(filled) == SourceLine(line(1)[:-1])
    data, lines = exported(filled)
    assert (data, lines.archived, lines.rebuilt) == (LINES, [], [])


@pytest.mark.parametrize("fault", ["no archive", "damaged frame", "no SQLite"])
def test_without_the_archived_bytes_lines_are_made_from_the_rows(filled: World, fault: str) -> None:
    filled.main.unlink()
    if fault == "no archive":
        remove_archive(filled)
    elif fault == "no SQLite":
        remove_archive(filled)
        archive_path(filled.db).write_bytes(os.urandom(4000))
    else:
        with closing(open_archive(filled.db)) as conn:
            conn.execute("UPDATE frames SET data = 'text'")
    data, lines = exported(filled)
    assert data.count(b'"reconstructed":true') == 3
    assert lines.rebuilt == [str(filled.main)]
    with pytest.raises(CtxdbError, match="not its exact bytes"):
        raw(filled)


def test_a_renamed_transcript_keeps_its_archived_bytes(filled: World, tmp_path: Path) -> None:
    moved = filled.root / "-work-moon" / filled.main.name
    moved.parent.mkdir()
    before = filled.main
    before.rename(moved)
    with moved.open("ab") as file:
        file.write(line(3))
    read(filled)
    with closing(open_archive(filled.db)) as conn:
        assert conn.execute("SELECT path, size, generation, project FROM files").fetchall() == [
            (str(moved), moved.stat().st_size, 1, str(moved.parent))
        ]
    moved.unlink()
    assert exported(filled)[0] == LINES + line(3)


def test_files_of_another_root_and_of_another_database_are_archived_apart(
    filled: World, tmp_path: Path
) -> None:
    other = World(tmp_path / "other" / "projects", tmp_path / "other" / "ctxdb.db")
    other.write(line(7))
    config = Config(filled.db, (str(filled.root), str(other.root)), archive=True)
    sync(config, progress=NullProgress())
    read(other)
    with closing(open_archive(filled.db)) as conn:
        found = dict(conn.execute("SELECT path, root FROM files").fetchall())
    assert found == {str(filled.main): str(filled.root), str(other.main): str(other.root)}
    with closing(open_archive(other.db)) as conn:
        assert conn.execute("SELECT path FROM files").fetchall() == [(str(other.main),)]


@pytest.mark.parametrize("kind", ["symbolic link", "folder", "pipe"])
def test_an_archive_that_is_no_plain_file_is_refused_and_rows_are_stored(
    filled: World, tmp_path: Path, kind: str
) -> None:
    remove_archive(filled)
    path = archive_path(filled.db)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "elsewhere")
    filled.append(line(3))
    report = sync(Config(filled.db, (str(filled.root),), archive=True), progress=NullProgress())
    assert report.lines_read == 1
    (problem,) = report.problems
    assert problem.startswith(f"for the archive: {path}: is")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's file")
def test_an_archive_of_another_user_is_refused(
    filled: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(archive_path(filled.db), NOBODY - 1, NOBODY - 1)
    monkeypatch.setattr("ctxdb.lock.os.geteuid", lambda: NOBODY)  # root may read it
    with pytest.raises(CtxdbError, match="belongs to another user"):
        open_archive(filled.db)
    with pytest.raises(CtxdbError, match="belongs to another user"):
        open_archive_to_read(filled.db)


# Writes down every file of Claude Code that a sync opens.
OPENED = """
import os, sys
seen = os.open(os.environ["SEEN"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def on_event(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)):
        path = os.fsdecode(args[0])
        if path.endswith("b1.txt"):  # it is opened by its name, in an open folder
            path = os.environ["OUTPUT"]
        if path.startswith(os.environ["CLAUDE_CONFIG_DIR"] + "/") and os.path.isfile(path):
            os.write(seen, os.fsencode(path) + b"\\n")
sys.addaudithook(on_event)
"""


def session_with_output(path: str, story: Story) -> Transcript:
    file = story.session()
    file.prompt("run it")
    note = f"<persisted-output>\nOutput too large (9KB). Full output saved to: {path}\n\nbegin"
    detail = {"stdout": "begin", "persistedOutputPath": path, "persistedOutputSize": 9000}
    file.tool("Bash", {"command": "make"}, note, detail)
    return file


def test_everything_that_a_sync_opens_is_archived(home: Path) -> None:
    claude = home / ".claude"
    write_demo(claude / "projects")
    first = next(iter(sorted(claude.rglob("*.jsonl"))))
    first.with_name(f"{first.name}.superseded-1724500000000").write_bytes(first.read_bytes())
    session = first.stem
    (claude / "todos").mkdir(exist_ok=True)
    (claude / f"todos/{session}-agent-{session}.json").write_text('[{"content": "a"}]')
    (claude / "plans").mkdir(exist_ok=True)
    (claude / "plans/a-plan.md").write_text("# A plan")
    (claude / "history.jsonl").write_text('{"display": "hello", "timestamp": 1, "project": "/"}\n')
    (first.parent / "sessions-index.json").write_text('{"originalPath": "/work"}')
    story = Story()
    file = session_with_output("/home/ada/x/tool-results/b1.txt", story)
    for name, data in story.contents().items():
        (claude / "projects" / name).parent.mkdir(exist_ok=True)
        (claude / "projects" / name).write_bytes(data)
    output = claude / f"projects/{PROJECT}/{file.session}/tool-results/b1.txt"
    output.parent.mkdir(parents=True)
    output.write_text("the whole output")
    db = home / "ctxdb.db"
    env = {**os.environ, "SEEN": str(home / "seen"), "OUTPUT": str(output)}
    done = run_python(OPENED + RUN, "--db", db, "sync", "--no-archive", env=env)
    assert done.returncode == 0, done.stderr
    opened = set((home / "seen").read_text().splitlines())
    kinds = {path.removeprefix(str(claude)).split("/")[1] for path in opened}
    assert kinds >= {"projects", "todos", "plans", "history.jsonl"}
    for part in (".meta.json", "sessions-index.json", ".superseded-", "/tool-results/"):
        assert any(part in path for path in opened), part
    assert run_python(RUN, "--db", db, "archive", "add").returncode == 0
    with closing(open_archive(db)) as conn:
        reader = ArchiveReader(conn)
        found = {file.path: reader.read(file) for file in generations(conn)}
    assert set(found) == opened
    assert {path: Path(path).read_bytes() for path in found} == found
