"""Archived files are put back byte for byte, all of them or none."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ctxdb.archive.check import check_archive
from ctxdb.archive.restore import files_of_session, place_below, restore
from ctxdb.errors import ArchiveError
from test_archive import Box

ONE, TWO = b'{"a": 1}\n', b'{"b": 2}\n{"c'


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    """A session of two files, archived and then deleted."""
    made = Box(tmp_path)
    with closing(made.conn):
        agent = made.file.parent / "s" / "subagents" / "agent-a1.jsonl"
        agent.parent.mkdir(parents=True)
        made.file.write_bytes(ONE)
        agent.write_bytes(TWO)
        made.quiet(made.file, agent)
        yield made


def files(box: Box) -> dict[str, bytes]:
    return {
        str(path.relative_to(box.root)): path.read_bytes()
        for path in sorted(box.root.rglob("*"))
        if path.is_file()
    }


def delete(box: Box) -> dict[str, bytes]:
    """Delete the sources; returns what they were."""
    were = files(box)
    for name in were:
        (box.root / name).unlink()
    return were


def targets(box: Box, folder: Path | None = None, generation: int | None = None) -> list:  # type: ignore[type-arg]
    chosen = files_of_session(box.conn, "s", generation)
    return place_below(chosen, str(folder) if folder else None)


def test_deleted_files_come_back_with_the_present_time(box: Box) -> None:
    were = delete(box)
    before = time.time() - 5
    done = restore(box.conn, targets(box))
    assert files(box) == were
    assert sorted(done.written) == sorted(str(box.root / name) for name in were)
    assert all((box.root / name).stat().st_mtime >= before for name in were)


def test_sealed_files_come_back(box: Box) -> None:
    were = delete(box)
    box.seal()
    restore(box.conn, targets(box))
    assert files(box) == were


def test_files_can_be_put_below_another_folder(box: Box, tmp_path: Path) -> None:
    were = files(box)
    restore(box.conn, targets(box, tmp_path / "elsewhere"))
    assert {
        str(path.relative_to(tmp_path / "elsewhere")): path.read_bytes()
        for path in (tmp_path / "elsewhere").rglob("*")
        if path.is_file()
    } == were


def test_files_that_are_there_count_as_restored(box: Box) -> None:
    with box.file.open("ab") as file:
        file.write(b"it has grown\n")
    done = restore(box.conn, targets(box))
    assert (len(done.present), done.written) == (2, [])


def test_case_98_nothing_is_written_if_any_file_has_other_content(box: Box) -> None:
    delete(box)
    box.file.write_bytes(b"mine\n")
    with pytest.raises(ArchiveError, match=r"one\.jsonl: exists with other content"):
        restore(box.conn, targets(box))
    assert files(box) == {"-work-tides/one.jsonl": b"mine\n"}


def test_case_98_nothing_is_left_if_a_folder_cannot_be_made(box: Box) -> None:
    delete(box)
    for folder in ("-work-tides/s/subagents", "-work-tides/s"):
        (box.root / folder).rmdir()
    (box.root / "-work-tides/s").write_bytes(b"a file is in the way")
    with pytest.raises(ArchiveError, match="nothing was restored"):
        restore(box.conn, targets(box))
    assert files(box) == {"-work-tides/s": b"a file is in the way"}


def test_case_98_nothing_is_left_if_the_last_bytes_are_damaged(box: Box) -> None:
    were = delete(box)
    last = max(were)
    box.conn.execute(
        "UPDATE frames SET data = zeroblob(3) WHERE file_id ="
        " (SELECT id FROM files WHERE path = ?)",
        (str(box.root / last),),
    )
    with pytest.raises(ArchiveError, match="are damaged"):
        restore(box.conn, targets(box))
    assert files(box) == {}


def test_what_a_killed_restore_has_left_is_replaced(box: Box) -> None:
    were = delete(box)
    box.file.with_name("one.jsonl.ctxdb-restoring").write_bytes(b"half")
    restore(box.conn, targets(box))
    assert files(box) == were


def test_a_link_in_the_way_is_refused(box: Box, tmp_path: Path) -> None:
    delete(box)
    box.file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArchiveError, match="is in the way"):
        restore(box.conn, targets(box))
    assert not (tmp_path / "elsewhere").exists()


def test_an_older_generation_can_be_chosen(box: Box) -> None:
    box.file.write_bytes(b"rewritten\n")
    box.quiet()
    delete(box)
    restore(box.conn, targets(box, generation=1))
    assert box.file.read_bytes() == ONE
    with pytest.raises(ArchiveError, match=r"has no generation 9 .*the newest is 2"):
        targets(box, generation=9)


def test_the_check_compares_sources_and_names_damage(box: Box) -> None:
    checked = check_archive(box.conn, lambda _: None)
    assert (checked.ok, checked.files, checked.compared, checked.behind) == (True, 2, 2, 0)
    with box.file.open("ab") as file:
        file.write(b"more\n")
    box.conn.execute("UPDATE frames SET checksum = zeroblob(16) WHERE length = ?", (len(TWO),))
    checked = check_archive(box.conn, lambda _: None)
    assert not checked.ok
    assert checked.behind == 5
    assert [text.endswith("bytes 0 to 12 are damaged in the archive") for text in checked.damaged]
    os.truncate(box.file, 3)
    checked = check_archive(box.conn, lambda _: None)
    assert len(checked.different) == 1
