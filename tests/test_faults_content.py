"""Fault cases 10 to 26: what can stand in a transcript. Numbers are those of the fault catalogue.

Each goes through the real `sync`; afterwards every line is accounted for and `verify` agrees.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxdb.demo import write_demo
from ctxdb.files import tail
from ctxdb.ingest import line_reader
from lab import put_empty_database
from thinning import thinned
from world import (
    OTHER_SESSION,
    SESSION,
    World,
    entry,
    line,
    lines,
    peak_megabytes,
    texts,
    uuid_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MB = 1 << 20
MAX_LINE_BYTES = 256 << 10  # instead of 16 MB, where the size itself does not matter


@pytest.fixture
def smaller_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line may be 256 KB long, and is announced from 64 KB on."""
    assert tail.read_block.__defaults__ == (tail.WANT_BYTES, tail.MAX_LINE_BYTES)
    monkeypatch.setattr(tail.read_block, "__defaults__", (16 << 10, MAX_LINE_BYTES))
    monkeypatch.setattr(line_reader, "LARGE_LINE_BYTES", MAX_LINE_BYTES // 4)


def counts(world: World) -> dict[tuple[str, str], int]:
    """Lines by outcome and reason, over all files."""
    return {
        (outcome, reason): n
        for outcome, reason, n in world.ask(
            "SELECT outcome, reason, sum(lines) FROM line_counts GROUP BY outcome, reason"
        )
    }


def test_case_10_a_half_written_last_line_is_taken_in_once_when_it_is_complete(
    world: World,
) -> None:
    whole = line(1)
    world.write(line(0) + whole[:40])
    world.sync()
    assert world.texts() == texts([0])
    assert world.source()["offset"] == len(line(0))
    assert world.source()["state"] == "partial"
    # Everything but the newline: JSON that would parse, and is not there yet all the same.
    world.append(whole[40:-1])
    assert world.sync().lines_read == 0
    assert world.texts() == texts([0])
    world.append(b"\n" + lines(2))
    world.sync()
    assert world.source()["state"] == "ok"
    world.settled([0, 1, 2])


@pytest.mark.parametrize("cut", thinned(range(1, len(line(1)), 37), 3))
def test_case_10_wherever_a_line_is_cut_it_is_completed_exactly_once(
    world: World, cut: int
) -> None:
    whole = line(1)
    world.write(line(0) + whole[:cut])
    world.sync()
    world.append(whole[cut:])
    world.sync()
    world.settled([0, 1])


def test_case_11_a_half_line_is_forgotten_when_the_file_is_replaced(world: World) -> None:
    world.write(line(0) + b'{"type":"user","message":{"content":"never finished')
    world.sync()
    new = world.file("new.tmp")
    new.write_bytes(lines(5, 6, 7))
    os.replace(new, world.main)
    assert world.sync().rewritten_files == 1
    assert world.source()["generation"] == 1
    world.settled([0, 5, 6, 7])  # what was read before the replacement stays


def test_case_11_a_half_line_alone_is_forgotten_when_the_file_is_replaced(world: World) -> None:
    world.write(line(0)[:60])
    world.sync()
    new = world.file("new.tmp")
    new.write_bytes(lines(5, 6))
    os.replace(new, world.main)
    world.sync()
    world.settled([5, 6])


def test_case_12_a_line_torn_by_a_crash_is_recorded_and_the_lines_after_it_are_read(
    world: World,
) -> None:
    torn = line(1)[:70] + b"\n"
    world.write(line(0) + torn + lines(2, 3))
    assert world.sync().bad_lines == 1
    assert world.errors() == [(len(line(0)), len(torn) - 1, "torn")]
    assert world.source()["bad_lines"] == 1
    assert world.one("SELECT excerpt FROM ingest_errors").startswith('{"parentUuid')
    world.settled([0, 2, 3])


def test_case_12_a_line_torn_in_the_middle_with_the_next_one_glued_to_it(world: World) -> None:
    torn = line(1)[:70] + line(2)
    world.write(line(0) + torn + lines(3))
    world.sync()
    assert [reason for *_, reason in world.errors()] == ["torn"]
    world.settled([0, 3])


def test_case_12_two_whole_objects_on_one_line_are_two_entries(world: World) -> None:
    world.write(line(0) + line(1)[:-1] + line(2) + line(3))
    world.sync()
    assert world.source()["lines"] == 3
    places = world.ask("SELECT byte_start, byte_length FROM messages ORDER BY byte_start")
    data = world.main.read_bytes()
    for (start, length), n in zip(places, range(4), strict=True):
        assert json.loads(data[start : start + length])["uuid"] == uuid_of(n)
    world.settled([0, 1, 2, 3])


def test_case_13_a_record_padded_with_nuls_is_taken_in_and_noted(world: World) -> None:
    padded = line(1)[:-1] + b"\0" * 9000 + b"\n"
    world.write(line(0) + padded + line(2))
    report = world.sync()
    assert report.bad_lines == 0
    assert world.errors() == [(len(line(0)), len(padded) - 1, "nul_padded")]
    assert counts(world) == {("stored", ""): 2, ("stored", "nul_padded"): 1}
    world.settled([0, 1, 2])


def test_case_14_a_tail_of_nuls_waits_for_its_newline_and_is_then_one_bad_line(
    world: World,
) -> None:
    world.write(line(0) + b"\0" * 143_000)
    world.sync()
    assert world.texts() == texts([0])
    assert world.errors() == []
    assert world.source()["state"] == "partial"
    world.append(b"\n" + lines(1, 2))
    assert world.sync().bad_lines == 1
    assert world.errors() == [(len(line(0)), 143_000, "nul_only")]
    world.settled([0, 1, 2])


def test_case_14_a_tail_of_nuls_followed_by_a_record_on_the_same_line(world: World) -> None:
    world.write(line(0) + b"\0" * 4096)
    world.sync()
    world.append(lines(1, 2))
    world.sync()
    assert [reason for *_, reason in world.errors()] == ["nul_padded"]
    world.settled([0, 1, 2])


def test_case_14_nuls_that_become_a_record_after_all_are_read_as_one(world: World) -> None:
    """As a disk shows them whose writes come in another order: same place, same size."""
    world.write(line(0) + b"\0" * (len(line(1)) - 1) + b"\n" + line(2))
    assert world.sync().bad_lines == 1
    with world.main.open("r+b") as file:
        file.seek(len(line(0)))
        file.write(line(1))
    assert world.sync().rewritten_files == 1
    assert world.errors() == []
    world.settled([0, 1, 2])


def test_case_15_a_hole_in_the_middle_is_skipped_and_the_record_behind_it_is_read(
    world: World,
) -> None:
    world.write(line(0))
    hole = 3 * MB
    os.truncate(world.main, len(line(0)) + hole)
    world.append(lines(1, 2))
    world.sync()
    [(start, length, reason)] = world.errors()
    assert (start, reason) == (len(line(0)), "nul_padded")
    assert length == hole + len(line(1)) - 1
    world.settled([0, 1, 2])


@pytest.mark.usefixtures("smaller_limits")
@pytest.mark.parametrize("side", ["before", "behind"])
def test_case_15_a_hole_larger_than_any_line_may_be_does_not_hide_its_record(
    world: World, side: str
) -> None:
    world.write(line(0) + (line(1)[:-1] if side == "behind" else b""))
    hole = 3 * MAX_LINE_BYTES
    os.truncate(world.main, world.main.stat().st_size + hole)
    world.append((b"\n" if side == "behind" else line(1)) + line(2))
    world.sync()
    assert world.errors() == [(len(line(0)), hole + len(line(1)) - 1, "nul_padded")]
    world.settled([0, 1, 2])


@pytest.mark.usefixtures("smaller_limits")
def test_case_14_nuls_longer_than_any_line_may_be_are_one_bad_line(world: World) -> None:
    world.write(line(0))
    os.truncate(world.main, len(line(0)) + 2 * MAX_LINE_BYTES)
    world.append(b"\n" + line(1))
    assert world.sync().bad_lines == 1
    assert world.errors() == [(len(line(0)), 2 * MAX_LINE_BYTES, "nul_only")]
    world.settled([0, 1])


@pytest.mark.parametrize(
    "filler",
    [
        pytest.param(b"some words, ", id="text"),
        pytest.param(b"[[],{}],", id="nested", marks=pytest.mark.slow),
        pytest.param(b"xxxxxxxx", id="one letter", marks=pytest.mark.slow),
    ],
)
def test_case_16_a_line_of_200_mb_is_passed_over_in_less_than_150_mb_of_memory(
    world: World, filler: bytes
) -> None:
    body = filler * (MB // len(filler))
    with world.main.open("wb") as file:
        file.write(line(0) + b'{"a":"')
        for _ in range(200):
            file.write(body)
        size = file.tell() - len(line(0))
        file.write(b"\n" + lines(1))
    try:
        megabytes, done = peak_megabytes(world, "sync", "--json")
        assert done.returncode == 0, done.stderr
        assert megabytes < 150
        assert json.loads(done.stdout)["bad_lines"] == 1
        assert world.errors() == [(len(line(0)), size, "too_large")]
        assert world.texts() == texts([0, 1])
        assert world.source()["offset"] == world.main.stat().st_size
    finally:
        world.main.unlink()


@pytest.mark.slow
def test_case_16_a_line_of_200_mb_that_is_one_image_is_taken_in_without_the_image(
    world: World,
) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "IMAGE"}
    content = [{"type": "text", "text": "line 00001"}, {"type": "image", "source": source}]
    before, after = line(1, message={"role": "user", "content": content}).split(b"IMAGE")
    with world.main.open("wb") as file:
        file.write(line(0) + before)
        for _ in range(200):
            file.write(b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYA" * (MB // 36))
        file.write(after + lines(2))
    try:
        megabytes, done = peak_megabytes(world, "sync", "--json")
        assert done.returncode == 0, done.stderr
        assert megabytes < 150
        assert world.errors() == []
        assert len(world.ask("SELECT 1 FROM messages")) == 3
        [(data,)] = world.ask("SELECT data FROM messages WHERE uuid = ?", uuid_of(1))
        [image] = json.loads(data)["images"]
        assert image["media_type"] == "image/png"
        assert image["bytes"] > 140 * MB
        assert world.db.stat().st_size < 2 * MB
    finally:
        world.main.unlink()


def many_tiny_lines(world: World, count: int) -> None:
    first = world.file(f"a/{SESSION}.jsonl")
    with first.open("wb") as file:
        for start in range(0, count, 1000):
            file.write(b"".join(b'{"n":%d}\n' % n for n in range(start, start + 1000)))
    second = world.file(f"b/{OTHER_SESSION}.jsonl")
    second.write_bytes(lines(0, 1, sessionId=OTHER_SESSION))
    try:
        megabytes, done = peak_megabytes(world, "sync", "--json")
        assert done.returncode == 0, done.stderr
        assert megabytes < 250
        assert json.loads(done.stdout)["lines_read"] == count + 2
        assert world.one("SELECT count(*) FROM events") == count
        assert world.texts() == texts([0, 1])
    finally:
        first.unlink()


def test_case_17_many_tiny_lines_take_bounded_memory_and_do_not_keep_others_out(
    world: World,
) -> None:
    """Fairness between files while tailing is the daemon's part; a pass takes all files."""
    many_tiny_lines(world, 25_000)  # more than a block may have


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_case_17_five_million_tiny_lines(world: World) -> None:
    many_tiny_lines(world, 5_000_000)


def test_case_17_a_row_of_newlines_is_as_many_blank_lines(world: World) -> None:
    world.write(b"\n" * 25_000 + lines(0))
    megabytes, done = peak_megabytes(world, "sync")
    assert done.returncode == 0, done.stderr
    assert megabytes < 150
    assert counts(world)["skipped", "blank"] == 25_000
    assert world.source()["skipped_lines"] == 25_000
    world.settled([0])


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_file_of_300_mb_takes_less_than_250_mb_of_memory(world: World) -> None:
    said = "the tide comes in and the tide goes out, " * 120
    with world.main.open("wb") as file:
        n = 0
        while file.tell() < 300 * MB:
            file.write(b"".join(line(n + i, f"{n + i} {said}") for i in range(500)))
            n += 500
    try:
        megabytes, done = peak_megabytes(world, "sync", "--json")
        assert done.returncode == 0, done.stderr
        assert megabytes < 250
        assert world.one("SELECT count(*) FROM messages") == n
    finally:
        world.main.unlink()


def test_case_18_bytes_that_are_no_utf8_become_replacement_characters(world: World) -> None:
    broken = line(1, "Z\xfcrich TIDE").replace(b"\\u00fc", b"\xfc")
    assert b"Z\xfcrich" in broken
    world.write(line(0) + broken + line(2))
    world.sync()
    assert world.texts() == sorted(["Z\ufffdrich TIDE", *texts([0, 2])])
    assert world.errors() == [(len(line(0)), len(broken) - 1, "invalid_utf8")]
    assert world.source()["bad_lines"] == 0
    world.sound()


SURROGATES = ["\\ud800", "\\udc00", "\\uDC00\\uD800", "a\\ud83d"]


@pytest.mark.parametrize("escape", SURROGATES)
def test_case_19_half_a_surrogate_pair_is_stored_as_a_replacement_character(
    crowd: Crowd, escape: str
) -> None:
    case = crowd["surrogates", escape]
    assert "\ufffd" in case.text_of(1)
    assert [reason for *_, reason in case.errors()] == ["surrogates"]


def test_case_19_a_whole_surrogate_pair_is_the_character_it_means(world: World) -> None:
    world.write(line(0, "HERE").replace(b"HERE", b"\\ud83c\\udf0a"))
    world.sync()
    assert world.texts() == ["\U0001f30a"]
    assert world.errors() == []


def test_case_20_nul_and_control_characters_in_a_text_are_stored(world: World) -> None:
    said = "a\0b \x1b[31m \x07 \x9b \u202e end"
    world.write(line(0, said) + line(1))
    world.sync()
    stored = world.one(
        "SELECT CAST(text AS BLOB) FROM messages WHERE uuid = ?", uuid_of(0)
    ).decode()
    assert stored == said.replace("\0", "\u2400")
    assert world.one("SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'end'") == 1
    world.sound()


def test_case_20_control_characters_are_escaped_wherever_a_terminal_shows_them(
    world: World,
) -> None:
    """`show` and `search` are other issues; `status` shows the names of files."""
    path = world.file("p/\x1b]52;c;aGk=\x07.jsonl")
    path.write_bytes(b'{"torn\n')
    done = world.cli("sync")
    assert done.returncode == 0, done.stderr
    shown = world.cli("status").stdout
    assert "torn: " in shown
    assert shown.replace("\n", "").isprintable()


ODD_LINES = {
    "raw control characters": b'{"a":"\x01\x02 raw control"}',
    "depth 100000": b"[" * 100_000 + b"]" * 100_000,
    "depth 5000": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "depth 900": b'{"a":' * 900 + b"1" + b"}" * 900,
    "depth 300": b'{"a":' * 300 + b"1" + b"}" * 300,
    "a key of 1 MB": b'{"' + b"k" * MB + b'":1}',
    "an integer of 5000 digits": b'{"n":1' + b"0" * 5000 + b"}",
    "nan": b'{"n":[NaN,Infinity,-Infinity,1e999,-1e999]}',
    "only braces": b"{" * 50_000,
    "only quotes": b'"' * 50_001,
    "only backslashes": b"\\" * 50_001,
}


@pytest.mark.parametrize("name", ODD_LINES)
def test_case_21_no_line_stops_the_file_it_is_in(crowd: Crowd, name: str) -> None:
    case = crowd["odd line", name]
    assert case.source()["lines"] == 3
    assert case.texts() == texts([case.first, case.first + 1])


NUMBERS = [2**63, -(2**63) - 1, 2**64, 2**64 + 1, 10**400, 1e308, -1, 2**53 + 1, True, "7", None]


def numbers_everywhere(said: Said, first: int, n: Any) -> bytes:
    """A number in each field that has one."""
    usage = {
        "input_tokens": n,
        "output_tokens": n,
        "cache_creation_input_tokens": n,
        "cache_read_input_tokens": n,
        "cache_creation": {"ephemeral_5m_input_tokens": n, "ephemeral_1h_input_tokens": n},
        "server_tool_use": {"web_search_requests": n},
        "iterations": [{"input_tokens": n, "output_tokens": n}],
    }
    call_id = f"toolu_{first}"
    call = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"timeout": n}}
    message = {
        "id": f"msg_{first}",
        "role": "assistant",
        "model": "claude-opus-4-5",
        "content": [{"type": "text", "text": f"line {first + 1:05}"}, call],
        "usage": usage,
        "stop_reason": "end_turn",
    }
    result = {"type": "tool_result", "tool_use_id": call_id, "content": "ok", "is_error": n}
    detail = {"durationMs": n, "totalTokens": n, "totalDurationMs": n, "numLines": n}
    boundary = {"type": "system", "subtype": "compact_boundary", "durationMs": n}
    reply = {"type": "assistant", "message": message, "requestId": f"req_{first}"}
    return (
        said(0)
        + said(1, **reply, costUSD=n, durationMs=n)
        + said(2, message={"role": "user", "content": [result]}, toolUseResult=detail)
        + said(3, **boundary, compactMetadata={"preTokens": n, "trigger": "auto"})
        + said(4, type="file-history-snapshot", snapshot={"trackedFileBackups": {"a": n}})
        + said(5, type="unknown", number=n)
        + said(6, timestamp=n)
        + said(7)
    )


@pytest.mark.parametrize("n", NUMBERS, ids=lambda n: str(n)[:24])
def test_case_21_numbers_of_any_size_anywhere_are_clamped_or_left_out(crowd: Crowd, n: Any) -> None:
    case = crowd["number", repr(n)]
    assert case.source()["lines"] == 8
    assert case.source()["bad_lines"] == 0
    assert set(texts(case.first + n for n in (0, 1, 6, 7))) <= set(case.texts())


def test_case_21_of_two_equal_keys_the_last_one_counts(world: World) -> None:
    world.write(line(0)[:-2] + b',"message":{"role":"user","content":"the last"}}\n')
    world.sync()
    assert world.texts() == ["the last"]


FUZZ = settings(
    max_examples=settings().max_examples // 8,  # `make check` asks for more
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def fresh_start(world: World, data: bytes) -> None:
    """Other content and an empty database for the next example."""
    world.write(data)
    with world.connect(write=True) as conn:
        for (name,) in conn.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
            " AND name NOT LIKE '%\\_fts\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite%'"
            " AND name NOT IN ('_sqlite_migrations', '_meta', '_schema_docs')"
        ).fetchall():
            conn.execute(f"DELETE FROM {name}")


@FUZZ
@given(st.lists(st.binary(max_size=80), max_size=30))
def test_case_21_lines_of_random_bytes_are_all_accounted_for(
    world: World, raw: list[bytes]
) -> None:
    data = b"\n".join(raw) + b"\n" + lines(0)
    fresh_start(world, data)
    report = world.sync()
    assert report.lines_read == data.count(b"\n")
    assert "line 00000" in world.texts()
    assert world.verify().shown == []


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["user", "tool_use", "toolu_1", uuid_of(1), SESSION, "2026-08-24T00:00:00Z"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "id", "content", "text", "name", "input", "uuid", "message"])
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)

# Every field that the normalizer reads, where it reads it, so that each meets a wrong type.
FIELDS = [
    "type", "subtype", "uuid", "parentUuid", "sessionId", "timestamp", "cwd", "version",
    "gitBranch", "message", "isSidechain", "isMeta", "requestId", "toolUseResult", "agentId",
    "userType", "forkedFrom", "logicalParentUuid", "sourceToolUseID", "toolUseID", "data",
    "content", "attachment", "snapshot", "summary", "leafUuid", "operation", "costUSD", "slug",
    "entrypoint", "compactMetadata", "isCompactSummary", "isApiErrorMessage", "customTitle",
    "aiTitle", "session_id", "sessionKind", "promptSource", "planContent", "toolDenialKind",
    "origin", "durationMs", "error", "todos", "prNumber", "prUrl", "worktreeSession",
    "agent_transcript_path", "modelUsage", "isVisibleInTranscriptOnly", "hookInfos",
]  # fmt: skip
INNER = [
    "id", "role", "model", "content", "usage", "stop_reason", "type", "text", "tool_use_id",
    "is_error", "name", "input", "source", "thinking", "data", "structuredPatch", "filePath",
    "file", "agentId", "status", "oldString", "newString", "gitOperation", "message", "origin",
]  # fmt: skip
TYPES = [
    "user", "assistant", "system", "attachment", "progress", "summary", "queue-operation",
    "file-history-snapshot", "custom-title", "ai-title", "pr-link", "worktree-state", "result",
    "agent-name", "last-prompt", "permission-mode", "session_meta",
]  # fmt: skip


@st.composite
def odd_entries(draw: st.DrawFn) -> dict[str, Any]:
    """An entry that looks right except where it does not."""
    made = entry(draw(st.integers(0, 5)), type=draw(st.sampled_from(TYPES)))
    block = draw(
        st.sampled_from(
            [
                {"type": "tool_use", "id": "toolu_1", "name": "Edit", "input": {"file_path": "/a"}},
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"},
                {"type": "text", "text": "x"},
                {"type": "thinking", "thinking": "x"},
                {"type": "image", "source": {"type": "base64", "data": "AAAA"}},
            ]
        )
    )
    block = {**block, **draw(st.dictionaries(st.sampled_from(INNER), ANYTHING, max_size=2))}
    made["message"] = {"role": "user", "content": [block], "id": "msg_1", "model": "m"}
    made["message"] |= draw(st.dictionaries(st.sampled_from(INNER), ANYTHING, max_size=2))
    made["toolUseResult"] = draw(st.dictionaries(st.sampled_from(INNER), ANYTHING, max_size=3))
    made["data"] = {"type": "agent_progress", "agentId": "a1", "message": entry(9)}
    return made | draw(st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=4))


@FUZZ
@given(st.lists(odd_entries(), min_size=1, max_size=20), st.integers(0, 20))
def test_case_21_a_wrong_type_in_any_field_never_stops_a_file(
    world: World, entries: list[dict[str, Any]], split: int
) -> None:
    written = [json.dumps(one).encode() + b"\n" for one in entries]
    fresh_start(world, b"".join(written[:split]))
    world.sync()
    world.append(b"".join(written[split:]) + line(77))
    world.sync()
    assert world.source()["lines"] == len(written) + 1
    assert world.source()["bad_lines"] == 0
    assert world.verify().shown == []


ODD_VALUES = [
    None, True, 7, -1, 2**63, 2.0**64, 1.5, "", "x", "\0", [], [[]], [7], ["x"], [{}], {}, {"a": 1},
    {"type": []}, [{"type": "text"}], [{"type": {}}], [None],
]  # fmt: skip


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in an entry: every key, and the first items of every list."""
    inner = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        inner = enumerate(value[:3])
    for key, item in inner:
        yield (*at, key)
        yield from places(item, (*at, key))


def put(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    """A copy with something else in one place."""
    if not at:
        return new
    changed = value.copy()
    changed[at[0]] = put(value[at[0]], at[1:], new)
    return changed


def test_case_21_every_field_of_every_kind_of_entry_may_hold_something_odd(world: World) -> None:
    written = odd_fields(world, each=5)
    assert len(written) > 1_000
    must_take_in(world, written)


@pytest.mark.slow
def test_case_21_every_field_of_every_kind_of_entry_may_hold_anything(world: World) -> None:
    written = odd_fields(world, each=1)
    assert len(written) > 5_000
    must_take_in(world, written)


def odd_fields(world: World, each: int) -> list[Any]:
    """Entries of the demo with odd values: in each field every n-th, in the next field others."""
    demo = world.root.parent / "demo"
    write_demo(demo)
    seen = set()
    written = []
    for path in sorted(demo.rglob("*.jsonl")):
        for made in map(json.loads, path.read_bytes().splitlines()):
            for at in places(made):
                # Each field once per type of entry, wherever it stands in a list.
                key = (made.get("type"), *("" if isinstance(k, int) else k for k in at))
                if key not in seen:
                    seen.add(key)
                    for odd in ODD_VALUES[len(seen) % each :: each]:
                        own = {"uuid": uuid_of(len(written), 7)} if "uuid" in made else {}
                        written.append(put(made | own, at, odd))
    return written


def must_take_in(world: World, written: list[Any]) -> None:
    world.write(b"".join(json.dumps(one).encode() + b"\n" for one in written))
    world.sync()
    assert world.source()["lines"] == len(written)
    assert world.source()["bad_lines"] == 0
    # The same call stands here with different inputs; which of them is kept does not matter.
    shown = [text for text in world.verify().shown if ": call " not in text]
    assert shown == []


# What a line becomes, and how many blank lines that are.
LINE_ENDS: dict[str, tuple[Callable[[bytes], bytes], int]] = {
    "empty line": (lambda _: b"\n", 1),
    "empty lines": (lambda _: b"\n\n\n", 3),
    "white space": (lambda _: b"  \t \n", 1),
    "only a carriage return": (lambda _: b"\r\n", 1),
    "crlf": (lambda one: one[:-1] + b"\r\n", 0),
    "spaces around": (lambda one: b"  " + one[:-1] + b"  \n", 0),
    "byte order mark": (lambda one: b"\xef\xbb\xbf" + one, 0),
    "U+2028": (lambda one: one.replace(b"line 0", "line\u2028 0".encode()), 0),
    "escaped return": (lambda one: one.replace(b"line 0", b"line\\r 0"), 0),
    "raw carriage returns inside": (lambda one: one.replace(b", ", b",\r"), 0),
}


@pytest.mark.parametrize("name", LINE_ENDS)
@pytest.mark.parametrize("place", ["middle", "first"])
def test_case_22_blank_lines_and_odd_line_ends_change_neither_content_nor_places(
    crowd: Crowd, name: str, place: str
) -> None:
    case = crowd["line end", name, place]
    change, blank = LINE_ENDS[name]
    data = case.path.read_bytes()
    assert change(case.said(1)) in data
    assert case.source()["offset"] == len(data)
    assert case.source()["lines"] == 2 + change(case.said(1)).count(b"\n")
    assert case.counts().get(("skipped", "blank"), 0) == blank
    assert len(case.texts()) == 3 - bool(blank)
    for uuid, start, length in case.ask("uuid, byte_start, byte_length", "messages"):
        assert uuid.encode() in data[start : start + length]
        assert data[start + length : start + length + 1] == b"\n"


NO_OBJECTS = [b"[]", b"1", b"hello", b'"text"', b"true", b"[{}]", b"null"]


@pytest.mark.parametrize("raw", NO_OBJECTS)
def test_case_23_json_that_is_no_object_is_a_bad_line(crowd: Crowd, raw: bytes) -> None:
    case = crowd["no object", raw]
    assert case.source()["bad_lines"] == 1
    [(start, length, reason)] = case.errors()
    assert (start, length) == (len(case.said(0)), len(raw))
    assert reason in ("not_object", "not_json")
    assert case.texts() == texts([case.first, case.first + 1])


UNKNOWN: list[dict[str, Any]] = [
    {"type": "brand-new", "payload": [1, 2, {"deep": True}]},
    {"type": 7},
    {"type": None},
    {"type": ["user"]},
    {},
    {"no": "type"},
]


@pytest.mark.parametrize("made", UNKNOWN, ids=json.dumps)
def test_case_23_an_entry_of_unknown_type_is_kept_in_events(
    crowd: Crowd, made: dict[str, Any]
) -> None:
    case = crowd["unknown", json.dumps(made)]
    [(kind, data)] = case.ask("type, data", "events")
    assert kind == (made.get("type") if isinstance(made.get("type"), str) else None)
    assert json.loads(data) == made
    assert case.texts() == texts([case.first, case.first + 1])


# -- many cases in one world ---------------------------------------------------------------------


Said = Callable[..., bytes]  # makes the n-th line of a case


@dataclass
class Case:
    """A file and a session of its own."""

    world: World
    path: Path
    first: int  # the number of its first line

    def said(self, n: int, text: str | None = None, **more: Any) -> bytes:
        """The n-th line."""
        parent = {} if n else {"parentUuid": None}
        return line(self.first + n, text, **{"sessionId": self.path.stem, **parent, **more})

    def ask(self, columns: str, table: str) -> list[tuple[Any, ...]]:
        return self.world.ask(
            f"SELECT {columns} FROM {table} WHERE source_file_id ="
            f" (SELECT id FROM source_files WHERE path = ?) ORDER BY 1",
            str(self.path),
        )

    def source(self) -> dict[str, Any]:
        return self.world.source(self.path)

    def texts(self) -> list[str]:
        return [text for (text,) in self.ask("text", "messages")]

    def text_of(self, n: int) -> str:
        return dict(self.ask("uuid, text", "messages"))[uuid_of(self.first + n)]

    def errors(self) -> list[tuple[Any, ...]]:
        return self.ask("byte_start, byte_length, reason", "ingest_errors")

    def counts(self) -> Counter[tuple[str, str]]:
        """Lines by outcome and reason."""
        found: Counter[tuple[str, str]] = Counter()
        for outcome, reason, n in self.ask("outcome, reason, lines", "line_counts"):
            found[outcome, reason] += n
        return found


Crowd = dict[tuple[Any, ...], Case]
_crowd: Crowd = {}


@pytest.fixture
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Crowd:
    """Cases that one sync has read and one `verify` has found right: that takes most of the time.

    They are made once, and only looked at.
    """
    if not _crowd:
        _crowd.update(make_crowd(tmp_path_factory.mktemp("crowd")))
    return _crowd


def make_crowd(folder: Path) -> Crowd:
    world = World(folder / "projects", folder / "data/ctxdb.db")
    put_empty_database(world.db)
    made: Crowd = {}

    def add(*key: Any) -> Case:
        first = 10 * len(made)
        path = world.file(f"-work-tides/5e551000-0000-4000-8000-{first:012}.jsonl")
        made[key] = Case(world, path, first)
        return made[key]

    def between(case: Case, raw: bytes) -> None:
        case.path.write_bytes(case.said(0) + raw + case.said(1))

    for escape in SURROGATES:
        case = add("surrogates", escape)
        broken = case.said(1, "HERE").replace(b"HERE", escape.encode())
        case.path.write_bytes(case.said(0) + broken + case.said(2))
    for name, raw in ODD_LINES.items():
        between(add("odd line", name), raw + b"\n")
    for raw in NO_OBJECTS:
        between(add("no object", raw), raw + b"\n")
    for unknown in UNKNOWN:
        between(add("unknown", json.dumps(unknown)), json.dumps(unknown).encode() + b"\n")
    for n in NUMBERS:
        case = add("number", repr(n))
        case.path.write_bytes(numbers_everywhere(case.said, case.first, n))
    for name, (change, _) in LINE_ENDS.items():
        case = add("line end", name, "middle")
        case.path.write_bytes(case.said(0) + change(case.said(1)) + case.said(2))
        case = add("line end", name, "first")
        case.path.write_bytes(change(case.said(1)) + case.said(0) + case.said(2))
    report = world.sync()
    assert (report.new_files, report.problems) == (len(made), [])
    world.sound()
    again = world.sync()
    assert (again.lines_read, again.new_files, again.rewritten_files) == (0, 0, 0)
    return made


# -- copies --------------------------------------------------------------------------------------


def test_case_24_the_same_entry_twice_in_one_file_is_one_row(world: World) -> None:
    world.write(lines(0, 1, 1, 0, 2))
    world.sync()
    assert counts(world) == {("stored", ""): 3, ("copy", ""): 2}
    world.append(lines(1, 3))
    world.sync()
    assert world.one("SELECT count(*) FROM message_copies") == 3
    world.settled([0, 1, 2, 3])


def reply(n: int, tokens: int, **more: Any) -> bytes:
    """An assistant's line with its tokens."""
    message = {
        "id": f"msg_{n}",
        "role": "assistant",
        "model": "claude-opus-4-5",
        "content": [{"type": "text", "text": f"line {n:05}"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": tokens, "output_tokens": tokens},
    }
    return line(n, type="assistant", message=message, requestId=f"req_{n}", **more)


@pytest.mark.parametrize(
    ("passes", "size"),
    [
        pytest.param("one pass", 1776, marks=pytest.mark.slow),
        pytest.param("two passes", 1776, marks=pytest.mark.slow),
        pytest.param("new file first", 1776, marks=pytest.mark.slow),
        ("new file first", 200),
    ],
)
def test_case_25_a_resumed_session_that_repeats_its_history_doubles_no_message_and_no_token(
    world: World, passes: str, size: int
) -> None:
    old = b"".join(line(n) + reply(n + 1, 10) for n in range(0, size, 2))
    new = old + lines(size, sessionId=OTHER_SESSION)
    new += reply(size + 1, 10, sessionId=OTHER_SESSION)
    files = [(old, f"p/{SESSION}.jsonl"), (new, f"p/{OTHER_SESSION}.jsonl")]
    if passes == "new file first":
        files.reverse()
    for data, name in files:
        world.write(data, world.file(name))
        if passes != "one pass":
            world.sync()
    world.sync()
    requests = size // 2 + 1
    assert world.texts() == texts(range(size + 2))
    assert world.ask("SELECT count(*), sum(input_tokens), sum(lines) FROM usage") == [
        (requests, 10 * requests, requests)
    ]
    assert world.ask("SELECT session_id, count(*) FROM messages GROUP BY 1 ORDER BY 1") == [
        (SESSION, size),
        (OTHER_SESSION, 2),
    ]
    # Both sessions read whole.
    assert world.ask("SELECT session_id, count(*) FROM session_messages GROUP BY 1 ORDER BY 1") == [
        (SESSION, size),
        (OTHER_SESSION, size + 2),
    ]
    assert world.ask("SELECT id, parent_session_id, relation FROM sessions ORDER BY id") == [
        (SESSION, None, None),
        (OTHER_SESSION, SESSION, "resume"),
    ]
    world.settled(range(size + 2))


def test_case_26_an_empty_file_is_tracked_and_read_when_a_line_completes(world: World) -> None:
    world.write(b"")
    second = world.file(f"q/{OTHER_SESSION}.jsonl")
    second.touch()  # equal content: still two files
    assert world.sync().new_files == 2
    assert world.source()["offset"] == 0
    assert world.source()["state"] == "ok"
    assert world.sync().new_files == 0
    world.append(line(0)[:30])
    world.sync()
    assert world.source()["state"] == "partial"
    world.append(line(0)[30:])
    world.append(lines(1, sessionId=OTHER_SESSION), second)
    world.sync()
    assert world.source(second)["lines"] == 1
    world.settled([0, 1])


def test_case_26_a_file_that_stays_shorter_than_64_bytes_is_read_like_any_other(
    world: World,
) -> None:
    world.write(b'{"type":"a"}\n')
    other = world.write(b'{"type":"a"}\n', world.file(f"q/{OTHER_SESSION}.jsonl"))
    world.sync()
    world.append(b'{"type":"b"}\n')
    world.sync()
    assert world.source(other)["lines"] == 1
    assert world.ask("SELECT type, count(*) FROM events GROUP BY 1 ORDER BY 1") == [
        ("a", 2),
        ("b", 1),
    ]
    world.settled([])


def test_bad_lines_are_named_by_status(world: World, tmp_path: Path) -> None:
    """A person meets cases 12 to 23 here."""
    world.write(line(0) + b"torn {\n" + lines(1))
    done = world.cli("sync")
    assert "1 line could not be read; `ctxdb status` tells which." in done.stdout
    shown = world.cli("status").stdout
    assert f"{world.main} at byte {len(line(0))}" in shown
    assert "torn {" not in shown
