"""Commits are known by the line that git prints for them, and by what tools report."""

from __future__ import annotations

import json
import re
import tarfile
from typing import Any

import pytest

from builder import Transcript, World, tool_use
from lab import told_by
from real_corpus import CORPUS, HAS_CORPUS

COMMITS = (
    "SELECT sha, branch, subject, source FROM git_operations WHERE kind = 'commit' ORDER BY id"
)
PRINTED = "[main abc1234] Add a wheel\n 1 file changed, 2 insertions(+)"


def begun() -> tuple[World, Transcript]:
    world = World()
    main = world.session(version="2.1.250")
    main.prompt("go on")
    return world, main


def commits(world: World) -> list[tuple[Any, ...]]:
    return told_by(world.contents(), COMMITS)


PRINTERS = [
    "git commit -m x",
    "git cherry-pick dev~2",
    "git revert HEAD",
    "git merge --continue",
    "git rebase --continue",
    "GIT_EDITOR=true git rebase --continue",
    "./release.sh",
    "make release",
    "cat notes.txt; ./release.sh",
    "cat todo | sh",
    "echo $(./release.sh)",
]
READERS = [
    "git log -3",
    "cd /p && git -C x --no-pager log",
    "cat session.md",
    "grep -rh main docs | head -5",
    "git show HEAD; git status",
]
LOOK_ALIKES = [
    " [main abc1234] x",
    "file.md:[main abc1234] x",
    "[main abc123] x",
    "[main ABC1234] x",
    "[a b abc1234] x",
    "[main abc1234]x",
    "[2026-01-01 1234567 ] x",
]
Printed = dict[tuple[str, str], list[list[Any]]]


@pytest.fixture(scope="module")
def printed() -> Printed:
    """The commits that are known of what each command printed, each in a session of its own."""
    cases = [(command, PRINTED) for command in PRINTERS + READERS]
    cases += [("make", said) for said in LOOK_ALIKES]
    world = World()
    sessions = {}
    for command, said in cases:
        main = world.session(version="2.1.250")
        main.tool("Bash", {"command": command}, said)
        sessions[main.session] = (command, said)
    found = told_by(world.contents(), COMMITS.replace("SELECT ", "SELECT session_id, "))
    return {
        case: [row for of, *row in found if of == session] for session, case in sessions.items()
    }


@pytest.mark.parametrize("command", PRINTERS)
def test_the_line_that_git_prints_is_a_commit_whatever_printed_it(
    printed: Printed, command: str
) -> None:
    assert printed[command, PRINTED] == [["abc1234", "main", "Add a wheel", "text"]]


@pytest.mark.parametrize("command", READERS)
def test_a_command_that_only_reads_quotes_such_a_line(printed: Printed, command: str) -> None:
    assert printed[command, PRINTED] == []


def test_other_tools_quote_such_a_line() -> None:
    world, main = begun()
    main.tool("Read", {"file_path": "/p/log"}, PRINTED)
    main.tool("TaskOutput", {"task_id": "b1"}, PRINTED)
    main.tool("PowerShell", {"command": "git commit -m x"}, PRINTED.replace("\n", "\r\n"))
    assert commits(world) == [("abc1234", "main", "Add a wheel", "text")]


def test_a_commit_counts_however_the_command_ended() -> None:
    world, main = begun()
    call = tool_use(world, "Bash", {"command": "./x.sh"})
    main.reply(call)
    main.result(call["id"], f"Exit code 1\n{PRINTED}\nCONFLICT (content)", is_error=True)
    assert commits(world) == [("abc1234", "main", "Add a wheel", "text")]


def test_the_first_commit_of_a_repository_is_on_its_branch() -> None:
    world, main = begun()
    main.tool("Bash", {"command": "git commit"}, "[main (root-commit) abc1234] Begin")
    assert commits(world) == [("abc1234", "main", "Begin", "text")]


def test_a_commit_on_no_branch_has_none() -> None:
    world, main = begun()
    main.tool("Bash", {"command": "git commit"}, "[detached HEAD abc1234] x\n Date: now")
    assert commits(world) == [("abc1234", None, "x", "text")]


def test_one_result_can_tell_of_several_commits_and_of_each_once() -> None:
    world, main = begun()
    said = "[main abc1234] one\n 1 file changed\n[dev def5678] two\n[main abc1234] one\n"
    main.tool("Bash", {"command": "make"}, said)
    assert commits(world) == [("abc1234", "main", "one", "text"), ("def5678", "dev", "two", "text")]


@pytest.mark.parametrize("said", LOOK_ALIKES)
def test_lines_that_only_look_alike_are_no_commits(printed: Printed, said: str) -> None:
    assert printed["make", said] == []


def test_a_commit_that_is_reported_and_printed_is_one_row_with_what_both_say() -> None:
    world, main = begun()
    done = {"commit": {"sha": "abc1234", "kind": "committed"}}
    said = f"{PRINTED}\n[dev def5678] Other"
    main.tool("Bash", {"command": "git commit"}, said, {"stdout": said, "gitOperation": done})
    assert commits(world) == [
        ("abc1234", "main", "Add a wheel", "result"),
        ("def5678", "dev", "Other", "text"),
    ]


def test_a_longer_hash_of_a_reported_commit_is_the_same_commit() -> None:
    world, main = begun()
    done = {"commit": {"sha": "abc1234def", "branch": "main"}}
    main.tool("Bash", {"command": "git commit"}, PRINTED, {"gitOperation": done})
    assert commits(world) == [("abc1234def", "main", "Add a wheel", "result")]


def test_a_report_says_all_there_is_of_pushes() -> None:
    world, main = begun()
    said = "To host:a/b\n   abc1234..def5678  main -> main\n"
    main.tool("Bash", {"command": "git push"}, said, {"gitOperation": {"push": {"branch": "main"}}})
    main.tool("Bash", {"command": "git push"}, said)
    main.tool("Bash", {"command": "./x.sh"}, said)
    found = told_by(world.contents(), "SELECT kind, branch, source FROM git_operations ORDER BY id")
    assert found == [("push", "main", "result"), ("push", "main", "text")]


def test_the_view_and_the_query_show_the_subject() -> None:
    world, main = begun()
    main.tool("Bash", {"command": "make"}, PRINTED)
    assert told_by(world.contents(), "SELECT sha, subject, prompt FROM commits") == [
        ("abc1234", "Add a wheel", "go on")
    ]


@pytest.mark.corpus
@HAS_CORPUS
def test_real_commits_have_a_branch_and_the_subject_that_git_printed() -> None:
    """Every line of this form in the real shell results is one that git printed for a commit."""
    lines: list[bytes] = []
    with tarfile.open(CORPUS) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".jsonl") else None
            data = file.read() if file else b""
            if b"gitOperation" in data or re.search(rb"\[[\w/.-]+ [0-9a-f]{7,40}\] ", data):
                lines += data.splitlines(keepends=True)
                break
    assert lines
    entry = next(json.loads(line) for line in lines if b'"sessionId"' in line)
    found = told_by({f"-p/{entry['sessionId']}.jsonl": b"".join(lines)}, COMMITS)
    assert found
    assert all(sha and subject and source == "text" for sha, _, subject, source in found)
