"""Every example in every --help and in every file of sql/ does what it says, on the demo."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ctxdb.cli import COMMANDS, load, main
from ctxdb.query import present
from ctxdb.store import sql_files
from demo_db import demo_folder
from thinning import thinned

# They go on until they are stopped, or change the machine; their own tests run them.
APART = (
    *(
        "watch",
        "daemon",
        "serve",
        "demo",
        "archive",
        "restore",
        "rebuild",
        "forget",
        "redact",
        "push",
        "merge",
        "mcp",
    ),
)
# What has to be there before: the example that makes it.
AFTER = {
    "ctxdb backup --verify": "ctxdb backup /tmp",
    "ctxdb backup --restore": "ctxdb backup /tmp",
    "ctxdb doctor": "ctxdb archive add",
    "ctxdb prices remove kimi-k3": "ctxdb prices add kimi-k3",
    "ctxdb prices remove claude-opus-5": "ctxdb prices add claude-opus-5",
    "ctxdb prices import": "ctxdb prices export prices.csv",
}
_EXAMPLES = re.compile(r"\bExamples?:\n(.*)", re.DOTALL)


def from_help() -> list[str]:
    found = []
    for where in COMMANDS.values():
        text = _EXAMPLES.search(load(where).__doc__ or "")
        assert text, f"{where} has no example"
        whole = re.sub(r"\\\n\s*", "", text[1])  # a line that goes on in the next
        found += [line.strip() for line in whole.splitlines() if line.strip()]
    return found


def from_sql() -> list[str]:
    found = []
    for one in [*sql_files.all_views(), *sql_files.all_queries()]:
        assert one.example, f"{one.name} has no example"
        assert one.name in one.example
        found.append(one.example)
    return found


def words_of(example: str) -> list[str]:
    return shlex.split(example, comments=True)


def is_plain(example: str) -> bool:
    words = words_of(example)
    return words[0] == "ctxdb" and "$(" not in example and not {"|", ">", "&&"} & set(words)


def command_of(example: str) -> str:
    words = words_of(example)[1:]
    return words[2] if words[0] == "--db" else words[0]


EXAMPLES = [*dict.fromkeys([*from_help(), *from_sql()])]


def before(example: str) -> list[str]:
    return [
        next(one for one in EXAMPLES if one.startswith(made))
        for wanted, made in AFTER.items()
        if example.startswith(wanted)
    ]


@pytest.fixture
def place(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The demo as if it were one's own, and an empty folder to stand in."""
    (home / ".claude").mkdir()
    (home / ".claude/projects").symlink_to(demo_folder() / "projects")
    database = home / ".local/share/ctxdb/ctxdb.db"
    database.parent.mkdir(parents=True)
    shutil.copy(demo_folder() / "demo.db", database)
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(present, "limit_memory", lambda: None)  # it would stay for other tests
    return folder


def made_for(example: str, place: Path) -> str:
    """Other folders than one's own are below the test's."""
    if "ctxdb-demo" in example:
        (place / "ctxdb-demo").mkdir()
        shutil.copy(demo_folder() / "demo.db", place / "ctxdb-demo/demo.db")
    (place / "backup/laptop/projects").mkdir(parents=True, exist_ok=True)
    return re.sub(r"(?<![\w~.])/(tmp|backup)\b", f"{place}/\\1", example).replace(
        f"{place}/tmp", str(place)
    )


@pytest.mark.parametrize(
    "example", thinned([e for e in EXAMPLES if is_plain(e) and command_of(e) not in APART], 4)
)
def test_the_example_works(
    example: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for one in [*before(example), example]:
        words = words_of(made_for(one, place))
        monkeypatch.setattr(sys, "argv", [os.path.expanduser(word) for word in words])
        with pytest.raises(SystemExit) as left:
            main.main()
        told = capsys.readouterr()
        assert not left.value.code, told.err
        assert "Traceback" not in told.err


@pytest.mark.parametrize(
    "example",
    [e for e in EXAMPLES if not is_plain(e) and not e.startswith("ctxdb daemon")],
)
def test_the_example_works_in_a_shell(example: str, place: Path) -> None:
    shim = place.parent / "bin/ctxdb"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ctxdb "$@"\n')
    shim.chmod(0o755)
    path = f"{shim.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    program = words_of(example)[0]
    if shutil.which(program, path=path) is None:
        pytest.skip(f"{program} is not installed")
    out = subprocess.run(
        ["sh", "-e", "-c", made_for(example, place)],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 0, out.stderr


def test_only_what_has_tests_of_its_own_is_left_out() -> None:
    left_out = {command_of(e) for e in EXAMPLES if is_plain(e) and command_of(e) in APART}
    assert left_out <= set(APART)
