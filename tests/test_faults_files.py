"""Fault cases 27 to 41 and 45 to 48: what can happen to a transcript file.

Numbers are those of the fault catalogue. Each goes through the real `sync` on real files. "Running"
in the catalogue means a daemon, which is another issue: here every pass is one `sync`.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import socket
import sqlite3
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from ctxdb.claude.layout import is_transcript
from ctxdb.config import Config
from ctxdb.daemon.rescan import Rescan
from ctxdb.files import identity, tail, walk
from ctxdb.files.walk import FoundFile, pack, unpack
from ctxdb.ingest import line_reader, plan
from ctxdb.ingest import run as ingest
from ctxdb.ingest import sync as ingest_sync
from ctxdb.ingest.masked_line import Reading, reading_of
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from ctxdb.store import source_files
from ctxdb.store.file_stats import load_stats
from lab import put_empty_database
from thinning import thinned
from world import (
    NOBODY,
    OTHER_SESSION,
    RUN,
    SESSION,
    World,
    as_nobody,
    entry,
    line,
    lines,
    public_world,
    texts,
    uuid_of,
)


def long_lines(*numbers: int) -> bytes:
    """Lines so long that head and tail of the mark are not the whole file."""
    made = ({"uuid": uuid_of(n), "slug": "x" * 3000, **entry(n)} for n in numbers)
    return b"".join(json.dumps(one).encode() + b"\n" for one in made)


def taken_in(world: World, numbers: Iterable[int]) -> None:
    """As World.settled, which comes at the end of each test, but without verifying: that takes
    as long as six syncs."""
    assert world.texts() == texts(numbers)
    again = world.sync()
    assert (again.lines_read, again.new_files, again.rewritten_files) == (0, 0, 0)
    assert (again.renamed_files, again.missing_files) == (0, 0)


# -- truncated, rewritten, replaced --------------------------------------------------------------


def test_case_27_a_truncated_file_is_read_again_and_no_row_is_lost_or_doubled(
    world: World,
) -> None:
    world.write(lines(*range(6)))
    world.sync()
    os.truncate(world.main, len(lines(0, 1, 2)))
    report = world.sync()
    assert (report.rewritten_files, report.lines_read) == (1, 3)
    source = world.source()
    assert (source["generation"], source["lines"]) == (1, 3)
    assert source["offset"] == len(lines(0, 1, 2))
    taken_in(world, range(6))
    # Lines that are no longer in their file keep their rows and say so.
    gone = world.ask("SELECT text FROM messages WHERE byte_length < 0 ORDER BY text")
    assert [text for (text,) in gone] == texts([3, 4, 5])
    world.append(lines(3, 9))
    world.sync()
    world.settled([*range(6), 9])


def test_case_27_a_file_truncated_to_nothing_keeps_its_rows_and_is_read_when_it_grows(
    world: World,
) -> None:
    world.write(lines(0, 1, 2))
    world.sync()
    os.truncate(world.main, 0)
    world.sync()
    assert world.source()["offset"] == 0
    taken_in(world, [0, 1, 2])
    world.write(lines(2, 3))
    world.sync()
    world.settled([0, 1, 2, 3])


def test_case_28_a_file_that_shrank_and_grew_past_its_old_length_is_noticed(world: World) -> None:
    world.write(long_lines(*range(4)))
    world.sync()
    size = world.main.stat().st_size
    os.truncate(world.main, 0)
    world.append(long_lines(*range(10, 16)))
    assert world.main.stat().st_size > size
    assert world.sync().rewritten_files == 1
    world.settled([0, 1, 2, 3, *range(10, 16)])


def test_case_28_a_new_tail_behind_an_old_head_is_noticed(world: World) -> None:
    world.write(long_lines(0, 1, 2, 3))
    world.sync()
    os.truncate(world.main, len(long_lines(0, 1)))
    world.append(long_lines(12, 13, 14))
    assert world.sync().rewritten_files == 1
    world.settled([0, 1, 2, 3, 12, 13, 14])


def test_case_28_a_new_head_before_an_old_tail_is_noticed(world: World) -> None:
    """Written over in place, and grown: only the mark tells."""
    world.write(long_lines(0, 1, 2))
    world.sync()
    with world.main.open("r+b") as file:
        file.write(long_lines(7))
    world.append(long_lines(3))
    assert world.sync().rewritten_files == 1
    world.settled([0, 1, 2, 3, 7])


def test_case_27_a_copy_of_an_event_goes_with_the_file_it_stood_in(world: World) -> None:
    event = b'{"type": "mode", "mode": "plan", "sessionId": "%s"}\n' % world.main.stem.encode()
    world.write(event + lines(0))
    copy = world.write(event + lines(0), world.file(f"z/{world.main.name}"))
    world.sync()
    assert world.one("SELECT count(*) FROM _event_copies") == 1
    world.write(lines(0), copy)
    assert world.sync().rewritten_files == 1
    assert world.one("SELECT count(*) FROM _event_copies") == 0
    assert world.one("SELECT count(*) FROM events") == 1
    world.settled([0])


def test_case_27_an_event_of_a_truncated_file_and_of_its_copy_counts_once(world: World) -> None:
    event = b'{"type": "mode", "mode": "plan", "sessionId": "%s"}\n' % world.main.stem.encode()
    world.write(event + long_lines(0, 1, 2))
    world.sync()
    world.write(event + long_lines(0))
    # A folder that is read after the first one and stands before it by name.
    copy = world.file(f"{world.main.parent.name}-c/{world.main.name}")
    shutil.copyfile(world.main, copy)
    assert str(copy) < str(world.main)
    world.sync()
    assert world.one("SELECT sum(lines) FROM line_counts WHERE type = 'mode'") == 2
    assert world.one("SELECT sum(lines) FROM line_counts WHERE outcome = 'stored'") == 2
    assert world.verify().shown == []


def test_case_29_other_content_of_equal_size_and_time_is_noticed(world: World) -> None:
    world.write(long_lines(0, 1, 2))
    world.sync()
    before = world.main.stat()
    new = world.file("new.tmp")
    new.write_bytes(long_lines(0, 1, 3))
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(new, world.main)
    after = world.main.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert world.sync().rewritten_files == 1
    world.settled([0, 1, 2, 3])


@pytest.mark.parametrize(("in_place", "keeps_time"), [(False, False), (True, False), (True, True)])
def test_case_29_a_password_blacked_out_in_the_middle_of_a_file_is_noticed(
    world: World, in_place: bool, keeps_time: bool
) -> None:
    data = long_lines(*range(20))
    world.write(data)
    world.sync()
    before = world.main.stat()
    edited = data.replace(b"line 00010", b"LINE XXXXX")
    assert edited != data
    new = world.main if in_place else world.file("new.tmp")
    new.write_bytes(edited)
    if keeps_time:
        os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(new, world.main)
    assert world.main.stat().st_size == before.st_size
    assert world.sync().rewritten_files == 1
    assert world.one("SELECT count(*) FROM messages WHERE text LIKE '%line 00010%'") == 0
    assert world.one("SELECT count(*) FROM messages WHERE text LIKE '%LINE XXXXX%'") == 1
    assert world.one("SELECT count(*) FROM messages") == 20
    world.sound()


def test_case_29_a_password_blacked_out_by_an_editor_in_a_session_that_went_on_is_noticed(
    world: World,
) -> None:
    data = long_lines(*range(20))
    world.write(data)
    world.sync()
    new = world.file("new.tmp")
    new.write_bytes(data.replace(b"line 00010", b"LINE XXXXX") + long_lines(20))
    os.replace(new, world.main)
    assert world.sync().rewritten_files == 1
    assert world.one("SELECT count(*) FROM messages WHERE text LIKE '%line 00010%'") == 0
    assert world.one("SELECT count(*) FROM messages") == 21
    world.sound()


def test_case_29_a_file_that_was_only_touched_is_not_read_again(world: World) -> None:
    world.write(long_lines(*range(20)))
    world.sync()
    world.main.touch()
    done = world.sync()
    assert (done.rewritten_files, done.lines_read) == (0, 0)
    world.settled(range(20))


def test_case_29_content_changed_in_place_with_its_time_set_back_is_noticed(world: World) -> None:
    world.write(long_lines(0, 1, 2))
    world.sync()
    before = world.main.stat()
    with world.main.open("r+b") as file:
        file.write(long_lines(7))
    os.utime(world.main, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert world.main.stat().st_ino == before.st_ino
    assert world.sync().rewritten_files == 1
    world.settled([0, 1, 2, 7])


def test_case_30_an_atomic_rewrite_with_the_same_beginning_is_an_append(world: World) -> None:
    world.write(long_lines(0, 1))
    world.sync()
    new = world.file("new.tmp")
    new.write_bytes(long_lines(0, 1, 2))
    os.replace(new, world.main)
    report = world.sync()
    assert (report.rewritten_files, report.grown_files, report.lines_read) == (0, 1, 1)
    assert world.source()["generation"] == 0
    world.settled([0, 1, 2])


# -- renamed, moved, copied ----------------------------------------------------------------------


def test_case_31_a_renamed_file_keeps_its_row_and_is_not_read_again(world: World) -> None:
    world.write(lines(0, 1))
    world.sync()
    before = world.source()
    new = world.file(f"-work-tides/archive/{SESSION}.jsonl")
    world.main.rename(new)
    report = world.sync()
    assert (report.renamed_files, report.lines_read, report.missing_files) == (1, 0, 0)
    after = world.source(new)
    assert (after["id"], after["offset"]) == (before["id"], before["offset"])
    assert world.one("SELECT count(*) FROM source_files") == 1
    taken_in(world, [0, 1])
    world.append(lines(2), new)
    world.sync()
    world.settled([0, 1, 2])


def test_case_31_a_file_that_was_away_and_comes_back_under_another_name(world: World) -> None:
    world.write(lines(0, 1))
    world.sync()
    before = world.source()
    away = world.root.parent / "away.jsonl"
    world.main.rename(away)
    assert world.sync().missing_files == 1
    world.write(lines(5), world.file("-work-tides/other.jsonl"))
    world.sync()
    new = world.file(f"-work-tides/archive/{SESSION}.jsonl")
    away.rename(new)
    report = world.sync()
    assert (report.renamed_files, report.lines_read, report.new_files) == (1, 0, 0)
    after = world.source(new)
    assert (after["id"], after["state"], after["missing_since"]) == (before["id"], "ok", None)
    world.settled([0, 1, 5])


@pytest.mark.parametrize("first", [True, False])
def test_case_31_a_renamed_file_is_known_though_others_had_its_inode_before(
    world: World, first: bool
) -> None:
    gone = world.file("-work-tides/gone.jsonl")
    for path, what in ((gone, lines(7)), (world.main, lines(0, 1)))[:: 1 if first else -1]:
        world.write(what, path)
        world.sync()
    gone.unlink()
    world.sync()
    with closing(sqlite3.connect(world.db)) as conn, conn:  # as file systems do
        ino = world.main.stat().st_ino
        for file_id, stat in conn.execute(
            "SELECT source_file_id, stat FROM _file_marks"
        ).fetchall():
            dev, _, *others = unpack(stat)
            conn.execute(
                "UPDATE _file_marks SET stat = ?, ino = ? WHERE source_file_id = ?",
                (pack((dev, ino, *others)), ino, file_id),
            )
    new = world.file(f"-work-tides/archive/{SESSION}.jsonl")
    world.main.rename(new)
    report = world.sync()
    assert (report.renamed_files, report.lines_read, report.missing_files) == (1, 0, 0)
    assert world.source(new)["state"] == "ok"
    world.settled([0, 1, 7])


def test_a_file_that_comes_back_unreadable_and_goes_again_is_missing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write(lines(0, 1))
    world.sync()
    away = world.root.parent / "away.jsonl"
    world.main.rename(away)
    world.sync()
    assert world.source()["state"] == "missing"
    away.rename(world.main)
    with monkeypatch.context() as patch:
        refused = PermissionError(errno.EACCES, "Permission denied")
        patch.setattr(plan, "open_regular", Mock(side_effect=refused))
        world.sync()
    assert (world.source()["state"], world.source()["missing_since"]) == ("unreadable", None)
    world.main.unlink()
    assert world.sync().missing_files == 1
    assert world.source()["state"] == "missing"
    assert world.sync().missing_files == 0


@pytest.mark.parametrize("ahead", [False, True], ids=["one process", "several processes"])
@pytest.mark.parametrize("how", ["replaced", "rewritten"])
def test_case_30_a_file_that_changes_between_looking_and_reading_is_read_from_its_start(
    world: World, monkeypatch: pytest.MonkeyPatch, how: str, ahead: bool
) -> None:
    world.write(lines(0, 1, 2))
    world.sync()
    world.append(lines(3))
    if ahead:
        monkeypatch.setattr(ingest, "READ_AHEAD_BYTES", 0)
    real = ingest.FileLoop.read

    def read(self: ingest.FileLoop, *args: Any) -> None:
        other = world.root / "other"
        world.write(lines(*range(100, 106)), other)
        if how == "replaced":
            other.rename(world.main)
        else:
            world.main.write_bytes(other.read_bytes())
            other.unlink()
        real(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(ingest.FileLoop, "read", read)
        report = world.sync()
    assert (report.lines_read, report.unreadable_files) == (0, 0)
    assert world.sync().rewritten_files == 1
    assert world.sync().lines_read == 0
    assert world.texts() == texts([0, 1, 2, *range(100, 106)])
    world.sound()


def test_files_for_which_there_is_no_descriptor_are_named_and_read_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write(lines(0, 1))
    with monkeypatch.context() as patch:
        refused = OSError(errno.EMFILE, "Too many open files")
        patch.setattr(ingest_sync, "reading_of", reading_with(Mock(side_effect=refused)))
        report = world.sync()
    assert (report.lines_read, report.unreadable_files) == (0, 1)
    assert report.problems == [f"{world.main}: too many open files"]
    assert world.sync().lines_read == 2
    world.settled([0, 1])


@pytest.mark.parametrize("year", thinned([1969, 1500, 2263, 2400], 2))
def test_a_file_of_any_year_is_read_like_others(world: World, year: int) -> None:
    at = int((datetime(year, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    world.write(lines(0, 1))
    try:
        os.utime(world.main, (at, at))
    except OverflowError:
        pytest.skip("no such time here")
    assert world.sync().lines_read == 2
    assert world.sync().lines_read == 0
    assert world.cli("query", "SELECT 1").stderr == ""
    world.append(lines(2))
    os.utime(world.main, (at, at))
    assert world.sync().lines_read == 1
    world.settled([0, 1, 2])


def test_case_31_a_file_that_was_renamed_and_has_grown_meanwhile(world: World) -> None:
    world.write(lines(0, 1) + line(2)[:20])
    world.sync()
    new = world.file(f"elsewhere/{SESSION}.jsonl")
    world.main.rename(new)
    world.append(line(2)[20:] + lines(3), new)
    report = world.sync()
    assert (report.renamed_files, report.lines_read) == (1, 2)
    world.settled([0, 1, 2, 3])


def test_case_31_two_files_that_swap_names_end_with_every_line_once(world: World) -> None:
    one, two = world.file("p/one.jsonl"), world.file("p/two.jsonl")
    world.write(long_lines(0, 1), one)
    world.write(long_lines(2, 3, 4), two)
    world.sync()
    spare = world.file("p/spare")
    one.rename(spare)
    two.rename(one)
    spare.rename(two)
    world.sync()
    taken_in(world, range(5))
    world.append(lines(5), one)
    world.append(lines(6), two)
    world.sync()
    world.settled(range(7))


def test_case_31_a_file_renamed_away_and_another_put_in_its_place(world: World) -> None:
    world.write(lines(0, 1))
    world.sync()
    moved = world.file(f"moved/{SESSION}.jsonl")
    world.main.rename(moved)
    world.write(lines(2, 3))
    world.sync()
    world.settled([0, 1, 2, 3])


def test_case_32_a_renamed_project_folder_renames_all_its_files_and_reads_none(
    world: World,
) -> None:
    agent = world.file(f"-work-tides/{SESSION}/subagents/agent-a1.jsonl")
    world.write(lines(0, 1))
    world.write(line(2, agentId="a1", isSidechain=True), agent)
    world.sync()
    (world.root / "-work-tides").rename(world.root / "-work-moved")
    report = world.sync()
    assert (report.renamed_files, report.lines_read, report.new_files) == (2, 0, 0)
    folders = world.ask("SELECT path FROM source_files")
    assert all("/-work-moved/" in path for (path,) in folders)
    # A project is known by the working directory, which has not moved with the folder.
    assert world.ask("SELECT path, path_source FROM projects") == [("/work/tides", "cwd")]
    world.settled([0, 1, 2])


def test_case_32_a_project_known_only_by_its_folder_follows_the_folder(world: World) -> None:
    no_cwd = {"cwd": None}
    world.write(lines(0, **no_cwd))
    world.sync()
    [(old, source)] = world.ask(
        "SELECT p.path, path_source FROM sessions s JOIN projects p ON p.id = s.project_id"
    )
    assert source == "dir_name"
    (world.root / "-work-tides").rename(world.root / "-work-harbour")
    assert world.sync().lines_read == 0
    [(new, source)] = world.ask(
        "SELECT p.path, path_source FROM sessions s JOIN projects p ON p.id = s.project_id"
    )
    assert source == "dir_name"
    assert new == old.replace("tides", "harbour")


@pytest.mark.parametrize("moved", ["-work-tides", "."], ids=["a project", "the root"])
def test_case_32_a_folder_that_is_moved_while_all_are_walked_is_not_called_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch, moved: str
) -> None:
    main = world.write(lines(0, 1))
    other = world.write(lines(5, sessionId=OTHER_SESSION), world.file("p/other.jsonl"))
    world.sync()
    folder = world.root / moved
    away = world.root.with_name("away")
    listed = 0
    real = os.scandir

    def scandir(path: str) -> Any:
        nonlocal listed
        if Path(path) == folder:
            listed += 1
            if listed == (2 if moved == "." else 1):  # a root is listed once before
                folder.rename(away)
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", scandir)
        report = world.sync()
    assert not folder.exists()
    assert report.missing_files == 0
    assert world.source(main)["missing_since"] is None
    assert world.ask("SELECT DISTINCT source_deleted_at FROM sessions") == [(None,)]
    if moved == ".":
        away.rename(folder)
    else:
        away.rename(world.root / "-work-moved")
        assert world.sync().renamed_files == 1
    assert world.source(other)["state"] == "ok"
    world.settled([0, 1, 5])


def another_file_system() -> Path | None:
    here = os.stat(tempfile.gettempdir()).st_dev
    for name in ("/dev/shm", "/run", "/var/tmp"):
        if os.access(name, os.W_OK | os.X_OK) and os.stat(name).st_dev != here:
            return Path(name)
    return None


def test_case_33_a_project_moved_to_another_file_system_adds_no_row(world: World) -> None:
    place = another_file_system()
    if place is None:
        pytest.skip("all folders here are on one file system")
    world.write(lines(0, 1, 2))
    world.sync()
    before = world.ask("SELECT id, uuid, text FROM messages ORDER BY id")
    with tempfile.TemporaryDirectory(dir=place) as folder:
        moved = Path(folder) / f"p/{SESSION}.jsonl"
        moved.parent.mkdir()
        shutil.copy2(world.main, moved)
        assert moved.stat().st_dev != world.main.stat().st_dev
        old = world.main
        world.main.unlink()
        both = Config(db_path=world.db, roots=(str(world.root), folder))
        report = sync(both, progress=NullProgress())
        assert (report.new_files, report.missing_files) == (1, 1)
        assert world.ask("SELECT id, uuid, text FROM messages ORDER BY id") == before
        assert world.source(old)["missing_since"] is not None
        assert world.source(moved)["lines"] == 3
        world.append(lines(3), moved)
        sync(both, progress=NullProgress())
        assert world.texts() == texts(range(4))
        assert world.ask("SELECT DISTINCT source_deleted_at FROM sessions") == [(None,)]


def test_case_33_a_copy_that_replaces_the_original_adds_no_row(world: World) -> None:
    world.write(lines(0, 1, 2))
    world.sync()
    copied = world.file(f"elsewhere/{SESSION}.jsonl")
    shutil.copy2(world.main, copied)
    world.main.unlink()
    report = world.sync()
    # On some file systems the copy may get the inode of the original: then it is a rename.
    assert report.new_files + report.renamed_files == 1
    world.settled([0, 1, 2])
    assert world.source(copied)["lines"] == 3


# -- inode reuse, deletion -----------------------------------------------------------------------


def recreate_with_same_inode(old: Path, new: Path, data: bytes) -> bool:
    """Delete one file and create another until it has got the same inode."""
    number = old.stat().st_ino
    old.unlink()
    for _ in range(20):
        new.write_bytes(data)
        if new.stat().st_ino == number:
            return True
        new.unlink()
    return False


@pytest.mark.parametrize("where", ["same path", "another path"])
@pytest.mark.parametrize("size", ["shorter", "longer", "empty"])
def test_case_34_a_new_file_with_the_inode_of_a_deleted_one_is_read_from_its_start(
    world: World, where: str, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write(long_lines(0, 1, 2))
    world.sync()
    data, numbers = {
        "shorter": (lines(7), [7]),
        "longer": (long_lines(*range(10, 20)), list(range(10, 20))),
        "empty": (b"", []),
    }[size]
    new = world.main if where == "same path" else world.file(f"p/{OTHER_SESSION}.jsonl")
    number = world.main.stat().st_ino
    if not recreate_with_same_inode(world.main, new, data):
        # tmpfs gives no inode twice: pretend it did.
        new.write_bytes(data)
        pretend_inode(monkeypatch, new.stat().st_ino, number)
    report = world.sync()
    assert report.renamed_files == 0
    assert report.lines_read == len(numbers)
    assert world.source(new)["lines"] == len(numbers)
    world.settled([0, 1, 2, *numbers])


def pretend_inode(monkeypatch: pytest.MonkeyPatch, real: int, wanted: int) -> None:
    real_fstat, real_scan = os.fstat, walk.scan

    def fstat(fd: int) -> os.stat_result:
        found = real_fstat(fd)
        if found.st_ino != real:
            return found
        return os.stat_result((found[0], wanted, *found[2:]), dict(found.__reduce__()[1][1]))

    def scan(*words: Any) -> Any:
        found = real_scan(*words)
        found.files = [
            FoundFile(f.path, f.root, f.dev, wanted, f.size, f.mtime_ns, f.ctime_ns)
            if f.ino == real
            else f
            for f in found.files
        ]
        return found

    monkeypatch.setattr(identity.os, "fstat", fstat)
    monkeypatch.setattr("ctxdb.ingest.sync.scan", scan)


def test_case_34_the_inode_can_be_pretended_where_the_file_system_gives_none_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write(long_lines(0, 1, 2))
    world.sync()
    number = world.source()["ino"]
    new = world.write(long_lines(5, 6), world.file(f"p/{OTHER_SESSION}.jsonl"))
    world.main.unlink()
    with monkeypatch.context() as patch:
        pretend_inode(patch, new.stat().st_ino, number)
        assert world.sync().renamed_files == 0
        assert world.source(new)["ino"] == number
    assert world.texts() == texts([0, 1, 2, 5, 6])


@pytest.mark.parametrize("ahead", [False, True], ids=["one process", "several processes"])
def test_case_35_a_file_deleted_while_it_is_read_is_read_to_its_end(
    world: World, monkeypatch: pytest.MonkeyPatch, ahead: bool
) -> None:
    world.write(lines(0, 1, 2))
    if ahead:
        monkeypatch.setattr(ingest, "READ_AHEAD_BYTES", 0)
    real = line_reader.read_block

    def delete_first(*args: Any, **named: Any) -> Any:
        world.main.unlink(missing_ok=True)
        return real(*args, **named)

    monkeypatch.setattr(line_reader, "read_block", delete_first)
    assert world.sync().lines_read == 3
    monkeypatch.undo()
    assert world.texts() == texts([0, 1, 2])
    assert world.source()["missing_since"] is None
    assert world.sync().missing_files == 1
    assert world.source()["state"] == "missing"
    assert world.source()["missing_since"] is not None
    world.settled([0, 1, 2])


def test_case_35_a_file_deleted_between_looking_and_reading_is_missing_next_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = world.file(f"z/{OTHER_SESSION}.jsonl")
    world.write(lines(5, sessionId=OTHER_SESSION), other)
    world.write(lines(0, 1))
    real = ingest.read_file

    def delete_first(*args: Any, **named: Any) -> Any:
        world.main.unlink(missing_ok=True)
        return real(*args, **named)

    monkeypatch.setattr(ingest, "read_file", delete_first)
    report = world.sync()
    assert report.problems == []
    monkeypatch.undo()
    assert world.texts() == texts([5])
    world.sync()
    assert world.source()["state"] == "missing"
    world.settled([5])


def test_case_35_a_file_that_shrinks_while_it_is_read_is_read_again_next_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write(lines(*range(10)))
    real = line_reader.read_block

    def shrink_first(*args: Any, **named: Any) -> Any:
        if world.main.stat().st_size > len(lines(0, 1, 2)):
            os.truncate(world.main, len(lines(0, 1, 2)) - 20)
        return real(*args, **named)

    monkeypatch.setattr(line_reader, "read_block", shrink_first)
    world.sync()
    monkeypatch.undo()
    assert world.texts() == texts([0, 1])
    world.write(lines(0, 1, 2, 3))
    world.sync()
    world.settled([0, 1, 2, 3])


@pytest.mark.parametrize("ahead", [False, True], ids=["one process", "several processes"])
def test_a_disk_that_fails_midway_through_a_file_is_one_error_until_the_rest_is_read(
    world: World, monkeypatch: pytest.MonkeyPatch, ahead: bool
) -> None:
    world.write(lines(*range(40)))
    other = world.write(lines(50), world.file("z/z.jsonl"))
    if ahead:
        monkeypatch.setattr(ingest, "READ_AHEAD_BYTES", 0)
    read = line_reader.read_chunk

    def fails(fd: int, offset: int, *place: Any, **how: Any) -> Any:
        if offset:
            raise OSError(errno.EIO, "Input/output error")
        return read(fd, offset, *place, **{**how, "want_bytes": 1})

    monkeypatch.setattr(tail.read_block, "__defaults__", (2000, tail.MAX_LINE_BYTES))
    monkeypatch.setattr(line_reader, "read_chunk", fails)
    for _ in range(2):
        assert world.sync().problems == [f"{world.main}: input/output error"]
        assert world.errors() == [(None, None, "input/output error")]
        assert (world.source()["state"], world.source()["lines"]) == ("unreadable", 5)
        assert world.source(other)["state"] == "ok"
    monkeypatch.undo()
    assert world.sync().lines_read == 35
    assert (world.errors(), world.source()["state"]) == ([], "ok")
    world.settled([*range(40), 50])


def test_case_36_a_session_whose_file_was_cleaned_up_is_still_there_and_says_so(
    world: World,
) -> None:
    other = world.file(f"p/{OTHER_SESSION}.jsonl")
    world.write(lines(0, 1))
    world.write(lines(5, sessionId=OTHER_SESSION), other)
    world.sync()
    world.main.unlink()
    assert world.sync().missing_files == 1
    assert world.source()["missing_since"] is not None
    deleted = dict(world.ask("SELECT id, source_deleted_at IS NOT NULL FROM sessions"))
    assert deleted == {SESSION: 1, OTHER_SESSION: 0}
    state = dict(world.ask("SELECT path, state FROM ingest_health"))
    assert state == {str(world.main): "missing", str(other): "ok"}
    [(found,)] = world.ask(
        "SELECT text FROM messages_fts WHERE messages_fts MATCH '\"line 00001\"'"
    )
    assert found == "line 00001"
    taken_in(world, [0, 1, 5])
    assert "1 deleted since (kept here)" in world.cli("status").stdout
    # Restored from a backup, it is there again, and nothing of it is new.
    world.write(lines(0, 1))
    report = world.sync()
    assert (report.lines_read, report.rewritten_files) == (0, 0)
    assert world.source()["missing_since"] is None
    assert world.ask("SELECT DISTINCT source_deleted_at FROM sessions") == [(None,)]
    world.settled([0, 1, 5])


@pytest.mark.parametrize("seen_gone", [False, True], ids=["between syncs", "a sync in between"])
def test_case_37_a_file_deleted_and_created_again_is_read_from_its_start(
    world: World, seen_gone: bool
) -> None:
    world.write(long_lines(0, 1))
    world.sync()
    world.main.unlink()
    if seen_gone:
        world.sync()
    world.write(long_lines(5, 6, 7))
    assert world.sync().rewritten_files == 1
    source = world.source()
    assert (source["generation"], source["lines"], source["state"]) == (1, 3, "ok")
    assert source["missing_since"] is None
    world.settled([0, 1, 5, 6, 7])


# -- links, other kinds of files -----------------------------------------------------------------


def test_case_38_two_names_of_one_file_are_two_rows_and_one_set_of_messages(world: World) -> None:
    world.write(lines(0, 1))
    other = world.file(f"-work-tides/{OTHER_SESSION}.jsonl")
    os.link(world.main, other)
    assert world.sync().new_files == 2
    taken_in(world, [0, 1])
    world.append(lines(2))
    report = world.sync()
    assert (report.grown_files, report.renamed_files) == (2, 0)
    taken_in(world, [0, 1, 2])
    world.main.unlink()
    report = world.sync()
    assert (report.missing_files, report.renamed_files) == (1, 0)
    world.append(lines(3), other)
    world.sync()
    world.settled([0, 1, 2, 3])


def test_case_38_a_second_name_that_comes_later_is_a_second_row(world: World) -> None:
    world.write(lines(0, 1))
    world.sync()
    os.link(world.main, world.file(f"-work-tides/{OTHER_SESSION}.jsonl"))
    report = world.sync()
    assert (report.new_files, report.renamed_files, report.missing_files) == (1, 0, 0)
    world.settled([0, 1])


def test_case_38_a_second_name_in_another_root_does_not_take_the_row_of_the_first(
    world: World, tmp_path: Path
) -> None:
    """As snapshots made of hard links have it, read with `--root` now and then."""
    world.write(lines(0, 1))
    world.sync()
    snapshot = tmp_path / "snapshot"
    shutil.copytree(world.root, snapshot, copy_function=os.link)
    copied = World(snapshot, world.db)
    assert copied.main.samefile(world.main)
    report = copied.sync()
    assert (report.new_files, report.renamed_files) == (1, 0)
    taken_in(world, [0, 1])
    taken_in(copied, [0, 1])
    world.append(lines(2))
    for one in (world, copied):
        assert one.sync().grown_files == 1
        taken_in(one, [0, 1, 2])
    # A name that is gone is a name that was changed, in whatever root the new one is.
    world.main.rename(snapshot / "-work-tides" / f"{OTHER_SESSION}.jsonl")
    assert copied.sync().renamed_files == 1
    copied.settled([0, 1, 2])


def test_case_39_links_to_files_folders_loops_and_nowhere_are_ignored(
    world: World, tmp_path: Path
) -> None:
    """`doctor`, which will list them, is another issue; discovery already reports them."""
    world.write(lines(0, 1))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.jsonl").write_bytes(lines(7))
    folder = world.main.parent
    (folder / "link.jsonl").symlink_to(world.main)
    (folder / "out.jsonl").symlink_to(outside / "secret.jsonl")
    (folder / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    (folder / "itself.jsonl").symlink_to("itself.jsonl")
    (folder / "loop").symlink_to(".")
    (world.root / "up").symlink_to("..")
    (world.root / "outside").symlink_to(outside)
    report = world.sync()
    assert (report.files, report.problems) == (1, [])
    world.settled([0, 1])
    found = walk.scan([str(world.root)], is_transcript)
    ignored = [path for path, why in found.ignored if why == "symlink"]
    assert len(ignored) == 7


def test_case_39_a_transcript_that_becomes_a_link_has_not_vanished_and_is_not_followed(
    world: World, tmp_path: Path
) -> None:
    world.write(lines(0, 1))
    world.sync()
    world.main.rename(tmp_path / "moved.jsonl")
    world.main.symlink_to(tmp_path / "moved.jsonl")
    world.append(lines(2), tmp_path / "moved.jsonl")
    world.sync()
    assert world.source()["missing_since"] is None
    assert world.texts() == texts([0, 1])


def test_case_39_a_transcript_that_becomes_a_link_while_it_is_looked_at_is_not_followed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret.jsonl"
    secret.write_bytes(lines(7))
    world.write(lines(0, 1))
    swap = swapped_for(secret, world.main)
    for module, name, put in (
        (plan, "open_regular", swap),
        (ingest_sync, "reading_of", reading_with(swap)),
    ):
        monkeypatch.setattr(module, name, put)
        world.sync()
        assert world.texts() == []
        monkeypatch.undo()
        world.main.unlink()
        world.write(lines(0, 1))
    world.sync()
    world.settled([0, 1])


def reading_with(opener: Any) -> Any:
    """What a sync reads files by, with another function that opens them."""

    def reading_of_files(*args: Any) -> Reading:
        return reading_of(*args)._replace(opener=opener)

    return reading_of_files


def swapped_for(target: Path, path: Path) -> Any:
    real = identity.open_regular

    def swap_first(name: Any) -> int:
        if os.fsdecode(name) == str(path):
            path.unlink()
            path.symlink_to(target)
        return real(name)

    return swap_first


def test_case_40_what_only_has_the_name_of_a_transcript_is_skipped_and_never_blocks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write(lines(0, 1))
    folder = world.main.parent
    os.mkfifo(folder / "fifo.jsonl")
    monkeypatch.chdir(folder)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.jsonl")
        (folder / "folder.jsonl").mkdir()
        (folder / "folder.jsonl/inside.jsonl").write_bytes(lines(2))
        if os.geteuid() == 0:
            os.mknod(folder / "device.jsonl", 0o600 | 0o020000, os.makedev(1, 3))
        report = world.sync()
        assert (report.files, report.problems) == (2, [])
        world.settled([0, 1, 2])


def test_case_40_a_transcript_that_becomes_a_fifo_while_it_is_looked_at_never_blocks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write(lines(0, 1))
    other = world.write(lines(2), world.file("z/z.jsonl"))
    real = plan.open_regular

    def swap_first(path: Any) -> int:
        if os.fsdecode(path) == str(world.main) and world.main.is_file():
            world.main.unlink()
            os.mkfifo(world.main)
        return real(path)

    monkeypatch.setattr(plan, "open_regular", swap_first)
    report = world.sync()
    assert report.unreadable_files == 1
    assert world.texts() == texts([2])
    assert world.source(other)["state"] == "ok"


# -- permissions ---------------------------------------------------------------------------------


@contextmanager
def public_database() -> Iterator[World]:
    """A public world with a database without rows: making one takes as long as ten syncs."""
    with public_world() as world:
        put_empty_database(world.db)
        if os.geteuid() == 0:
            os.chown(world.db, NOBODY, NOBODY)
        yield world


def test_case_41_a_file_without_permission_is_one_error_and_is_read_once_it_is_restored() -> None:
    with public_database() as world:
        world.write(lines(0, 1))
        other = world.write(lines(5, sessionId=OTHER_SESSION), world.file("p/other.jsonl"))
        os.chmod(world.main, 0o000)

        def sync() -> Any:
            return world.sync().as_dict()

        for _ in range(2):
            report = as_nobody(sync)
            assert report["unreadable_files"] == 1
            assert report["problems"] == [f"{world.main}: permission denied"]
            assert world.texts() == texts([5])
            assert world.errors() == [(None, None, "permission denied")]
            assert world.source()["state"] == "unreadable"
        os.chmod(world.main, 0o644)
        report = as_nobody(sync)
        assert (report["lines_read"], report["problems"]) == (2, [])
        assert world.texts() == texts([0, 1, 5])
        assert world.source()["state"] == "ok"
        assert world.errors() == []  # what was wrong is no longer
        # Lost again, later: what is in stays in, and what comes meanwhile is read afterwards.
        os.chmod(other, 0o000)
        world.append(lines(6, sessionId=OTHER_SESSION), other)
        as_nobody(sync)
        assert world.texts() == texts([0, 1, 5])
        assert world.source(other)["missing_since"] is None
        os.chmod(other, 0o644)
        as_nobody(sync)
        assert world.errors() == []
        assert world.texts() == texts([0, 1, 5, 6])


def test_case_41_a_file_that_is_unchanged_when_it_can_be_read_again_is_not_read_again() -> None:
    with public_database() as world:
        world.write(lines(0, 1))

        def sync() -> Any:
            return world.sync().as_dict()

        as_nobody(sync)
        os.chmod(world.main, 0o000)
        assert as_nobody(sync)["unreadable_files"] == 1
        os.chmod(world.main, 0o644)
        report = as_nobody(sync)
        assert (report["lines_read"], report["rewritten_files"]) == (0, 0)
        assert world.errors() == []
        assert world.source()["state"] == "ok"


def test_case_41_a_folder_without_permission_makes_nothing_missing() -> None:
    with public_database() as world:
        world.write(lines(0, 1))
        other = world.write(lines(5), world.file("q/other.jsonl"))

        def sync() -> Any:
            return world.sync().as_dict()

        as_nobody(sync)
        os.chmod(world.main.parent, 0o000)
        world.append(lines(6), other)
        report = as_nobody(sync)
        assert report["missing_files"] == 0
        assert report["problems"] == [f"{world.main.parent}: Permission denied"]
        assert world.source()["missing_since"] is None
        os.chmod(world.main.parent, 0o755)
        report = as_nobody(sync)
        assert (report["lines_read"], report["rewritten_files"]) == (0, 0)
        assert world.texts() == texts([0, 1, 5, 6])


# -- names, numbers, clocks ----------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS allows only UTF-8 in file names")
@pytest.mark.parametrize(
    "name",
    thinned([b"z\xfcrich.jsonl", b"\xff\xfe\x01.jsonl", b"two\nlines.jsonl", b"\\xe9.jsonl"], 2),
)
def test_case_45_names_that_are_no_utf8_or_hold_a_newline_are_read_like_any_other(
    world: World, name: bytes
) -> None:
    folder = os.fsencode(world.root) + b"/z\xfcrich dir\n"
    os.mkdir(folder)
    path = Path(os.fsdecode(folder + b"/" + name))
    path.write_bytes(lines(0, 1))
    assert world.sync().new_files == 1
    stored = world.one("SELECT path FROM source_files")
    stored.encode()
    assert stored.isprintable()
    taken_in(world, [0, 1])
    with path.open("ab") as file:
        file.write(lines(2) + b"torn {\n")
    world.sync()
    taken_in(world, [0, 1, 2])
    # A person meets the name in `status`, in a pipe and in JSON.
    for args in (["status"], ["status", "--json"]):
        done = world.cli(*args)
        assert (done.returncode, done.stderr) == (0, "")
    renamed = path.with_name("plain.jsonl")
    path.rename(renamed)
    assert world.sync().renamed_files == 1
    taken_in(world, [0, 1, 2])
    renamed.unlink()
    world.sync()
    world.settled([0, 1, 2])


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS allows only UTF-8 in file names")
def test_case_45_a_root_and_a_database_whose_names_are_no_utf8_are_used_like_any_other(
    world: World,
) -> None:
    folder = Path(os.fsdecode(os.fsencode(world.root) + b"/z\xfcrich\n"))
    odd = World(folder, folder.parent / os.fsdecode(b"d\xff\n/c\xfe?#%41.db"))
    odd.write(lines(0, 1))
    assert odd.cli("sync").returncode == 0
    done = odd.cli("verify", "--json")
    assert (done.returncode, json.loads(done.stdout)["files"]) == (0, 1)
    for args in (["status"], ["status", "--json"], ["path"], ["search", "line"]):
        done = odd.cli(*args)
        assert (done.returncode, done.stderr) == (0, "")
    odd.append(lines(2))
    assert odd.cli("sync").returncode == 0
    with closing(sqlite3.connect(odd.db)) as conn:
        assert conn.execute("SELECT count(*) FROM messages").fetchone() == (3,)


def test_case_46_many_files_are_scanned_with_few_descriptors(world: World) -> None:
    must_scan(world, projects=20)


@pytest.mark.slow
def test_case_46_ten_thousand_files_are_scanned_quickly_with_few_descriptors(
    world: World,
) -> None:
    must_scan(world, projects=200)


def must_scan(world: World, projects: int) -> None:
    """Fifty files in each of them."""
    for project in range(projects):
        folder = world.root / f"p{project}"
        folder.mkdir()
        for n in range(50):
            (folder / f"{n}.jsonl").touch()
    world.write(lines(0), world.file("p0/0.jsonl"))
    most = 0
    real = plan.open_regular

    def counting(path: Any) -> int:
        nonlocal most
        fd = real(path)
        most = max(most, fd)  # descriptors are given out from below
        return fd

    used = os.dup(0)  # the next one that is free
    os.close(used)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "open_regular", counting)
        report = world.sync()
    assert report.files == 50 * projects
    assert most < used + 50
    report = world.sync()
    assert (report.files, report.lines_read, report.new_files) == (50 * projects, 0, 0)
    assert world.texts() == texts([0])


def memory_with(world: World, files: int, work: Callable[[], Any]) -> int:
    """The most memory that some work takes, in bytes, when there are so many unchanged files."""
    for n in range(files):
        path = world.file(f"p{n % 20}/{n:08}-0000-4000-8000-000000000000.jsonl")
        path.parent.mkdir(exist_ok=True)
        path.touch()
    world.sync()
    work()  # what is loaded or cached the first time
    tracemalloc.start()
    try:
        work()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return most


BYTES_PER_FILE = 600  # with its path; 200,000 files then take 120 MB


def test_case_88_an_unchanged_file_takes_a_few_hundred_bytes_in_a_sync(world: World) -> None:
    def nothing_new() -> None:
        report = world.sync()
        assert (report.lines_read, report.new_files) == (0, 0)

    few = memory_with(world, 200, nothing_new)
    many = memory_with(world, 1200, nothing_new)
    assert (many - few) / 1000 < BYTES_PER_FILE


def test_case_88_an_unchanged_file_takes_a_few_hundred_bytes_in_a_walk_of_the_daemon(
    world: World,
) -> None:
    def walk() -> None:
        with closing(sqlite3.connect(world.db)) as conn:
            rescan = Rescan([str(world.root)])
            assert not rescan.walk(load_stats(conn)).files  # at its start
            assert not rescan.walk().files  # and when idle

    few = memory_with(world, 200, walk)
    many = memory_with(world, 1200, walk)
    assert (many - few) / 1000 < BYTES_PER_FILE


def test_case_88_no_row_of_an_unchanged_file_is_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(30):
        world.write(lines(n), world.file(f"p/{n}.jsonl"))
    world.sync()
    made: list[str] = []
    real = source_files._known
    monkeypatch.setattr(source_files, "_known", lambda row: (made.append("row"), real(row))[1])
    assert world.sync().files == 30
    assert made == []
    world.append(line(99), world.file("p/7.jsonl"))
    assert world.sync().lines_read == 1
    assert made == ["row"]


def test_case_89_a_sync_searches_only_the_new_bytes_of_an_unfinished_line(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sync has only what the database remembers, as another process would."""
    long = line(1, padding="some words " * 300_000)
    world.write(line(0) + long[:-100])
    assert world.sync().lines_read == 1
    real = os.pread
    sizes: list[int] = []

    def pread(fd: int, count: int, offset: int) -> bytes:
        data = real(fd, count, offset)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", pread)
    for cut in range(100, 2, -7):
        world.append(long[-cut : 7 - cut])
        assert world.sync().lines_read == 0
    assert sum(sizes) < 14 * 16 * 1024
    world.sound()
    world.append(long[-2:])
    assert world.sync().lines_read == 1
    world.settled([0, 1])


def test_case_47_64_descriptors_are_enough(world: World) -> None:
    for n in range(120):
        world.write(lines(n), world.file(f"p{n % 30}/{n}.jsonl"))

    limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); "
    done = world.cli("sync", "--json", code=limit + RUN)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["problems"] == []
    world.settled(range(120))


def test_case_47_when_descriptors_run_out_a_file_is_read_later_and_not_called_missing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = world.write(lines(0), world.file("a/known.jsonl"))
    world.sync()
    world.append(lines(1), known)
    world.write(lines(2), world.file("b/new.jsonl"))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    real = plan.open_regular

    def exhausted(path: Any) -> int:
        # The real error of the real system call, with no descriptor left to give.
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
        try:
            return real(path)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)

    monkeypatch.setattr(plan, "open_regular", exhausted)
    report = world.sync()
    assert report.unreadable_files == 2
    assert all("too many open files" in problem for problem in report.problems)
    monkeypatch.undo()
    assert world.source(known)["state"] == "ok"
    assert world.source(known)["missing_since"] is None
    assert world.errors() == []
    world.sync()
    world.settled([0, 1, 2])


YEAR_2099, YEAR_1970 = 4_075_000_000 * 10**9, 10**9


@pytest.mark.parametrize(
    "stamp", thinned([YEAR_2099, YEAR_1970, 0], 2), ids=["2099", "1970", "zero"]
)
def test_case_48_a_file_time_far_off_changes_nothing(world: World, stamp: int) -> None:
    world.write(lines(0, 1))
    os.utime(world.main, ns=(stamp, stamp))
    world.sync()
    taken_in(world, [0, 1])
    world.append(lines(2))
    os.utime(world.main, ns=(stamp, stamp))
    assert world.sync().lines_read == 1
    taken_in(world, [0, 1, 2])
    os.truncate(world.main, len(lines(0)))
    os.utime(world.main, ns=(stamp, stamp))
    assert world.sync().rewritten_files == 1
    world.settled([0, 1, 2])


def test_case_48_a_clock_that_jumps_by_a_day_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Timers belong to the daemon, another issue; a pass is timed by the monotonic clock."""
    now = "2026-08-24T12:00:00.000Z"
    monkeypatch.setattr(ingest, "utc_now", lambda: now)
    monkeypatch.setattr(time, "time", lambda: pytest.fail("nothing may go by the wall clock"))
    world.write(lines(0))
    world.sync()
    for now in ("2026-08-23T12:00:00.000Z", "2026-08-25T12:00:00.000Z", "1970-01-01T00:00:00.000Z"):
        n = world.one("SELECT count(*) FROM messages")
        world.append(lines(n))
        report = world.sync()
        assert report.lines_read == 1
        assert report.seconds >= 0
        assert world.source()["last_read_at"] == now
    world.settled(range(4))


def test_case_48_the_time_zone_of_the_machine_changes_nothing(world: World) -> None:
    world.write(lines(0, 1))
    for zone in ("Pacific/Kiritimati", "America/Los_Angeles"):
        done = world.cli("sync", env={**os.environ, "TZ": zone})
        assert done.returncode == 0, done.stderr
        assert world.one("SELECT min(timestamp) FROM messages") == "2026-08-24T00:00:00.000Z"
        assert world.source()["last_read_at"].endswith("Z")
    world.settled([0, 1])


def test_a_file_that_is_overwritten_while_it_is_read_is_read_again_by_the_next_sync(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = long_lines(*range(40)), long_lines(*range(100, 160))
    world.write(old)
    read = line_reader.read_chunk
    times = 0

    def overwritten(fd: int, offset: int, *place: Any, **how: Any) -> Any:
        nonlocal times
        times += 1
        if times == 2:
            with world.main.open("r+b") as file:  # as rsync --inplace does
                file.write(new)
        return read(fd, offset, *place, **{**how, "want_bytes": 1})

    monkeypatch.setattr(tail.read_block, "__defaults__", (4000, tail.MAX_LINE_BYTES))
    monkeypatch.setattr(line_reader, "read_chunk", overwritten)
    world.sync()
    monkeypatch.undo()
    assert world.sync().rewritten_files == 1
    said = {text[:10] for text in world.texts()}
    assert said >= set(texts(range(100, 160)))
    assert said <= set(texts([*range(40), *range(100, 160)]))
    world.sound()
