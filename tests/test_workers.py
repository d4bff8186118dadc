"""What worker processes read is stored as what the first process reads."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import ctxdb.ingest.sync
from ctxdb.claude import read_entry
from ctxdb.demo import write_demo
from ctxdb.files import tail
from ctxdb.ingest import first_sync, line_reader, workers
from ctxdb.ingest import run as ingest
from ctxdb.privacy.digests import Digest
from ctxdb.rows import Message
from ctxdb.rules.replays import BlockSets, blocks_of
from ctxdb.settle.repeats import Repeats
from ctxdb.settle.stored_uuids import StoredUuids
from ctxdb.store.keys import LINES, key_of
from lab import Content, Lab, at_once, lab, must_equal
from thinning import thinned

SESSION = "5e551000-0000-4000-8000-00000000000a"


def demo(one: Lab) -> None:
    write_demo(one.root)
    for path in sorted(one.root.rglob("*.jsonl"))[:3]:  # entries of a session in a second file
        data = path.read_bytes()
        one.put(f"copied/{path.stem[:-1]}f.jsonl", data[: data.rindex(b"\n", 0, -1) + 1])


@cache
def one_process() -> Content:
    """What a database says that one process has made: a small sync starts no other."""
    with lab() as one:
        demo(one)
        one.sync()
        one.must_verify()
        return one.content()


def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "CHUNK_BYTES", 1)
    monkeypatch.setattr(tail.read_block, "__defaults__", (3000, tail.MAX_LINE_BYTES))


@pytest.mark.parametrize("built", ["aside", "in place"])
@pytest.mark.parametrize("chunks", thinned(["a few lines", "whole files"], 2))
@pytest.mark.parametrize("batches", thinned(["small", "large"], 2))
def test_workers_make_the_same_rows_as_one_process(
    monkeypatch: pytest.MonkeyPatch, built: str, chunks: str, batches: str
) -> None:
    monkeypatch.setattr(ingest, "READ_AHEAD_BYTES", 1)
    if chunks == "a few lines":
        small_chunks(monkeypatch)
    if batches == "small":
        monkeypatch.setattr(ingest, "BATCH_BYTES", 20_000)
    with lab() as one:
        if built == "aside":
            monkeypatch.setattr(first_sync, "MIN_BYTES", 1)
            one.db.unlink()
        demo(one)
        one.sync()
        one.must_verify()
        must_equal(one_process(), one.content())


def line(n: int, at: str, text: str, session_id: str = SESSION) -> bytes:
    entry = {
        "type": "user",
        "uuid": f"{n:08x}-0000-4000-8000-000000000000",
        "sessionId": session_id,
        "timestamp": at,
        "message": {"role": "user", "content": text},
    }
    return json.dumps(entry).encode() + b"\n"


def must_not_matter_who_reads(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes], batch_bytes: int
) -> Content:
    """The same in large pieces by one process, and in small ones by a worker."""
    expected = at_once(files)
    small_chunks(monkeypatch)
    monkeypatch.setattr(workers, "READERS", 1)
    monkeypatch.setattr(ingest, "READ_AHEAD_BYTES", 1)
    monkeypatch.setattr(ingest, "BATCH_BYTES", batch_bytes)
    for aside in (True, False):
        with lab() as one:
            if aside:
                monkeypatch.setattr(first_sync, "MIN_BYTES", 1)
                one.db.unlink()
            for name, data in files.items():
                one.put(name, data)
            one.sync()
            one.must_verify()
            must_equal(expected, one.content(), f"aside: {aside}")
    return expected


@pytest.mark.parametrize("batch_bytes", thinned([5500, 1000, 12_000, 4000, 8000], 5))
def test_a_session_is_replayed_beside_a_file_that_has_gone_on_to_another(
    monkeypatch: pytest.MonkeyPatch, batch_bytes: int
) -> None:
    """The batch that holds the replay may hold later lines of the file with the original."""
    other = "5e551000-0000-4000-8000-000000000001"
    times = [f"2026-08-24T22:43:{n:02}.764Z" for n in range(60)]
    said = b"".join(line(n, times[n], f"said {n}") for n in range(20))
    own = b"".join(line(n, times[n], f"own {n}", other) for n in range(20, 60))
    again = b"".join(line(n + 100, times[n], f"said {n}") for n in range(20))
    files = {f"p/{other}.jsonl": said + own, f"p/{SESSION}.jsonl": again}
    found = must_not_matter_who_reads(monkeypatch, files, batch_bytes)
    assert (len(found["messages"]), len(found["message_copies"])) == (60, 20)


@pytest.mark.parametrize("agent", ["x", None])
def test_a_request_that_a_sidechain_replays_is_the_main_threads_however_the_lines_come(
    monkeypatch: pytest.MonkeyPatch, agent: str | None
) -> None:
    """Rule R3, though both lines stand in one batch."""

    def reply(n: int, output: int, **more: Any) -> bytes:
        usage = {"input_tokens": 3, "output_tokens": output}
        message = {"id": "msg_1", "model": "claude-opus-5", "role": "assistant", "usage": usage}
        message["content"] = [{"type": "text", "text": f"line {n}"}]
        entry = {
            "type": "assistant",
            "uuid": f"{n:08x}-0000-4000-8000-000000000000",
            "sessionId": SESSION,
            "requestId": "req_1",
            "timestamp": f"2026-02-0{n}T00:00:00.000Z",
            "message": message,
            **more,
        }
        return json.dumps(entry).encode() + b"\n"

    name = f"p/{SESSION}.jsonl"
    replayed = reply(1, 4, isSidechain=True, **({"agentId": agent} if agent else {}))
    told = "SELECT agent_id, timestamp, output_tokens, lines FROM usage"
    expected = [(None, "2026-02-02T00:00:00.000Z", 381, 1)]
    with lab() as one:
        for data in (replayed, reply(2, 381)):
            one.append(name, data)
            one.sync()
        assert one.rows(told) == expected
        content = one.content()
    for bytes_ahead in (1 << 40, 1):
        monkeypatch.setattr(ingest, "READ_AHEAD_BYTES", bytes_ahead)
        with lab() as one:
            one.put(name, replayed + reply(2, 381))
            one.sync()
            assert one.rows(told) == expected
            must_equal(content, one.content())


@pytest.mark.parametrize("batch_bytes", thinned([4000, 1, 1 << 20], 3))
def test_events_are_of_the_session_that_their_file_names_much_later(
    monkeypatch: pytest.MonkeyPatch, batch_bytes: int
) -> None:
    events = b"".join(b'{"type":"mode","mode":"m%d","n":"%060d"}\n' % (n, n) for n in range(200))
    said = b"".join(line(n, f"2026-08-24T22:43:{n:02}.764Z", "hi") for n in range(30))
    must_not_matter_who_reads(monkeypatch, {"p/notes.jsonl": events + said}, batch_bytes)


def steps_to_store(data: bytes) -> int:
    """How much work a sync of a file is for SQLite; the time would depend on the machine."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    with pytest.MonkeyPatch.context() as patch, lab() as one:
        real = ctxdb.ingest.sync.open_writer

        def open_writer(path: Path, **how: float) -> sqlite3.Connection:
            conn = real(path, **how)
            conn.set_progress_handler(count, 1000)
            return conn

        patch.setattr(ctxdb.ingest.sync, "open_writer", open_writer)
        one.put(f"p/{SESSION}.jsonl", data)
        one.sync()
        assert one.rows("SELECT sum(lines) FROM line_counts") == [(data.count(b"\n"),)]
    return counted


@pytest.mark.parametrize("text", ["the same", "line {n}"])
def test_lines_of_one_moment_take_time_by_their_number(text: str) -> None:
    at = "2026-08-24T22:43:22.764Z"

    def twice(size: int) -> bytes:  # the second half replays the first under other uuids
        return b"".join(line(n, at, text.format(n=n % (size // 2))) for n in range(size))

    assert steps_to_store(twice(1000)) < 3 * steps_to_store(twice(500))


def test_blocks_find_what_holds_them_and_what_they_hold() -> None:
    sets = BlockSets()
    all_blocks = [f"b{n}" for n in range(9)]
    kept = ["b0", "b1 b2", "b1 b2 b3", "b4 b5 b6 b7", " ".join(all_blocks[:8]), "b8"]
    for owner, keys in enumerate(kept):
        sets.add(blocks_of(keys), owner)
    for asked in ("b0", "b1", "b2 b3", "b1 b2 b3 b9", "b9", "b4 b5 b6 b7", " ".join(all_blocks)):
        blocks = blocks_of(asked)
        expected = {
            owner
            for owner, keys in enumerate(kept)
            if blocks <= blocks_of(keys) or blocks_of(keys) <= blocks
        }
        assert sets.owners_of(blocks) == expected
        assert sets.is_known(blocks) == bool(expected)


def test_a_merged_entry_is_found_under_the_one_that_stays() -> None:
    at = "2026-08-24T22:43:22.764Z"
    with lab() as one:
        one.put(f"p/{SESSION}.jsonl", line(1, at, "a"))
        one.sync()
        with closing(sqlite3.connect(one.db)) as conn:
            repeats = Repeats(conn, StoredUuids(conn))
            digest = Digest(key_of(conn, LINES))
            message = read_entry(json.loads(line(2, at, "a")), 0, 1, b"", False, digest)
            assert isinstance(message, Message)
            (first,) = repeats.find(message)
            repeats.replays.merge(77, first)
            assert repeats.find(message) == [77]
