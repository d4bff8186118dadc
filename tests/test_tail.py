"""Only complete lines, each with its exact place, whatever the bytes and however they came."""

from __future__ import annotations

import base64
import os
import random
import re
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxdb.files import tail
from ctxdb.files.tail import Block, read_block

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KB = 1 << 10
MB = 1 << 20


@contextmanager
def open_file(content: bytes = b"") -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        fd = file.fileno()
        os.write(fd, content)
        yield fd


def read_all(fd: int, offset: int = 0, **limits: int) -> tuple[list[Block], int]:
    blocks = []
    while not (block := read_block(fd, offset, **limits)).is_empty:
        assert block.end > offset
        offset = block.end
        blocks.append(block)
    return blocks, offset


def lines_of(blocks: list[Block]) -> list[tuple[int, int, bytes]]:
    return [line for block in blocks for line in block.lines]


def picture(characters: int) -> bytes:
    return base64.b64encode(random.Random(7).randbytes(characters // 4 * 3))


def with_one_nul(line: bytes) -> bytes:
    """What is kept of a long line: of NULs at an end, one."""
    return re.sub(rb"\A\0+|\0+\Z", b"\0", line)


# -- any bytes ----------------------------------------------------------------------------------

# Newlines are common, and so is everything that other splitters take for a line end.
transcript_bytes = st.lists(
    st.sampled_from([b"\n", b"\n", b"\r\n", b"\r", b"\x85", "\u2028".encode(), b"\x0b", b"\x00"])
    | st.binary(max_size=40),
    max_size=60,
).map(b"".join)


@given(
    content=transcript_bytes,
    cuts=st.lists(st.integers(0, 10_000), max_size=6),
    want=st.integers(1, 200),
)
def test_lines_are_the_exact_prefix_up_to_the_last_newline_however_the_file_grew(
    content: bytes, cuts: list[int], want: int
) -> None:
    edges = [0, *sorted(min(cut, len(content)) for cut in cuts), len(content)]
    with open_file() as fd:
        offset = 0
        seen: list[tuple[int, int, bytes]] = []
        for start, end in pairwise(edges):
            os.pwrite(fd, content[start:end], start)
            blocks, offset = read_all(fd, offset, want_bytes=want)
            seen += lines_of(blocks)
            assert offset == content[:end].rfind(b"\n") + 1
    assert b"".join(data + b"\n" for _, _, data in seen) == content[: content.rfind(b"\n") + 1]
    at = 0
    for start, length, data in seen:
        assert (start, length) == (at, len(data) + 1)
        assert b"\n" not in data
        at += length


@given(content=transcript_bytes, want=st.integers(1, 100), max_line=st.integers(1, 60))
def test_block_size_changes_nothing_and_long_lines_are_passed_over_with_exact_length(
    content: bytes, want: int, max_line: int
) -> None:
    expected_lines = []
    expected_oversize = []
    at = 0
    for data in content.split(b"\n")[:-1]:
        kept = with_one_nul(data) if len(data) > max_line else data
        if len(kept) > max_line:
            expected_oversize.append((at, len(data) + 1, data))
        else:
            expected_lines.append((at, len(data) + 1, kept))
        at += len(data) + 1
    with open_file(content) as fd:
        blocks, end = read_all(fd, want_bytes=want, max_line=max_line)
    assert lines_of(blocks) == expected_lines
    assert [line for block in blocks for line in block.oversize] == expected_oversize
    assert end == at


# -- base64 -------------------------------------------------------------------------------------

EDGE = tail.RUN_BYTES
SAMPLE = picture(4 * EDGE)
segments = st.lists(
    st.one_of(
        st.integers(0, 200).map(lambda n: SAMPLE[:n]),
        st.integers(EDGE - 8, EDGE + 8).map(lambda n: SAMPLE[:n]),
        st.integers(EDGE, 4 * EDGE).map(lambda n: SAMPLE[:n]),
        st.integers(EDGE - 2, 2 * EDGE).map(lambda n: b"x" * n),
        st.sampled_from([b'","', b"\\", b"\\\\", b"\\n", b"\\u00e9", b" ", b"\r", b"-_", b"\xff"]),
        st.integers(1, 3000).map(lambda n: b"one two, " * n),
    ),
    max_size=12,
).map(b"".join)


def without_long_runs(line: bytes) -> bytes:
    def cut(match: re.Match[bytes]) -> bytes:
        keep = 5 if line[match.start() - 1 : match.start()] == b"\\" else 0
        run = match[0][keep:]
        if not re.search(rb"[A-Z]", run[:EDGE]):
            return match[0]
        return match[0][:keep] + b"ctxdb-cut-base64:%d" % len(run)

    return re.sub(rb"[A-Za-z0-9+/=]{%d,}" % (EDGE + 1), cut, line)


@settings(max_examples=15)
@given(before=segments, line=segments, after=segments, want=st.sampled_from([4 * KB, 70 * KB, MB]))
def test_cutting_base64_keeps_start_and_length_exact_and_cuts_whole_runs_only(
    before: bytes, line: bytes, after: bytes, want: int
) -> None:
    limit = 100 * KB
    content = b"".join(part + b"\n" for part in (before, line, after))
    with open_file(content) as fd:
        blocks, end = read_all(fd, want_bytes=want, max_line=limit)
    assert end == len(content)
    found = {start: (length, data) for b in blocks for start, length, data in b.lines}
    passed = {start: (length, data) for b in blocks for start, length, data in b.oversize}
    at = 0
    for part in (before, line, after):
        expected = without_long_runs(part) if len(part) > limit else part
        if len(expected) > limit:
            assert passed.pop(at) == (len(part) + 1, part[: tail.HEAD_BYTES])
        else:
            assert found.pop(at) == (len(part) + 1, expected)
        at += len(part) + 1
    assert not found
    assert not passed


@pytest.mark.parametrize("behind", [b"", b'"}'], ids=["to the end", "closed"])
@pytest.mark.parametrize("before", [1, EDGE - 1, EDGE, EDGE + 1, 2 * EDGE])
@pytest.mark.parametrize("length", [EDGE - 1, EDGE, EDGE + 1, 2 * EDGE, 2 * EDGE + 1])
def test_runs_over_64_kib_are_cut_wherever_they_lie(
    before: int, length: int, behind: bytes
) -> None:
    line = b"-" * before + SAMPLE[:length] + behind
    with open_file(line + b"\n") as fd:
        (block,), _ = read_all(fd, max_line=len(line) - 1)
    if length > EDGE:
        cut = b"-" * before + b"ctxdb-cut-base64:%d" % length + behind
        assert block.lines == [(0, len(line) + 1, cut)]
    else:
        assert block.oversize == [(0, len(line) + 1, line[:EDGE])]


@pytest.mark.parametrize("want", [1000, 4 * MB, 8 * MB])
def test_a_line_of_just_4_mib_is_whole_and_one_byte_more_is_cut(want: int) -> None:
    for extra in (0, 1):
        line = SAMPLE[:-1] + b" " * (4 * MB - len(SAMPLE) + 1 + extra)
        with open_file(line + b"\n") as fd:
            (block,), _ = read_all(fd, want_bytes=want)
        ((start, length, data),) = block.lines
        assert (start, length) == (0, len(line) + 1)
        assert (data == line) == (extra == 0)
        assert data.startswith(b"ctxdb-cut-base64:") == (extra == 1)


@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("off", [-1, 0, 1])
def test_a_newline_at_the_edge_of_a_read_is_found(steps: int, off: int) -> None:
    line = b"a" * (100 + steps * tail.STEP_BYTES + off)
    with open_file(line + b"\n{}\n") as fd:
        blocks, _ = read_all(fd, want_bytes=100)
    assert lines_of(blocks) == [(0, len(line) + 1, line), (len(line) + 1, 3, b"{}")]


def test_a_40_mb_line_that_is_one_image_becomes_a_short_line_that_parses() -> None:
    image = picture(40_000_000)
    line = b'{"type":"user","source":{"data":"' + image + b'"},"n":1}'
    with open_file(b'{"a":1}\n' + line + b"\n" + b'{"b":2}\n') as fd:
        blocks, end = read_all(fd)
    assert [len(block.lines) for block in blocks] == [1, 1, 1]
    start, length, data = blocks[1].lines[0]
    assert (start, length) == (8, len(line) + 1)
    assert orjson.loads(data) == {
        "type": "user",
        "source": {"data": f"ctxdb-cut-base64:{len(image)}"},
        "n": 1,
    }
    assert not any(block.oversize for block in blocks)
    assert end == len(line) + 17


@pytest.mark.parametrize("escape", [rb"\n", rb"\u00e9", rb"\\", rb"\/"])
def test_a_cut_right_behind_an_escape_leaves_the_escape_whole(escape: bytes) -> None:
    image = picture(5 * MB)
    with open_file(b'{"a":"' + escape + image + b'"}\n') as fd:
        (block,), _ = read_all(fd)
    text = orjson.loads(block.lines[0][2])["a"]
    assert text.startswith(orjson.loads(b'"' + escape + b'"'))
    kept, cut = text[1:].split("ctxdb-cut-base64:")
    assert len(kept) + int(cut) == len(image)


def test_base64_in_a_line_of_ordinary_length_is_left_alone() -> None:
    line = b'{"data":"' + picture(2 * MB) + b'"}'
    with open_file(line + b"\n") as fd:
        (block,), _ = read_all(fd)
    assert block.lines == [(0, len(line) + 1, line)]


def test_a_long_row_of_one_small_letter_is_text_and_not_base64() -> None:
    line = b'{"a":"' + b"x" * (5 * MB) + b'"}'
    with open_file(line + b"\n") as fd:
        (block,), _ = read_all(fd)
        (passed,), _ = read_all(fd, max_line=4 * MB)
    assert block.lines == [(0, len(line) + 1, line)]
    assert passed.oversize == [(0, len(line) + 1, line[: 64 * KB])]


@pytest.mark.parametrize("nuls", [1, tail.STEP_BYTES - 1, tail.STEP_BYTES, 3 * tail.STEP_BYTES + 1])
@pytest.mark.parametrize("record", [b"", b"{}", b'{"a":"' + b"x \0" * 1000 + b'"}'])
def test_of_the_nuls_around_a_long_line_one_at_each_end_is_left(record: bytes, nuls: int) -> None:
    filler = b"\0" * nuls
    most = max(len(record) + 2, 5)
    for before, after in ((filler, b""), (b"", filler), (filler, filler)):
        line = before + record + after
        with open_file(b"first\n" + line + b"\nlast\n") as fd:
            blocks, _ = read_all(fd, max_line=most)
        kept = with_one_nul(line) if len(line) > most else line
        assert lines_of(blocks)[1] == (6, len(line) + 1, kept)
        assert len(lines_of(blocks)) == 3


def test_a_line_over_4_mib_has_a_block_of_its_own_at_any_block_size() -> None:
    long = b'{"a":"' + b"some words " * 500_000 + b'"}'
    content = b"{}\n{}\n" + long + b"\n{}\n"
    for want in (10, KB, MB, 32 * MB):
        with open_file(content) as fd:
            blocks, end = read_all(fd, want_bytes=want)
        assert (6, len(long) + 1, long) in lines_of(blocks)
        assert all(len(block.lines) == 1 for block in blocks if block.end > 6)
        assert end == len(content)


# -- bounds -------------------------------------------------------------------------------------

CHILD = """
import json, os, resource, sys
from ctxdb.files.tail import read_block
fd = os.open(sys.argv[1], os.O_RDONLY)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
offset, lines, oversize = 0, [], []
while not (block := read_block(fd, offset)).is_empty:
    offset = block.end
    lines += [(s, n, len(d)) for s, n, d in block.lines]
    oversize += [(s, n, len(d)) for s, n, d in block.oversize]
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps([lines, oversize, offset, grown]))
"""


# test_case_16_a_line_of_200_mb_is_passed_over_in_less_than_150_mb_of_memory covers it.
@pytest.mark.slow
@pytest.mark.parametrize(
    "filler",
    [
        pytest.param(b"some words, ", id="text"),
        pytest.param(b"[[],{}],", id="nested", marks=pytest.mark.slow),
        pytest.param(b"xxxxxxxx", id="one letter"),
        pytest.param(b"\x00" * 8, id="nul", marks=pytest.mark.slow),
    ],
)
def test_a_200_mb_line_is_passed_over_in_bounded_memory_and_the_next_line_is_read(
    tmp_path: Path, filler: bytes
) -> None:
    path = tmp_path / "s.jsonl"
    body = filler * (MB // len(filler))
    with path.open("wb") as file:
        file.write(b'{"first":1}\n{"a":"')
        for _ in range(200):
            file.write(body)
        file.write(b'"}')
        size = file.tell() - 12
        file.write(b'\n{"next":1}\n')
        # A tail just as long whose newline never came: not there, and not held in memory either.
        for _ in range(100):
            file.write(body)
    run = subprocess.run([sys.executable, "-c", CHILD, str(path)], capture_output=True, check=True)
    path.unlink()  # pytest would keep it for three more runs
    lines, oversize, offset, grown_kb = orjson.loads(run.stdout)
    assert lines == [[0, 12, 11], [12 + size + 1, 11, 10]]
    assert oversize == [[12, size + 1, 64 * KB]]
    assert offset == 12 + size + 1 + 11
    assert grown_kb < 20 * KB


def test_millions_of_tiny_lines_come_in_blocks_of_bounded_length() -> None:
    with open_file(b"\n" * 300_000) as fd:
        blocks, end = read_all(fd, want_bytes=4 * MB)
    assert end == 300_000
    assert max(len(block.lines) for block in blocks) <= tail.MAX_LINES


def test_an_unfinished_line_is_not_there_until_its_newline_is() -> None:
    with open_file(b'{"a":1}') as fd:
        assert read_block(fd, 0) == Block([], [], 0)
        os.write(fd, b"\n")
        assert read_block(fd, 0) == Block([(0, 8, b'{"a":1}')], [], 8)
        assert read_block(fd, 8) == Block([], [], 8)


def test_an_offset_behind_the_end_finds_nothing() -> None:
    with open_file(b"{}\n") as fd:
        assert read_block(fd, 1000) == Block([], [], 1000)
    with open_file() as fd:
        assert read_block(fd, 0) == Block([], [], 0)


def test_a_file_deleted_while_open_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"{}\n" * 1000)
    fd = os.open(path, os.O_RDONLY)
    first = read_block(fd, 0, want_bytes=100)
    path.unlink()
    blocks, end = read_all(fd, first.end)
    os.close(fd)
    assert end == 3000
    assert len(first.lines) + len(lines_of(blocks)) == 1000


def test_a_file_that_shrinks_while_read_gives_what_is_left_and_stops() -> None:
    with open_file(b'{"a":1}\n' * 1000) as fd:
        first = read_block(fd, 0, want_bytes=100)
        os.ftruncate(fd, first.end + 12)
        blocks, end = read_all(fd, first.end)
    assert lines_of(blocks) == [(first.end, 8, b'{"a":1}')]
    assert end == first.end + 8
    with open_file(b"short") as fd:  # a long line that was cut off between two passes over it
        assert tail._join(fd, [(0, 3), (4, 100)], [b"note"]) is None


# -- an unfinished line is searched once --------------------------------------------------------


@contextmanager
def counted_reads() -> Iterator[list[int]]:
    """The number of bytes of each pread."""
    sizes: list[int] = []
    real = os.pread

    def pread(fd: int, count: int, offset: int) -> bytes:
        data = real(fd, count, offset)
        sizes.append(len(data))
        return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", pread)
        yield sizes


def test_case_89_only_the_new_bytes_of_an_unfinished_line_are_searched() -> None:
    line = b'{"a":"' + b"some words, " * (5 * MB // 12)
    with open_file(b"{}\n" + line) as fd:
        with counted_reads() as sizes:
            block = read_block(fd, 3)
        assert block.is_empty
        assert sum(sizes) >= len(line)
        for _ in range(10):
            os.write(fd, b"a few more")
            line += b"a few more"
            with counted_reads() as sizes:
                block = read_block(fd, 3, unfinished=block.unfinished)
            assert block.is_empty
            assert sum(sizes) < 4 * KB
        os.write(fd, b'"}\n')
        assert read_block(fd, 3, unfinished=block.unfinished) == read_block(fd, 3)
        assert read_block(fd, 3).lines == [(3, len(line) + 3, line + b'"}')]


def test_case_89_nothing_is_remembered_of_a_short_unfinished_line() -> None:
    with open_file(b"x" * (tail.UNFINISHED_BYTES - 1)) as fd:
        assert read_block(fd, 0).unfinished is None
        os.write(fd, b"x")
        assert read_block(fd, 0).unfinished is not None


edits = st.tuples(st.integers(0, 120), transcript_bytes.map(lambda data: data[:120]))


@given(before=transcript_bytes, steps=st.lists(edits, max_size=6))
def test_case_89_however_the_file_is_edited_the_lines_are_those_of_a_first_look(
    before: bytes, steps: list[tuple[int, bytes]]
) -> None:
    """The file is cut anywhere and goes on otherwise, also before the offset."""
    with pytest.MonkeyPatch.context() as patch, open_file(before) as fd:
        patch.setattr(tail, "UNFINISHED_BYTES", 1)
        _, offset = read_all(fd)
        known = read_block(fd, offset).unfinished
        for keep, more in steps:
            size = min(keep, os.fstat(fd).st_size)
            os.ftruncate(fd, size)
            os.pwrite(fd, more, size)
            blocks, end = read_all(fd, offset)
            first = read_block(fd, offset, unfinished=known)
            rest, _ = read_all(fd, first.end)
            assert lines_of([first, *rest]) == lines_of(blocks)
            offset, known = end, read_block(fd, end).unfinished


def test_case_89_what_was_searched_says_nothing_about_another_offset() -> None:
    """An offset that was set back by hand must not make one line of all that follows it."""
    content = b"{}\n" * 1000
    with open_file(content + b"x" * (2 * MB)) as fd:
        block = read_block(fd, len(content))
        assert block.unfinished is not None
        assert read_block(fd, 0, unfinished=block.unfinished) == read_block(fd, 0)
