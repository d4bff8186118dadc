"""A path that cannot be the database is refused, and nothing is left beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from thinning import thinned
from world import RUN, Done, run_python

if TYPE_CHECKING:
    from collections.abc import Callable

READ_COMMANDS = [
    ["status"],
    ["query", "sessions"],
    ["search", "word"],
    ["show"],
    ["export", "last"],
    ["verify"],
    ["prices", "list"],
    ["prices", "missing"],
    ["prices", "export"],
    ["daemon", "status"],
    ["daemon", "stop"],
    ["daemon", "logs"],
]
WRITE_COMMANDS = [
    ["sync"],
    ["watch"],
    ["daemon", "start"],
    ["prices", "add", "m", "--input", "1", "--output", "2"],
    ["prices", "remove", "m"],
    ["prices", "reset", "m"],
]


def paths_below(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def run_in(folder: Path, db: str | Path, command: list[str]) -> Done:
    code = f"import os\nos.chdir({str(folder)!r})\n{RUN}"
    return run_python(code, "--db", db, *command)


def assert_one_line(done: Done, code: int, words: str = "") -> None:
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


@pytest.mark.parametrize("command", READ_COMMANDS + WRITE_COMMANDS, ids=" ".join)
@pytest.mark.parametrize("name", thinned([".", "inner", ".."], 3))
def test_case_93_a_folder_named_as_the_database_leaves_nothing_behind(
    tmp_path: Path, name: str, command: list[str]
) -> None:
    folder = tmp_path / "parent" / "folder"
    (folder / "inner").mkdir(parents=True)
    before = paths_below(tmp_path)
    done = run_in(folder, name, command)
    assert_one_line(done, 2, "a folder cannot be the database; name a file")
    assert paths_below(tmp_path) == before


@pytest.mark.parametrize("command", READ_COMMANDS, ids=" ".join)
@pytest.mark.parametrize("db", ["no/such/ctxdb.db", "file/ctxdb.db"])
def test_case_93_reading_makes_nothing_where_there_is_no_database(
    tmp_path: Path, db: str, command: list[str]
) -> None:
    (tmp_path / "file").touch()
    before = paths_below(tmp_path)
    done = run_in(tmp_path, db, command)
    assert "Traceback" not in done.stderr
    assert paths_below(tmp_path) == before


@pytest.mark.parametrize("command", WRITE_COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(os.mkfifo, id="pipe"),
        pytest.param(lambda path: os.symlink("elsewhere.db", path), id="link"),
    ],
)
def test_case_93_what_cannot_be_a_database_gets_no_files_beside_it(
    tmp_path: Path, command: list[str], make: Callable[[Path], None]
) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    db = folder / "x.db"
    make(db)
    assert_one_line(run_in(folder, db, command), 1)
    assert paths_below(folder) == {db}
