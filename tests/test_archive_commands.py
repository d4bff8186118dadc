"""A synced session can be restored byte for byte after Claude Code has deleted it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
import time
from contextlib import closing
from pathlib import Path

import pytest

from ctxdb.archive.archive_file import archive_path, open_archive
from ctxdb.archive.restore import files_of_session, place_below, restore
from ctxdb.config import Config
from ctxdb.demo import write_demo
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from lab import put_empty_database
from real_corpus import CORPUS, HAS_CORPUS
from snapshot import content, differences
from thinning import thinned
from world import run_ctxdb

RUN = "from ctxdb.cli.main import main; main()"


class Place:
    """A home with transcripts, and the commands of its user."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / ".claude/projects"
        self.db = home / ".local/share/ctxdb/ctxdb.db"

    def run(self, *words: str, code: int = 0) -> str:
        done = run_ctxdb(*words)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def json(self, *words: str) -> dict[str, object]:
        return dict(json.loads(self.run(*words, "--json")))

    def sums(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }

    def delete_all(self) -> None:
        shutil.rmtree(self.root)
        self.root.mkdir()

    def restore_all(self) -> None:
        """Restore every session that the archive has."""
        with closing(open_archive(self.db)) as archive:
            ids = [row for (row,) in archive.execute("SELECT DISTINCT session_id FROM files")]
            for session_id in filter(None, ids):
                restore(archive, place_below(files_of_session(archive, session_id), None))

    def sessions(self) -> list[str]:
        found = json.loads(self.run("query", "SELECT id FROM sessions", "--json", "--no-sync"))
        return [row["id"] for row in found]


@pytest.fixture(scope="module")
def synced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with home/, where the demo was synced, and a copy of it: a database has paths."""
    folder = tmp_path_factory.mktemp("synced")
    made = Place(folder / "home")
    write_demo(made.root)
    for path in made.root.rglob("*.jsonl"):  # quiet: an unfinished last line is archived too
        os.utime(path, (1_600_000_000, 1_600_000_000))
    put_empty_database(made.db)
    sync(Config(made.db, (str(made.root),), archive=True), progress=NullProgress())
    shutil.copytree(made.home, folder / "copy")
    return folder


@pytest.fixture
def place(synced: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    home = synced / "home"
    shutil.rmtree(home)
    shutil.copytree(synced / "copy", home)
    given = os.environ["HOME"]
    for name, value in [*os.environ.items()]:
        if name == "HOME" or name.startswith(("XDG_", "CLAUDE")):
            monkeypatch.setenv(name, value.replace(given, str(home)))
    return Place(home)


def test_a_sync_archives_what_it_reads(place: Place) -> None:
    state = place.json("archive", "status")
    assert state["files_not_archived"] == state["files_waiting"] == 0
    assert state["bytes"] == sum(p.stat().st_size for p in place.root.rglob("*") if p.is_file())
    assert archive_path(place.db).stat().st_mode & 0o777 == 0o600
    assert "All archived bytes are intact." in place.run("archive", "verify")


def test_all_deleted_sessions_come_back_and_duplicate_nothing(place: Place) -> None:
    before = place.sums()
    rows = place.json("status")["rows"]
    place.delete_all()
    place.run("sync")
    listed = json.loads(place.run("restore", "--list", "--json"))
    assert {row["session_id"] for row in listed} <= set(place.sessions())
    place.run("restore", listed[0]["session_id"])
    place.restore_all()
    restored = place.sums()
    assert {name: restored[name] for name in restored} == {n: before[n] for n in restored}
    assert {n for n in before if n.endswith(".jsonl")} == {
        n for n in restored if n.endswith(".jsonl")
    }
    place.run("sync")
    assert place.json("status")["rows"] == rows
    deleted = "SELECT count(*) AS n FROM sessions WHERE source_deleted_at IS NOT NULL"
    assert json.loads(place.run("query", deleted, "--json")) == [{"n": 0}]
    assert "All lines are accounted for" in place.run("verify")


def test_a_restore_prints_how_to_resume_and_keeps_what_is_there(place: Place) -> None:
    session = place.sessions()[0]
    text = place.run("restore", session)
    assert f"claude --resume {session}" in text
    assert "wrote" not in text


def test_a_restore_below_another_folder_leaves_the_sources_alone(
    place: Place, tmp_path: Path
) -> None:
    session = place.sessions()[0]
    done = place.json("restore", session, "--to", str(tmp_path / "old"))
    assert done["written"]
    assert done["resume"] is None


def test_a_sealed_archive_is_smaller_and_restores_the_same(place: Place) -> None:
    before = place.sums()
    place.run("archive", "add")
    state = place.json("archive", "status")
    assert state["bytes_sealed"] == state["bytes"]
    place.delete_all()
    place.restore_all()
    assert all(before[name] == found for name, found in place.sums().items())


def test_case_99_a_deleted_archive_is_started_again(place: Place) -> None:
    for suffix in ("", "-wal", "-shm"):
        archive_path(place.db).with_name(archive_path(place.db).name + suffix).unlink(
            missing_ok=True
        )
    assert "there is no archive" in place.run("archive", "verify", code=1)
    place.run("sync")
    place.run("archive", "add")
    assert place.json("archive", "status")["files_not_archived"] == 0


def test_case_97_indexing_goes_on_if_the_archive_cannot_be_written(place: Place) -> None:
    archive_path(place.db).write_bytes(b"this is not an archive" * 1000)
    for suffix in ("-wal", "-shm"):
        archive_path(place.db).with_name(archive_path(place.db).name + suffix).unlink(
            missing_ok=True
        )
    first = next(iter(sorted(place.root.rglob("*.jsonl"))))
    with first.open("ab") as file:
        file.write(b'{"type": "mood"}\n')
    report = place.json("sync")
    assert report["lines_read"] == 1
    (problem,) = report["problems"]
    assert problem.startswith("for the archive: ")


def test_the_daemon_archives_what_it_reads(place: Place) -> None:
    first = next(iter(sorted(place.root.rglob("*.jsonl"))))
    place.run("daemon", "start")
    try:
        with first.open("ab") as file:
            file.write(b'{"type": "mood", "of": "the daemon"}\n')
        size = first.stat().st_size
        until = time.monotonic() + 120
        while time.monotonic() < until:
            with closing(open_archive(place.db)) as archive:
                ((archived,),) = archive.execute(
                    "SELECT max(size) FROM files WHERE path = ?", (str(first),)
                ).fetchall()
            if archived == size:
                break
            time.sleep(0.2)
        assert archived == size
    finally:
        place.run("daemon", "stop")


def test_the_archive_can_be_switched_off(home: Path) -> None:
    place = Place(home)
    write_demo(place.root)
    config = home / ".config/ctxdb/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("archive = false\n")
    place.run("sync")
    assert not archive_path(place.db).exists()


@pytest.mark.corpus
@HAS_CORPUS
@pytest.mark.parametrize("every", thinned([10, 1], 2))
def test_every_real_transcript_is_restored_with_equal_bytes(home: Path, every: int) -> None:
    place = Place(home)
    place.root.parent.mkdir(parents=True)
    with tarfile.open(CORPUS) as tar:
        files = sorted((one for one in tar if one.isfile()), key=lambda one: one.name)
        tar.extractall(place.root.parent, files[::every], filter="data")
    before = place.sums()
    place.run("sync")
    place.delete_all()
    place.run("sync")
    place.restore_all()
    after = place.sums()
    assert after == {name: before[name] for name in after}
    place.run("restore", "--all")  # files of no session too
    assert place.sums() == before


@pytest.mark.slow
@pytest.mark.corpus
@HAS_CORPUS
@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_rebuild_from_the_archive_alone_gives_the_rows_of_every_real_transcript(
    home: Path, is_sealed: bool
) -> None:
    place = Place(home)
    place.root.parent.mkdir(parents=True)
    with tarfile.open(CORPUS) as tar:
        tar.extractall(place.root.parent, filter="data")
    place.run("sync")
    from_sources = content(place.db, place.root)
    if is_sealed:
        place.run("archive", "add")
    place.delete_all()
    place.run("rebuild")
    found = content(place.db, place.root)
    for one in (from_sources, found):
        one.pop("source_files")  # their state is `missing` now
    assert differences(from_sources, found) == ""
