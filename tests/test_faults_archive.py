"""Archive and restore when they are killed, writes fail, the disk is full or a folder is closed."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ctxdb.archive import add
from ctxdb.archive.archive_file import open_archive
from ctxdb.archive.check import check_archive
from ctxdb.archive.read import ArchiveReader, generations
from ctxdb.archive.restore import files_of_session, place_below, restore
from ctxdb.config import Config
from ctxdb.errors import ArchiveError
from ctxdb.ingest import archiving
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from kill_lab import EVERY_20TH, Saved, failures, kills
from seen_files import Seen
from world import NOBODY, OTHER_SESSION, RUN, SESSION, World, line, lines, run_python

AGENT = f"-work-tides/{SESSION}/subagents/agent-a1.jsonl"


@pytest.fixture
def three(world: World) -> World:
    """Three files in two projects: archived in small frames, and a few bytes more since."""
    other = world.file("-work-moon/other.jsonl")
    agent = world.file(AGENT)
    for n in range(3):
        world.append(line(n))
        world.append(line(100 + n, sessionId=OTHER_SESSION), other)
        world.append(line(200 + n, isSidechain=True, agentId="a1"), agent)
        read(world, archive=n < 2)
    return world


def read(world: World, *, archive: bool = True) -> None:
    sync(Config(world.db, (str(world.root),), archive=archive), progress=NullProgress())


def sources(world: World) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in world.root.rglob("*.jsonl")}


def archived(world: World) -> dict[str, bytes]:
    """Every archived byte, checked."""
    with closing(open_archive(world.db)) as conn:
        assert check_archive(conn, lambda _: None).damaged == []
        reader = ArchiveReader(conn)
        return {file.path: reader.read(file) for file in generations(conn)}


def tables(world: World) -> tuple[int, int]:
    """How many frames and blocks there are."""
    with closing(open_archive(world.db)) as conn:
        (frames,) = conn.execute("SELECT count(*) FROM frames").fetchone()
        (blocks,) = conn.execute("SELECT count(*) FROM blocks").fetchone()
    return frames, blocks


@EVERY_20TH
def test_case_94_a_killed_archiving_leaves_whole_frames_and_the_next_one_goes_on(
    three: World, every: int
) -> None:
    before = archived(three)
    whole = sources(three)
    assert all(
        whole[path].startswith(data) and whole[path] != data for path, data in before.items()
    )
    assert tables(three) == (6, 0)
    saved = Saved(three.db.parent)
    command = ["--db", three.db, "archive", "add"]
    seen = Seen()
    for moment in kills(every, command, saved.put_back):
        if not seen.is_new(three.db.parent):
            continue
        found = archived(three)
        for path, data in found.items():
            assert whole[path].startswith(data), moment
            assert len(data) >= len(before[path]), moment
        assert three.cli("archive", "add").returncode == 0
        assert archived(three) == whole, moment
        assert tables(three) == (0, 2), moment
    assert archived(three) == whole
    assert tables(three) == (0, 2)


@EVERY_20TH
def test_case_94_a_write_that_fails_while_archiving_loses_nothing(three: World, every: int) -> None:
    whole = sources(three)
    before = archived(three)
    saved = Saved(three.db.parent)
    seen = Seen()
    for failed in failures(every, ["--db", three.db, "archive", "add"], saved.put_back):
        if not seen.is_new(three.db.parent):
            continue
        for path, data in archived(three).items():
            assert whole[path].startswith(data), failed
            assert len(data) >= len(before[path]), failed
        assert three.cli("archive", "add").returncode == 0
        assert archived(three) == whole


@EVERY_20TH
def test_case_94_a_killed_restore_leaves_no_half_file_and_the_next_one_goes_on(
    three: World, every: int
) -> None:
    read(three)
    whole = sources(three)
    mine = {path: data for path, data in whole.items() if "-work-tides" in path}
    for path in mine:
        Path(path).unlink()
    (three.root / AGENT).parent.rmdir()
    saved = Saved(three.root)
    command = ["--db", three.db, "restore", SESSION]
    seen = Seen()
    for moment in kills(every, command, saved.put_back):
        if not seen.is_new(three.root):
            continue
        found = sources(three)
        assert {path: whole[path] for path in found} == found, moment
        assert three.cli("restore", SESSION).returncode == 0
        assert sources(three) == whole, moment
        assert not list(three.root.rglob("*.ctxdb-restoring")), moment
    assert sources(three) == whole


@EVERY_20TH
def test_case_98_a_write_that_fails_while_restoring_leaves_nothing(
    three: World, every: int
) -> None:
    read(three)
    whole = sources(three)
    for path in whole:
        if "-work-tides" in path:
            Path(path).unlink()
    (three.root / AGENT).parent.rmdir()
    left = sources(three)
    saved = Saved(three.root)
    command = ["--db", three.db, "restore", SESSION]
    for failed in failures(every, command, saved.put_back):
        assert sources(three) in (left, whole), failed
        if failed.done.returncode:
            assert sources(three) == left, failed
            assert failed.done.stderr.count("\n") == 1, failed
    assert sources(three) == whole


def test_case_97_frames_that_cannot_be_written_wait_while_rows_are_stored(
    world: World, tmp_path: Path
) -> None:
    """The disk is full when the archive is written, and has space again later."""
    needs_mounts(tmp_path)
    for n in range(20):
        world.append(line(n, os.urandom(60_000).hex()))
    place = tmp_path / "small"
    place.mkdir()
    script = f"""
set -e
mount -t tmpfs -o size=40m none {place}
ctxdb() {{ "$PYTHON" -c "$CODE" --db {place}/ctxdb.db "$@"; }}
ctxdb sync -q --no-archive --root {world.root}
free=$(df -k --output=avail {place} | tail -1)
head -c $(( (free - 400) * 1024 )) /dev/zero > {place}/ballast
ctxdb sync --json --root {world.root} > {tmp_path}/full.json
ctxdb status --json > {tmp_path}/status.json
rm {place}/ballast
ctxdb sync -q --root {world.root}
ctxdb archive verify --json > {tmp_path}/verify.json
ctxdb archive status --json > {tmp_path}/after.json
"""
    done = in_namespace(script)
    assert done.returncode == 0, done.stderr
    found = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    (problem,) = found["full"]["problems"]
    assert problem.startswith("for the archive: ")
    assert "full" in problem
    assert found["status"]["rows"]["messages"] == 20
    assert found["status"]["archive"]["bytes_not_archived"] > 0
    assert found["after"]["bytes"] == world.main.stat().st_size
    assert found["after"]["bytes_not_archived"] == 0
    assert found["verify"]["ok"] is True


def test_case_97_files_that_were_read_at_one_time_are_all_archived_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync reads many files at one time: some of them are archived when the disk is full."""
    for n in range(7):
        world.append(line(n), world.file(f"-work-moon/{n}.jsonl"))
    monkeypatch.setattr(archiving, "FILES_AT_ONCE", 2)
    calls: list[int] = []

    def add_files(*words: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 4:
            raise sqlite3.OperationalError("database or disk is full")
        return add.add_files(*words, **more)

    monkeypatch.setattr(archiving, "add_files", add_files)
    read(world)
    assert 0 < len(archived(world)) < 7
    read(world)  # finds nothing new
    assert archived(world) == sources(world)


def test_case_98_a_restore_onto_a_full_disk_leaves_nothing(three: World, tmp_path: Path) -> None:
    needs_mounts(tmp_path)
    three.append(line(7, os.urandom(300_000).hex()))
    read(three)
    place = tmp_path / "small"
    place.mkdir()
    done = in_namespace(
        f"mount -t tmpfs -o size=200k none {place}\n"
        f'"$PYTHON" -c "$CODE" --db {three.db} restore {SESSION} --to {place} && exit 9\n'
        f"ls -A {place}\n"
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "No space left on device; nothing was restored" in done.stderr
    assert done.stderr.count("\n") == 1


def needs_mounts(tmp_path: Path) -> None:
    tried = in_namespace(f"mount -t tmpfs none {tmp_path}")
    if tried.returncode:
        pytest.skip("cannot mount a file system here")


def in_namespace(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script],
        env={**os.environ, "CODE": RUN, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Path]:
    """A folder that every user can go to."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("which", ["the first", "the second"])
def test_case_98_a_folder_that_cannot_be_written_to_leaves_nothing(
    three: World, public: Path, which: str
) -> None:
    read(three)
    target = public / "restored"
    target.mkdir()
    if which == "the second":
        os.chown(target, NOBODY, NOBODY)
        closed = target / f"-work-tides/{SESSION}"
        closed.mkdir(parents=True)
        os.chown(closed.parent, NOBODY, NOBODY)
    with closing(open_archive(three.db)) as conn:
        targets = place_below(files_of_session(conn, SESSION), str(target))
        os.seteuid(NOBODY)
        try:
            with pytest.raises(ArchiveError, match="Permission denied; nothing was restored"):
                restore(conn, targets)
        finally:
            os.seteuid(0)
    assert [path for path in target.rglob("*") if path.is_file()] == []


def test_case_98_the_folders_of_another_machine_are_not_made(three: World) -> None:
    read(three)
    with closing(open_archive(three.db)) as conn:
        conn.execute(
            "UPDATE files SET path = replace(path, ?1, '/Users/ada/.claude/projects'),"
            " root = '/Users/ada/.claude/projects'",
            (str(three.root),),
        )
    done = three.cli("restore", SESSION)
    assert done.returncode == 1
    assert "there is no /Users/ada/.claude on this machine" in done.stderr
    assert "use --to DIR" in done.stderr
    assert not Path("/Users/ada").exists()
    target = three.db.parent / "here"
    assert three.cli("restore", SESSION, "--to", target).returncode == 0
    assert {path.name for path in target.rglob("*.jsonl")} == {three.main.name, Path(AGENT).name}


def test_a_file_outside_its_root_is_not_restored(three: World, tmp_path: Path) -> None:
    read(three)
    with closing(open_archive(three.db)) as conn:
        conn.execute("UPDATE files SET root = ?", (str(three.root / "elsewhere"),))
        with pytest.raises(ArchiveError, match="is not below"):
            place_below(files_of_session(conn, SESSION), str(tmp_path / "to"))


def test_case_95_a_damaged_frame_is_named_and_other_sessions_restore(three: World) -> None:
    read(three)
    whole = sources(three)
    with closing(open_archive(three.db)) as conn:
        conn.execute(
            "UPDATE frames SET data = zeroblob(20) WHERE start = 0 AND file_id ="
            " (SELECT id FROM files WHERE path = ?)",
            (str(three.main),),
        )
    for path in whole:
        Path(path).unlink()
    bad = three.cli("restore", SESSION)
    assert bad.returncode == 1
    assert f"{three.main}: bytes 0 to {len(line(0))} are damaged in the archive" in bad.stderr
    assert three.cli("restore", OTHER_SESSION).returncode == 0
    assert {path: whole[path] for path in sources(three)} == sources(three)
    checked = run_python(RUN, "--db", three.db, "archive", "verify")
    assert checked.returncode == 1
    assert "bytes 0 to" in checked.stdout


def test_case_96_both_generations_of_a_truncated_file_can_be_restored(
    three: World, tmp_path: Path
) -> None:
    read(three)
    first = three.main.read_bytes()
    three.write(lines(50))
    read(three)
    listed = {1: first, 2: lines(50)}
    for number, data in listed.items():
        target = tmp_path / str(number)
        done = three.cli("restore", SESSION, "--generation", str(number), "--to", target)
        assert done.returncode == 0, done.stderr
        assert (target / "-work-tides" / three.main.name).read_bytes() == data
