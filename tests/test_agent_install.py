"""`ctxdb agent install` gives Claude Code a skill, a server and a status line, and nothing else."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from ctxdb import __version__
from ctxdb.agent.install import MARK, PLUGIN, SERVER, SKILL, STATUS_LINE
from ctxdb.cli import main
from ctxdb.query import present
from demo_db import demo_folder
from thinning import thinned


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line in this process: starting Python would take most of the time."""
    monkeypatch.setattr(present, "limit_memory", lambda: None)  # it would stay for other tests

    def command(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["ctxdb", *words])
        try:
            main.main()
            code = 0
        except SystemExit as left:
            code = int(left.code or 0)
        return Done(code, *capsys.readouterr())

    return command


@pytest.fixture
def agent(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`ctxdb agent` in a folder."""

    def command(folder: Path, *words: str) -> Done:
        monkeypatch.chdir(folder)
        return run("agent", *words)

    return command


@pytest.fixture
def claude(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called claude that writes down how it was called."""
    program = home / "bin/claude"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {shlex.quote(str(home / "calls"))}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return home / "calls"


def test_it_installs_for_the_user_and_takes_all_of_it_away(
    home: Path, claude: Path, agent: Run
) -> None:
    done = agent(home, "install", "--statusline")
    assert (done.returncode, done.stderr) == (0, "")
    skill = home / ".claude/skills/ctxdb/SKILL.md"
    assert skill.read_text() == SKILL.read_text()
    settings = home / ".claude/settings.json"
    assert json.loads(settings.read_text())["statusLine"] == STATUS_LINE
    assert claude.read_text() == "mcp add --scope user ctxdb -- ctxdb mcp\n"
    assert agent(home, "uninstall").returncode == 0
    assert not skill.parent.exists()
    assert json.loads(settings.read_text()) == {}
    assert "mcp remove --scope user ctxdb" in claude.read_text()


def test_installing_twice_changes_nothing_more(home: Path, claude: Path, agent: Run) -> None:
    agent(home, "install", "--statusline")
    done = agent(home, "install", "--statusline")
    assert "is up to date" in done.stdout
    assert "has the status line already" in done.stdout


def test_it_installs_for_a_project(home: Path, tmp_path: Path, agent: Run) -> None:
    folder = tmp_path / "lantern"
    folder.mkdir()
    (folder / ".mcp.json").write_text('{"mcpServers": {"other": {"command": "x"}}, "b": 1}')
    assert agent(folder, "install", "--project").returncode == 0
    assert (folder / ".claude/skills/ctxdb/SKILL.md").exists()
    found = json.loads((folder / ".mcp.json").read_text())
    assert found == {"mcpServers": {"other": {"command": "x"}, "ctxdb": SERVER}, "b": 1}
    agent(folder, "uninstall", "--project")
    found = json.loads((folder / ".mcp.json").read_text())
    assert found == {"mcpServers": {"other": {"command": "x"}}, "b": 1}
    assert not (home / ".claude/skills").exists()


def test_what_others_wrote_is_left_as_it_is(home: Path, tmp_path: Path, agent: Run) -> None:
    skill = home / ".claude/skills/ctxdb/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("mine")
    settings = home / ".claude/settings.json"
    settings.write_text('{"statusLine": {"type": "command", "command": "mine"}}')
    done = agent(home, "install", "--statusline")
    assert skill.read_text() == "mine"
    assert "mine" in settings.read_text()
    assert done.stdout.count("left as it is") == 2
    agent(home, "uninstall")
    assert skill.read_text() == "mine"
    assert "mine" in settings.read_text()


@pytest.mark.parametrize("text", ["{not json", "[]", "\x00"])
def test_settings_that_cannot_be_read_are_one_line_and_stay(
    home: Path, text: str, agent: Run
) -> None:
    settings = home / ".claude/settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(text)
    done = agent(home, "install", "--statusline")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert settings.read_text() == text


def test_without_claude_it_says_what_to_type(
    home: Path, monkeypatch: pytest.MonkeyPatch, agent: Run
) -> None:
    monkeypatch.setenv("PATH", str(home))
    done = agent(home, "install")
    assert "type this where it is: claude mcp add --scope user ctxdb -- ctxdb mcp" in done.stdout


def test_print_changes_nothing(home: Path, agent: Run) -> None:
    done = agent(home, "install", "--print")
    assert MARK in done.stdout
    assert '"mcpServers"' in done.stdout
    assert not (home / ".claude").exists()


def test_the_skill_is_short_and_has_a_name_and_a_description() -> None:
    text = SKILL.read_text()
    assert text.startswith("---\nname: ctxdb\ndescription: ")
    assert text.count("\n") < 500
    assert MARK in text


def commands() -> list[str]:
    """Every command in the skill: examples, and those of the table."""
    text = SKILL.read_text()
    found = re.findall(r"^\$ (ctxdb .*)$", text, re.MULTILINE)
    for row in re.findall(r"^\| .* \| (`ctxdb .*`) \|$", text, re.MULTILINE):
        found += re.findall(r"`(ctxdb [^`]*)`", row)
    return found


@pytest.mark.parametrize("command", thinned(commands(), 3))
def test_every_example_in_the_skill_runs(command: str, run: Run) -> None:
    values = {"WORDS": "tide", "ID": "last", "PATH": "README.md"}
    words = [values.get(word, word) for word in shlex.split(command)]
    done = run("--db", str(demo_folder() / "demo.db"), *words[1:], "--no-sync")
    assert done.returncode == 0, done.stderr


def test_the_plugin_folder_has_the_same_content() -> None:
    plugin = json.loads((PLUGIN / ".claude-plugin/plugin.json").read_text())
    assert (plugin["name"], plugin["version"]) == ("ctxdb", __version__)
    assert json.loads((PLUGIN / ".mcp.json").read_text()) == {"mcpServers": {"ctxdb": SERVER}}
