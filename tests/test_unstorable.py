"""Lines that are good JSON, and once stopped the store: whatever stands in them is stored.

And what nobody has thought of yet stops nothing but the file it is in.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest

from builder import World as Story
from builder import text, tool_use
from ctxdb.files import tail
from ctxdb.ingest import line_reader, workers
from ctxdb.ingest import run as ingest
from ctxdb.ingest.workers import ReaderProcesses
from ctxdb.rules.chunk import Chunk
from ctxdb.store import source_files
from lab import told_by
from world import OTHER_SESSION, World, line, lines, texts

BASE64 = "Ab1" * 30_000


def deep(levels: int) -> Any:
    return json.loads("[" * levels + "]" * levels)


@pytest.mark.parametrize("before", ["look:\n", "\x1b", "\\", "é\t", ""])
def test_json_stays_json_where_base64_is_cut_out_behind_an_escape(before: str) -> None:
    story = Story()
    main = story.session()
    main.prompt("go on")
    main.tool("Bash", {"command": f"base64 -d <<EOF{before}{BASE64}"})
    main.tool("Write", {"file_path": "/home/ada/engine/a", "content": before + BASE64})
    main.tool("Agent", {"prompt": before + BASE64, "description": "d"})
    main.queue("enqueue", before + BASE64)
    main.custom_title(before + BASE64)
    found = told_by(story.contents(), "SELECT json_valid(input), length(input) FROM tool_uses")
    assert [valid for valid, _ in found] == [1, 1, 1]
    assert max(length for _, length in found) < 1000


@pytest.mark.parametrize(
    "type_",
    ["queue-operation", "pr-link", "worktree-state", "summary", "custom-title", "made-up"],
)
def test_an_event_that_is_nested_without_end_is_stored_as_an_object(type_: str) -> None:
    story = Story()
    main = story.session()
    main.prompt("go on")
    main.flat(type_, sessionId=main.session, operation="enqueue", content="x", deep=deep(300))
    main.prompt("and on")
    events = told_by(story.contents(), "SELECT type, json_type(data) FROM events")
    assert events == [(type_, "object")]


def test_a_call_whose_input_is_nested_without_end_is_stored() -> None:
    story = Story()
    main = story.session()
    main.prompt("go on")
    main.tool("Agent", {"prompt": "p", "description": "d", "deep": deep(300)})
    assert told_by(story.contents(), "SELECT json_type(input) FROM tool_uses") == [("object",)]


@pytest.mark.parametrize("digits", [19, 25, 5000])
def test_a_pull_request_whose_number_is_too_large_is_none(digits: int) -> None:
    story = Story()
    main = story.session()
    main.prompt("go on")
    main.tool("Bash", {"command": "gh pr create -f"}, f"https://github.com/a/b/pull/{'9' * digits}")
    assert told_by(story.contents(), "SELECT kind FROM git_operations") == []


def test_requests_whose_ids_make_the_same_key_are_one_and_stop_nothing() -> None:
    story = Story()
    main = story.session()
    main.prompt("go on")
    main.reply(text("one"), message="msg_1|a", request="b", output=5)
    main.reply(text("two"), message="msg_1", request="a|b", output=7)
    found = told_by(story.contents(), "SELECT request_key, output_tokens FROM usage")
    assert found == [("msg_1|a|b", 7)]


def test_a_call_whose_id_holds_a_nul_is_joined_with_its_result() -> None:
    story = Story()
    main = story.session()
    main.prompt("go on")
    call = tool_use(story, "Bash", {"command": "ls"}, "toolu_a\0b")
    main.reply(call)
    main.result("toolu_a\0b", "a")
    assert told_by(story.contents(), "SELECT status FROM tool_uses") == [("ok",)]


# -- what nobody has thought of --------------------------------------------------------------------


class Surprise(Exception):
    """A mistake in the store."""


@pytest.mark.parametrize("ahead", [False, True])
def test_a_file_that_cannot_be_stored_is_named_and_the_others_are_read(
    world: World, monkeypatch: pytest.MonkeyPatch, ahead: bool
) -> None:
    move = source_files.move_offsets

    def surprised(conn: sqlite3.Connection, chunks: list[Chunk], now: str) -> None:
        move(conn, chunks, now)
        if any(chunk.file.path == str(world.main) for chunk in chunks):
            raise Surprise("these words could quote a transcript")

    if ahead:
        monkeypatch.setattr(ingest, "READ_AHEAD_BYTES", 1)
    monkeypatch.setattr(source_files, "move_offsets", surprised)
    other = world.file(f"-work-app/{OTHER_SESSION}.jsonl")
    other.write_bytes(lines(0, 1, sessionId=OTHER_SESSION))
    world.write(lines(2, 3, 4))
    report = world.sync()
    assert report.problems == [f"{world.main}: cannot be stored (Surprise)"]
    assert (report.new_files, report.unreadable_files, report.lines_read) == (2, 1, 2)
    assert world.source()["state"] == "unreadable"
    assert world.texts() == texts([0, 1])
    assert world.one("SELECT reason FROM ingest_errors") == "cannot be stored (Surprise)"
    # What has come meanwhile is read too, and so is the file itself once it can be stored.
    world.append(line(5, sessionId=OTHER_SESSION), other)
    assert world.sync().lines_read == 1
    assert world.texts() == texts([0, 1, 5])
    monkeypatch.undo()
    world.sync()
    assert world.errors() == []
    world.settled(range(6))


def test_what_readers_that_died_have_not_read_is_read_in_the_same_pass(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "READ_AHEAD_BYTES", 1)
    # Few lines in a batch, and little room for what is read ahead: most is not yet read by then.
    monkeypatch.setattr(ingest, "BATCH_BYTES", 2000)
    monkeypatch.setattr(line_reader, "CHUNK_BYTES", 1)
    monkeypatch.setattr(tail.read_block, "__defaults__", (2000, tail.MAX_LINE_BYTES))
    monkeypatch.setattr(workers, "AHEAD_BYTES", 20_000)
    batches = ReaderProcesses.batches
    was_reading: list[bool] = []

    def killed(self: ReaderProcesses) -> Any:
        for arrived in batches(self):
            yield arrived
            for reader in self.readers:
                was_reading.append(reader.process.is_alive())
                reader.process.kill()
                reader.process.join()

    monkeypatch.setattr(ReaderProcesses, "batches", killed)
    world.write(lines(*range(500)))
    report = world.sync()
    assert was_reading[0]
    assert (report.lines_read, report.problems) == (500, [])
    world.settled(range(500))
