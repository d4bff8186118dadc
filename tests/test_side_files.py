"""Files beside the transcripts: to-dos, tasks, plans, the history of prompts, saved outputs.

Each fact is the same in whatever order transcripts and files arrive, is not lost when the file
goes, and no file stops the others. No real history.jsonl was there to test with: all are synthetic.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from builder import BEGAN, CWD, PROJECT, Transcript, World, stamp
from ctxdb.cli.database_status import read_status
from ctxdb.config import load
from ctxdb.ingest import side_files
from ctxdb.privacy.masking import Masker
from lab import Lab, must_equal
from live_lab import inside, until
from world import World as LiveWorld

TODO_COLUMNS = "agent_id, item_id, subject, status, source, turn_id IS NOT NULL"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "claude")


def put(lab: Lab, name: str, data: Any, at: int | None = None) -> Path:
    """A file beside the transcripts, written `at` this second of the world."""
    path = lab.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    if at is not None:
        moment = datetime.fromisoformat(stamp(at)).timestamp()
        os.utime(path, (moment, moment))
    return path


def write(lab: Lab, world: World) -> None:
    world.write(lab.root)


def todo(text: str, status: str = "pending", **more: Any) -> dict[str, Any]:
    return {"content": text, "status": status, "activeForm": f"{text}ing", **more}


def write_todos(file: Transcript, *todos: dict[str, Any]) -> None:
    file.tool("TodoWrite", {"todos": list(todos)}, "Todos have been modified successfully.")


def todos(lab: Lab, columns: str = TODO_COLUMNS) -> list[tuple[Any, ...]]:
    return lab.rows(f"SELECT {columns} FROM todos ORDER BY agent_id, item_id, subject")


def epoch_ms(seconds: int) -> int:
    return int((BEGAN.timestamp() + seconds) * 1000)


def typed(text: str, seconds: int, session: str | None = None, **more: Any) -> bytes:
    line = {"display": text, "pastedContents": {}, "timestamp": epoch_ms(seconds), "project": CWD}
    if session:
        line["sessionId"] = session
    return json.dumps({**line, **more}).encode() + b"\n"


def problems(lab: Lab) -> dict[str, str]:
    rows = lab.rows("SELECT path, problem FROM _side_files WHERE problem IS NOT NULL")
    return {os.path.basename(path): problem for path, problem in rows}


# -- to-dos --------------------------------------------------------------------------------------


def test_a_todo_has_its_latest_state_and_the_turn_that_set_it(lab: Lab) -> None:
    world = World()
    file = world.session()
    file.prompt("first")
    write_todos(file, todo("a", "in_progress"), todo("b"))
    file.prompt("second")
    write_todos(file, todo("a", "completed"), todo("b"))
    file.prompt("third")
    write_todos(file, todo("a", "completed"), todo("b", "in_progress"))
    write(lab, world)
    lab.sync()
    rows = lab.rows(
        "SELECT subject, t.status, prompt, created_at < updated_at FROM todos t"
        " JOIN turns ON turns.id = t.turn_id ORDER BY 1"
    )
    assert rows == [("a", "completed", "second", 1), ("b", "in_progress", "third", 1)]
    lab.must_verify()


def test_an_unfinished_todo_that_is_missing_from_a_later_list_is_dropped(lab: Lab) -> None:
    world = World()
    file = world.session()
    file.prompt("go")
    write_todos(file, todo("done", "completed"), todo("left"), todo("comes back"))
    write_todos(file, todo("other"))
    write_todos(file, todo("other"), todo("comes back", "in_progress"))
    write(lab, world)
    lab.sync()
    assert todos(lab, "subject, status") == [
        ("comes back", "in_progress"),
        ("done", "completed"),
        ("left", "dropped"),
        ("other", "pending"),
    ]


def test_tasks_are_known_by_the_number_that_their_result_gives_them(lab: Lab) -> None:
    world = World()
    file = world.session()
    file.prompt("go")
    for number, subject in enumerate(("same", "same"), 1):
        made = f"Task #{number} created successfully: {subject}"
        file.tool("TaskCreate", {"subject": subject, "description": "how"}, made)
    file.tool("TaskUpdate", {"taskId": "1", "status": "in_progress"}, "Updated task #1 status")
    file.tool("TaskUpdate", {"taskId": 2, "status": "deleted"}, "Updated task #2 status")
    write(lab, world)
    lab.sync()
    assert todos(lab) == [
        (None, "1", "same", "in_progress", "TaskCreate", 1),
        (None, "2", "same", "deleted", "TaskCreate", 1),
    ]


def test_an_agent_has_its_own_list_and_can_change_a_task_of_the_main_thread(lab: Lab) -> None:
    world = World()
    file = world.session()
    file.prompt("go")
    file.tool("TaskCreate", {"subject": "main"}, "Task #1 created successfully: main")
    write_todos(file, todo("list"))
    agent = file.agent_file("a1")
    agent.prompt("help")
    write_todos(agent, todo("of the agent"))
    agent.tool("TaskUpdate", {"taskId": "1", "status": "completed"}, "Updated task #1 status")
    write(lab, world)
    lab.sync()
    assert todos(lab, "agent_id, item_id, subject, status") == [
        (None, None, "list", "pending"),
        (None, "1", "main", "completed"),
        ("a1", None, "of the agent", "pending"),
    ]


def test_calls_that_failed_or_have_no_list_change_nothing(lab: Lab) -> None:
    world = World()
    file = world.session()
    file.prompt("go")
    write_todos(file, todo("kept"))
    file.tool("TodoWrite", {"todos": "a, b"})
    file.tool("TodoWrite", {"todos": [1, {"status": "pending"}, None]}, "fine")
    block = {"type": "tool_use", "id": "toolu_x", "name": "TodoWrite", "input": {"todos": []}}
    file.reply(block)
    file.result("toolu_x", "no", is_error=True)
    file.tool("TaskUpdate", {"status": "completed"})
    file.tool("TaskCreate", {"subject": 5})
    write(lab, world)
    lab.sync()
    assert todos(lab, "subject, status") == [("kept", "dropped")]  # by the list without an item


def test_a_file_adds_to_calls_and_never_overrides_a_later_call(lab: Lab) -> None:
    world = World()
    file = world.session()
    file.prompt("go")
    write_todos(file, todo("a", "in_progress"))
    written = world.seconds
    world.seconds += 100
    write_todos(file, todo("a", "completed"), todo("b", "in_progress"))
    write(lab, world)
    name = f"todos/{file.session}-agent-{file.session}.json"
    put(lab, name, [todo("a", "pending"), todo("old")], at=written + 50)
    lab.sync()
    assert todos(lab, "subject, status, source") == [
        ("a", "completed", "TodoWrite"),
        ("b", "in_progress", "TodoWrite"),
        ("old", "dropped", "TodoWrite"),
    ]
    put(lab, name, [todo("a", "completed"), todo("b", "completed")], at=world.seconds + 50)
    lab.sync()
    assert todos(lab, "subject, status, source, updated_at")[:2] == [
        ("a", "completed", "TodoWrite", stamp(world.seconds - 1)),
        ("b", "completed", "file", stamp(world.seconds + 50)),
    ]
    lab.must_verify(again=True)


def test_todos_of_a_session_without_a_transcript_come_from_its_files(lab: Lab) -> None:
    session = World().uuid()
    put(lab, f"todos/{session}-agent-{session}.json", [todo("x", id="1", priority="high")], at=5)
    put(lab, f"todos/{session}-agent-abc.json", [todo("of an agent", "completed")], at=6)
    task = {"id": "7", "subject": "task", "description": "why", "status": "in_progress"}
    put(lab, f"tasks/{session}/7.json", task, at=7)
    put(lab, f"tasks/{session}/.lock", b"")
    put(lab, "tasks/team-name/1.json", task)
    put(lab, f"todos/{session}.json", [todo("of another name")])
    lab.sync()
    assert todos(lab) == [
        (None, "1", "x", "pending", "file", 0),
        (None, "7", "task", "in_progress", "file", 0),
        ("abc", None, "of an agent", "completed", "file", 0),
    ]
    lab.must_verify()


def test_todos_stay_when_their_file_is_gone_and_follow_it_when_it_is_back(lab: Lab) -> None:
    session = World().uuid()
    name = f"todos/{session}-agent-{session}.json"
    path = put(lab, name, [todo("x")], at=5)
    lab.sync()
    path.unlink()
    lab.sync()
    assert todos(lab, "subject, status") == [("x", "pending")]
    assert lab.rows("SELECT state FROM _side_files") == [("missing",)]
    lab.must_verify(again=True)
    put(lab, name, [todo("x", "completed")], at=9)
    lab.sync()
    assert todos(lab, "subject, status") == [("x", "completed")]


# -- any order -----------------------------------------------------------------------------------


def test_the_order_in_which_lines_and_files_arrive_changes_nothing(tmp_path: Path) -> None:
    world = World()
    file = world.session(extra={"slug": "brave-red-fox"})
    file.prompt("plan it")
    write_todos(file, todo("a", "in_progress"), todo("b"))
    block = {"type": "tool_use", "id": "toolu_p", "name": "ExitPlanMode", "input": {"plan": "# P"}}
    file.reply(block)
    file.result("toolu_p", "ok", {"plan": "# P", "filePath": "/h/.claude/plans/brave-red-fox.md"})
    written = world.seconds
    file.prompt("go  on\nplease")
    write_todos(file, todo("a", "completed"))
    call = file.tool("Bash", {"command": "ls"}, saved_note("/x/tool-results/out.txt"))
    agent = file.agent_file("a1")
    agent.prompt("help")
    write_todos(agent, todo("of the agent"))
    other = world.session()
    other.prompt("go on please")
    sides: dict[str, tuple[Any, int | None]] = {
        f"todos/{file.session}-agent-{file.session}.json": ([todo("b", "completed")], written),
        "plans/brave-red-fox.md": (b"# P, edited\n", written),
        "history.jsonl": (
            typed("plan it", 1, file.session)
            + typed("go on please", written + 1)
            + typed("lost", 3, world.uuid())
            + typed("go on please", world.seconds),
            None,
        ),
        f"projects/{PROJECT}/{file.session}/tool-results/out.txt": (b"the whole output\n", None),
    }
    steps = [*world.contents(), *sides]
    expected = None
    for turn, order in enumerate((None, steps, steps[::-1], steps[3:] + steps[:3])):
        lab = Lab(tmp_path / str(turn) / "claude")
        for name in order or steps:
            if name in sides:
                data, at = sides[name]
                put(lab, name, data, at)
            else:
                data = world.contents()[name]
                half = data.index(b"\n", len(data) // 2) + 1
                lab.put(name, data[:half])
                if order:
                    lab.sync()
                lab.append(name, data[half:])
            if order:
                lab.sync()
        lab.sync()
        lab.must_verify(again=True)
        content = {
            table: [row.replace(str(lab.folder), "") for row in rows]
            for table, rows in lab.content().items()
        }
        expected = expected or content
        must_equal(expected, content, f"order {turn}")
    assert expected is not None
    (saved,) = (row for row in expected["tool_uses"] if call in row)
    assert "the whole output" in saved
    assert len(expected["todos"]) == 3
    assert len(expected["plans"]) == 2
    assert sum("'turn_id': None" in row for row in expected["history"]) == 1


# -- history -------------------------------------------------------------------------------------


def matched(lab: Lab) -> list[tuple[Any, ...]]:
    return lab.rows(
        "SELECT h.prompt, t.session_id, t.ordinal FROM history h"
        " LEFT JOIN turns t ON t.id = h.turn_id ORDER BY h.timestamp, h.id"
    )


def test_a_line_of_history_is_a_row_with_a_time_and_the_size_of_what_was_pasted(lab: Lab) -> None:
    pasted = {"1": {"id": 1, "type": "text", "content": "zébrazebra"}}
    put(lab, "history.jsonl", typed("see [Pasted text #1 +1 lines]", 2, pastedContents=pasted))
    lab.sync()
    assert lab.rows(
        "SELECT timestamp, project_path, session_id, prompt, pasted_bytes, turn_id FROM history"
    ) == [(stamp(2), CWD, None, "see [Pasted text #1 +1 lines]", 11, None)]
    assert b"brazebra" not in lab.db.read_bytes()
    lab.must_verify()


def test_lines_are_matched_to_turns_one_to_one(lab: Lab) -> None:
    world = World()
    one, two = world.session(), world.session()
    one.prompt("yes")  # 1
    one.prompt("look at this:\nlong  text")  # 2
    one.command("/review", "all files")  # 3
    two.prompt("yes")  # 4
    two.prompt("<bash-input>ls -l</bash-input>")  # 5
    two.prompt("yes")  # 6
    write(lab, world)
    pasted = {"1": {"type": "text", "content": "this:\n\nlong text"}}
    put(
        lab,
        "history.jsonl",
        typed("yes", 1, one.session)
        + typed("look at [Pasted text #1 +2 lines]", 2, one.session, pastedContents=pasted)
        + typed("/review all files ", 3)
        + typed("yes", 4, two.session)
        + typed("!ls -l", 5, two.session)
        + typed("yes", 6)
        + typed("yes", 7, two.session)
        + typed("never sent", 8, two.session),
    )
    lab.sync()
    assert [(session, ordinal) for _, session, ordinal in matched(lab)] == [
        (one.session, 1),
        (one.session, 2),
        (one.session, 3),
        (two.session, 1),
        (two.session, 2),
        (None, None),  # the line that names its session takes the last turn
        (two.session, 3),
        (None, None),
    ]
    lab.must_verify(again=True)


def test_the_same_words_of_another_day_are_another_prompt(lab: Lab) -> None:
    world = World()
    file = world.session()
    file.prompt("continue")
    write(lab, world)
    put(lab, "history.jsonl", typed("continue", 3 * 24 * 3600) + typed("continue", 60))
    lab.sync()
    assert [session for _, session, _ in matched(lab)] == [file.session, None]


def test_a_line_finds_its_turn_when_the_transcript_comes_later_or_loses_it(lab: Lab) -> None:
    world = World()
    file = world.session()
    file.prompt("first")
    file.prompt("second")
    put(lab, "history.jsonl", typed("second", 2, file.session))
    lab.sync()
    assert matched(lab) == [("second", None, None)]
    write(lab, world)
    lab.sync()
    assert matched(lab) == [("second", file.session, 2)]


def test_only_complete_lines_of_history_are_read_and_each_once(lab: Lab) -> None:
    path = put(lab, "history.jsonl", typed("one", 1) + typed("two", 2)[:-20])
    lab.sync()
    assert lab.rows("SELECT prompt FROM history") == [("one",)]
    assert lab.rows("SELECT state FROM _side_files") == [("partial",)]
    path.write_bytes(typed("one", 1) + typed("two", 2) + typed("two", 2) + b"\n")
    lab.sync()
    with path.open("ab") as file:
        file.write(typed("two", 2) + typed("three", 3))
    lab.sync()
    lab.sync()
    assert lab.rows("SELECT prompt, count(*) FROM history GROUP BY 1 ORDER BY 1") == [
        ("one", 1),
        ("three", 1),
        ("two", 3),
    ]
    lab.must_verify()


def test_a_rewritten_history_keeps_rows_and_adds_what_is_new(lab: Lab) -> None:
    put(lab, "history.jsonl", typed("one", 1) + typed("two", 2) + typed("three", 3))
    lab.sync()
    put(lab, "history.jsonl", typed("two", 2) + typed("four", 4))
    lab.sync()
    assert [prompt for prompt, _, _ in matched(lab)] == ["one", "two", "three", "four"]
    lab.must_verify(again=True)


def test_bad_lines_of_history_are_counted_and_the_others_read(lab: Lab) -> None:
    bad = b'{"display": "torn\n[1]\n\xff\xfe\n{"timestamp": 1}\n\n' + b"\0" * 50 + b"\n"
    late = json.dumps({"display": "no\0time", "timestamp": 1e300, "project": 7}).encode() + b"\n"
    put(lab, "history.jsonl", typed("one", 1) + bad + late + typed("two", 2))
    lab.sync()
    assert lab.rows("SELECT prompt, timestamp, project_path FROM history ORDER BY id") == [
        ("one", stamp(1), CWD),
        ("no\u2400time", None, None),
        ("two", stamp(2), CWD),
    ]
    assert lab.rows("SELECT lines, bad_lines, state FROM _side_files") == [(9, 5, "ok")]
    assert "at byte" in problems(lab)["history.jsonl"]
    lab.must_verify()


# -- plans ---------------------------------------------------------------------------------------


def propose(file: Transcript, call: str, tool_input: Any, detail: Any = None) -> None:
    file.reply({"type": "tool_use", "id": call, "name": "ExitPlanMode", "input": tool_input})
    file.result(call, "ok", detail)


def test_plans_come_from_the_call_its_result_and_the_file(lab: Lab) -> None:
    world = World()
    file = world.session(extra={"slug": "calm-blue-owl"})
    file.prompt("plan")
    propose(file, "toolu_1", {"plan": "# One\n"})
    propose(file, "toolu_2", {}, {"plan": "# Two", "filePath": "/p/calm-blue-owl.md"})
    propose(file, "toolu_3", {"plan": "# One"})
    again = world.seconds - 1
    write(lab, world)
    path = put(lab, "plans/calm-blue-owl.md", b"# Three\n", at=500)
    put(lab, "plans/nobody-s-plan.md", b"# Four \xff\n", at=501)
    put(lab, "plans/notes.txt", b"# Not read\n")
    lab.sync()
    assert lab.rows(
        "SELECT session_id, slug, path, text, updated_at, source FROM plans ORDER BY updated_at"
    ) == [
        (
            file.session,
            "calm-blue-owl",
            "/p/calm-blue-owl.md",
            "# Two",
            stamp(again - 2),
            "ExitPlanMode",
        ),
        (file.session, "calm-blue-owl", None, "# One", stamp(again), "ExitPlanMode"),
        (file.session, "calm-blue-owl", str(path), "# Three", stamp(500), "file"),
        (
            None,
            "nobody-s-plan",
            str(path.with_name("nobody-s-plan.md")),
            "# Four \ufffd",
            stamp(501),
            "file",
        ),
    ]
    put(lab, "plans/calm-blue-owl.md", b"# One\n", at=600)
    lab.sync()
    assert lab.rows("SELECT count(*), count(path) FROM plans WHERE slug = 'calm-blue-owl'") == [
        (2, 2)
    ]
    lab.must_verify(again=True)


# -- saved outputs -------------------------------------------------------------------------------


def saved_note(path: str) -> str:
    saved = f"Full output saved to: {path}"
    return f"<persisted-output>\nOutput too large (9KB). {saved}\n\nPreview (first 2KB):\nbegin"


def session_with_output(lab: Lab, path: str, world: World | None = None) -> Transcript:
    file = (world or World()).session()
    file.prompt("run it")
    detail = {"stdout": "begin", "persistedOutputPath": path, "persistedOutputSize": 9000}
    file.tool("Bash", {"command": "make"}, saved_note(path), detail)
    return file


def output(lab: Lab) -> str:
    ((text,),) = lab.rows("SELECT result_text FROM tool_uses")
    return str(text)


def test_the_whole_output_takes_the_place_of_the_preview_and_is_found(lab: Lab) -> None:
    file = session_with_output(lab, "/home/ada/.claude/projects/x/tool-results/b1.txt")
    write(lab, file.world)
    place = f"projects/{PROJECT}/{file.session}/tool-results/b1.txt"
    whole = b"begin\n" + b"x\n" * 10 + b"[main abc1234] needle subject\n 1 file changed\n"
    put(lab, place, whole)
    lab.sync()
    assert output(lab).encode() == whole
    assert lab.rows("SELECT rowid FROM tool_uses_fts WHERE tool_uses_fts MATCH 'needle'") == [(1,)]
    assert lab.rows("SELECT kind, sha FROM git_operations") == [("commit", "abc1234")]
    assert lab.rows("SELECT result_bytes FROM tool_uses") == [(len(whole),)]
    lab.must_verify(again=True)
    (lab.folder / place).unlink()
    file.prompt("more")
    write(lab, file.world)
    lab.sync()
    assert output(lab).encode() == whole
    lab.must_verify(again=True)


def test_an_output_that_is_saved_after_its_line_was_read_is_found(lab: Lab) -> None:
    file = session_with_output(lab, "/gone/b1.txt")
    write(lab, file.world)
    lab.sync()
    assert output(lab).startswith("<persisted-output>")
    put(lab, f"projects/{PROJECT}/{file.session}/tool-results/b1.txt", b"whole")
    lab.sync()
    assert output(lab) == "whole"


def test_at_most_a_mebibyte_of_an_output_is_stored(lab: Lab) -> None:
    file = session_with_output(lab, "b1.txt")
    write(lab, file.world)
    data = b"x" + "é".encode() * (1 << 20)
    put(lab, f"projects/{PROJECT}/{file.session}/tool-results/b1.txt", data)
    lab.sync()
    assert output(lab) == "x" + "é" * ((1 << 19) - 1)
    assert lab.rows("SELECT result_bytes FROM tool_uses") == [(len(data),)]
    lab.must_verify()


@pytest.mark.parametrize(
    "named",
    [
        "../../../secret.txt",
        "/etc/../secret.txt",
        "..\\..\\..\\secret.txt",
        "tool-results/..",
        "/",
        "a\u0000b",
    ],
)
def test_a_line_cannot_make_ctxdb_read_a_file_elsewhere(lab: Lab, named: str) -> None:
    secret = put(lab, "secret.txt", b"secret")
    file = session_with_output(lab, named)
    write(lab, file.world)
    folder = lab.root / PROJECT / file.session / "tool-results"
    folder.mkdir(parents=True)
    lab.sync()
    assert "secret\n" not in output(lab)
    assert output(lab).startswith("<persisted-output>")
    assert secret.exists()


@pytest.mark.parametrize("link", ["file", "results", "session", "fifo", "folder"])
def test_an_output_behind_a_link_or_no_file_is_not_read(lab: Lab, link: str) -> None:
    file = session_with_output(lab, "b1.txt")
    write(lab, file.world)
    outside = put(lab, "outside/tool-results/b1.txt", b"secret")
    session = lab.root / PROJECT / file.session
    results = session / "tool-results"
    if link == "session":
        session.symlink_to(outside.parent.parent)
    elif link == "results":
        session.mkdir()
        results.symlink_to(outside.parent)
    else:
        results.mkdir(parents=True)
        if link == "file":
            (results / "b1.txt").symlink_to(outside)
        elif link == "fifo":
            os.mkfifo(results / "b1.txt")
        else:
            (results / "b1.txt").mkdir()
    lab.sync()
    lab.sync()
    assert output(lab).startswith("<persisted-output>")
    assert problems(lab)["b1.txt"].startswith("not read")
    lab.must_verify()


# -- hooks ---------------------------------------------------------------------------------------


def test_a_hook_that_has_a_line_and_is_in_the_summary_ran_once(lab: Lab) -> None:
    file = World().session()
    file.prompt("go")
    call = file.tool("Edit", {"file_path": "a"})
    ran = {"hookEvent": "PostToolUse", "hookName": "PostToolUse:Edit", "toolUseID": call}
    file.attach(
        "hook_success", **ran, command="fmt", exitCode=0, durationMs=7, stdout="", stderr=""
    )
    blocking = {"blockingError": "no tabs", "command": "tabs.sh"}
    file.attach("hook_blocking_error", **ran, blockingError=blocking)
    file.attach("hook_system_message", **ran, content="hello")
    stop = {"hookEvent": "Stop", "hookName": "Stop", "toolUseID": "stop-1"}
    file.attach("hook_success", **stop, command="one", exitCode=0, durationMs=3)
    file.thread(
        "system",
        {
            "subtype": "stop_hook_summary",
            "hookInfos": [{"command": "one", "durationMs": 9}, {"command": "two"}, "three"],
            "hookErrors": ["two has failed " + "long " * 1000],
            "preventedContinuation": True,
            "toolUseID": "stop-1",
        },
    )
    file.prompt("<progress>")
    write(lab, file.world)
    lab.sync()
    rows = lab.rows(
        "SELECT event, command, duration_ms, exit_code, blocked, substr(error, 1, 14)"
        " FROM hook_runs ORDER BY event, command"
    )
    assert rows == [
        ("PostToolUse", "fmt", 7, 0, 0, None),
        ("PostToolUse", "tabs.sh", None, None, 1, "no tabs"),
        ("Stop", "one", 3, 0, 1, "two has failed"),
        ("Stop", "two", None, None, 1, "two has failed"),
    ]
    for words in ("tabs", '"two has failed"'):
        found = f"SELECT count(*) FROM messages_fts WHERE messages_fts MATCH '{words}'"
        assert lab.rows(found) == [(1,)]


# -- bad input -----------------------------------------------------------------------------------


def test_no_file_stops_the_others_and_each_problem_is_written_down(lab: Lab) -> None:
    world = World()
    good, session = world.uuid(), world.uuid()

    def name(kind: str) -> str:
        return f"todos/{session}-agent-{kind}.json"

    put(lab, f"todos/{good}-agent-{good}.json", [todo("kept")], at=3)
    put(lab, name("torn"), b'[{"content": "a", "status":')
    put(lab, name("empty"), b"")
    put(lab, name("version2"), {"version": 2, "todos": []})
    put(lab, name("words"), ["a", 1, None])
    put(lab, name("binary"), os.urandom(500) + b"\0\xff")
    put(lab, name("huge"), b"[" + b" " * side_files.MAX_FILE_BYTES + b"]")
    put(lab, name("deep"), b"[" * 2000 + b"]" * 2000)
    os.mkfifo(lab.folder / name("fifo"))
    (lab.folder / name("link")).symlink_to(lab.folder / f"todos/{good}-agent-{good}.json")
    (lab.folder / name("folder")).mkdir()
    put(lab, f"tasks/{session}/1.json", b"null")
    (lab.folder / "plans").mkdir()
    (lab.folder / "plans/loop.md").symlink_to("loop.md")
    os.mkfifo(lab.folder / "history.jsonl")
    report = lab.sync()
    assert todos(lab, "session_id, subject") == [(good, "kept")]
    told = problems(lab)
    kinds = ["torn", "empty", "version2", "words", "binary", "huge", "deep", "fifo", "link"]
    assert set(told) == {
        *(f"{session}-agent-{kind}.json" for kind in kinds),
        "1.json",
        "loop.md",
        "history.jsonl",
    }
    assert len(report.problems) == len(told)
    again = lab.sync()
    assert again.side_files == 0
    assert [text for text in again.problems if "history" not in text] == []
    lab.must_verify(again=True)
    put(lab, name("torn"), [todo("whole now")], at=4)
    lab.sync()
    assert todos(lab, "subject") == [("kept",), ("whole now",)]


def test_a_file_that_becomes_bad_keeps_what_was_read_of_it(lab: Lab) -> None:
    session = World().uuid()
    name = f"todos/{session}-agent-{session}.json"
    put(lab, name, [todo("x")], at=3)
    lab.sync()
    put(lab, name, b"[{", at=4)
    lab.sync()
    assert todos(lab, "subject, status") == [("x", "pending")]
    assert len(problems(lab)) == 1
    lab.must_verify()


def test_a_file_that_cannot_be_stored_for_any_reason_leaves_the_others_alone(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = World().uuid(), "00000000-0000-4000-8000-000000000000"
    for session in (one, two):
        put(lab, f"todos/{session}-agent-{session}.json", [todo(session)], at=3)
    real = side_files.content_of

    def fail(kind: str, data: bytes, masker: Masker | None) -> str:
        if one.encode() in data:
            raise TypeError(one)
        return real(kind, data, masker)

    monkeypatch.setattr(side_files, "content_of", fail)
    lab.sync()
    assert todos(lab, "session_id") == [(two,)]
    assert list(problems(lab).values()) == ["cannot be stored (TypeError)"]
    monkeypatch.undo()
    lab.sync()
    assert len(todos(lab)) == 2


def test_unchanged_files_are_not_opened_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    session = World().uuid()
    put(lab, f"todos/{session}-agent-{session}.json", [todo("x")])
    put(lab, "history.jsonl", typed("one", 1))
    put(lab, "plans/a.md", b"# A")
    lab.sync()
    before = lab.db.read_bytes()
    opened: list[str] = []
    real = os.open

    def noting(path: Any, *how: Any, **more: Any) -> int:
        opened.append(os.fsdecode(path))
        return real(path, *how, **more)

    monkeypatch.setattr(os, "open", noting)
    report = lab.sync()
    monkeypatch.undo()
    assert [path for path in opened if path.endswith((".json", ".jsonl", ".md"))] == []
    assert report.side_files == 0
    assert lab.db.read_bytes() == before


def test_nothing_else_of_the_folder_is_opened(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        ".credentials.json",
        "settings.json",
        "shell-snapshots/s.sh",
        "ide/1.lock",
        "statsig/cache.json",
        "todos/README.md",
        "plans/sub/x.md",
        "stats-cache.json",
    )
    for name in names:
        put(lab, name, b"{}")
    opened: list[Any] = []
    real = os.open

    def note(path: Any, *args: Any, **kwargs: Any) -> int:
        opened.append(path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", note)
    lab.sync()
    assert not [path for path in opened if os.fsdecode(path).endswith(names)]
    assert lab.rows("SELECT * FROM _side_files") == []


def test_files_beside_a_root_of_another_name_are_read_only_if_asked_for(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "claude")
    put(lab, "plans/a.md", b"# A")
    elsewhere = lab.root.rename(lab.folder / "transcripts")
    lab.config = lab.config._replace(roots=(str(elsewhere),))
    lab.sync()
    assert lab.rows("SELECT text FROM plans") == []
    lab.config = lab.config._replace(given_claude_dirs=(str(lab.folder),))
    lab.sync()
    assert lab.rows("SELECT text FROM plans") == [("# A",)]


def test_full_text_follows_todos_plans_and_history(lab: Lab) -> None:
    session = World().uuid()
    name = f"todos/{session}-agent-{session}.json"
    put(lab, name, [todo("findable todo")], at=1)
    put(lab, "plans/a.md", b"# findable plan")
    put(lab, "history.jsonl", typed("findable prompt", 1))
    lab.sync()
    for table in ("todos", "plans", "history"):
        found = f"SELECT count(*) FROM {table}_fts WHERE {table}_fts MATCH 'findable'"
        assert lab.rows(found) == [(1,)], table
    put(lab, "plans/a.md", b"# other")
    lab.sync()
    assert lab.rows("SELECT count(*) FROM plans_fts WHERE plans_fts MATCH 'findable'") == [(0,)]
    with closing(sqlite3.connect(lab.db)) as conn:
        for table in ("todos", "plans", "history"):
            conn.execute(
                f"INSERT INTO {table}_fts({table}_fts, rank) VALUES ('integrity-check', 1)"
            )


# -- the daemon, the command line ----------------------------------------------------------------


def test_the_daemon_reads_new_and_changed_files(lab: Lab) -> None:
    session = World().uuid()
    name = f"todos/{session}-agent-{session}.json"
    put(lab, name, [todo("x")], at=1)
    with inside(LiveWorld(lab.root, lab.db)) as daemon:
        until(lambda: todos(lab, "status") == [("pending",)])
        put(lab, name, [todo("x", "completed")], at=2)
        put(lab, "history.jsonl", typed("one", 1))
        world = World()
        file = session_with_output(lab, "b1.txt", world)
        put(lab, f"projects/{PROJECT}/{file.session}/tool-results/b1.txt", b"whole")
        write(lab, world)
        until(lambda: todos(lab, "status") == [("completed",)])
        until(lambda: lab.rows("SELECT result_text FROM tool_uses") == [("whole",)])
        os.mkfifo(lab.folder / "todos" / f"{session}-agent-fifo.json")
        daemon.rescan_asked = True
        daemon.wakeup.set()
        until(lambda: problems(lab))
        assert matched(lab) == [("one", None, None)]
    lab.must_verify()


def test_status_names_the_files_that_could_not_be_read(lab: Lab) -> None:
    put(lab, f"todos/{World().uuid()}-agent-a.json", b"[{")
    put(lab, "plans/a.md", b"# A")
    lab.sync()
    status = read_status(lab.config)
    assert (status.side_files, status.side_files_unreadable) == (1, 1)
    text = "\n".join(status.lines())
    assert "not JSON, or only a part of it" in text
    assert "-agent-a.json" in text
    assert "1 plans" in text


def test_claude_dir_says_where_the_files_are(lab: Lab, home: Path) -> None:
    put(lab, "other/plans/a.md", b"# A")
    put(lab, "plans/b.md", b"# B")
    words = ["--db", str(lab.db), "sync", "--root", str(lab.root)]
    command = [sys.executable, "-P", "-m", "ctxdb", *words]
    subprocess.run([*command, "--claude-dir", str(lab.folder / "other")], check=True)
    assert lab.rows("SELECT text FROM plans") == [("# A",)]
    settings = home / ".config/ctxdb/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'claude_dirs = ["{lab.folder}"]')
    config = load(lab.db, environ={"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")})
    assert config.claude_dirs == (str(lab.folder),)
