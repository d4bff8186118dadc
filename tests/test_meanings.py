"""Small transcripts for what single values mean, where the shared corpus has no example."""

from __future__ import annotations

import json
from typing import Any

import pytest

from builder import Transcript, World, copy_to, fork, text, tool_use
from ctxdb.claude import entries, human_text, read_entry
from ctxdb.claude.git_output import git_from_text
from ctxdb.claude.tools import target_of
from ctxdb.rows import Message
from ctxdb.settle.sessions import folder_name
from lab import lab, told_by


def told(world: World, sql: str) -> list[tuple[Any, ...]]:
    """What a query finds, however the transcripts came in."""
    return told_by(world.contents(), sql)


def begun() -> tuple[World, Transcript]:
    world = World()
    main = world.session(version="2.1.250")
    main.prompt("go on")
    return world, main


# -- tools -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("The user doesn't want to proceed with this tool use.", "rejected"),
        ("User chose to stay in plan mode and continue planning", "rejected"),
        ("[Request interrupted by user for tool use]", "interrupted"),
        ("Permission prompt was aborted.", "interrupted"),
    ],
)
def test_a_refusal_is_one_also_where_the_result_is_not_marked_as_an_error(
    said: str, status: str
) -> None:
    world, main = begun()
    main.tool(
        "Edit", {"file_path": "/home/ada/engine/a", "old_string": "a", "new_string": "b"}, said
    )
    found = told(
        world,
        "SELECT t.status, t.is_error, f.succeeded, f.lines_added"
        " FROM tool_uses t JOIN files_touched f ON f.tool_id = t.id",
    )
    assert found == [(status, 0, 0, 0)]


def test_a_leading_exit_code_is_the_exit_code_of_any_result() -> None:
    world, main = begun()
    main.tool("Bash", {"command": 'make; echo "Exit code $?"'}, "Exit code 2")
    main.tool("Bash", {"command": "ls"}, "a\nExit code 2")
    assert told(world, "SELECT status, exit_code FROM tool_uses ORDER BY id") == [
        ("ok", 2),
        ("ok", 0),
    ]


def test_only_the_names_of_the_contract_are_changed() -> None:
    world, main = begun()
    main.tool("AgentOutputTool", {"agentId": "a1"})
    main.tool("BashOutput", {"bash_id": "b1"})
    assert told(world, "SELECT name, raw_name FROM tool_uses ORDER BY id") == [
        ("AgentOutputTool", "AgentOutputTool"),
        ("TaskOutput", "BashOutput"),
    ]


def test_a_target_is_one_line_and_no_longer_than_a_list_can_show() -> None:
    assert target_of("Bash", {"command": "cd mill\n  make"}) == "cd mill make"
    assert len(target_of("Bash", {"command": "word " * 1000}) or "") == 300
    assert target_of("ExitPlanMode", {"plan": "# Grind\n\nsteps"}) == "Grind"
    assert target_of("TaskCreate", {"subject": "sift", "description": "the flour"}) == "sift"
    assert target_of("Bash", {"command": "\n\n"}) is None


def test_the_target_of_a_language_server_call_is_its_file() -> None:
    world, main = begun()
    main.tool("LSP", {"operation": "findReferences", "filePath": "/home/ada/engine/a.go"})
    assert told(world, "SELECT target FROM tool_uses") == [("/home/ada/engine/a.go",)]


def test_a_command_that_goes_on_in_the_background_has_no_exit_code_yet() -> None:
    world, main = begun()
    away = main.agent_file("a1")
    away.prompt("serve it")
    said = "Command running in background with ID: b1. Output is being written to: /tmp/b1.output"
    away.tool("Bash", {"command": "make serve", "run_in_background": True}, said)
    away.tool("Bash", {"command": "ls"}, "a")
    assert told(world, "SELECT status, exit_code FROM tool_uses ORDER BY started_at") == [
        ("ok", None),
        ("ok", 0),
    ]


# -- git -------------------------------------------------------------------------------------------


def test_a_commit_has_the_branch_that_the_tool_reports() -> None:
    world, main = begun()
    done = {"commit": {"sha": "abc1234", "kind": "committed", "branch": "dev"}}
    main.tool("Bash", {"command": "git commit -m x"}, "ok", {"stdout": "", "gitOperation": done})
    assert told(world, "SELECT kind, sha, branch FROM git_operations") == [
        ("commit", "abc1234", "dev")
    ]


def test_a_commit_counts_also_where_the_push_after_it_failed() -> None:
    world, main = begun()
    call = tool_use(world, "Bash", {"command": "git commit -m x && git push"})
    main.reply(call)
    said = "Exit code 1\n[main abc1234] x\nTo host:a/b\n ! [rejected]  main -> main (fetch first)"
    main.result(call["id"], said, is_error=True)
    assert told(world, "SELECT kind, sha, branch FROM git_operations") == [
        ("commit", "abc1234", "main")
    ]


def test_a_pull_request_that_was_there_already_is_not_made_again() -> None:
    world, main = begun()
    call = tool_use(world, "Bash", {"command": "gh pr create"})
    main.reply(call)
    said = "Exit code 1\na pull request already exists:\nhttps://github.com/a/b/pull/9"
    main.result(call["id"], said, is_error=True)
    assert told(world, "SELECT * FROM git_operations") == []


def test_pull_requests_of_two_repositories_with_one_number_are_two() -> None:
    world, main = begun()
    main.tool("Bash", {"command": "gh pr create"}, "https://github.com/o/a/pull/12")
    for repository in ("o/a", "o/b"):
        main.flat(
            "pr-link",
            sessionId=main.session,
            prNumber=12,
            prUrl=f"https://github.com/{repository}/pull/12",
            prRepository=repository,
            timestamp=world.now(),
        )
    assert told(world, "SELECT pr_url FROM git_operations ORDER BY 1") == [
        ("https://github.com/o/a/pull/12",),
        ("https://github.com/o/b/pull/12",),
    ]


def test_a_pull_request_that_another_session_made_is_linked_where_a_copy_names_it() -> None:
    world, main = begun()
    main.pr_link(9)
    main.tool("Bash", {"command": "gh pr create"}, "https://github.com/ada/engine/pull/9")
    again = fork(main, says_so=False, renew=True)  # as the SDK does it, with times of its own
    for entry in again.entries:
        if "uuid" in entry:
            entry["timestamp"] = world.now()
    found = told(world, "SELECT session_id, tool_id IS NULL FROM git_operations ORDER BY 2")
    assert found == [(main.session, 0), (again.session, 1)]


# -- agents ----------------------------------------------------------------------------------------


def test_an_agent_that_is_resumed_hangs_on_the_call_that_started_it() -> None:
    world, main = begun()
    # Ids whose order is not that of time.
    calls = [
        tool_use(world, "Task", {"prompt": words, "description": words}, id_)
        for words, id_ in (("look", "toolu_z"), ("look again", "toolu_a"))
    ]
    away = Transcript(world, "", main.session, "a777777")
    for call in calls:
        main.reply(call)
        main.agent_progress("a777777", call["id"], away.prompt(call["input"]["prompt"]))
        for line in away.reply(text("done")):
            main.agent_progress("a777777", call["id"], line)
        main.result(call["id"], "done", {"status": "completed", "agentId": "a777777"})
        main.prompt("more")
    found = told(
        world,
        "SELECT a.tool_use_id, a.description, t.ordinal, count(*)"
        " FROM agents a JOIN messages m USING (session_id, agent_id)"
        " JOIN turns t ON t.id = m.turn_id GROUP BY t.id",
    )
    assert found == [("toolu_z", "look", 1, 4)]


@pytest.mark.parametrize(("notice", "status"), [(None, "launched"), ("completed", "completed")])
def test_an_agent_of_a_workflow_has_ended_when_the_workflow_has(
    notice: str | None, status: str
) -> None:
    world, main = begun()
    step = main.agent_file("a5", where="workflow")
    step.prompt("step one")
    step.reply(text("done"))
    call = tool_use(world, "Workflow", {"script": "x"})
    main.reply(call)
    main.result(
        call["id"], "launched", {"status": "async_launched", "runId": "wf_1", "taskId": "w"}
    )
    if notice:
        main.prompt(
            f"<task-notification>\n<task-id>w</task-id>\n<tool-use-id>{call['id']}</tool-use-id>\n"
            f"<status>{notice}</status>\n</task-notification>"
        )
    assert told(world, "SELECT kind, status, tool_use_id FROM agents") == [
        ("workflow", status, call["id"])
    ]


@pytest.mark.parametrize("notice", [None, "completed"])
def test_an_agent_that_an_agent_launched_runs_until_it_is_told_that_it_ended(
    notice: str | None,
) -> None:
    world, main = begun()
    outer = tool_use(world, "Agent", {"prompt": "outer", "description": "outer"})
    main.reply(outer)
    away = main.agent_file("aaaaaaaa", meta={"toolUseId": outer["id"]})
    away.prompt("outer")
    words = {"prompt": "inner", "description": "inner", "run_in_background": True}
    call = tool_use(world, "Agent", words)
    away.reply(call)
    said = "Async agent launched successfully.\nagentId: abbbbbbb (internal ID)\nIt is at work."
    away.result(call["id"], said)
    # Whoever quotes these words has launched nothing.
    away.tool("Bash", {"command": "cat notes"}, said.replace("abbbbbbb", "accccccc"))
    inner = main.agent_file("abbbbbbb")
    inner.prompt("inner")
    inner.reply(text("done"))
    main.result(outer["id"], "done", {"status": "completed", "agentId": "aaaaaaaa"})
    if notice:
        away.prompt(
            "<task-notification>\n<task-id>abbbbbbb</task-id>\n"
            f"<status>{notice}</status>\n</task-notification>"
        )
    found = told(world, "SELECT agent_id, status, tool_use_id FROM agents ORDER BY 1")
    assert found == [
        ("aaaaaaaa", "completed", outer["id"]),
        ("abbbbbbb", notice or "launched", call["id"]),
    ]


def test_agents_that_ended_with_their_process_are_told_of_in_one_notice() -> None:
    world, main = begun()
    for name in ("a1", "a2", "a3"):
        call = tool_use(world, "Agent", {"prompt": name, "description": name})
        main.reply(call)
        main.result(call["id"], "started", {"status": "async_launched", "agentId": name})
    main.prompt(
        "<task-notification>\n<task-id>a1</task-id>\n<task-id>a2</task-id>\n"
        "<status>stopped</status>\n<summary>nothing of <task-id>a3</task-id></summary>\n"
        "</task-notification>"
    )
    assert told(world, "SELECT agent_id, status FROM agents ORDER BY 1") == [
        ("a1", "failed"),
        ("a2", "failed"),
        ("a3", "launched"),
    ]


def test_agents_of_ids_that_repeat_hang_on_the_calls_that_asked_them() -> None:
    world, main = begun()
    main.reply(tool_use(world, "Bash", {"command": "ls"}, "call_0"), request="")
    main.result("call_0")
    for name, ended in (("a1", True), ("a2", False)):
        main.prompt(f"ask {name}")
        words = {"prompt": f"look {name}", "description": name, "subagent_type": "Explore"}
        main.reply(tool_use(world, "Task", words, "call_0"), request="")
        away = main.agent_file(name)
        away.prompt(f"look {name}")
        away.reply(tool_use(world, "Bash", {"command": "pwd"}, "call_0"), request="")
        away.result("call_0", "/")
        if ended:
            main.result("call_0", "found", {"status": "completed", "agentId": name})
    found = told(
        world,
        "SELECT a.agent_id, a.description, a.status, t.prompt, count(*)"
        " FROM agents a JOIN messages m USING (session_id, agent_id)"
        " JOIN turns t ON t.id = m.turn_id GROUP BY a.id ORDER BY 1",
    )
    assert found == [
        ("a1", "a1", "completed", "ask a1", 3),
        ("a2", "a2", "running", "ask a2", 3),
    ]


def test_a_workflow_is_known_by_its_folder_too() -> None:
    world, main = begun()
    step = main.agent_file("a5", where="workflow")
    step.prompt("step one")
    call = tool_use(world, "Workflow", {"script": "x"})
    main.reply(call)
    main.result(call["id"], "launched", {"taskId": "w", "transcriptDir": "/x/workflows/wf_1"})
    assert told(world, "SELECT kind, status, tool_use_id FROM agents") == [
        ("workflow", "launched", call["id"])
    ]


def test_what_begins_the_thread_of_an_agent_is_its_prompt_also_behind_a_tag() -> None:
    world, main = begun()
    mate = main.agent_file("amate-0123456789abcdef")
    mate.prompt('<teammate-message teammate_id="lead">Look</teammate-message>')
    mate.reply(text("hello"))
    mate.prompt('<teammate-message teammate_id="lead">More</teammate-message>')
    found = told(world, "SELECT kind FROM messages WHERE agent_id IS NOT NULL ORDER BY timestamp")
    assert found == [("agent_prompt",), ("assistant",), ("notification",)]
    assert told(world, "SELECT kind FROM agents") == [("teammate",)]


# -- the rest --------------------------------------------------------------------------------------


def test_a_queued_prompt_was_asked_in_the_session_that_forks_say_they_come_from() -> None:
    world = World()
    # The last by its id: only forkedFrom says that it was first.
    main = world.session(session="ffffffff-0000-4000-8000-000000000000")
    main.prompt("go on")
    main.queue("enqueue", "and then")
    main.queue("remove")
    main.reply(text("then"))
    branch = fork(main, says_so=True, renew=True)
    branch.prompt("in a branch")
    fork(branch, says_so=False, renew=False).prompt("in a branch of it")
    assert told(world, "SELECT session_id, ordinal, prompt FROM turns WHERE kind = 'queued'") == [
        (main.session, 2, "and then")
    ]


def test_a_prompt_that_is_taken_by_name_leaves_those_before_it_waiting() -> None:
    world, main = begun()
    main.queue("enqueue", "first")
    main.queue("enqueue", "second")
    main.queue("dequeue", "second")
    main.prompt("second", promptSource="queued")
    main.queue("remove")
    assert told(world, "SELECT prompt FROM turns ORDER BY ordinal") == [
        ("go on",),
        ("second",),
        ("first",),
    ]


def test_prompts_taken_back_in_one_text_are_no_longer_waiting() -> None:
    world, main = begun()
    main.queue("enqueue", "first")
    main.queue("enqueue", "second")
    main.queue("popAll", "first\nsecond")
    main.queue("remove")
    assert told(world, "SELECT prompt FROM turns") == [("go on",)]


def test_account_ids_are_dropped_however_deep_they_stand() -> None:
    world, main = begun()
    owner = {"ownerAccountUuid": "A", "ownerOrganizationUuid": "B", "kept": 1}
    main.flat("bridge-session", sessionId=main.session, **owner, inside=[owner])
    (found,) = told(world, "SELECT data FROM events")
    assert found[0].endswith('"kept":1,"inside":[{"kept":1}]}')


def test_a_counter_beyond_64_bits_is_the_largest_that_counts() -> None:
    world, main = begun()
    for line in main.reply(text("hi")):
        line["message"]["usage"].update(input_tokens=10**30, cache_read_input_tokens=-5)
    assert told(world, "SELECT input_tokens, cache_read_tokens FROM usage") == [(2_000_000, 0)]


@pytest.mark.parametrize("first", ["a", "z"])
def test_a_session_that_goes_on_in_another_file_goes_on_in_its_turn(first: str) -> None:
    world = World()
    whole = world.session(folder="m")
    whole.prompt("one")
    whole.reply(text("a"))
    whole.prompt("two")
    whole.queue("enqueue", "wait")
    whole.queue("remove")
    cut = copy_to(whole, first)
    whole.tool("Bash", {"command": "ls"})
    whole.pr_link(5)
    whole.reply(text("b"))
    whole.prompt("three")
    cut_short = len(cut.entries)
    found = told(
        world,
        "SELECT t.ordinal, t.prompt, count(*) FROM messages m LEFT JOIN turns t ON t.id = m.turn_id"
        " GROUP BY t.id ORDER BY t.ordinal",
    )
    assert cut_short == 5
    assert found == [(1, "one", 2), (2, "two", 1), (3, "wait", 3), (4, "three", 1)]
    parts = told(
        world,
        "SELECT t.ordinal FROM (SELECT turn_id FROM tool_uses UNION ALL SELECT turn_id FROM"
        " git_operations UNION ALL SELECT turn_id FROM usage WHERE timestamp > (SELECT"
        " started_at FROM turns WHERE ordinal = 2)) p LEFT JOIN turns t ON t.id = p.turn_id",
    )
    assert parts == [(3,)] * 4


def test_requests_and_files_of_lines_before_the_first_that_names_its_session_are_of_it() -> None:
    world = World()
    main = world.session(name="notes")
    main.reply(text("a request of its own"))
    call = tool_use(world, "Read", {"file_path": "/home/ada/engine/a.py"}, "call_0")
    main.reply(call, message="chatcmpl-1", request="")
    for entry in main.entries:
        del entry["sessionId"]
    main.result("call_0", "1 line")
    found = told(
        world,
        "SELECT u.session_id, count(*), min(f.relative_path) FROM usage u"
        " JOIN files_touched f USING (session_id) GROUP BY 1",
    )
    assert found == [(main.session, 2, "a.py")]


def test_a_call_told_twice_in_other_words_is_told_by_the_first() -> None:
    world, main = begun()
    main.reply(tool_use(world, "ExitPlanMode", {"plan": "a"}, "toolu_1"))
    main.reply(tool_use(world, "ExitPlanMode", {"plan": "a, filled in"}, "toolu_1"))
    # `told` verifies: the second telling is no difference.
    assert told(world, "SELECT input FROM tool_uses") == [('{"plan":"a"}',)]


def test_what_lines_have_in_common_is_remembered_only_while_it_is_short() -> None:
    for size in (100, 1 << 20):
        entry = {"type": "user", "cwd": f"/{size}" * size, "message": {"content": "hi"}}
        line = json.dumps(entry).encode()
        before = entries._texts.cache_info().misses
        record = read_entry(entry, 0, len(line), line, False)
        assert isinstance(record, Message)
        assert record.cwd == entry["cwd"]
        remembered = entries._texts.cache_info().misses - before
        assert remembered == (len(line) <= entries.REMEMBERED_BYTES)


def test_an_agents_file_without_a_line_that_can_be_read_makes_no_agent() -> None:
    session = "5e551000-0000-4000-8000-00000000000a"
    with lab() as one:
        one.put(f"p/{session}/subagents/agent-zz.jsonl", b'{"torn\n')
        one.put(f"p/{session}/subagents/agent-zz.meta.json", b'{"agentType": "Explore"}')
        one.sync()
        one.must_verify()
        assert one.rows("SELECT * FROM agents") == []
        entry = {"type": "user", "sessionId": session, "agentId": "zz", "message": {"content": "x"}}
        one.append(f"p/{session}/subagents/agent-zz.jsonl", json.dumps(entry).encode() + b"\n")
        one.sync()
        one.must_verify()
        assert one.rows("SELECT session_id, agent_id, agent_type FROM agents") == [
            (session, "zz", "Explore")
        ]


def test_a_picture_in_a_queued_prompt_makes_no_second_turn() -> None:
    world, main = begun()
    main.queue("enqueue", "look at [Image #1]")
    main.queue("remove")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A"}}
    prompt = [text("look at [Image #1]"), image]
    main.attach("queued_command", commandMode="prompt", prompt=prompt)
    assert told(world, "SELECT prompt FROM turns ORDER BY ordinal") == [
        ("go on",),
        ("look at [Image #1]",),
    ]


def test_an_event_of_the_build_server_is_nobodys_request() -> None:
    world, main = begun()
    event = "<ci-monitor-event>build failed</ci-monitor-event>"
    main.prompt(event, origin={"kind": "human"}, promptSource="typed")
    assert told(world, "SELECT kind, count(*) FROM messages GROUP BY 1 ORDER BY 1") == [
        ("human", 1),
        ("notification", 1),
    ]
    assert told(world, "SELECT prompt FROM turns") == [("go on",)]


@pytest.mark.parametrize(
    ("cwd", "repo", "name"),
    [
        ("/home/u/app/.worktrees/x", "/home/u/app", "app"),
        ("/home/u/worktrees/app/.worktrees/x", "/home/u/worktrees/app", "app"),
        ("/u/erk/worktrees/slot-36/.claude/worktrees/foo", "/u/erk", "erk"),
        ("C:\\proj\\.claude\\worktrees\\x", "C:\\proj", "proj"),
        ("/home/u/worktrees/app", "/home/u/worktrees/app", "app"),
    ],
)
def test_a_worktree_belongs_to_the_repository_that_it_was_made_from(
    cwd: str, repo: str, name: str
) -> None:
    world = World()
    world.session(cwd=cwd).prompt("go on")
    assert told(world, "SELECT path, repo_path, name FROM projects") == [(cwd, repo, name)]


@pytest.mark.parametrize(
    ("cwd", "path", "tracked"),
    [
        ("C:\\proj", "C:\\proj\\src\\a.ts", "src\\a.ts"),
        ("/", "/etc/hosts", "etc/hosts"),
        ("/home/u/app", "/home/u/app/src/a.ts", "src/a.ts"),
    ],
)
def test_a_snapshot_is_of_the_file_that_was_read(cwd: str, path: str, tracked: str) -> None:
    world = World()
    main = world.session(cwd=cwd)
    main.prompt("go on")
    main.tool("Read", {"file_path": path})
    main.snapshot(tracked)
    assert told(world, "SELECT DISTINCT path, relative_path FROM files_touched") == [
        (path, tracked)
    ]


@pytest.mark.parametrize(
    ("path", "relative"),
    [
        ("C:\\Users\\u\\app\\a.py", "a.py"),
        ("c:/Users/u/app/src/a.py", "src/a.py"),
        ("C:\\Users\\u\\application\\a.py", None),
        ("D:\\Users\\u\\app\\a.py", None),
    ],
)
def test_a_file_on_windows_is_in_its_project_however_the_path_is_written(
    path: str, relative: str | None
) -> None:
    world = World()
    main = world.session(cwd="c:\\Users\\u\\app")
    main.prompt("go on")
    main.tool("Read", {"file_path": path})
    assert told(world, "SELECT path, relative_path FROM files_touched") == [(path, relative)]


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/home/u/my_app.v2", "-home-u-my-app-v2"),
        ("/home/u/\U0001f680app", "-home-u---app"),
        # What the client's own function gives, hash and all.
        ("/home/u/" + "x" * 210, "-home-u-" + "x" * 192 + "-4at0sl"),
    ],
)
def test_a_session_without_a_folder_is_of_the_project_that_its_file_stands_with(
    path: str, folder: str
) -> None:
    assert folder_name(path) == folder
    world = World()
    world.session(folder, cwd=path).prompt("go on")
    world.session(folder).ai_title("a title and nothing else")
    assert told(world, "SELECT path FROM projects") == [(path,)]


def test_what_hangs_on_an_entry_of_an_unknown_type_hangs_on_what_that_hangs_on() -> None:
    world, main = begun()
    first = main.entries[-1]["uuid"]
    main.thread("newtype", {"words": "what comes next"})
    main.reply(text("hi"))
    found = told(world, "SELECT parent_uuid FROM messages ORDER BY timestamp")
    assert found == [(None,), (first,)]


def test_the_size_of_a_picture_is_that_of_its_bytes() -> None:
    world, main = begun()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png"}}
    for data in ("eA==", "eHg=", "eHh4"):
        main.prompt([text("look"), {**image, "source": {**image["source"], "data": data}}])
    sizes = told(
        world,
        "SELECT json_extract(data, '$.images[0].bytes') FROM messages WHERE data LIKE '%images%'"
        " ORDER BY timestamp",
    )
    assert sizes == [(1,), (2,), (3,)]


def test_tags_without_end_and_endless_commands_are_looked_through_once() -> None:
    """Hours, if every beginning looked for its end again."""
    tags = "<command-name>" * 300_000
    assert human_text.command_text(tags) == tags
    assert human_text.without_ide("<ide_file>a</ide_file>" * 600_000 + "b") == "b"
    made = [("commit", "1234567", "main", None, None, "x", "text")]
    assert git_from_text(lambda: "git " * 300_000, "[main 1234567] x", failed=False) == made
    assert git_from_text(lambda: "ls;" * 300_000, "[main 1234567] x", failed=False) == []
    assert git_from_text(lambda: "ls", "\n[main " * 300_000, failed=False) == []


def test_side_data_says_how_much_of_it_is_left_out() -> None:
    world, main = begun()
    main.attach("deferred_tools_delta", addedNames=[f"tool{n}" for n in range(250)])
    main.attach("hook_success", stdout="x" * 3000)
    found = told(
        world,
        "SELECT json_array_length(data, '$.addedNames'),"
        " json_extract(data, '$.addedNames[200].more'), json_extract(data, '$.stdout.bytes')"
        " FROM messages WHERE type = 'attachment' ORDER BY id",
    )
    assert found == [(201, 50, None), (None, None, 3000)]
