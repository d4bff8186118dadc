"""The brief of a turn, and lists of sessions and projects that a person wants to read."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from builder import Transcript, World, text, tool_use
from ctxdb.query.statement import Ask, statement_for
from lab import lab
from viewlab import answer, columns, stored
from viewworld import edited, refuse
from world import RUN, run_python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REPO = "/home/ada/engine"


def worked() -> World:
    world = World()
    t = world.session()
    t.prompt("make it green")
    t.reply(text("I look first."))
    t.tool("Bash", {"command": "ls src\nls docs"}, "a.py")
    edited(t, f"{REPO}/src/a.py", 3, 1)
    edited(t, f"{REPO}/src/a.py", 2, 0)
    call = tool_use(
        world,
        "Agent",
        {"description": "Look around", "prompt": "Look at all", "subagent_type": "Explore"},
    )
    t.reply(call)
    t.result(call["id"], "I saw it.", {"status": "completed", "agentId": "a9"})
    t.tool("Bash", {"command": "make test"}, "ok")
    t.reply(text("It is green."))
    return world


@pytest.fixture(scope="module")
def db() -> Iterator[Path]:
    with lab() as one:
        yield stored(one, worked())


def test_a_turn_tells_all_that_was_said_and_done(db: Path) -> None:
    names = "reply, last_reply, tools_used, commands_run, files_changed"
    assert columns(db, "turns_overview", names) == [
        ("I look first.\n\nIt is green.", "It is green.", "Bash 2, Edit 2, Agent 1", 2, 1)
    ]
    assert columns(db, "turns_overview", "agents_used") == [("Explore 1",)]
    ((commands, files, agents),) = columns(db, "turns_overview", "commands, files, agents")
    assert json.loads(commands) == ["ls src\nls docs", "make test"]
    assert json.loads(files) == [{"path": "src/a.py", "lines_added": 5, "lines_removed": 1}]
    assert json.loads(agents) == [
        {
            "agent_type": "Explore",
            "task": "Look around",
            "status": "completed",
            "answer": "I saw it.",
        }
    ]


def test_an_agent_is_shown_with_its_task_and_its_answer(db: Path) -> None:
    names = "task, prompt, answer, request"
    assert columns(db, "subagent_runs", names) == [
        ("Look around", "Look at all", "I saw it.", "make it green")
    ]


LAUNCHED = "Async agent launched successfully.\nagentId: {} (internal ID)\nIt is at work."


def launched(t: Transcript, agent: str) -> None:
    """Start an agent in the background; it has no file of its own."""
    call = tool_use(t.world, "Agent", {"description": agent, "prompt": "Look"})
    t.reply(call)
    said = {"status": "async_launched", "agentId": agent, "isAsync": True}
    t.result(call["id"], LAUNCHED.format(agent), said)


def notice(agent: str, result: str = "") -> str:
    body = f"<task-id>{agent}</task-id>\n<status>completed</status>\n{result}"
    return f"<task-notification>\n{body}</task-notification>"


def in_background() -> World:
    world = World()
    t = world.session()
    t.prompt("look in the background")
    for agent in ("line", "queue", "again", "output", "file", "first", "second", "silent", "open"):
        launched(t, agent)
    t.prompt(notice("line", "<result>Said in a line.\nTwice.</result>\n<usage>1</usage>\n"))
    t.queue("enqueue", notice("queue", '<result>Said "in" a queue.</result>\n'))
    t.queue("enqueue", notice("again", "<result>Said early.</result>\n"))
    t.attach("queued_command", prompt=notice("again", "<result>Said late.</result>\n"))
    both = f"{notice('first')}\n{notice('second', '<result>Said second.</result>')}"
    t.queue("enqueue", both)
    for status, output in (
        ("running", "[Tool: Bash] {}"),
        ("completed", "[Tool: Bash] {}\n\n--- RESULT ---\nSaid when asked."),
    ):
        about = f"<task_id>output</task_id>\n\n<status>{status}</status>"
        asked = f"{about}\n\n<output>\n{output}\n</output>"
        t.tool("TaskOutput", {"task_id": "output", "block": True}, asked)
    for agent in ("output", "file", "silent"):
        t.queue("enqueue", notice(agent))
    file = t.agent_file("file")
    file.prompt("Look")
    file.reply(text("Said in its file."))
    return world


def test_the_answer_of_an_agent_in_the_background_is_not_that_it_was_launched() -> None:
    with lab() as one:
        db = stored(one, in_background())
        answers = {
            "line": "Said in a line.\nTwice.",
            "queue": 'Said "in" a queue.',
            "again": "Said late.",
            "output": "Said when asked.",
            "file": "Said in its file.",
            "first": None,
            "second": "Said second.",
            "silent": None,
            "open": None,
        }
        assert dict(columns(db, "subagent_runs", "task, answer")) == answers
        ((agents,),) = columns(db, "turns_overview", "agents")
        assert {agent["task"]: agent["answer"] for agent in json.loads(agents)} == answers


def test_a_command_that_was_refused_did_not_run() -> None:
    world = World()
    t = world.session()
    t.prompt("clean up")
    t.tool("Bash", {"command": "ls build"}, "a.o")
    refuse(t)
    with lab() as one:
        db = stored(one, world)
        names = "tools, commands_run, commands"
        assert columns(db, "turns_overview", names) == [(2, 1, '["ls build"]')]
        assert answer(db, "brief", "commands", since="2026-03-01") == [('["ls build"]',)]
        shown = run_python(RUN, "--db", one.db, "show", "--brief", "--no-sync").stdout
        assert "$ ls build" in shown
        assert "rm -rf" not in shown


def test_the_brief_of_a_session_is_printed_as_a_person_reads_it() -> None:
    with lab() as one:
        stored(one, worked())
        shown = run_python(RUN, "--db", one.db, "show", "--brief", "--no-sync").stdout
        for line in (
            "❯ make it green",
            "I look first.",
            "  Tools: Bash 2, Edit 2, Agent 1",
            "    src/a.py  +5 -1",
            "    $ make test",
            "    Explore: Look around",
            "      → I saw it.",
        ):
            assert f"\n{line}\n" in shown
        day = run_python(RUN, "--db", one.db, "show", "--day", "2026-03-01", "--no-sync").stdout
        assert day == shown
        empty = run_python(RUN, "--db", one.db, "show", "--day", "2026-02-01", "--no-sync")
        assert empty.stderr == "No requests on that day: 2026-02-01.\n"


def test_the_query_brief_has_the_turns_of_a_day(db: Path) -> None:
    names = "prompt, reply, tools_used"
    assert answer(db, "brief", names, since="2026-03-01") == [
        ("make it green", "I look first.\n\nIt is green.", "Bash 2, Edit 2, Agent 1")
    ]
    assert answer(db, "brief", names, since="2026-03-02") == []


# -- lists -----------------------------------------------------------------------------------------


def asked_in(world: World, cwd: str, prompt: str) -> None:
    t = world.session(cwd=cwd)
    t.prompt(prompt, cwd=cwd)
    t.reply(text("Yes."), cwd=cwd)


def test_worktrees_are_rolled_up_and_equal_names_are_told_apart() -> None:
    world = World()
    asked_in(world, "/home/ada/a/web", "one")
    asked_in(world, "/home/ada/a/web/.claude/worktrees/x", "two")
    asked_in(world, "/home/ada/b/web", "three")
    asked_in(world, "/home/ada/solo", "four")
    with lab() as one:
        db = stored(one, world)
        names = "project, repo_path, worktrees, sessions"
        assert sorted(columns(db, "projects_overview", names)) == [
            ("a/web", "/home/ada/a/web", 1, 2),
            ("b/web", "/home/ada/b/web", 0, 1),
            ("solo", "/home/ada/solo", 0, 1),
        ]
        assert sorted(columns(db, "usage_by_project", names)) == sorted(
            columns(db, "projects_overview", names)
        )
        assert answer(db, "last_prompts", "project, prompt") == [
            ("solo", "four"),
            ("b/web", "three"),
            ("a/web", "two"),
        ]
        with closing(sqlite3.connect(db)) as conn:
            single = Ask("projects_overview", project="/home/ada/a/web/.claude/worktrees/x")
            asked = statement_for(single, conn)
            (row,) = conn.execute(asked.sql, asked.values).fetchall()
            assert row[:4] == ("a/web", "/home/ada/a/web", 1, 1)


def test_human_leaves_out_what_a_program_ran() -> None:
    world = World()
    asked_in(world, REPO, "typed")
    asked_in(world, REPO, "run by a program")
    with lab() as one:
        db = stored(one, world)
        with closing(sqlite3.connect(db)) as conn, conn:
            conn.execute(
                "UPDATE sessions SET is_automated = 1 WHERE first_prompt = 'run by a program'"
            )
            for view, column in (("sessions_overview", "title"), ("turns_overview", "prompt")):
                asked = statement_for(Ask(view, since="all", human="yes", columns=column), conn)
                (found, *_) = conn.execute(asked.sql, asked.values).fetchall()
                assert found[0] == "typed"
            asked = statement_for(Ask("projects_overview", human="yes", columns="turns"), conn)
            assert [row[0] for row in conn.execute(asked.sql, asked.values)] == [1]


# -- time ------------------------------------------------------------------------------------------


def test_sums_of_time_are_of_work_and_say_what_is_estimated() -> None:
    world = World()
    t = world.session()
    t.prompt("first", timestamp="2026-03-01T09:00:00.000Z")
    t.reply(text("One."), timestamp="2026-03-01T09:00:30.000Z")
    t.reply(text("Two."), timestamp="2026-03-01T09:10:30.000Z")  # a gap counts as 60 seconds
    t.prompt("second", timestamp="2026-03-01T11:00:00.000Z")
    t.reply(text("Three."), timestamp="2026-03-01T11:30:00.000Z")
    t.system("turn_duration", durationMs=1_800_000, timestamp="2026-03-01T11:30:00.000Z")
    with lab() as one:
        db = stored(one, world)
        names = "prompt, active_seconds, agent_ms"
        assert columns(db, "turns_overview", names) == [
            ("second", 1800.0, 1_800_000),
            ("first", 60.0, None),
        ]
        for view in ("sessions_overview", "projects_overview"):
            assert columns(db, view, "active_seconds, estimated_seconds") == [(1860.0, 60.0)]
        assert columns(db, "sessions_overview", "seconds") == [(9000.0,)]
        day = {"day": "2026-03-01T00:00:00.000Z"}
        assert answer(db, "day", "prompt, minutes, minutes_estimated", **day) == [
            ("first", 1.0, 1.0),
            ("second", 30.0, 0.0),
        ]
        assert answer(db, "standup", "hours, hours_estimated") == [(0.5, 0.0)]


def test_a_turn_across_midnight_has_on_each_day_the_work_of_that_day() -> None:
    world = World()
    t = world.session()
    t.prompt("go", timestamp="2026-03-01T23:59:00.000Z")
    for at in ("2026-03-01T23:59:30", "2026-03-02T00:00:10", "2026-03-02T00:00:40"):
        t.reply(text("Yes."), timestamp=f"{at}.000Z")
    with lab() as one:
        db = stored(one, world)
        for day, minutes in (("2026-03-01", 0.0), ("2026-03-02", 0.5)):
            found = answer(db, "day", "minutes, minutes_estimated", day=f"{day}T00:00:00.000Z")
            assert found == [(minutes, minutes)]
