"""Ignored projects: nothing of them is stored, in no file, whatever the order of things."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from ctxdb.archive.archive_file import archive_path, open_archive
from ctxdb.archive.read import ArchiveReader, generations
from ctxdb.cli.database_status import read_status
from ctxdb.config import load
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from ctxdb.query.fresh import look
from ctxdb.rules.ignoring import Ignore
from ctxdb.verify import verify
from private_lab import (
    FOLDER,
    OTHER,
    PRIVATE,
    WORD,
    Home,
    dump,
    entries,
    found_in,
    make_home,
    write,
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "work" / "quiet"
    folder.mkdir(parents=True)
    return folder


def encoded(folder: Path) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in str(folder))


@pytest.fixture
def private(home: Path, tmp_path: Path, project: Path) -> Home:
    """The private session was in a folder of its own."""
    made = make_home(home / ".claude", tmp_path / "data" / "ctxdb.db")
    old = made.projects / FOLDER
    new = made.projects / encoded(project)
    new.mkdir()
    for name in (f"{PRIVATE}.jsonl", PRIVATE):
        shutil.move(old / name, new / name)
    for path in (*new.rglob("*.jsonl"), made.claude / "history.jsonl"):
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        for line in lines:
            if WORD in json.dumps(line):
                line |= {key: str(project) for key in ("cwd", "project") if key in line}
        path.write_bytes(dump(lines))
    (old / "sessions-index.json").unlink()
    return made


def ignore(home: Path, *patterns: str) -> None:
    write(home / ".config/ctxdb/config.toml", f"ignore = {json.dumps(patterns)}\n".encode())


def read(made: Home) -> None:
    """What `ctxdb sync` does with its settings, in this process: three times as fast."""
    assert sync(load(made.db), progress=NullProgress()).problems == []


def must_verify(made: Home) -> None:
    report = verify(load(made.db), NullProgress())
    assert (report.shown, report.ok) == ([], True)


def must_be_out(made: Home) -> None:
    assert found_in(made.db.parent, WORD, PRIVATE, "00000007-0000") == []
    assert made.sessions() == [OTHER]
    must_verify(made)


def test_a_marker_keeps_a_project_out_of_every_file(private: Home, project: Path) -> None:
    (project / ".ctxdb-ignore").touch()
    read(private)
    private.must("archive", "add")
    must_be_out(private)
    again = json.loads(private.must("sync", "--json").stdout)
    assert (again["lines_read"], again["new_files"]) == (0, 0)


@pytest.mark.parametrize("way", ["path", "above", "name", "stars", "folder"])
def test_patterns_keep_a_project_out(private: Home, project: Path, home: Path, way: str) -> None:
    ignore(
        home,
        {
            "path": str(project),
            "above": str(project.parent),
            "name": "qui*t",
            "stars": f"{project.parents[2]}/**/quiet",
            "folder": str(private.projects / encoded(project)),
        }[way],
    )
    read(private)
    # By the folder of the transcripts alone, lines of history.jsonl are not known to be of it.
    if way == "folder":
        assert private.sessions() == [OTHER]
    else:
        must_be_out(private)


def test_a_first_sync_of_much_leaves_an_ignored_project_out(
    private: Home, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".ctxdb-ignore").touch()
    from ctxdb.ingest import first_sync, run

    monkeypatch.setattr(first_sync, "MIN_BYTES", 1)
    monkeypatch.setattr(run, "READ_AHEAD_BYTES", 1)
    read(private)
    must_be_out(private)


def test_lines_without_a_folder_are_not_read_before_it_is_known(
    private: Home, project: Path
) -> None:
    (project / ".ctxdb-ignore").touch()
    path = private.projects / encoded(project) / f"{PRIVATE}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    first = [one for one in lines if b'"cwd"' not in one]
    for plan in private.claude.glob(f"plans/*{WORD.lower()}*"):
        plan.unlink()  # only a later line would say whose it is
    path.write_bytes(b"".join(first))
    read(private)
    must_be_out(private)
    path.write_bytes(b"".join(first) + b"".join(one for one in lines if one not in first))
    read(private)
    must_be_out(private)


def test_an_ignored_project_stays_out_when_its_folder_is_deleted(
    private: Home, project: Path
) -> None:
    (project / ".ctxdb-ignore").touch()
    read(private)
    shutil.rmtree(project)
    with (private.projects / encoded(project) / f"{PRIVATE}.jsonl").open("ab") as file:
        file.write(dump(entries(PRIVATE, WORD, 7, str(project))))
    read(private)
    must_be_out(private)


def test_without_the_marker_the_project_is_read(private: Home, project: Path) -> None:
    (project / ".ctxdb-ignore").touch()
    read(private)
    (project / ".ctxdb-ignore").unlink()
    read(private)
    assert private.sessions() == [OTHER, PRIVATE]
    must_verify(private)


def test_a_marker_stops_reading_at_once_and_status_tells_of_what_was_read(
    private: Home, project: Path
) -> None:
    read(private)
    assert private.sessions() == [OTHER, PRIVATE]
    (project / ".ctxdb-ignore").touch()
    with (private.projects / encoded(project) / f"{PRIVATE}.jsonl").open("ab") as file:
        later = [{**one, "uuid": f"1{one['uuid'][1:]}"} for one in entries(PRIVATE, "Wombat", 7)
                 if "uuid" in one]  # fmt: skip
        file.write(dump(later))
    read(private)
    assert found_in(private.db.parent, "Wombat") == []
    told = private.must("status").stdout
    assert "1 session of an ignored project is stored" in told
    assert "ctxdb forget --project" in told
    assert json.loads(private.must("status", "--json").stdout)["ignored_sessions"] == 1


def later(number: int, project: Path) -> bytes:
    """More lines of the private session."""
    found = [one for one in entries(PRIVATE, "Wombat", 7) if "uuid" in one]
    more = {"cwd": str(project)}
    return dump([{**one, **more, "uuid": f"{number}{one['uuid'][1:]}"} for one in found])


@pytest.mark.parametrize("is_pattern", [True, False])
def test_what_grows_in_an_ignored_project_is_not_behind(
    private: Home, project: Path, home: Path, is_pattern: bool
) -> None:
    read(private)
    path = private.projects / encoded(project) / f"{PRIVATE}.jsonl"

    def behind() -> tuple[int, int]:
        told = json.loads(private.must("status", "--json").stdout)["bytes_behind"]
        report = verify(load(private.db), NullProgress(), again=False)
        assert report.ok
        return told, report.files_behind + report.files_new

    with path.open("ab") as file:
        file.write(later(1, project))
    assert behind() == (len(later(1, project)), 1)
    if is_pattern:
        ignore(home, str(project))
    else:
        (project / ".ctxdb-ignore").touch()
    assert behind() == (0, 0)  # before any sync
    glance = look(load(private.db))
    assert glance is not None
    assert (glance.behind, glance.nothing_new) == (0, True)
    read(private)
    with path.open("ab") as file:
        file.write(later(2, project))
    assert behind() == (0, 0)
    assert "Another process" not in private.must("query", "SELECT 1").stderr
    # Outside of the roots that are looked at
    elsewhere = load(private.db)._replace(roots=(str(private.projects / FOLDER),))
    assert read_status(elsewhere).bytes_behind == 0


def test_files_beside_the_transcripts_of_an_ignored_project_are_read_no_more(
    private: Home, project: Path
) -> None:
    read(private)
    (project / ".ctxdb-ignore").touch()
    todos = [{"id": "1", "content": "do Wombat", "status": "pending"}]
    name = f"{PRIVATE}-agent-{PRIVATE}.json"
    write(private.claude / "todos" / name, json.dumps(todos).encode())
    (plan,) = (path for path in (private.claude / "plans").iterdir() if WORD.lower() in path.name)
    write(plan, b"# Plan Wombat\n")
    read(private)
    assert found_in(private.db.parent, "Wombat") == []
    (project / ".ctxdb-ignore").unlink()
    read(private)
    assert found_in(private.db.parent, "Wombat") != []


@pytest.mark.parametrize("is_masked", [False, True])
def test_what_grows_in_an_ignored_project_is_not_archived(
    private: Home, project: Path, home: Path, is_masked: bool
) -> None:
    masked = "[redact]\narchive = true\n" if is_masked else ""
    write(home / ".config/ctxdb/config.toml", masked.encode())
    read(private)
    path = private.projects / encoded(project) / f"{PRIVATE}.jsonl"
    before = path.read_bytes()
    (project / ".ctxdb-ignore").touch()

    def archived() -> bytes:
        with closing(open_archive(private.db)) as conn:
            (file,) = generations(conn, "WHERE path = ?", (str(path),))
            return ArchiveReader(conn).read(file)

    for number in (1, 2):
        with path.open("ab") as file:
            file.write(later(number, project))
        if number == 1:
            read(private)
        private.must("archive", "add")
        assert archived() == before
        assert "Waiting" not in private.must("archive", "status").stdout
        read(private)
    archive_path(private.db).unlink()
    sync(load(private.db), progress=NullProgress())  # says that another one is there
    private.must("archive", "add")
    assert archived() == before
    assert found_in(private.db.parent, "Wombat") == []
    (project / ".ctxdb-ignore").unlink()
    read(private)
    assert archived() == path.read_bytes()
    must_verify(private)


def test_a_file_that_came_to_an_ignored_project_is_not_behind(
    private: Home, project: Path, home: Path
) -> None:
    ignore(home, str(project))
    read(private)
    new = private.projects / encoded(project) / "c0000000-0000-4000-8000-00000000000c.jsonl"
    for number in (1, 2):
        new.write_bytes(later(1, project) * number)
        assert json.loads(private.must("status", "--json").stdout)["bytes_behind"] == 0
        report = verify(load(private.db), NullProgress(), again=False)
        assert (report.ok, report.files_new) == (True, 0)
        if number == 1:
            read(private)
    must_be_out(private)


def test_a_marker_stops_reading_a_file_of_copies_at_once(private: Home, project: Path) -> None:
    path = private.projects / encoded(project) / f"{PRIVATE}.jsonl"
    copy = "c0000000-0000-4000-8000-00000000000c"
    copied = path.read_bytes().replace(PRIVATE.encode(), copy.encode())
    path.with_name(f"{copy}.jsonl").write_bytes(copied)
    read(private)
    where = f"SELECT first_cwd FROM _session_files WHERE session_id = '{PRIVATE}'"
    assert (None,) in private.rows(where)  # its rows are those of the other file
    (project / ".ctxdb-ignore").touch()
    before = private.rows("SELECT sum(lines) FROM source_files")
    with path.open("ab") as file:
        file.write(b'{"type":"summary","summary":"Wombat","leafUuid":"x"}\n')
    read(private)
    assert private.rows("SELECT sum(lines) FROM source_files") == before
    assert found_in(private.db.parent, "Wombat") == []


@pytest.mark.parametrize(
    ("pattern", "path", "is_ignored"),
    [
        ("/a/b", "/a/b", True),
        ("/a/b", "/a/b/c/d", True),
        ("/a/b", "/a/bc", False),
        ("/a/b/", "/a/b", True),
        ("/a/*", "/a/b", True),
        ("/a/*/c", "/a/b/c", True),
        ("/a/*/c", "/a/b/x/c", False),
        ("/a/**/c", "/a/b/x/c", True),
        ("/a/**/c", "/a/c", True),
        ("secret-*", "/home/me/secret-client/src", True),
        ("secret", "/home/me/secrets", False),
        ("/a/[bc]", "/a/c", True),
        ("/a/[!bc]", "/a/c", False),
        ("/a.b", "/axb", False),
        ("", "/a", False),
        ("/", "/anything", True),
    ],
)
def test_what_a_pattern_means(pattern: str, path: str, is_ignored: bool) -> None:
    found = Ignore([pattern])
    assert found.has(path) is is_ignored
    if is_ignored:  # and a transcript without a cwd in its folder may be of it
        name = "".join(c if c.isalnum() else "-" for c in path)
        assert found.may_have(name)
