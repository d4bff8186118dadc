"""Small transcripts for what turns and sessions mean: time, caveats, plans, commands, titles.

Each answer is asked of a database that met all at once and of one that met it line by line.
"""

from __future__ import annotations

from typing import Any

import pytest

from builder import Json, Transcript, World, copy_to, fork, stamp, text, tool_use
from ctxdb.claude.plan_lines import plan_heading, planning_transcript, session_of_transcript
from ctxdb.rules.automation import is_automated
from ctxdb.rules.caveats import Child, turns_of_caveats
from ctxdb.rules.titles import MAX_TITLE, first_line, one_line
from ctxdb.rules.worktrees import is_home, repository
from lab import lab, told_by

CAVEAT = "<local-command-caveat>Caveat: The messages below ...</local-command-caveat>"
TIMES = (
    "SELECT ordinal, kind, agent_ms, active_ms, ended_at FROM turns ORDER BY session_id, ordinal"
)
A, B = (f"{letter * 8}-0000-4000-8000-000000000000" for letter in "ab")


def told(world: World, sql: str) -> list[tuple[Any, ...]]:
    return told_by(world.contents(), sql)


def duration(t: Transcript, seconds: float, **fields: Any) -> Json:
    return t.system("turn_duration", durationMs=round(seconds * 1000), **fields)


def caveat(t: Transcript, **fields: Any) -> Json:
    return t.prompt(CAVEAT, isMeta=True, **fields)


def plan(t: Transcript, words: str, planned_in: str | None = None, **fields: Any) -> Json:
    tail = "" if planned_in is None else f"\n\nIf ..., read the full transcript at: {planned_in}"
    return t.prompt(f"Implement the following plan:\n\n{words}{tail}", planContent=words, **fields)


def local_command(t: Transcript, name: str, args: str = "") -> None:
    said = f"<command-name>{name}</command-name>\n  <command-args>{args}</command-args>"
    t.system("local_command", content=said)
    t.system("local_command", content="<local-command-stdout>done</local-command-stdout>")


# -- time ------------------------------------------------------------------------------------------


def test_a_turn_ends_with_the_last_line_of_work() -> None:
    world = World()
    t = world.session()
    t.prompt("go", timestamp=stamp(0))
    t.reply(text("yes"), timestamp=stamp(10))
    t.attach("task_reminder")
    t.system("away_summary", timestamp=stamp(5000))
    assert told(world, TIMES) == [(1, "prompt", None, 0, stamp(10))]


@pytest.mark.parametrize(
    ("content", "more"),
    [
        ("<local-command-stdout>out</local-command-stdout>", {}),
        ([text("[Request interrupted by user]")], {}),
        ([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}], {}),
    ],
)
def test_output_results_and_interruptions_are_work(content: Any, more: Json) -> None:
    world = World()
    t = world.session()
    t.prompt("go", timestamp=stamp(0))
    t.reply(text("yes"), timestamp=stamp(10))
    t.prompt(content, timestamp=stamp(30), **more)
    assert told(world, TIMES) == [(1, "prompt", None, 20_000, stamp(30))]


def test_a_turn_without_work_ends_as_it_begins() -> None:
    world = World()
    world.session().prompt("go", timestamp=stamp(7))
    assert told(world, TIMES) == [(1, "prompt", None, 0, stamp(7))]


def test_the_lines_of_agents_are_work_of_the_turn_that_started_them() -> None:
    world = World()
    t = world.session()
    t.prompt("go", timestamp=stamp(0))
    call = tool_use(world, "Task", {"prompt": "look", "description": "Look"})
    t.reply(call, timestamp=stamp(1))
    agent = t.agent_file("a1", meta={"toolUseId": call["id"]})
    agent.prompt("look", timestamp=stamp(2))
    agent.reply(text("found"), timestamp=stamp(90))
    assert told(world, TIMES) == [(1, "prompt", None, 61_000, stamp(90))]


def test_a_reported_time_is_the_time_of_its_turn() -> None:
    world = World()
    t = world.session()
    t.prompt("go", timestamp=stamp(0))
    t.reply(text("a"), timestamp=stamp(1))
    t.reply(text("b"), timestamp=stamp(2))
    duration(t, 500, timestamp=stamp(600))
    t.prompt("more", timestamp=stamp(700))
    t.reply(text("c"), timestamp=stamp(701))
    assert told(world, TIMES) == [
        (1, "prompt", 500_000, 500_000, stamp(2)),
        (2, "prompt", None, 0, stamp(701)),
    ]


def test_a_reported_time_is_cut_where_a_queued_prompt_begins() -> None:
    world = World()
    t = world.session()
    t.prompt("go", timestamp=stamp(0))
    t.queue("enqueue", "and tests", timestamp=stamp(20))
    t.reply(text("a"), timestamp=stamp(30))
    t.queue("remove", timestamp=stamp(40))
    t.reply(text("b"), timestamp=stamp(50))
    duration(t, 90, timestamp=stamp(100))
    found = told(world, "SELECT kind, agent_ms FROM turns ORDER BY ordinal")
    assert found == [("prompt", 30_000), ("queued", 60_000)]


def test_a_fork_reports_no_time_for_what_it_copied() -> None:
    world = World()
    t = world.session()
    t.prompt("go", timestamp=stamp(0))
    t.reply(text("a"), timestamp=stamp(1))
    duration(t, 5, timestamp=stamp(10))
    new = fork(t, says_so=True, renew=True)
    new.prompt("else", timestamp=stamp(20))
    duration(new, 15, timestamp=stamp(30))
    found = told(world, "SELECT prompt, agent_ms FROM turns ORDER BY started_at")
    assert found == [("go", 5000), ("else", 10_000)]


def test_a_reported_time_counts_once_in_two_files_of_a_session() -> None:
    world = World()
    t = world.session()
    t.prompt("go", timestamp=stamp(0))
    duration(t, 5, timestamp=stamp(10))
    longer = copy_to(t, "-home-ada-other")
    longer.parent = t.parent
    longer.prompt("more", timestamp=stamp(20))
    duration(longer, 15, timestamp=stamp(30))
    found = told(world, "SELECT prompt, agent_ms FROM turns ORDER BY started_at")
    assert found == [("go", 10_000), ("more", 10_000)]


# -- caveats ---------------------------------------------------------------------------------------

CAVEATS = (
    "SELECT t.prompt FROM messages m LEFT JOIN turns t ON t.id = m.turn_id WHERE m.kind = 'meta'"
)


def test_a_caveat_belongs_to_the_command_that_names_it() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    t.reply(text("yes"))
    caveat(t)
    t.command("/exit")
    assert told(world, CAVEATS) == [("/exit",)]


def test_a_caveat_belongs_to_no_turn_until_its_command_comes() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    caveat(t)
    assert told(world, CAVEATS) == [(None,)]


def test_of_several_lines_that_name_a_caveat_the_first_counts() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    above = caveat(t)["uuid"]
    t.command("/exit")
    t.prompt("again")
    t.reply(text("No response requested."), parentUuid=above)
    assert told(world, CAVEATS) == [("/exit",)]


def test_a_caveat_before_a_caveat_belongs_to_the_command_after_both() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    caveat(t)
    caveat(t)
    t.command("/model")
    assert told(world, CAVEATS) == [("/model",), ("/model",)]


def test_a_caveat_finds_its_command_in_another_file_of_its_session() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    caveat(t)
    longer = copy_to(t, "-home-ada-other")
    longer.parent = t.parent
    longer.command("/exit")
    assert told(world, CAVEATS) == [("/exit",)]


def test_a_line_that_is_only_meta_belongs_to_the_turn_before_it() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    t.prompt("Base directory for this skill: ...", isMeta=True)
    t.prompt("more")
    assert told(world, CAVEATS) == [("go",)]


def test_a_prompt_that_quotes_a_caveat_is_in_its_own_turn() -> None:
    """As an IDE's selection can, before what a person asks."""
    world = World()
    t = world.session()
    t.prompt("go")
    t.prompt([text(CAVEAT), text("what does this mean?")])
    t.prompt("more")
    found = told(
        world,
        "SELECT m.kind, t.ordinal FROM messages m JOIN turns t ON t.id = m.turn_id"
        " ORDER BY m.byte_start",
    )
    assert found == [("human", 1), ("human", 2), ("human", 3)]


def test_a_caveat_finds_its_command_again_after_the_file_was_rewritten() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    caveat(t)
    t.command("/exit")
    with lab() as one:
        one.put(t.path, t.data)
        one.sync()
        t.lines.insert(0, {"type": "mode", "mode": "normal", "sessionId": t.session})
        one.put(t.path, t.data)
        one.sync()
        assert one.rows(CAVEATS) == [("/exit",)]


def test_caveats_that_name_each_other_belong_to_no_turn() -> None:
    loop = [Child(0, 1, 1, "a", "b", None), Child(0, 2, 2, "b", "a", None)]
    assert turns_of_caveats(["a", "b"], loop) == {"a": None, "b": None}


def test_the_first_line_in_reading_order_decides_for_a_caveat() -> None:
    lines = [Child(1, 1, 1, "a", "x", 7), Child(0, 9, 2, "a", "y", 8), Child(0, 10, 0, "a", "z", 9)]
    assert turns_of_caveats(["a"], lines) == {"a": 8}


# -- plans -----------------------------------------------------------------------------------------

PLAN = "# Plan: mend the gate\n\n1. Oil it."


def test_a_plan_begins_a_turn_with_the_plan_alone_as_its_prompt() -> None:
    world = World()
    t = world.session()
    plan(t, PLAN, "/home/ada/.claude/projects/-home-ada-engine/x.jsonl")
    t.tool("Edit", {"file_path": "/home/ada/engine/a", "old_string": "a", "new_string": "b"})
    tables = ("usage", "files_touched", "tool_uses", "messages")
    before = ", ".join(f"(SELECT count(*) FROM {name} WHERE turn_id IS NULL)" for name in tables)
    found = told(
        world,
        f"SELECT m.kind, t.kind, t.prompt, {before} FROM turns t JOIN messages m"
        " ON m.id = t.message_id",
    )
    assert found == [("plan", "plan", PLAN, 0, 0, 0, 0)]


def test_a_session_that_begins_with_a_plan_has_its_heading_as_title() -> None:
    world = World()
    t = world.session()
    t.command("/clear")
    plan(t, PLAN)
    found = told(world, "SELECT title, title_source, first_prompt FROM sessions")
    assert found == [("Plan: mend the gate", "plan", PLAN)]


def test_a_plan_within_a_session_does_not_name_it() -> None:
    world = World()
    t = world.session()
    t.prompt("look at the gate")
    plan(t, PLAN)
    assert told(world, "SELECT title, title_source FROM sessions") == [
        ("look at the gate", "prompt")
    ]


def test_an_agents_plan_is_no_turn() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    plan(t.agent_file("a1"), PLAN)
    kinds = "SELECT m.kind, t.kind FROM messages m LEFT JOIN turns t ON t.message_id = m.id"
    assert told(world, f"{kinds} ORDER BY m.kind") == [("agent_prompt", None), ("human", "prompt")]


def test_a_plan_of_white_space_begins_no_turn() -> None:
    world = World()
    plan(world.session(), " \n")
    assert told(world, "SELECT kind FROM turns") == []
    assert told(world, "SELECT kind FROM messages") == [("plan",)]


RELATION = "SELECT id, relation, parent_session_id FROM sessions ORDER BY id"


@pytest.mark.parametrize("separator", ["/", "\\"])
def test_the_parent_of_a_plan_is_the_session_whose_transcript_it_names(separator: str) -> None:
    world = World()
    t = world.session(session=B)
    plan(t, PLAN, separator.join(("C:", "Users", "ada", f"{A}.jsonl")))
    world.session(session=A).prompt("plan it")
    assert told(world, RELATION) == [(A, None, None), (B, "plan", A)]
    lineage = "SELECT session_id, relation, depth FROM session_lineage ORDER BY depth"
    assert told(world, lineage) == [(A, None, 0), (B, "plan", 1)]


def test_a_plan_that_was_made_in_its_own_session_continues_no_other() -> None:
    world = World()
    plan(world.session(session=A), PLAN, f"/home/ada/{A}.jsonl")
    assert told(world, RELATION) == [(A, None, None)]


def test_a_plan_that_names_no_transcript_continues_no_other() -> None:
    world = World()
    plan(world.session(session=A), PLAN)
    assert told(world, RELATION) == [(A, None, None)]


def test_a_transcript_whose_name_is_hidden_says_only_that_there_was_one() -> None:
    world = World()
    plan(world.session(session=A), PLAN, "/home/ada/.REDACTED.jsonl")
    assert told(world, RELATION) == [(A, "plan", None)]


def test_a_session_that_began_with_clear_is_cleared_also_if_a_plan_follows() -> None:
    world = World()
    t = world.session(session=B)
    t.command("/clear")
    plan(t, PLAN, f"/home/ada/{A}.jsonl")
    assert told(world, RELATION) == [(B, "clear", None)]


def test_the_last_words_of_a_plan_line_name_the_transcript() -> None:
    quoted = (
        "read the full transcript at: /x/one.jsonl\n\nread the full transcript at: /x/two.jsonl"
    )
    assert planning_transcript(quoted) == "/x/two.jsonl"
    assert planning_transcript("read the full transcript at: \nno.jsonl\n") == "no.jsonl"
    assert planning_transcript("read the full transcript at: a\nb.jsonl") is None
    assert planning_transcript("read the full transcript at: a") is None
    assert planning_transcript(None) is None
    assert session_of_transcript(f"/x/{A}.jsonl") == A
    assert session_of_transcript(f"/x/{A}0.jsonl") is None


@pytest.mark.parametrize(
    ("words", "heading"),
    [
        ("# One #\n# Two", "One"),
        ("Intro\n\n## Part", "Part"),
        ("no heading\nhere", "no heading"),
        ("#hashtag\nx", "#hashtag"),
        ("```\n# a comment\n```\n### Real", "Real"),
        ("####### seven\n", "####### seven"),
        ("", ""),
    ],
)
def test_the_heading_of_a_plan(words: str, heading: str) -> None:
    assert plan_heading(words) == heading


# -- slash commands of system lines ----------------------------------------------------------------


def test_a_local_command_of_a_system_line_is_a_turn() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    local_command(t, "/model", "opus")
    found = told(world, "SELECT kind, prompt FROM turns ORDER BY ordinal")
    assert found == [("prompt", "go"), ("command", "/model opus")]
    assert told(world, "SELECT text FROM prompts WHERE kind = 'command'") == [("/model opus",)]


def test_a_local_command_in_an_agent_is_no_turn() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    local_command(t.agent_file("a1"), "/model")
    assert told(world, "SELECT kind FROM turns") == [("prompt",)]


# -- titles ----------------------------------------------------------------------------------------

TITLES = "SELECT title, title_source FROM sessions"


def test_a_title_is_one_line_cut_where_a_word_ends() -> None:
    world = World()
    long = "mend the\n\n  gate " * 20
    world.session().prompt(long)
    ((title, source),) = told(world, TITLES)
    assert source == "prompt"
    assert title == " ".join(["mend the gate"] * 8) + " mend the"
    assert told(world, "SELECT first_prompt FROM sessions") == [(long.strip(),)]


def test_titles_that_were_given_are_one_line_too() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    t.custom_title("one\ntwo")
    assert told(world, TITLES) == [("one two", "custom")]


def test_a_title_is_cut_at_120_characters() -> None:
    assert MAX_TITLE == 120
    assert one_line("a" * 130) == "a" * 120
    assert one_line("a " + "b" * 118 + " c") == "a " + "b" * 118
    assert one_line("a " + "b" * 119 + " c") == "a"
    assert one_line("a" * 119 + " b") == "a" * 119
    assert one_line("a" * 120 + " b") == "a" * 120
    assert one_line("a" * 118 + " b") == "a" * 118 + " b"
    assert one_line("a b " * 500) == ("a b " * 30).strip()
    assert one_line(" \n ") == ""


def test_a_session_without_a_request_is_named_by_its_first_reply() -> None:
    world = World()
    t = world.session()
    t.reply(text("\n"))
    t.reply(text("\n\nThe gate is mended.\nIt swings."))
    t.reply(text("More."))
    assert told(world, TITLES) == [("The gate is mended.", "reply")]


def test_a_session_of_agents_alone_is_named_by_the_first_task() -> None:
    world = World()
    t = world.session()
    world.files.clear()
    for n, name in enumerate(("later", "first", "none"), 1):
        meta: Json = {} if name == "none" else {"description": f"Task {name}"}
        agent = t.agent_file(f"a{n}", meta=meta)
        agent.prompt("look", timestamp=stamp({"later": 60, "first": 50, "none": 40}[name]))
        agent.reply(text("said by an agent"), timestamp=stamp(90))
    assert told(world, TITLES) == [("Task first", "reply")]


def test_a_session_that_says_nothing_has_no_title() -> None:
    world = World()
    world.session().system("away_summary")
    assert told(world, TITLES) == [(None, None)]


def test_the_first_line_of_a_text_is_the_first_that_says_something() -> None:
    assert first_line(" \n\r\n a b \nc") == "a b"
    assert first_line("") == ""


# -- who ran it ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entrypoint", "cwd", "kinds", "automated"),
    [
        ("sdk-cli", "/home/ada", {"prompt"}, 1),
        ("sdk-py", None, set(), 1),
        (None, "/home/ada", {"sdk"}, 1),
        (None, "/home/ada", {"sdk", "prompt"}, 0),
        ("claude-desktop", "/home/ada", {"sdk"}, 0),
        ("cli", "/home/ada", {"plan"}, 0),
        ("cli", "/home/ada", set(), None),
        (None, "/home/ada", set(), None),
        ("cli", "/home/runner/work/x", {"prompt"}, 1),
        (None, "/builds/x", set(), 1),
        (None, "/github/workspace", {"prompt"}, 1),
        (None, "/github/workspaces", {"prompt"}, 0),
        (None, "/home/runners/x", {"prompt"}, 0),
        ("not-sdk-", "/home/ada", {"prompt"}, 0),
    ],
)
def test_who_ran_a_session(
    entrypoint: str | None, cwd: str | None, kinds: set[str], automated: int | None
) -> None:
    assert is_automated(entrypoint, cwd, kinds) == automated


def test_a_session_that_a_program_prompts_is_automated_until_a_person_types() -> None:
    world = World()
    t = world.session()
    t.prompt("run", promptSource="sdk")
    asked = "SELECT is_automated, entrypoint FROM sessions"
    assert told(world, asked) == [(1, None)]
    for n in range(10):
        t.prompt(f"again {n}", promptSource="sdk")
    t.prompt("now me")
    assert told(world, asked) == [(0, None)]


# -- worktrees -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "repo"),
    [
        ("/home/ada/engine", "/home/ada/engine"),
        ("/home/ada/engine/.worktrees/x", "/home/ada/engine"),
        ("/home/ada/engine/.claude/worktrees/x/src", "/home/ada/engine"),
        ("/home/ada/engine/worktrees/x", "/home/ada/engine"),
        ("/home/ada/engine-worktrees/x/src", "/home/ada/engine"),
        ("C:\\src\\engine\\.claude\\worktrees\\x", "C:\\src\\engine"),
        ("C:\\src\\engine-worktrees\\x", "C:\\src\\engine"),
        ("C:\\src\\engine/worktrees/x", "C:\\src\\engine"),
        ("/home/ada/engine/worktrees", "/home/ada/engine/worktrees"),
        ("/home/ada/engine/worktrees/", "/home/ada/engine/worktrees/"),
        ("/home/ada/myworktrees/x", "/home/ada/myworktrees/x"),
        ("/srv/-worktrees/x", "/srv/-worktrees/x"),
        ("/home/ada/.worktrees/x", "/home/ada/.worktrees/x"),
        ("/home/ada/.claude/worktrees/x", "/home/ada/.claude/worktrees/x"),
        ("/home/ada/worktrees/x", "/home/ada/worktrees/x"),
        ("/home/ada-worktrees/x", "/home/ada-worktrees/x"),
        ("/Users/ada/worktrees/engine/.worktrees/x", "/Users/ada/worktrees/engine"),
        ("C:\\Users\\ada\\worktrees\\x", "C:\\Users\\ada\\worktrees\\x"),
        ("/root/worktrees/x", "/root/worktrees/x"),
        ("/worktrees/x", "/worktrees/x"),
    ],
)
def test_the_repository_of_a_worktree(path: str, repo: str) -> None:
    assert repository(path) == repo


def test_the_repository_that_a_worktree_state_names_is_no_home_folder() -> None:
    assert repository("/x/y", ["/srv/b", "/srv/a"]) == "/srv/a"
    assert repository("/x/y", ["/home/ada"]) == "/x/y"
    assert repository("/srv/e/.worktrees/x", ["/srv/a"]) == "/srv/e"


def test_home_folders_of_all_systems_are_known() -> None:
    homes = ("/", "/home", "/home/ada/", "/Users/ada", "/root", "/var/root", "C:\\", "~")
    homes += ("C:\\Users\\ada", "c:/users/ada", "/mnt/c/Users/ada", "/c/Users/ada", "")
    assert [path for path in homes if not is_home(path)] == []
    others = ("/home/ada/x", "/srv", "/Users/ada/x", "/rooted", "C:\\src", "/homes/ada", "~/x")
    assert [path for path in others if is_home(path)] == []


def test_worktrees_are_projects_of_one_repository() -> None:
    world = World()
    for cwd in ("/srv/engine", "/srv/engine-worktrees/x", "/srv/engine/worktrees/y"):
        world.session(cwd=cwd).prompt("go")
    found = told(world, "SELECT DISTINCT name, repo_path FROM projects")
    assert found == [("engine", "/srv/engine")]
