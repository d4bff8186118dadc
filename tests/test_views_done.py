"""What was done: tools, commands, files, commits, pull requests and agents.

The world is that of viewworld.py; the numbers were counted by hand.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from builder import OTHER_PROJECT, World, text, tool_use
from ctxdb.query.statement import Ask, statement_for
from lab import lab
from viewlab import columns, stored
from viewworld import A_PY, MAIN, ONE, SECOND, TWO, edited, handmade

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from viewlab import Made

ENGINE = "/home/ada/engine"


@pytest.fixture(scope="module")
def db() -> Iterator[Path]:
    with lab() as one:
        yield stored(one, handmade())


# -- tools -----------------------------------------------------------------------------------------


def test_every_call_is_counted_under_its_tool_and_by_how_it_ended(db: Path) -> None:
    names = "tool, calls, ok, errors, error_rate, rejected, pending"
    assert columns(db, "tool_stats", names) == [
        ("Bash", 4, 2, 1, 0.25, 1, 0),
        ("Read", 2, 2, 0, 0.0, 0, 0),
        ("Agent", 1, 1, 0, 0.0, 0, 0),
        ("AskUserQuestion", 1, 1, 0, 0.0, 0, 0),
        ("Edit", 1, 1, 0, 0.0, 0, 0),
        ("Write", 1, 1, 0, 0.0, 0, 0),
        ("mcp__tracker__find", 1, 1, 0, 0.0, 0, 0),
    ]


@pytest.mark.parametrize(
    ("seconds", "median", "p95"),
    [
        ([7], 7, 7),
        ([1, 2], 1, 2),
        ([3, 1, 2], 2, 3),
        ([1, 2, 3, 4], 2, 4),
        (list(range(1, 20)), 10, 19),
        (list(range(1, 21)), 10, 19),
        (list(range(1, 22)), 11, 20),
        ([5, 5, 5, 9], 5, 9),
    ],
)
def test_median_and_p95_are_by_nearest_rank(
    made: Made, seconds: list[int], median: int, p95: int
) -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    for name in ("Grep", "mcp__tracker__find"):
        for wait in seconds:
            call = tool_use(world, name, {"query": "x"})
            t.reply(call)
            world.seconds += wait - 1
            t.result(call["id"])
        t.reply(tool_use(world, name, {"query": "without an end"}))
    db = made(world)
    rows = columns(db, "tool_stats", "tool, calls, pending, median_ms, p95_ms, total_seconds")
    assert rows == [
        (name, len(seconds) + 1, 1, median * 1000, p95 * 1000, float(sum(seconds)))
        for name in ("Grep", "mcp__tracker__find")
    ]
    rows = columns(db, "mcp_stats", "server, tool, calls, median_ms, p95_ms")
    assert rows == [("tracker", "find", len(seconds) + 1, median * 1000, p95 * 1000)]


def test_failed_calls_are_listed_with_what_the_tool_said(db: Path) -> None:
    names = "project, tool, target, message, exit_code, session_id"
    assert columns(db, "tool_errors", names) == [
        ("engine", "Bash", "npm test", "Exit code 1\nFAIL a.test", 1, MAIN)
    ]


def test_the_tags_around_an_error_are_left_out(made: Made) -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    call = tool_use(world, "Read", {"file_path": "/x"})
    t.reply(call)
    t.result(call["id"], "<tool_use_error>File does not exist.</tool_use_error>", is_error=True)
    assert columns(made(world), "tool_errors", "message") == [("File does not exist.",)]


def test_commands_are_listed_newest_first(db: Path) -> None:
    names = "command, description, status, exit_code, duration_ms, agent_id"
    assert columns(db, "bash_commands", names) == [
        ("rm -rf build", None, "rejected", None, 1000, None),
        ("git commit -am green", None, "ok", 0, 1000, None),
        ("npm test", None, "ok", 0, 1000, None),
        ("npm test", "Run the tests", "error", 1, 1000, None),
    ]


def test_commands_of_windows_stand_among_the_others(made: Made) -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    for name, command in (("Bash", "ls"), ("PowerShell", "dir"), ("Bash", "pwd")):
        t.tool(name, {"command": command})
    rows = columns(made(world), "bash_commands", "command")
    assert rows == [("pwd",), ("dir",), ("ls",)]


# -- files -----------------------------------------------------------------------------------------


def test_every_touch_of_a_file_is_there_with_its_reason(db: Path) -> None:
    names = "relative_path, operation, lines_added, lines_removed, prompt, agent_id"
    assert columns(db, "file_history", names) == [
        ("src/a.py", "read", None, None, "also the docs", "a1"),
        ("docs/a.md", "create", 3, 0, "also the docs", None),
        ("src/a.py", "edit", 2, 1, "make it green", None),
        ("src/a.py", "read", None, None, "make it green", None),
    ]


def test_the_touches_of_a_file_add_up(db: Path) -> None:
    names = "path, reads, edits, lines_added, lines_removed, failed, sessions"
    assert columns(db, "file_activity", names) == [
        (A_PY, 2, 1, 2, 1, 0, 1),
        (f"{ENGINE}/docs/a.md", 0, 1, 3, 0, 0, 1),
    ]


def test_a_failed_edit_is_no_edit_and_a_snapshot_no_touch(made: Made) -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    call = tool_use(world, "Edit", {"file_path": A_PY, "old_string": "a", "new_string": "b"})
    t.reply(call)
    t.result(call["id"], "File has not been read yet.", is_error=True)
    t.snapshot(A_PY)
    t.attach("file", filename=A_PY, content="x = 1")
    db = made(world)
    rows = columns(db, "file_activity", "path, reads, edits, lines_added, failed, mentions")
    assert rows == [(A_PY, 0, 0, 0, 1, 1)]
    assert columns(db, "sessions_overview", "files_changed, lines_added") == [(0, 0)]
    rows = columns(db, "file_history", "operation, succeeded", "ORDER BY operation")
    assert rows == [("edit", 0), ("mention", 1)]
    with closing(sqlite3.connect(db)) as conn:
        asked = Ask("file_history", params={"snapshots": "1", "operation": "snapshot"}, since="all")
        statement = statement_for(asked, conn)
        assert len(conn.execute(statement.sql, statement.values).fetchall()) == 1


def test_the_same_path_in_two_projects_is_two_files(made: Made) -> None:
    world = World()
    for folder, cwd in (("-home-ada-engine", ENGINE), (OTHER_PROJECT, "/home/ada/other")):
        t = world.session(folder, cwd=cwd)
        t.prompt("go")
        edited(t, A_PY, 1, 0)
    rows = columns(made(world), "file_activity", "project, path, relative_path, edits, sessions")
    assert sorted(rows, key=str) == [
        ("engine", A_PY, "src/a.py", 1, 1),
        ("other", A_PY, None, 1, 1),
    ]


# -- git -------------------------------------------------------------------------------------------


def test_a_commit_has_the_request_the_files_and_the_cost_of_the_turn(db: Path) -> None:
    names = "sha, branch, subject, prompt, files_changed, files, requests, turn_commits"
    assert columns(db, "commits", names) == [
        ("abc1234", "main", "Make it green", "make it green", 1, "src/a.py", 7, 1)
    ]
    ((cost,),) = columns(db, "commits", "cost_usd")
    assert cost == pytest.approx(5 * ONE + 2 * TWO, abs=1e-12)


def commit(t: object, command: str, sha: str) -> None:
    said = f"[main {sha}] Work\n 1 file changed"
    t.tool("Bash", {"command": command}, said, {"stdout": said})  # type: ignore[attr-defined]


def test_commits_of_one_turn_share_its_files_in_order(made: Made) -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    edited(t, f"{ENGINE}/one.py", 1, 0)
    commit(t, "git commit -am 1", "aaa1111")
    edited(t, f"{ENGINE}/two.py", 1, 0)
    commit(t, "git commit -am 2", "bbb2222")
    commit(t, "git commit --amend -m 2", "ccc3333")
    edited(t, f"{ENGINE}/three.py", 1, 0)
    rows = columns(made(world), "commits", "sha, files_changed, files, turn_commits")
    assert rows == [
        ("ccc3333", 1, "two.py", 3),
        ("bbb2222", 1, "two.py", 3),
        ("aaa1111", 1, "one.py", 3),
    ]


def test_a_pull_request_has_what_led_to_it(db: Path) -> None:
    names = "pr_number, sessions, turns, commits, files_changed, requests, total_tokens"
    assert columns(db, "pull_requests", names) == [(7, 1, 4, 1, 2, 15, 985)]


def test_each_turn_counts_for_one_pull_request(made: Made) -> None:
    world = World()
    first = world.session()
    for prompt, number in (("a", None), ("b", 1), ("c", None), ("d", 2), ("e", None)):
        first.prompt(prompt)
        first.reply(text("done"))
        if number:
            first.pr_link(number)
    second = world.session()
    second.prompt("review")
    second.reply(text("fine"))
    second.pr_link(1)
    names = "pr_number, sessions, turns, requests, cost_usd"
    rows = columns(made(world), "pull_requests", names, "ORDER BY pr_number")
    assert rows == [
        (1, 2, 3, 3, pytest.approx(3 * ONE, abs=1e-12)),
        (2, 1, 3, 3, pytest.approx(3 * ONE, abs=1e-12)),
    ]


def test_a_pull_request_is_found_by_any_session_that_had_to_do_with_it(made: Made) -> None:
    world = World()
    first, second = world.session(), world.session(OTHER_PROJECT, cwd="/home/ada/other")
    for t, prompts in ((first, ("a", "b")), (second, ("review",))):
        for prompt in prompts:
            t.prompt(prompt)
            t.reply(text("done"))
        t.pr_link(1)
    second.prompt("next")
    second.pr_link(2)
    with closing(sqlite3.connect(made(world))) as conn:
        for how, expected in (
            ({"session": first.session}, [(1, 1, 2)]),
            ({"session": second.session}, [(2, 1, 1), (1, 1, 1)]),
            ({"project": "/home/ada/other"}, [(2, 1, 1), (1, 1, 1)]),
            ({}, [(2, 1, 1), (1, 2, 3)]),
        ):
            asked = statement_for(
                Ask("pull_requests", columns="pr_number,sessions,turns", **how), conn
            )
            rows = conn.execute(asked.sql, asked.values).fetchall()
            assert [row[:3] for row in rows] == expected


# -- agents ----------------------------------------------------------------------------------------


def test_an_agent_has_its_task_its_calls_and_its_cost(db: Path) -> None:
    names = "kind, agent_type, task, status, tools, requests, seconds, request, depth, agent_id"
    assert columns(db, "subagent_runs", names) == [
        ("task", "Explore", "Look around", "completed", 1, 2, 3.0, "also the docs", 1, "a1")
    ]
    ((cost,),) = columns(db, "subagent_runs", "cost_usd")
    assert cost == pytest.approx(2 * ONE, abs=1e-12)


def test_an_agent_without_a_transcript_is_known_by_its_call(made: Made) -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    call = tool_use(world, "Agent", {"description": "Look", "prompt": "look"})
    t.reply(call)
    t.result(call["id"], "seen", {"status": "completed", "agentId": "a9", "totalTokens": 99})
    db = made(world)
    names = "started_at, task, status, requests, seconds"
    assert columns(db, "subagent_runs", names) == [
        ("2026-03-01T09:00:02.000Z", "Look", "completed", 0, 1.0)
    ]
    unknown = "tools, errors, total_tokens, output_tokens, cost_usd"
    assert columns(db, "subagent_runs", unknown) == [(None,) * 5]


# -- sessions, turns, projects, all ----------------------------------------------------------------


def test_a_session_adds_up_with_its_agents(db: Path) -> None:
    names = "session_id, turns, tools, errors, files_changed, lines_added, lines_removed, subagents"
    assert columns(db, "sessions_overview", names) == [
        (SECOND, 1, 1, 0, 0, 0, 0, 0),
        (MAIN, 4, 10, 1, 2, 5, 1, 1),
    ]
    names = "requests, requests_unpriced, total_tokens, output_tokens, seconds, models, relation"
    assert columns(db, "sessions_overview", names) == [
        (2, 2, 130, 10, 8.0, "mystery-1", "fork"),
        (15, 0, 985, 85, 36.0, "claude-opus-4-5-20251101", None),
    ]


def test_cost_is_with_and_without_agents_and_null_without_a_price(db: Path) -> None:
    rows = columns(db, "sessions_overview", "cost_usd, cost_own_usd")
    assert rows == [
        (None, None),
        (pytest.approx(13 * ONE + 2 * TWO), pytest.approx(11 * ONE + 2 * TWO)),
    ]


def test_a_turn_has_its_reply_and_what_it_took(db: Path) -> None:
    names = (
        "kind, prompt, last_reply, tools, errors, commands_run, files_changed, requests, seconds"
    )
    assert columns(db, "turns_overview", names) == [
        ("prompt", "another way", "Like this.", 1, 0, 0, 0, 2, 8.0),
        ("prompt", "/usr/bin is no command", "Right.", 0, 0, 0, 0, 1, 1.0),
        ("prompt", "then rename it", "I could rename", 0, 0, 0, 0, 1, 2.0),
        ("queued", "also the docs", None, 5, 0, 0, 1, 6, 13.0),
        ("prompt", "make it green", "And committed.", 5, 1, 3, 1, 7, 14.0),
    ]
    assert columns(db, "turns_overview", "cost_usd, requests_unpriced") == [
        (None, 2),
        (pytest.approx(ONE), 0),
        (pytest.approx(ONE), 0),
        (pytest.approx(6 * ONE), 0),
        (pytest.approx(5 * ONE + 2 * TWO), 0),
    ]


def test_a_turn_without_a_request_cost_nothing(made: Made) -> None:
    world = World()
    world.session().command("/clear")
    rows = columns(made(world), "turns_overview", "prompt, requests, cost_usd, reply")
    assert rows == [("/clear", 0, 0.0, None)]


def test_a_project_adds_up_its_sessions(db: Path) -> None:
    names = "project, repo_path, sessions, turns, days_active, files_changed, commits, requests"
    assert columns(db, "projects_overview", names) == [("engine", ENGINE, 2, 5, 2, 2, 1, 17)]
    names = "requests_unpriced, total_tokens, cost_usd, last_active_at"
    total = pytest.approx(13 * ONE + 2 * TWO)
    assert columns(db, "projects_overview", names) == [(2, 1115, total, "2026-03-02T09:00:46.000Z")]


def test_the_overview_counts_everything_once(db: Path) -> None:
    names = (
        "days_active, projects, sessions, turns, messages, tools, errors, files_changed, commits"
    )
    assert columns(db, "overview", names) == [(2, 1, 2, 5, 41, 11, 1, 2, 1)]
    names = "commits, subagents, requests, requests_unpriced, input_tokens, output_tokens"
    assert columns(db, "overview", names) == [(1, 1, 17, 2, 170, 95)]
    names = "cache_write_tokens, cache_read_tokens, total_tokens, models, transcripts"
    assert columns(db, "overview", names) == [
        (340, 510, 1115, "claude-opus-4-5-20251101, mystery-1", 3)
    ]


def test_activity_is_by_weekday_and_hour(db: Path) -> None:
    names = "weekday, weekday_number, hour, turns, requests, total_tokens, cost_usd"
    assert columns(db, "activity_by_hour", names) == [
        ("Mon", 1, 9, 1, 2, 130, None),
        ("Sun", 7, 9, 4, 15, 985, pytest.approx(13 * ONE + 2 * TWO)),
    ]
