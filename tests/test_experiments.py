"""Two experiments that no test noticed in the first build: a new column, an inverted comparison.

The first is here without the column; test_new_column.py adds it.
"""

from __future__ import annotations

from typing import Any

import pytest

from builder import Json, World, dumps, text, tool_use, usage
from lab import told_by

SESSION = "5e551000-0000-4000-8000-00000000000a"


# -- a new column ----------------------------------------------------------------------------------


def world_of_two_calls(other: str) -> World:
    """Two calls with one id, and their results in a file that is named after another session."""
    world = World()
    calls = world.session(session=SESSION)
    for command in ("first", "second"):
        calls.reply(tool_use(world, "Bash", {"command": command}, "call_0"))
    results = world.session(session=SESSION, name=other)
    results.result("call_0", "going on", {"backgroundTaskId": "b1"})
    results.result("call_0", "ended", {"stdout": "ended"})
    return world


TOLD = "SELECT target, result_text, exit_code FROM tool_uses ORDER BY started_at"


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        # The results are read after both calls: the first belongs to the last open call.
        (
            "6e551000-0000-4000-8000-000000000000",
            [("first", "ended", 0), ("second", "going on", None)],
        ),
        # They are read before both calls: the first belongs to the first call.
        (
            "4e551000-0000-4000-8000-000000000000",
            [("first", "going on", None), ("second", "ended", 0)],
        ),
    ],
    ids=["results after", "results before"],
)
def test_calls_of_one_id_have_the_same_results_read_at_once_and_line_by_line(
    other: str, expected: list[tuple[Any, ...]]
) -> None:
    assert told_by(world_of_two_calls(other).contents(), TOLD) == expected


def test_calls_of_one_id_in_one_file_have_the_results_that_follow_them() -> None:
    world = World()
    t = world.session()
    for command in ("first", "second"):
        t.reply(tool_use(world, "Bash", {"command": command}, "call_0"))
        t.result("call_0", f"of the {command}")
    expected = [("first", "of the first", 0), ("second", "of the second", 0)]
    assert told_by(world.contents(), TOLD) == expected


# -- an inverted comparison ------------------------------------------------------------------------


def streamed(n: int, **more: Any) -> Json:
    """A line of one request; all of its lines count the same tokens."""
    return {
        "type": "assistant",
        "uuid": f"{n:08x}-0000-4000-8000-000000000000",
        "sessionId": SESSION,
        "timestamp": f"2026-08-02T12:00:0{n}.000Z",
        "requestId": "req_drift",
        "message": {
            "id": "msg_drift",
            "role": "assistant",
            "model": "claude-opus-4-6",
            "content": [text(f"part {n}")],
            "stop_reason": None,
            "usage": usage(7, **more),
        },
    }


@pytest.mark.parametrize("fast", [1, 2], ids=["speed in the first line", "speed in the second"])
def test_a_line_with_a_speed_wins_however_the_lines_arrive(fast: int) -> None:
    lines = [streamed(n, **({"speed": "fast"} if n == fast else {})) for n in (1, 2)]
    files = {f"-p/{SESSION}.jsonl": b"".join(dumps(line) + b"\n" for line in lines)}
    told = told_by(files, "SELECT speed, lines, timestamp FROM usage")
    assert told == [("fast", 2, "2026-08-02T12:00:01.000Z")]


def test_a_line_with_a_speed_wins_though_the_lines_are_in_two_files() -> None:
    files = {
        f"-p/{SESSION}.jsonl": dumps(streamed(1, speed="fast")) + b"\n",
        "-p/notes.jsonl": dumps(streamed(2)) + b"\n",
    }
    assert told_by(files, "SELECT speed, lines FROM usage") == [("fast", 2)]


def test_more_tokens_win_over_a_speed() -> None:
    larger = streamed(2)
    larger["message"]["usage"]["output_tokens"] = 8
    lines = [streamed(1, speed="fast"), larger]
    files = {f"-p/{SESSION}.jsonl": b"".join(dumps(line) + b"\n" for line in lines)}
    assert told_by(files, "SELECT speed, output_tokens FROM usage") == [(None, 8)]
