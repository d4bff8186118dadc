"""Completion in real shells: names, sessions by title, and titles that try to run something."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from ctxdb.query.complete import harmless
from ctxdb.store import sql_files
from hostile import HOSTILE
from thinning import thinned
from world import run_python

if TYPE_CHECKING:
    from pathlib import Path

    from world import World

SCRIPT = "import sys; sys.argv[0] = 'ctxdb'; from ctxdb.cli.main import main; main()"
EVIL = [
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    '"; touch pwned; "',
    '")) "$(touch pwned)',
    "a:b:$(touch pwned)",
    "${(e):-$(touch pwned)}",
    "=(touch pwned)",
    "\n touch pwned \n",
    "(e):touch pwned",
    *HOSTILE.values(),
]


@pytest.fixture
def titled(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A session with each of the titles, and a project with each of the names."""
    with closing(sqlite3.connect(world.db)) as db:
        for n, title in enumerate(EVIL):
            text = title.encode("utf-8", "replace").decode()
            db.execute(
                "INSERT INTO projects (id, path, name, repo_path, path_source)"
                " VALUES (?, ?, ?, '/', 'cwd')",
                (n, f"/{text}{n}", text),
            )
            db.execute(
                "INSERT INTO sessions (id, project_id, title, ended_at) VALUES (?, ?, ?, '2026')",
                (f"{n:08x}-0000-4000-8000-000000000000", n, text),
            )
        db.execute(
            "INSERT INTO sessions (id, title, ended_at)"
            " VALUES ('abcd0000-0000-4000-8000-000000000000', 'Tide tables: a fix', '2026')"
        )
        db.execute("INSERT INTO sessions (id, title) VALUES ('$(touch pwned)', 'x')")
        db.commit()
    monkeypatch.setenv("CTXDB_DB", str(world.db))
    return world


def complete(shell: str, *words: str) -> str:
    environ = os.environ | {
        "_CTXDB_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": " ".join(words),
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    out = run_python(SCRIPT, env=environ)
    assert out.stderr == ""
    return out.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_names_of_views_and_queries_are_completed(shell: str) -> None:
    out = complete(shell, "ctxdb", "query", "ingest_")
    assert "ingest_health" in out
    assert "entry_counts" not in out


def test_every_view_and_query_is_offered() -> None:
    out = complete("bash", "ctxdb", "query", "").split()
    assert out == [*sql_files.names("view"), *sql_files.names("query")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_sessions_are_completed_by_prefix_with_their_titles(shell: str, titled: World) -> None:
    out = complete(shell, "ctxdb", "query", "--session", "ab")
    assert "abcd0000" in out
    assert "00000001" not in out
    if shell != "bash":
        assert "Tide tables a fix" in out


def test_without_a_database_nothing_is_offered_and_nothing_said() -> None:
    assert complete("bash", "ctxdb", "query", "--session", "").split() == []


@pytest.mark.parametrize("text", EVIL, ids=repr)
def test_of_a_title_only_harmless_signs_are_left(text: str) -> None:
    assert not set(harmless(text)) & set("$`'\"\\;:(){}[]<>|&!*?~#^=%\n\t\x1b\x9b\u202e")


ZSH = """
compdef() { :; }
_arguments() { print -r -- "$@"; }
source ./completion
for option in --session --project; do
  words=(ctxdb query $option "")
  CURRENT=4
  _ctxdb_completion
done
"""
BASH = """
source ./completion
for option in --session --project; do
  COMP_WORDS=(ctxdb query $option "")
  COMP_CWORD=3
  _ctxdb_completion ctxdb
  printf '%s\\n' "${COMPREPLY[@]}"
done
"""
FISH = """
source ./completion
complete -C"ctxdb query --session "
complete -C"ctxdb query --project "
"""


@pytest.mark.parametrize(("shell", "program"), [("zsh", ZSH), ("bash", BASH), ("fish", FISH)])
def test_a_shell_that_completes_runs_nothing_of_a_title(
    shell: str, program: str, titled: World, tmp_path: Path
) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    folder = tmp_path / "empty"
    folder.mkdir()
    shim = tmp_path / "bin/ctxdb"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{SCRIPT}" "$@"\n')
    shim.chmod(0o755)
    environ = os.environ | {"PATH": f"{shim.parent}:{os.environ['PATH']}"}
    source = subprocess.run(
        [shim],
        env=environ | {"_CTXDB_COMPLETE": f"source_{shell}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (folder / "completion").write_text(source)
    quiet = {"zsh": ["-f"], "bash": ["--norc", "--noprofile"], "fish": ["--no-config"]}[shell]
    out = subprocess.run(
        [found, *quiet, "-c", program],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "abcd0000" in out.stdout, out
    assert "touch pwned" in out.stdout or shell == "bash", out  # the words, and no more
    assert [path.name for path in folder.iterdir()] == ["completion"]


@pytest.mark.parametrize("shell", thinned(["bash", "zsh", "fish"], 3))
@pytest.mark.parametrize(
    ("words", "offered", "not_offered"),
    [
        (["daily_usage", "--sort", "cost"], "cost_usd", "model"),
        (["daily_usage", "--columns", "day,mo"], "day,model", "requests"),
        (["failing_commands", "-p", "pro"], "program", "since"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_columns_and_parameters_of_the_named_view_are_completed(
    shell: str, words: list[str], offered: str, not_offered: str
) -> None:
    out = complete(shell, "ctxdb", "query", *words)
    assert offered in out
    assert not_offered not in out
