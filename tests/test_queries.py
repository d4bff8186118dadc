"""Views and queries say what they are for, what they show and what they need to be told."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from builder import World, text, tool_use
from ctxdb.query.uncertain import LEFT_OUT
from ctxdb.store import sql_files
from lab import empty_database, lab
from viewlab import answer, ask, demo_database
from viewworld import A_PY, MAIN, ONE, TWO, edited, handmade

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from builder import Transcript

HEADER = """-- Which calls were slow?
--   name: the tool
--   ms: how long: all of it
-- filters: since=tool_uses.started_at,turns.started_at project=session_id
-- period: 30d
-- :tool: which tool
-- :limit = 20: how many
-- :since (since) = 7d: from when
-- example: ctxdb query slow -p tool Bash
SELECT name, ms -- :not: a parameter
FROM calls -- filters: session=never
;
"""


def test_a_header_is_read_whole() -> None:
    found = sql_files.parse("slow", "query", HEADER)
    assert found.question == "Which calls were slow?"
    assert found.columns == {"name": "the tool", "ms": "how long: all of it"}
    assert found.params == (
        sql_files.Param("tool", "text", None, "which tool"),
        sql_files.Param("limit", "integer", "20", "how many"),
        sql_files.Param("since", "since", "7d", "from when"),
    )
    assert found.period == "30d"
    assert found.example == "ctxdb query slow -p tool Bash"
    assert found.sql.endswith("session=never\n")


def test_a_filter_names_a_column_of_the_answer_or_of_tables_it_reads() -> None:
    filters = sql_files.parse("slow", "query", HEADER).filters
    both = (sql_files.Filter("tool_uses", "started_at"), sql_files.Filter("turns", "started_at"))
    assert filters == {
        "since": both,
        "until": both,
        "project": (sql_files.Filter(None, "session_id"),),
        "human": (sql_files.Filter(None, "session_id"),),
    }


def test_an_empty_file_says_nothing() -> None:
    found = sql_files.parse("x", "view", "")
    assert (found.question, found.columns, found.sql) == ("", {}, "")


def test_names_lead_to_files_of_ours_only() -> None:
    assert sql_files.find("entry_counts") is not None
    for name in ("", "_meta", "../sql/entry_counts", "queries/x", "entry_counts.sql", "ENTRY", "é"):
        assert sql_files.find(name) is None


# -- every query of sql/queries/ ---------------------------------------------------------------

QUERIES = sql_files.all_queries()
BY_NAME = pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
TIMES = {"now": "9999", "today": "9999"}


def values(query: sql_files.SqlFile) -> dict[str, str | int]:
    """What the query is told by its example; the rest are defaults."""
    assert query.example is not None
    words = shlex.split(query.example)
    assert words[:3] == ["ctxdb", "query", query.name]
    given = {words[at + 1]: words[at + 2] for at, word in enumerate(words) if word == "-p"}
    assert set(given) <= {param.name for param in query.params}
    found: dict[str, str | int] = {}
    for param in query.params:
        text = given.get(param.name, param.default)
        assert text is not None, f"the example does not give {param.name}"
        if param.kind in ("since", "until", "day"):
            text = TIMES.get(text, text)
            assert re.match(r"\d{4}", text), "the demo is old: its example must name a day"
        found[param.name] = int(text) if param.kind == "integer" else text
    return found


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_database(tmp_path_factory.mktemp("queries"))


@BY_NAME
def test_the_example_finds_something_in_the_demo(demo: Path, query: sql_files.SqlFile) -> None:
    rows = ask(demo, query.sql, **values(query))
    assert rows
    assert list(rows[0]) == list(query.columns)


@BY_NAME
def test_it_runs_on_a_database_without_rows(tmp_path: Path, query: sql_files.SqlFile) -> None:
    path = tmp_path / "empty.db"
    path.write_bytes(empty_database())
    assert ask(path, query.sql, **values(query)) == []


@BY_NAME
def test_it_is_described_like_a_view(query: sql_files.SqlFile) -> None:
    assert query.question.endswith("?")
    assert set(re.findall(r":([a-z]\w*)", query.sql.split("\nSELECT", 1)[-1])) <= {
        param.name for param in query.params
    }
    for param in query.params:
        assert f":{param.name}" in "\n".join(
            line for line in query.sql.splitlines() if not line.startswith("--")
        )
    for filters in query.filters.values():
        assert {column for table, column in filters if table is None} <= set(query.columns)


def test_no_query_has_the_name_of_a_view_or_table(demo: Path) -> None:
    taken = {row["name"] for row in ask(demo, "SELECT name FROM sqlite_schema")}
    assert not taken & {query.name for query in QUERIES}


# -- what they answer, counted by hand in the world of viewworld.py --------------------------------


@pytest.fixture(scope="module")
def hand() -> Iterator[Path]:
    with lab() as one:
        handmade().write(one.root)
        one.sync()
        yield one.db


@pytest.mark.parametrize("path", [A_PY, "src/a.py", "a.py", "src", "/src/", "./src/a.py", "./src"])
def test_sessions_that_touched_a_path_however_it_is_written(hand: Path, path: str) -> None:
    names = "session_id, reads, edits, lines_added, lines_removed, files"
    assert answer(hand, "sessions_touching", names, path=path) == [(MAIN, 2, 1, 2, 1, 1)]


@pytest.mark.parametrize("path", ["b.py", "rc/a.py", ".py", "a.p"])
def test_a_part_of_a_name_is_no_path(hand: Path, path: str) -> None:
    assert answer(hand, "sessions_touching", "session_id", path=path) == []
    assert answer(hand, "last_edits", "session_id", path=path) == []


def test_the_last_edit_of_a_file_and_why(hand: Path) -> None:
    for path in ("a.py", "./src/a.py"):
        assert answer(hand, "last_edits", "operation, prompt, session_id", path=path) == [
            ("edit", "make it green", MAIN)
        ]


@pytest.mark.parametrize("sha", ["abc1234", "ABC1", "abc1234def5678"])
def test_what_happened_around_a_commit(hand: Path, sha: str) -> None:
    assert answer(hand, "around_commit", "what, text", sha=sha)[:10] == [
        ("prompt", "make it green"),
        ("command", "npm test"),
        ("reply", "I will read it."),
        ("edit", "src/a.py"),
        ("command", "npm test"),
        ("command", "git commit -am green"),
        ("commit", "abc1234 Make it green"),
        ("reply", "It is green."),
        ("reply", "And committed."),
        ("prompt", "also the docs"),
    ]
    assert answer(hand, "around_commit", "what", sha="abc1235") == []
    assert answer(hand, "around_commit", "what", sha="a") == []


@pytest.mark.parametrize("pr", ["7", "#7", "https://github.com/ada/engine/pull/7"])
def test_what_went_into_a_pull_request(hand: Path, pr: str) -> None:
    assert answer(hand, "around_pr", "prompt, files_changed, commits", pr=pr) == [
        ("make it green", 1, "abc1234"),
        ("also the docs", 1, None),
        ("then rename it", 0, None),
        ("/usr/bin is no command", 0, None),
    ]
    assert answer(hand, "around_pr", "prompt", pr="70") == []


def test_a_standup_says_what_was_asked_changed_and_committed(hand: Path) -> None:
    names = "project, sessions, turns, asked, files, commits, pull_requests"
    assert answer(hand, "standup", names, until="2026-03-02") == [
        (
            "engine",
            1,
            4,
            "- make it green\n- also the docs\n- then rename it\n- /usr/bin is no command",
            "docs/a.md, src/a.py",
            "abc1234 Make it green",
            "https://github.com/ada/engine/pull/7",
        )
    ]
    ((cost,),) = answer(hand, "standup", "cost_usd", until="2026-03-02")
    assert cost == pytest.approx(13 * ONE + 2 * TWO)
    # Of a model without a price: what that cost is not known, and not nothing.
    columns = "turns, cost_usd, requests_unpriced"
    assert answer(hand, "standup", columns, since="2026-03-02") == [(1, None, 2)]


@BY_NAME
def test_a_query_that_tells_a_cost_counts_what_it_leaves_out(query: sql_files.SqlFile) -> None:
    assert "cost_usd" not in query.columns or {*LEFT_OUT} <= {*query.columns}


def test_a_standup_tells_once_what_was_asked_again() -> None:
    world = World()
    t = world.session()
    for prompt in ("say\r\nhello", "go on", "say\r\nhello"):
        t.prompt(prompt)
    with lab() as one:
        world.write(one.root)
        one.sync()
        assert answer(one.db, "standup", "turns, asked") == [(3, "- say  hello (2 times)\n- go on")]


def test_a_long_prompt_of_a_standup_is_cut_between_words() -> None:
    world = World()
    t = world.session()
    t.prompt("Please rename every harbour in the list, " * 4)
    t.prompt("x" * 200)
    edited(t, "/home/ada/engine/a.py", 1, 0)
    with lab() as one:
        world.write(one.root)
        one.sync()
        harbours = (
            "Please rename every harbour in the list, Please rename every harbour in the list,"
        )
        lines = [f"- {harbours} Please rename…", f"- {'x' * 99}…"]
        assert answer(one.db, "standup", "asked") == [("\n".join(lines),)]
        assert answer(one.db, "session_changes", "prompts") == [(lines[1],)]


def test_the_most_expensive_turns_come_first_and_unpriced_ones_not_at_all(hand: Path) -> None:
    rows = answer(hand, "expensive_turns", "prompt, requests, tools, subagents, cost_usd", limit=2)
    assert rows == [
        ("make it green", 7, 5, 0, pytest.approx(5 * ONE + 2 * TWO)),
        ("also the docs", 6, 5, 1, pytest.approx(6 * ONE)),
    ]


def run(t: Transcript, command: str, *, fails: bool) -> None:
    """The agent runs a command."""
    call = tool_use(t.world, "Bash", {"command": command})
    t.reply(call)
    t.result(call["id"], "Exit code 1" if fails else "ok", is_error=fails)


def test_a_failing_command_and_what_fixed_it(hand: Path) -> None:
    names = "command, fixed_by, edits_between, minutes"
    expected = [("npm test", "npm test", "src/a.py", 0.1)]
    assert answer(hand, "failing_commands", names) == expected
    assert answer(hand, "failing_commands", names, program="npm") == expected
    assert answer(hand, "failing_commands", names, program="go") == []


def test_a_command_is_fixed_by_one_like_it_wherever_it_runs() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    for command, fails in (
        ("cd /x && git push origin", True),
        ("git status", False),
        ("pytest tests/a.py", True),
        ("pytests", False),
        ("pytest -q", False),
        ("git push", False),
        ("pytest -q tests/a.py && git push", False),
        ("PYTHONPATH=. pytest -q tests/a.py", False),
        ("git push --force origin", False),
    ):
        run(t, command, fails=fails)
    with lab() as one:
        world.write(one.root)
        one.sync()
        assert answer(one.db, "failing_commands", "command, fixed_by") == [
            ("pytest tests/a.py", "PYTHONPATH=. pytest -q tests/a.py"),
            ("cd /x && git push origin", "git push --force origin"),
        ]


def test_a_command_is_not_fixed_by_a_run_whose_own_status_nobody_saw() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    for command, fails in (
        ("make lint", True),
        ("make lint 2>/dev/null || true", False),
        ("make lint > out.txt || true", False),
        ("make lint 2>&1 | tail -3", False),
        ("make lint; echo done", False),
        ("make lint > out.txt", False),
        ("cat a | make test", True),
        ("cat a | make test | tail", False),
        ("ls gone || true", False),
        ("ls gone", True),
    ):
        run(t, command, fails=fails)
    with lab() as one:
        world.write(one.root)
        one.sync()
        assert answer(one.db, "failing_commands", "command, fixed_by") == [
            ("ls gone", None),
            ("cat a | make test", "cat a | make test | tail"),
            ("make lint", "make lint > out.txt"),
        ]


def test_each_failing_command_is_shown_once_by_the_newest_failure_that_was_fixed() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    for command, fails in (
        ("make lint", True),
        ("make lint", True),
        ("make lint", False),
        ("make lint", True),
        ("make test -x", True),
        ("make test", True),
    ):
        run(t, command, fails=fails)
    with lab() as one:
        world.write(one.root)
        one.sync()
        shown = answer(one.db, "failing_commands", "command, fixed_by, failures", once=1)
        assert shown == [("make test", None, 2), ("make lint", "make lint", 3)]
        assert len(answer(one.db, "failing_commands", "command")) == 5


def test_a_call_that_was_given_up_for_another_is_no_failing_command() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    for command, said in (
        ("git status", "<tool_use_error>Sibling tool call errored</tool_use_error>"),
        ("git log", "Exit code 128"),
    ):
        call = tool_use(world, "Bash", {"command": command})
        t.reply(call)
        t.result(call["id"], said, is_error=True)
    with lab() as one:
        world.write(one.root)
        one.sync()
        assert answer(one.db, "failing_commands", "command, failures") == [("git log", 1)]


def test_files_that_change_together() -> None:
    world = World()
    t = world.session()
    for names in (("a", "b"), ("a", "b", "c"), ("a",), ("c",)):
        t.prompt("go")
        for name in names:
            edited(t, f"/home/ada/engine/{name}.py", 1, 0)
    with lab() as one:
        world.write(one.root)
        one.sync()
        names = "together, path, other_path, share"
        assert answer(one.db, "files_together", names) == [(2, "a.py", "b.py", 0.67)]
        assert answer(one.db, "files_together", names, path="./c.py", least=1) == [
            (1, "c.py", "a.py", 0.5),
            (1, "c.py", "b.py", 0.5),
        ]


@pytest.mark.parametrize(
    "text", ["green please", 'make "it" green*', "(green OR", "GREEN: -make", "make\nit\tgreen"]
)
def test_similar_prompts_whatever_is_in_the_text(hand: Path, text: str) -> None:
    rows = answer(hand, "similar_prompts", "prompt, reply", text=text)
    assert rows[:1] == [("make it green", "And committed.")]


@pytest.mark.parametrize("text", ["", " ", "zebra", '"', "*", "a b"])
def test_nothing_is_similar_to_nothing(hand: Path, text: str) -> None:
    assert answer(hand, "similar_prompts", "prompt", text=text) == []


def test_the_slowest_calls_of_a_tool(hand: Path) -> None:
    assert answer(hand, "slowest_calls", "seconds, target", tool="Agent") == [(5.0, "Look around")]
    assert len(answer(hand, "slowest_calls", "seconds", limit=3)) == 3


@pytest.mark.parametrize("session", ["aaaa", MAIN, "AAAAAAAA"])
def test_what_a_session_changed(hand: Path, session: str) -> None:
    names = "path, edits, created, lines_added, lines_removed, reads, prompts"
    assert answer(hand, "session_changes", names, session=session) == [
        ("src/a.py", 1, 0, 2, 1, 2, "- make it green"),
        ("docs/a.md", 1, 1, 3, 0, 0, "- also the docs"),
    ]
    assert answer(hand, "session_changes", names, session="last") == []


def test_the_cost_of_a_file_is_its_share_of_the_turns_that_changed_it(hand: Path) -> None:
    assert answer(hand, "cost_of_file", "path, cost_usd, turns, edits") == [
        (A_PY, pytest.approx(5 * ONE + 2 * TWO), 1, 1),
        ("/home/ada/engine/docs/a.md", pytest.approx(6 * ONE), 1, 1),
    ]
    assert answer(hand, "cost_of_file", "path", path="./docs") == [("/home/ada/engine/docs/a.md",)]


def test_a_day_request_by_request(hand: Path) -> None:
    names = "time, prompt, tools, files, commits"
    assert answer(hand, "day", names, day="2026-03-01T00:00:00.000Z") == [
        ("09:00:01", "make it green", 5, "src/a.py", "abc1234"),
        ("09:00:17", "also the docs", 5, "docs/a.md", None),
        ("09:00:31", "then rename it", 0, None, None),
        ("09:00:36", "/usr/bin is no command", 0, None, None),
    ]
    assert answer(hand, "day", "cost_usd", day="2026-03-02T00:00:00.000Z") == [(None,)]


def test_sessions_that_stopped_in_the_middle() -> None:
    world = World()
    stops: list[Callable[[Transcript], object]] = [
        lambda t: t.reply(text("done")),
        lambda t: t.prompt("and this?"),
        lambda t: t.reply(tool_use(world, "Bash", {"command": "sleep 9"})),
        lambda t: t.prompt("[Request interrupted by user]"),
        lambda t: t.reply(text("API Error"), model="<synthetic>", isApiErrorMessage=True),
    ]
    sessions = []
    for stop in stops:
        t = world.session(cwd="/home/ada/it's")
        t.prompt("go")
        stop(t)
        t.system("turn_duration", durationMs=1)
        sessions.append(t.session)
    with lab() as one:
        world.write(one.root)
        one.sync()
        assert answer(one.db, "unfinished", "session_id, stopped_at, what") == [
            (sessions[4], "API error", "API Error"),
            (sessions[3], "interruption", None),
            (sessions[2], "call", "Bash: sleep 9"),
            (sessions[1], "prompt", "and this?"),
        ]
        assert answer(one.db, "unfinished", "resume")[0] == (
            f"cd '/home/ada/it'\\''s' && claude --resume {sessions[4]}",
        )


def test_questions_with_their_answers_and_refusals_with_their_reasons(hand: Path) -> None:
    assert answer(hand, "questions", "question, options, answer, status") == [
        ('Which "colour"?', "red | blue", 'red, or "blue"', "ok"),
        ("How many?", "1", "2.5 or so", "ok"),
    ]
    assert answer(hand, "refusals", "tool, target, reason") == [
        ("Bash", "rm -rf build", "keep the build")
    ]


def test_slash_commands_and_skills() -> None:
    world = World()
    t = world.session()
    for args in ("", "fast"):
        t.command("/deploy", args)
        t.reply(text("gone"))
    t.queue("enqueue", "/deploy\nslowly")
    t.queue("remove")
    t.tool("Skill", {"skill": "pdf", "args": "x"})
    with lab() as one:
        world.write(one.root)
        one.sync()
        assert answer(one.db, "slash_commands", "name, kind, uses, cost_usd, example") == [
            ("/deploy", "command", 3, pytest.approx(3 * ONE), "/deploy\nslowly"),
            ("pdf", "skill", 1, None, '{"skill":"pdf","args":"x"}'),
        ]


def test_agents_by_type_and_branches(hand: Path) -> None:
    names = "agent_type, runs, completed, failed, tools, median_seconds"
    assert answer(hand, "agents_by_type", names) == [("Explore", 1, 1, 0, 1, 3.0)]
    assert answer(hand, "branch_costs", "branch, turns, sessions, commits, cost_usd") == [
        ("main", 5, 2, 1, pytest.approx(13 * ONE + 2 * TWO))
    ]


def test_projects_of_one_name_are_told_apart_and_worktrees_are_of_their_repository() -> None:
    world = World()
    for n, (folder, cwd) in enumerate(
        [
            ("-home-ada-engine", "/home/ada/engine"),
            ("-home-ada-engine--worktrees-x", "/home/ada/engine/.worktrees/x"),
            ("-home-bob-engine", "/home/bob/engine"),
        ]
    ):
        t = world.session(folder, cwd=cwd)
        t.prompt(f"ask {n}")
        edited(t, f"{cwd}/a.py", 1, 0)
        said = f"[main abc000{n}] Change {n}\n 1 file changed"
        t.tool("Bash", {"command": "git commit -am x"}, said, {"stdout": said})
        t.pr_link(n)
    with lab() as one:
        world.write(one.root)
        one.sync()
        names = "project, repo_path, turns, sessions, commits, cost_usd"
        assert answer(one.db, "branch_costs", f"{names}, branch") == [
            ("engine", "/home/ada/engine", 2, 2, 2, pytest.approx(4 * ONE), "main"),
            ("engine", "/home/bob/engine", 1, 1, 1, pytest.approx(2 * ONE), "main"),
        ]
        names = "repo_path, asked, files_changed, commits, cost_usd"
        assert answer(one.db, "standup", names) == [
            (
                "/home/ada/engine",
                "- ask 0\n- ask 1",
                1,  # the same file of the repository
                "abc0000 Change 0\nabc0001 Change 1",
                pytest.approx(4 * ONE),
            ),
            ("/home/bob/engine", "- ask 2", 1, "abc0002 Change 2", pytest.approx(2 * ONE)),
        ]


def test_numbers_of_any_length_are_left_out_of_errors() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    for number in ("7", "1234567890", "12345678901234567890123", "4" * 100):
        call = tool_use(world, "Bash", {"command": "make"})
        t.reply(call)
        t.result(call["id"], f"error {number} in line 12: {number}", is_error=True)
    with lab() as one:
        world.write(one.root)
        one.sync()
        assert answer(one.db, "error_messages", "errors, message") == [
            (4, "error # in line #: #"),
        ]


def test_files_that_are_read_again_and_errors_that_come_again() -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    for n in (1, 22, 3):
        t.tool("Read", {"file_path": A_PY}, "12345", {"type": "text"})
        call = tool_use(world, "Bash", {"command": f"make {n}"})
        t.reply(call)
        t.result(call["id"], f"Exit code 2\nmake: error {n}\nmore", is_error=True)
    with lab() as one:
        world.write(one.root)
        one.sync()
        names = "path, most_in_a_session, reads, sessions, result_bytes"
        assert answer(one.db, "repeated_reads", names) == [("src/a.py", 3, 3, 1, 15)]
        assert answer(one.db, "error_messages", "errors, tool, message, example") == [
            (3, "Bash", "make: error #", "make 3")
        ]
