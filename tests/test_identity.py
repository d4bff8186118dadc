"""What happened to a file since it was read, told from its stat and its content mark."""

from __future__ import annotations

import os
import random
import socket
import tempfile
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxdb.files.identity import (
    Known,
    NotRegular,
    Verdict,
    is_renamed,
    judge,
    mark_of,
    open_regular,
    same_stat,
)
from ctxdb.files.walk import FoundFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def some_lines(rng: random.Random, count: int) -> bytes:
    return b"".join(
        b'{"uuid":"%s","text":"%s"}\n'
        % (rng.randbytes(4).hex().encode(), b"x" * rng.randrange(300))
        for _ in range(count)
    )


def at_least(rng: random.Random, size: int) -> bytes:
    lines = b""
    while len(lines) < size:
        lines += some_lines(rng, 1)
    return lines


def read_now(path: Path) -> Known:
    """What the database would hold after reading the file to its last newline."""
    fd = open_regular(str(path))
    try:
        info = os.fstat(fd)
        offset = path.read_bytes().rfind(b"\n") + 1
        mark = mark_of(fd, offset)
    finally:
        os.close(fd)
    return Known(
        str(path),
        info.st_dev,
        info.st_ino,
        info.st_size,
        info.st_mtime_ns,
        info.st_ctime_ns,
        offset,
        mark,
    )


def judge_now(known: Known, path: Path) -> Verdict:
    fd = open_regular(str(path))
    try:
        return judge(known, os.fstat(fd), fd)
    finally:
        os.close(fd)


def renamed_now(known: Known, path: Path) -> bool:
    fd = open_regular(str(path))
    try:
        return is_renamed(known, os.fstat(fd), fd)
    finally:
        os.close(fd)


def found_now(path: Path) -> FoundFile:
    info = path.lstat()
    return FoundFile(
        str(path),
        str(path.parent),
        info.st_dev,
        info.st_ino,
        info.st_size,
        info.st_mtime_ns,
        info.st_ctime_ns,
    )


def wait_for_the_next_tick(path: Path) -> None:
    """File times move in steps of some milliseconds; within one, an edit cannot show."""
    probe = path.with_name("probe")
    before = path.stat().st_ctime_ns
    while True:
        probe.write_bytes(b"")
        if probe.stat().st_ctime_ns > before:
            return


# -- the edit table: name -> what is done to the file -------------------------------------------


def append(path: Path, rng: random.Random) -> None:
    with path.open("ab") as file:
        file.write(some_lines(rng, rng.randint(1, 5)))


def append_part(path: Path, rng: random.Random) -> None:
    with path.open("ab") as file:
        file.write(b'{"half' * rng.randint(1, 50))


def truncate(path: Path, rng: random.Random) -> None:
    os.truncate(path, rng.randint(0, path.stat().st_size))


def shrink_and_regrow(path: Path, rng: random.Random) -> None:
    keep = rng.randint(0, path.stat().st_size)
    lost = path.stat().st_size - keep
    os.truncate(path, keep)
    with path.open("ab") as file:
        file.write(at_least(rng, lost + 1))


def replace_same_size(path: Path, rng: random.Random) -> None:
    info = path.stat()
    new = path.with_name("new")
    new.write_bytes(at_least(rng, info.st_size)[: info.st_size])
    new.replace(path)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def overwrite_same_size(path: Path, rng: random.Random) -> None:
    info = path.stat()
    with path.open("r+b") as file:
        file.write(at_least(rng, info.st_size)[: info.st_size])
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def replace_longer(path: Path, rng: random.Random) -> None:
    path.write_bytes(at_least(rng, path.stat().st_size + 1))


def replace_atomically_and_grow(path: Path, rng: random.Random) -> None:
    new = path.with_name("new")
    new.write_bytes(path.read_bytes() + some_lines(rng, rng.randint(0, 3)))
    new.replace(path)


def remove_one_line(path: Path, rng: random.Random) -> None:
    # What the client does when streaming falls back: an orphaned line is cut out.
    lines = path.read_bytes().splitlines(keepends=True)
    if lines:
        del lines[rng.randrange(max(0, len(lines) - 5), len(lines))]
    path.write_bytes(b"".join(lines))


def touch(path: Path, rng: random.Random) -> None:
    os.utime(path, (rng.randrange(4_000_000_000), rng.randrange(4_000_000_000)))


def change_mode(path: Path, rng: random.Random) -> None:
    path.chmod(rng.choice([0o600, 0o644, 0o640]))


def nothing(path: Path, rng: random.Random) -> None:
    pass


EDITS: list[Callable[[Path, random.Random], None]] = [
    append,
    append_part,
    truncate,
    shrink_and_regrow,
    replace_same_size,
    overwrite_same_size,
    replace_longer,
    replace_atomically_and_grow,
    remove_one_line,
    touch,
    change_mode,
    nothing,
]


@pytest.mark.parametrize("seed", range(10))
def test_random_edits_are_told_apart_as_the_whole_content_tells_them(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    path = tmp_path / "s.jsonl"
    path.write_bytes(some_lines(rng, 20))
    for step in range(400):
        known = read_now(path)
        before = path.read_bytes()[: known.offset]
        wait_for_the_next_tick(path)
        edit = rng.choice(EDITS)
        edit(path, rng)
        after = path.read_bytes()
        if same_stat(known, found_now(path)):
            assert edit in (nothing, truncate, append_part, remove_one_line)
            expected = Verdict.UNCHANGED
            assert after[: known.offset] == before
        elif after[: known.offset] != before:
            expected = Verdict.REWRITTEN
        elif len(after) > known.offset:
            expected = Verdict.APPENDED
        else:
            expected = Verdict.UNCHANGED
        assert judge_now(known, path) is expected, (step, edit.__name__)
        if rng.random() < 0.1:  # now and then a file long enough for head and tail not to meet
            path.write_bytes(some_lines(rng, 60))


# -- named cases --------------------------------------------------------------------------------


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    path = tmp_path / "s.jsonl"
    path.write_bytes(some_lines(random.Random(1), 40))
    return path


def test_an_untouched_file_is_known_by_stat_alone(transcript: Path) -> None:
    known = read_now(transcript)
    assert same_stat(known, found_now(transcript))
    assert judge_now(known, transcript) is Verdict.UNCHANGED


@pytest.mark.parametrize("field", ["dev", "ino", "size", "mtime_ns", "ctime_ns"])
def test_any_stat_number_that_differs_asks_for_a_look_inside(transcript: Path, field: str) -> None:
    other: dict[str, Any] = {field: 1}
    assert not same_stat(replace(read_now(transcript), **other), found_now(transcript))


def test_mtime_forced_back_does_not_hide_a_replacement_of_equal_size(transcript: Path) -> None:
    known = read_now(transcript)
    wait_for_the_next_tick(transcript)
    overwrite_same_size(transcript, random.Random(2))
    assert transcript.stat().st_mtime_ns == known.mtime_ns
    assert transcript.stat().st_size == known.size
    assert not same_stat(known, found_now(transcript))
    assert judge_now(known, transcript) is Verdict.REWRITTEN


def test_shrinking_and_growing_past_the_offset_is_a_rewrite(transcript: Path) -> None:
    known = read_now(transcript)
    transcript.write_bytes(some_lines(random.Random(3), 100))
    assert transcript.stat().st_size > known.offset
    assert judge_now(known, transcript) is Verdict.REWRITTEN


def test_a_copied_head_with_another_tail_is_a_rewrite(transcript: Path) -> None:
    known = read_now(transcript)
    head = transcript.read_bytes()[:2000]
    transcript.write_bytes(head + some_lines(random.Random(4), 100))
    assert judge_now(known, transcript) is Verdict.REWRITTEN


def test_an_atomic_rewrite_with_the_same_beginning_is_an_append(transcript: Path) -> None:
    known = read_now(transcript)
    new = transcript.with_name("new")
    new.write_bytes(transcript.read_bytes() + b"{}\n")
    new.replace(transcript)
    assert transcript.stat().st_ino != known.ino
    assert judge_now(known, transcript) is Verdict.APPENDED


def test_a_file_of_which_nothing_was_read_is_never_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"")
    known = read_now(path)
    assert known.offset == 0
    path.write_bytes(b'{"half')
    assert judge_now(known, path) is Verdict.APPENDED
    partial = read_now(path)
    path.write_bytes(b'["other')
    assert judge_now(partial, path) is Verdict.APPENDED
    wait_for_the_next_tick(path)
    path.write_bytes(b"")
    assert judge_now(partial, path) is Verdict.UNCHANGED


def test_a_half_line_that_is_replaced_by_another_is_not_a_rewrite(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"a":1}\n{"half')
    known = read_now(path)
    assert known.offset == 8
    wait_for_the_next_tick(path)
    path.write_bytes(b'{"a":1}\n{"b":2}')
    assert judge_now(known, path) is Verdict.APPENDED


def test_a_row_without_a_mark_is_read_again(transcript: Path) -> None:
    known = replace(read_now(transcript), mark=None, ctime_ns=0)
    assert judge_now(known, transcript) is Verdict.REWRITTEN


@pytest.mark.parametrize("stamp", [0, 4_070_908_800], ids=["1970", "2099"])
def test_a_clock_far_off_changes_nothing(transcript: Path, stamp: int) -> None:
    known = read_now(transcript)
    os.utime(transcript, (stamp, stamp))
    assert judge_now(known, transcript) is Verdict.UNCHANGED
    append(transcript, random.Random(5))
    os.utime(transcript, (stamp, stamp))
    assert judge_now(known, transcript) is Verdict.APPENDED


def test_a_renamed_file_is_recognised_and_nothing_of_it_is_new(transcript: Path) -> None:
    known = read_now(transcript)
    moved = transcript.rename(transcript.with_name("moved.jsonl"))
    assert renamed_now(known, moved)
    append(moved, random.Random(6))
    assert renamed_now(known, moved)
    assert judge_now(replace(known, path=str(moved)), moved) is Verdict.APPENDED


def test_a_renamed_and_rewritten_file_is_a_new_file(transcript: Path) -> None:
    known = read_now(transcript)
    moved = transcript.rename(transcript.with_name("moved.jsonl"))
    moved.write_bytes(some_lines(random.Random(7), 60))
    assert not renamed_now(known, moved)
    os.truncate(moved, 10)
    assert not renamed_now(known, moved)


def test_a_copy_is_not_a_rename(transcript: Path) -> None:
    known = read_now(transcript)
    copy = transcript.with_name("copy.jsonl")
    copy.write_bytes(transcript.read_bytes())
    transcript.unlink()
    assert not renamed_now(known, copy)


def test_an_empty_file_is_never_taken_for_a_renamed_one(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"")
    known = read_now(path)
    assert not renamed_now(known, path.rename(tmp_path / "b.jsonl"))


def test_a_new_file_that_got_the_inode_of_a_deleted_one_is_told_apart(tmp_path: Path) -> None:
    old = tmp_path / "old.jsonl"
    old.write_bytes(some_lines(random.Random(8), 10))
    known = read_now(old)
    old.unlink()
    new = tmp_path / "new.jsonl"
    new.write_bytes(some_lines(random.Random(9), 40))
    # ext4 hands the inode out again at once; where the file system does not, say that it did.
    known = replace(known, ino=new.stat().st_ino)
    assert not renamed_now(known, new)
    assert judge_now(replace(known, path=str(new)), new) is Verdict.REWRITTEN


def test_two_names_of_one_file_are_each_unchanged_and_each_appended(transcript: Path) -> None:
    first = read_now(transcript)
    other = transcript.with_name("other.jsonl")
    os.link(transcript, other)
    second = read_now(other)
    assert judge_now(first, transcript) is Verdict.UNCHANGED
    assert judge_now(second, other) is Verdict.UNCHANGED
    append(transcript, random.Random(10))
    assert judge_now(first, transcript) is Verdict.APPENDED
    assert judge_now(second, other) is Verdict.APPENDED


# -- the mark -----------------------------------------------------------------------------------


@given(
    content=st.binary(max_size=300).map(lambda part: part * 7),
    share=st.floats(0, 1),
)
def test_the_mark_is_a_hash_of_head_and_tail_before_the_offset(
    content: bytes, share: float
) -> None:
    offset = int(len(content) * share)
    head = content[: min(1024, offset)]
    tail = content[max(0, offset - 256) : offset]
    # A file that ends before the offset cannot give the mark of one that does not.
    longer = content + b"\n"
    wanted = blake2b(longer[:1024] + longer[-256:], digest_size=16).digest()
    with tempfile.TemporaryFile() as file:
        os.write(file.fileno(), content)
        assert mark_of(file.fileno(), offset) == blake2b(head + tail, digest_size=16).digest()
        assert mark_of(file.fileno(), len(longer)) != wanted


# -- opening ------------------------------------------------------------------------------------


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "symlink", "dangling", "loop"])
def test_what_is_no_regular_file_is_refused_at_once_and_nothing_stays_open(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    path = "x.jsonl"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
    elif kind == "folder":
        os.mkdir(path)
    elif kind == "symlink":
        (tmp_path / "real.jsonl").write_bytes(b"{}\n")
        os.symlink("real.jsonl", path)
    elif kind == "dangling":
        os.symlink("nowhere", path)
    else:
        os.symlink(path, path)
    before = open_descriptors()
    with pytest.raises(NotRegular):
        open_regular(path)
    assert open_descriptors() == before


def test_a_device_is_refused() -> None:
    with pytest.raises(NotRegular):
        open_regular(os.devnull)


def test_a_missing_file_is_missing_and_not_irregular(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_regular(str(tmp_path / "x.jsonl"))


def test_the_descriptor_is_not_inherited_and_undecodable_names_open(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/\xff\xfe.jsonl"
    fd = os.open(raw, os.O_CREAT | os.O_WRONLY)
    os.close(fd)
    for name in (raw, os.fsdecode(raw)):
        fd = open_regular(name)
        assert not os.get_inheritable(fd)
        os.close(fd)
