"""Queries leave nothing out and take nothing from elsewhere: what no turn has, ids that repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from builder import World, text, tool_use
from lab import lab
from viewlab import answer, ask, columns
from viewworld import ONE, TWO, edited

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLAN = "Implement the following plan: paint it"
NO = (
    "The user doesn't want to proceed with this tool use. "
    "To tell you how to proceed, the user said:"
)


@pytest.fixture(scope="module")
def planned() -> Iterator[Path]:
    """A session that begins with a line of the client, so without a turn, and one with a turn."""
    world = World()
    t = world.session()
    t.prompt(PLAN, isMeta=True, gitBranch="paint")  # second 1
    t.reply(text("I will."), gitBranch="paint")
    edited(t, "/home/ada/engine/src/wall.py", 2, 0)
    said = "[paint abc1234] Paint it\n 1 file changed"
    t.tool("Bash", {"command": "git commit -am paint"}, said, {"stdout": said})
    t.reply(text("Painted."), text("\n\n"))  # one request of two blocks
    t.pr_link(9)
    other = world.session()
    other.prompt("and now?")
    other.reply(text("Tea."))
    with lab() as one:
        world.write(one.root)
        one.sync()
        yield one.db


def total(db: Path, name: str, **given: str | int) -> float:
    return sum(cost or 0 for (cost,) in answer(db, name, "cost_usd", **given))


def test_what_no_turn_has_is_in_every_sum(planned: Path) -> None:
    ((whole,),) = (row.values() for row in ask(planned, "SELECT cost_usd FROM overview"))
    assert whole == pytest.approx(4 * ONE + TWO)
    day = "2026-03-01T00:00:00.000Z"
    for name in ("branch_costs", "standup", "expensive_turns", "day"):
        assert total(planned, name, day=day) == pytest.approx(whole), name


def test_a_branch_has_the_work_outside_of_turns(planned: Path) -> None:
    names = "branch, turns, sessions, commits, cost_usd"
    assert answer(planned, "branch_costs", names) == [
        ("paint", 0, 1, 1, pytest.approx(3 * ONE + TWO)),
        ("main", 1, 1, 0, pytest.approx(ONE)),
    ]


def test_a_standup_has_it_too(planned: Path) -> None:
    names = "sessions, turns, asked, files, commits"
    assert answer(planned, "standup", names) == [
        (2, 1, "- and now?", "src/wall.py", "abc1234 Paint it")
    ]


def test_on_its_day_it_is_told_by_how_it_began(planned: Path) -> None:
    names = "time, prompt, reply, tools, files, commits, turn_id"
    assert answer(planned, "day", names, day="2026-03-01T00:00:00.000Z")[:1] == [
        ("09:00:02", PLAN, "Painted.", 2, "src/wall.py", "abc1234", None)
    ]
    names = "prompt, requests, tools"
    assert answer(planned, "expensive_turns", names)[0] == (PLAN, 4, 2)


def test_its_commit_file_and_pull_request_have_its_cost(planned: Path) -> None:
    cost = pytest.approx(3 * ONE + TWO)
    names = "sha, files, files_changed, requests, cost_usd"
    assert columns(planned, "commits", names) == [("abc1234", "src/wall.py", 1, 4, cost)]
    names = "pr_number, turns, commits, files_changed, requests, cost_usd"
    assert columns(planned, "pull_requests", names) == [(9, 0, 1, 1, 4, cost)]
    assert answer(planned, "cost_of_file", "path, turns, cost_usd") == [
        ("/home/ada/engine/src/wall.py", 1, cost)
    ]


def test_an_interruption_of_it_is_followed_by_the_first_prompt() -> None:
    world = World()
    t = world.session()
    t.prompt(PLAN, isMeta=True)
    t.reply(text("I will."))
    t.prompt("[Request interrupted by user]")
    t.prompt("wait")
    with lab() as one:
        world.write(one.root)
        one.sync()
        found = one.rows("SELECT doing, prompt, next_prompt FROM interruptions")
        assert found == [("I will.", None, "wait")]


def test_what_a_turn_costs_after_midnight_is_of_the_next_day() -> None:
    world = World()
    t = world.session()
    t.prompt("work on", timestamp="2026-03-01T23:50:00.000Z")
    t.reply(text("yes"), timestamp="2026-03-01T23:55:00.000Z")
    t.reply(text("done"), timestamp="2026-03-02T00:05:00.000Z")
    with lab() as one:
        world.write(one.root)
        one.sync()
        for day, time in (("2026-03-01", "23:50:00"), ("2026-03-02", "00:05:00")):
            at = f"{day}T00:00:00.000Z"
            rows = answer(one.db, "day", "time, prompt, cost_usd", day=at)
            assert rows == [(time, "work on", pytest.approx(ONE))]
        since = "2026-03-02T00:00:00.000Z"
        for name in ("branch_costs", "standup"):
            assert answer(one.db, name, "turns, cost_usd", since=since) == [(0, pytest.approx(ONE))]


def test_a_blank_line_is_no_reply() -> None:
    world = World()
    t = world.session()
    t.prompt("paint the wall")
    t.reply(text("Painted."), text("\n\n"))
    said = "[main abc1234] Paint it"
    t.tool("Bash", {"command": "git commit -am paint"}, said, {"stdout": said})
    with lab() as one:
        world.write(one.root)
        one.sync()
        assert one.rows("SELECT reply FROM turns_overview") == [("Painted.",)]
        assert answer(one.db, "similar_prompts", "reply", text="wall") == [("Painted.",)]
        day = "2026-03-01T00:00:00.000Z"
        assert answer(one.db, "day", "reply", day=day) == [("Painted.",)]
        told = answer(one.db, "around_commit", "what, text", sha="abc1234")
        assert [words for what, words in told if what == "reply"] == ["Painted."]


# -- ids that repeat -------------------------------------------------------------------------------


def test_a_call_has_its_own_answer_where_ids_repeat() -> None:
    world = World()
    for n in (1, 2):
        t = world.session()
        t.prompt("go")
        for m in (1, 2):
            t.reply(tool_use(world, "Bash", {"command": f"rm {n}{m}"}, "call_1"))
            t.result("call_1", f"{NO}\nno {n}{m}", is_error=True)
            asked = {"questions": [{"question": "Which?", "options": [{"label": "a"}]}]}
            t.reply(tool_use(world, "AskUserQuestion", asked, "call_2"))
            t.result("call_2", f'Your questions: "Which?"="a{n}{m}". You can now continue.')
    with lab() as one:
        world.write(one.root)
        one.sync()
        assert sorted(answer(one.db, "refusals", "target, reason")) == [
            (f"rm {n}{m}", f"no {n}{m}") for n in (1, 2) for m in (1, 2)
        ]
        assert sorted(answer(one.db, "questions", "answer")) == [
            (f"a{n}{m}",) for n in (1, 2) for m in (1, 2)
        ]
        assert one.rows(
            "SELECT count(*) FROM prompts p JOIN tool_uses u ON u.id = p.tool_id"
            " WHERE u.tool_use_id = p.tool_use_id AND u.session_id = p.session_id"
        ) == [(8,)]


# -- sessions that stopped -------------------------------------------------------------------------


def stopped(world: World) -> list[tuple[Any, ...]]:
    with lab() as one:
        world.write(one.root)
        one.sync()
        return answer(one.db, "unfinished", "session_id, stopped_at, what")


def test_of_calls_at_once_the_result_of_one_does_not_hide_another() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    calls = [tool_use(world, "Bash", {"command": command}) for command in ("a", "b", "c")]
    t.reply(*calls)
    t.result(calls[1]["id"], "ok")
    assert stopped(world) == [(t.session, "call", "Bash: a\nBash: c")]


def test_calls_of_one_line_are_one_session_that_stopped() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    calls = [tool_use(world, "Bash", {"command": command}) for command in ("a", "b")]
    (line,) = t.reply(calls[0])
    line["message"]["content"] = calls
    assert stopped(world) == [(t.session, "call", "Bash: a\nBash: b")]


def test_a_result_without_an_answer_is_no_end_but_a_refused_call_may_be_one() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    t.tool("Bash", {"command": "make"}, "made")
    refused = world.session()
    refused.prompt("go")
    call = tool_use(world, "Bash", {"command": "rm"})
    refused.reply(call)
    refused.result(call["id"], NO, is_error=True)
    assert stopped(world) == [(t.session, "result", "Bash: make")]


def test_a_session_whose_transcript_is_deleted_cannot_be_resumed() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    with lab() as one:
        world.write(one.root)
        one.sync()
        ((resume,),) = answer(one.db, "unfinished", "resume")
        assert resume.endswith(f"claude --resume {t.session}")
        (one.root / t.path).unlink()
        one.sync()
        assert answer(one.db, "unfinished", "session_id, resume") == [(t.session, None)]


# -- prompts like this one -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("PR", "merge the PR"),
        ("the CI, please", "CI is red"),
        ("(zebra)", "paint the zebra"),  # it waited in the queue
        ("deploy", "/deploy fast"),
        ("検索", "全文検索を直す"),
        ("検索を速くする", "全文検索を直す"),
        ("CAFÉ", "order in the cafe"),
    ],
)
def test_short_words_and_those_of_other_scripts_count(asked: str, found: str) -> None:
    world = World()
    t = world.session()
    for prompt in ("merge the PR", "CI is red", "print a circle", "全文検索を直す", "地図を描く"):
        t.prompt(prompt)
    t.prompt("order in the cafe")
    t.command("/deploy", "fast")
    t.queue("enqueue", "paint the zebra")
    t.queue("remove")
    t.queue("enqueue", "the zebras are asleep")
    t.queue("remove")
    with lab() as one:
        world.write(one.root)
        one.sync()
        assert answer(one.db, "similar_prompts", "prompt", text=asked) == [(found,)]


def test_what_the_client_puts_beside_a_prompt_is_not_asked() -> None:
    world = World()
    t = world.session()
    t.prompt([text("<ide_opened_file>The zebra is open</ide_opened_file>"), text("paint it")])
    with lab() as one:
        world.write(one.root)
        one.sync()
        assert answer(one.db, "similar_prompts", "prompt", text="zebra") == []
        assert answer(one.db, "similar_prompts", "prompt", text="paint") == [("paint it",)]
