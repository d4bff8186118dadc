from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from ctxdb.demo import DEMO_TODAY, write_demo

Line = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    write_demo(folder)
    return folder


@pytest.fixture(scope="module")
def files(folder: Path) -> dict[Path, list[Line]]:
    return {
        path.relative_to(folder): [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(folder.rglob("*.jsonl"))
    }


@pytest.fixture(scope="module")
def lines(files: dict[Path, list[Line]]) -> list[Line]:
    return [line for lines in files.values() for line in lines]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def blocks(line: Line, kind: str) -> list[Line]:
    content = line.get("message", {}).get("content")
    return [b for b in content if b["type"] == kind] if isinstance(content, list) else []


def test_the_count_returned_is_the_count_on_disk(tmp_path: Path, lines: list[Line]) -> None:
    assert write_demo(tmp_path / "again") == len(lines)
    assert 300 <= len(lines) <= 600


def test_another_process_writes_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    code = "import sys, pathlib, ctxdb.demo; ctxdb.demo.write_demo(pathlib.Path(sys.argv[1]))"
    subprocess.run(
        [sys.executable, "-c", code, tmp_path / "other"],
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "4242", "TZ": "Asia/Tokyo"},
    )
    assert contents(tmp_path / "other") == contents(folder)


def test_writing_it_again_touches_no_file(tmp_path: Path) -> None:
    write_demo(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    write_demo(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_another_seed_changes_ids_but_not_what_was_said(folder: Path, tmp_path: Path) -> None:
    write_demo(tmp_path, seed=8)
    assert not contents(tmp_path).keys() & contents(folder).keys()

    def prompts(where: Path) -> Counter[str]:
        return Counter(
            text
            for path in where.rglob("*.jsonl")
            for line in path.read_text().splitlines()
            for text in re.findall(r'"role":"user","content":"([^"]+)"', line)
        )

    assert prompts(tmp_path) == prompts(folder)


def test_the_days_count_back_from_the_date_given(tmp_path: Path, lines: list[Line]) -> None:
    write_demo(tmp_path, today=DEMO_TODAY + timedelta(days=100))
    days = sorted(line["timestamp"][:10] for line in lines if "timestamp" in line)
    assert days[-1] == str(DEMO_TODAY - timedelta(days=1))
    later = re.findall(
        r'"timestamp":"(\S{10})T',
        "".join(path.read_text() for path in tmp_path.rglob("*.jsonl")),
    )
    assert date.fromisoformat(max(later)) == DEMO_TODAY + timedelta(days=99)


def test_there_are_a_dozen_sessions_in_four_projects_over_several_weeks(
    files: dict[Path, list[Line]],
) -> None:
    sessions = [path for path in files if re.fullmatch(r"[0-9a-f-]{36}", path.stem)]
    assert len(sessions) >= 12
    assert len({path.parts[0].split("--claude-worktrees")[0] for path in sessions}) == 4
    weeks = {
        date.fromisoformat(line["timestamp"][:10]).isocalendar()[:2]
        for lines in files.values()
        for line in lines
        if "timestamp" in line
    }
    assert len(weeks) >= 8


def test_every_line_is_shaped_as_claude_code_shapes_it(lines: list[Line]) -> None:
    for line in lines:
        assert isinstance(line["type"], str)
        if "uuid" in line:
            assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", line["uuid"])
            assert line.keys() >= {"parentUuid", "isSidechain", "sessionId", "cwd", "version"}
        if "timestamp" in line:
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["timestamp"])


def test_uuids_repeat_only_in_copied_sessions(files: dict[Path, list[Line]]) -> None:
    for lines in files.values():
        uuids = [line["uuid"] for line in lines if "uuid" in line]
        assert len(uuids) == len(set(uuids))
    everywhere = Counter(
        line["uuid"] for lines in files.values() for line in lines if "uuid" in line
    )
    assert sum(n > 1 for n in everywhere.values()) > 30
    assert max(everywhere.values()) == 2


def test_parents_are_in_the_same_file_or_a_copied_one(lines: list[Line]) -> None:
    known = {line["uuid"] for line in lines if "uuid" in line}
    parents = {line["parentUuid"] for line in lines if line.get("parentUuid")}
    assert parents <= known


def test_every_result_has_its_call_and_one_call_still_waits(lines: list[Line]) -> None:
    calls = {block["id"] for line in lines for block in blocks(line, "tool_use")}
    results = {block["tool_use_id"] for line in lines for block in blocks(line, "tool_result")}
    assert results < calls
    assert len(calls - results) == 1


def test_files_are_in_the_folder_of_their_working_directory(
    files: dict[Path, list[Line]],
) -> None:
    for path, lines in files.items():
        for line in lines:
            if "cwd" in line:
                assert path.parts[0] == re.sub("[^a-zA-Z0-9]", "-", line["cwd"])


def test_agent_files_have_metadata_where_their_version_writes_it(folder: Path) -> None:
    metas = list(folder.rglob("*.meta.json"))
    assert len(metas) == 2
    depths = [json.loads(meta.read_text())["spawnDepth"] for meta in metas]
    assert sorted(depths) == [1, 2]
    for meta in metas:
        agent = meta.with_name(meta.name.replace(".meta.json", ".jsonl"))
        for line in agent.read_text().splitlines():
            assert json.loads(line)["agentId"] in agent.name


@pytest.mark.parametrize(
    "sign",
    [
        pytest.param('"version":"1.0.', id="1.0"),
        pytest.param('"version":"2.0.', id="2.0"),
        pytest.param('"version":"2.1.34"', id="2.1"),
        pytest.param('"version":"2.1.280"', id="2.1.2xx"),
        *(
            pytest.param(f'"model":"{model}"', id=model)
            for model in (
                "claude-opus-5",
                "claude-sonnet-5",
                "claude-haiku-4-5-20251001",
                "claude-sonnet-4-20250514",
                "<synthetic>",
            )
        ),
        *(
            pytest.param(f'"name":"{tool}', id=tool)
            for tool in ("Bash", "Read", "Edit", "Write", "Grep", "Agent", "Task", "mcp__")
        ),
        *(
            pytest.param(f'"type":"{kind}"', id=kind)
            for kind in (
                "thinking",
                "queue-operation",
                "summary",
                "ai-title",
                "custom-title",
                "file-history-snapshot",
                "pr-link",
                "hook_success",
                "queued_command",
                "file",
                "agent_progress",
            )
        ),
        pytest.param('"subtype":"compact_boundary"', id="compaction"),
        pytest.param('"content":"Exit code 1\\n', id="failed command"),
        pytest.param('"structuredPatch":[{', id="patch"),
        pytest.param('"isApiErrorMessage":true', id="API error"),
        pytest.param("[Request interrupted by user]", id="interruption"),
        pytest.param('"toolDenialKind":"user-rejected"', id="rejected tool"),
        pytest.param('"gitOperation":{"commit"', id="commit"),
        pytest.param('"forkedFrom"', id="fork"),
    ],
)
def test_the_demo_has_one(folder: Path, sign: str) -> None:
    assert any(sign in path.read_text() for path in folder.rglob("*.jsonl"))


def test_patches_fit_the_strings_they_came_from(lines: list[Line]) -> None:
    patched = [
        line["toolUseResult"]
        for line in lines
        if isinstance(line.get("toolUseResult"), dict) and "oldString" in line["toolUseResult"]
    ]
    assert len(patched) > 10
    for result in patched:
        added = removed = 0
        for hunk in result["structuredPatch"]:
            marks = Counter(text[0] for text in hunk["lines"])
            assert hunk["oldLines"] == marks[" "] + marks["-"]
            assert hunk["newLines"] == marks[" "] + marks["+"]
            added, removed = added + marks["+"], removed + marks["-"]
        grown = result["newString"].count("\n") - result["oldString"].count("\n")
        assert added - removed == grown
