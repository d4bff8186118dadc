"""The archive gives back exactly the bytes that the files had, whatever happened to them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxdb.archive import add
from ctxdb.archive.add import Added, add_files
from ctxdb.archive.archive_file import archive_path, open_archive, open_archive_to_read
from ctxdb.archive.compression import compress_frame
from ctxdb.archive.merge import merge_frames
from ctxdb.archive.read import ArchiveReader, Generation, generations
from ctxdb.archive.seal import seal_projects
from ctxdb.archive.sources import Source
from ctxdb.errors import ArchiveError, DamagedBytes

NOW = "2026-08-24T22:00:00.000Z"
LATER = "2026-08-25T22:00:00.000Z"
LONG_AGO = 1_600_000_000


class Box:
    """A folder of files and the archive of them."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "projects"
        self.db = folder / "ctxdb.db"
        self.file = self.root / "-work-tides" / "one.jsonl"
        self.file.parent.mkdir(parents=True)
        self.conn = open_archive(self.db)

    def add(self, *paths: Path) -> Added:
        chosen = paths or sorted(p for p in self.root.rglob("*") if p.is_file())
        sources = [Source(str(p), str(self.root), "transcript", "s") for p in chosen]
        return add_files(self.conn, sources, NOW)

    def quiet(self, *paths: Path) -> Added:
        """Add files whose last change is long ago."""
        for path in paths or (self.file,):
            os.utime(path, (LONG_AGO, LONG_AGO))
        return self.add(*paths)

    def generations(self, path: Path | None = None) -> list[Generation]:
        return generations(self.conn, "WHERE path = ?", (str(path or self.file),))

    def bytes(self, path: Path | None = None) -> list[bytes]:
        """What the archive has of a file, oldest generation first."""
        reader = ArchiveReader(self.conn)
        return [reader.read(one) for one in self.generations(path)]

    def seal(self) -> int:
        merge_frames(self.conn, quiet_since=LATER)
        return seal_projects(self.conn, LATER, quiet_since=LATER, smallest=0)

    def count(self, table: str) -> int:
        (number,) = self.conn.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(number)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    made = Box(tmp_path)
    with closing(made.conn):
        yield made


def test_the_archive_is_private_and_lies_beside_the_database(box: Box) -> None:
    path = archive_path(box.db)
    assert path.name == "ctxdb.db.archive"
    assert path.stat().st_mode & 0o777 == 0o600


def test_complete_lines_are_archived_and_an_unfinished_one_waits(box: Box) -> None:
    box.file.write_bytes(b'{"a": 1}\n{"b"')
    box.add()
    assert box.bytes() == [b'{"a": 1}\n']


def test_an_unfinished_line_of_a_quiet_file_is_archived_and_continued_later(box: Box) -> None:
    box.file.write_bytes(b'{"a": 1}\n{"b"')
    box.quiet()
    assert box.bytes() == [b'{"a": 1}\n{"b"']
    box.file.write_bytes(b'{"a": 1}\n{"b": 2}\n')
    box.add()
    assert box.bytes() == [b'{"a": 1}\n{"b": 2}\n']


def test_only_new_bytes_are_added(box: Box) -> None:
    box.file.write_bytes(b"one\n")
    assert box.add().bytes == 4
    assert box.add().bytes == 0
    with box.file.open("ab") as file:
        file.write(b"two\n")
    assert box.add().bytes == 4
    assert box.bytes() == [b"one\ntwo\n"]


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(b"other\n", id="replaced"),
        pytest.param(b"on", id="cut"),
        pytest.param(b"one\nTWO\n", id="edited, same length"),
        pytest.param(b"one\nTWO\nthree\n", id="edited and grown"),
        pytest.param(b"", id="emptied"),
    ],
)
def test_case_96_a_rewritten_file_starts_a_generation_and_keeps_the_old_one(
    box: Box, after: bytes
) -> None:
    box.file.write_bytes(b"one\ntwo\n")
    box.quiet()
    box.file.unlink()
    box.file.write_bytes(after)
    assert box.quiet().rewritten == 1
    assert box.bytes() == [b"one\ntwo\n", after]
    assert [one.generation for one in box.generations()] == [1, 2]


def test_an_edit_in_the_middle_of_a_long_file_that_kept_its_size_is_noticed(box: Box) -> None:
    before = b"x" * 4000 + b"\n"
    after = before[:2000] + b"y" + before[2001:]
    box.file.write_bytes(before)
    box.quiet()
    box.file.write_bytes(after)
    os.utime(box.file, (LONG_AGO + 1, LONG_AGO + 1))
    box.add()
    assert box.bytes() == [before, after]


def test_sealed_bytes_are_the_same_and_new_lines_follow_them(box: Box) -> None:
    other = box.file.with_name("two.jsonl")
    for path, word in ((box.file, b"one"), (other, b"two")):
        for number in range(5):
            with path.open("ab") as file:
                file.write(word + b" %d\n" % number)
            box.add()
    want = {path: path.read_bytes() for path in (box.file, other)}
    assert box.seal() == 1
    assert box.count("frames") == 0
    assert {path: box.bytes(path) for path in want} == {p: [b] for p, b in want.items()}
    with box.file.open("ab") as file:
        file.write(b"more\n")
    box.add()
    assert box.bytes() == [want[box.file] + b"more\n"]
    assert box.seal() == 1
    assert box.bytes() == [want[box.file] + b"more\n"]


def test_projects_are_sealed_apart(box: Box) -> None:
    other = box.root / "-work-moon" / "two.jsonl"
    other.parent.mkdir()
    box.file.write_bytes(b"one\n")
    other.write_bytes(b"two\n")
    box.add()
    assert box.seal() == 2


def test_small_frames_are_merged(box: Box) -> None:
    for number in range(20):
        with box.file.open("ab") as file:
            file.write(b"%d\n" % number)
        box.add()
    assert box.count("frames") == 20
    merge_frames(box.conn, quiet_since=LATER)
    assert box.count("frames") == 1
    assert box.bytes() == [box.file.read_bytes()]


def test_case_95_a_damaged_frame_is_named_and_all_others_can_be_read(box: Box) -> None:
    other = box.file.with_name("two.jsonl")
    box.file.write_bytes(b"one\n")
    box.add()
    with box.file.open("ab") as file:
        file.write(b"two\n")
    other.write_bytes(b"other\n")
    box.add()
    box.conn.execute("UPDATE frames SET data = zeroblob(9) WHERE start = 4")
    (file,) = box.generations()
    reader = ArchiveReader(box.conn)
    (damaged,) = reader.damaged(file)
    assert (damaged.path, damaged.start, damaged.length) == (str(box.file), 4, 4)
    with pytest.raises(DamagedBytes, match=r"one\.jsonl: bytes 4 to 8 are damaged"):
        reader.read(file)
    assert reader.read(file, 0, 4) == b"one\n"
    assert box.bytes(other) == [b"other\n"]


def test_case_96_a_file_that_is_rewritten_in_place_and_grows_is_a_generation(box: Box) -> None:
    box.file.write_bytes(b"one\n")
    box.add()
    box.file.write_bytes(b"two\nthree\n")
    box.add()
    assert box.bytes() == [b"one\n", b"two\nthree\n"]


def test_case_96_a_file_that_is_replaced_by_one_that_differs_in_the_middle(box: Box) -> None:
    line = b"x" * 99 + b"\n"
    box.file.write_bytes(line * 40)
    box.add()
    other = box.file.with_name("aside")
    other.write_bytes(line * 20 + line.upper() + line * 20)
    other.replace(box.file)
    box.add()
    assert box.bytes() == [line * 40, line * 20 + line.upper() + line * 20]


def test_case_95_a_frame_with_other_bytes_of_that_length_is_named(box: Box) -> None:
    box.file.write_bytes(b"one\n")
    box.add()
    box.conn.execute("UPDATE frames SET data = ?", (compress_frame(b"two\n"),))
    (file,) = box.generations()
    reader = ArchiveReader(box.conn)
    assert [(d.start, d.length) for d in reader.damaged(file)] == [(0, 4)]
    with pytest.raises(DamagedBytes, match=r"one\.jsonl: bytes 0 to 4 are damaged"):
        reader.read(file)


@pytest.mark.parametrize("start", [0, 4, 8])
def test_case_95_what_a_missing_frame_had_is_not_left_out_of_a_file(box: Box, start: int) -> None:
    for text in (b"one\n", b"two\n", b"six\n"):
        with box.file.open("ab") as file:
            file.write(text)
        box.add()
    box.conn.execute("DELETE FROM frames WHERE start = ?", (start,))
    (found,) = box.generations()
    reader = ArchiveReader(box.conn)
    assert [(d.start, d.length) for d in reader.damaged(found)] == [(start, 4)]
    with pytest.raises(DamagedBytes, match=f"bytes {start} to {start + 4} are damaged"):
        reader.read(found)


def test_a_missing_frame_is_named(box: Box) -> None:
    box.file.write_bytes(b"one\n")
    box.add()
    box.conn.execute("DELETE FROM frames")
    (file,) = box.generations()
    assert [d.length for d in ArchiveReader(box.conn).damaged(file)] == [4]


def test_damaged_frames_are_not_sealed_over(box: Box) -> None:
    box.file.write_bytes(b"one\n")
    box.add()
    box.conn.execute("UPDATE frames SET data = zeroblob(9)")
    assert box.seal() == 0
    assert box.count("frames") == 1


def test_a_file_that_cannot_be_read_does_not_stop_the_others(box: Box) -> None:
    bad = box.root / "-work-tides" / "bad.jsonl"
    os.mkfifo(bad)
    box.file.write_bytes(b"one\n")
    added = box.add(bad, box.file, box.root / "gone.jsonl")
    assert added.problems == [f"{bad}: not a regular file"]
    assert box.bytes() == [b"one\n"]


def test_a_path_that_is_not_utf_8_is_kept_exactly(box: Box) -> None:
    path = os.fsencode(box.file.parent) + b"/na\xefve.jsonl"
    Path(os.fsdecode(path)).write_bytes(b"one\n")
    box.add(Path(os.fsdecode(path)))
    (file,) = generations(box.conn)
    assert os.fsencode(file.open_path) == path


def test_another_programs_file_is_refused(tmp_path: Path) -> None:
    db = tmp_path / "ctxdb.db"
    with closing(sqlite3.connect(archive_path(db))) as conn:
        conn.execute("CREATE TABLE theirs (a)")
        conn.commit()
    archive_path(db).chmod(0o600)
    with pytest.raises(ArchiveError, match="is not an archive of ctxdb"):
        open_archive(db)
    archive_path(db).write_bytes(b"not SQLite at all, but long enough to look at" * 40)
    with pytest.raises(ArchiveError, match="is damaged"):
        open_archive(db)


def test_there_is_nothing_to_read_without_an_archive(tmp_path: Path) -> None:
    assert open_archive_to_read(tmp_path / "ctxdb.db") is None


LINES = st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"") + b"\n"), max_size=4)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("append"), LINES),
            st.tuples(st.just("rewrite"), LINES),
            st.tuples(st.just("cut"), st.integers(0, 60)),
            st.tuples(st.sampled_from(["add", "seal"]), st.none()),
        ),
        max_size=14,
    )
)
def test_every_state_that_was_archived_can_be_read_back(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, object]]
) -> None:
    box = Box(tmp_path_factory.mktemp("box"))
    states: list[bytes] = []  # the newest state of each generation
    moment = LONG_AGO
    with closing(box.conn):
        box.file.write_bytes(b"")
        for what, value in steps:
            now = box.file.read_bytes()
            if what == "append":
                with box.file.open("ab") as file:
                    file.write(b"".join(value))  # type: ignore[arg-type]
            elif what == "rewrite":
                box.file.write_bytes(b"".join(value))  # type: ignore[arg-type]
            elif what == "cut":
                box.file.write_bytes(now[: int(value)])  # type: ignore[call-overload]
            elif what == "add":
                moment += 1
                os.utime(box.file, (moment, moment))
                box.add()
                if states and now.startswith(states[-1]):
                    states[-1] = now
                else:
                    states.append(now)
                assert box.bytes() == states
            else:
                box.seal()
                assert box.bytes() == states


def test_frames_are_bounded(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add, "FRAME_BYTES", 100)
    box.file.write_bytes(b"x" * 250 + b"\n" + b"y" * 30 + b"\n")
    box.add()
    assert box.count("frames") == 3
    assert box.bytes() == [box.file.read_bytes()]
