"""Every code block of README.md and docs/ works, or says why it is not run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ctxdb.cli import main
from ctxdb.query import present
from demo_db import demo_folder
from doc_blocks import PAGES, SHELL, Block, blocks_of

BLOCKS = [block for page in PAGES for block in blocks_of(page)]
RUN = [block for block in BLOCKS if not block.is_generated and not block.not_run]
PARSED = {"toml": tomllib.loads, "json": json.loads}
RUNNABLE = (*SHELL, "python", "sql", *PARSED)
DIRECTIVE = re.compile(r"\{\w+\}")  # of the site's generator: {toctree}
OTHER_FOLDERS = re.compile(r"(?<![\w~./])/(tmp|mnt|media)/")


def test_every_block_is_run_or_says_why_not() -> None:
    unclear = [
        block.where
        for block in RUN
        if not (block.is_fenced and block.language in RUNNABLE)
        and not DIRECTIVE.fullmatch(block.language)
    ]
    assert unclear == [], "give it a language that can be run, or <!-- not run: the reason -->"


def test_a_console_block_has_a_command() -> None:
    empty = [block.where for block in BLOCKS if block.language in SHELL and not block.commands]
    assert empty == []


@pytest.mark.parametrize(
    "block", [block for block in RUN if block.language in PARSED], ids=lambda block: block.where
)
def test_a_block_of_settings_can_be_read(block: Block) -> None:
    assert PARSED[block.language](block.text)


def test_every_block_of_sql_finds_something_in_the_demo() -> None:
    db = sqlite3.connect(f"file:{demo_folder()}/demo.db?mode=ro", uri=True)
    try:
        nothing = [
            block.where
            for block in RUN
            if block.language == "sql" and not db.execute(block.text).fetchall()
        ]
    finally:
        db.close()
    assert nothing == []


@pytest.fixture
def own(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The demo as if it were one's own, with an archive, and an empty folder to stand in."""
    shutil.copytree(demo_folder() / "projects", home / ".claude/projects")
    database = home / ".local/share/ctxdb/ctxdb.db"
    database.parent.mkdir(parents=True, mode=0o700)
    shutil.copy(demo_folder() / "demo.db", database)
    folder = tmp_path / "here"
    (folder / "tmp").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(present, "limit_memory", lambda: None)  # it would stay for other tests
    shim = tmp_path / "bin/ctxdb"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ctxdb "$@"\n')
    shim.chmod(0o755)
    programs = f"{shim.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", programs)
    assert run_here(["ctxdb", "archive", "add"], monkeypatch) == 0
    return folder


def run_here(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run ctxdb in this process: starting Python for each command would take most of the time."""
    monkeypatch.setattr(sys, "argv", [os.path.expanduser(word) for word in words])
    try:
        main.main()
    except SystemExit as left:
        return int(left.code or 0)
    return 0


def with_commands() -> list[Any]:
    """README.md and a page on other programs; commands of other pages have tests of their own."""
    pages = sorted({block.page for block in RUN if block.language in SHELL})
    default = ("README.md", "tools.md")
    return [one if one in default else pytest.param(one, marks=pytest.mark.slow) for one in pages]


@pytest.mark.parametrize("page", with_commands())
def test_the_commands_of_the_page_work(
    page: str, own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for block in RUN:
        if block.page != page or block.language not in SHELL:
            continue
        for command in block.commands:
            here = OTHER_FOLDERS.sub(rf"{own}/\1/", command)
            words = shlex.split(here, comments=True)
            if words[0] == "ctxdb" and not re.search(r"[|>;&]|\$\(", here):
                status = run_here(words, monkeypatch)
                told = capsys.readouterr().err
            else:
                done = subprocess.run(
                    ["sh", "-e", "-c", here],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                status, told = done.returncode, done.stderr
            assert status == 0, f"{block.where}: {command}\n{told}"
            assert "Traceback" not in told, f"{block.where}: {command}"


@pytest.mark.parametrize(
    "block", [block for block in RUN if block.language == "python"], ids=lambda block: block.where
)
def test_a_block_of_python_works(block: Block, own: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block.text], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
