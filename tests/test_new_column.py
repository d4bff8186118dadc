"""A new column is three lines: in the schema, in rows.py, and where the line is read.

No other edit is needed: what test_experiments.py tells of the first build cannot happen again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from column_paths import PATHS

CHECKOUT = Path(__file__).resolve().parents[1]


def insert_after(path: Path, pattern: str, added: str) -> None:
    """Add a line after the only one that matches."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    (at,) = [n for n, line in enumerate(lines) if re.search(pattern, line)]
    path.write_text("".join([*lines[: at + 1], f"{added}\n", *lines[at + 1 :]]), encoding="utf-8")


def insert_into_class(path: Path, name: str, pattern: str, added: str) -> None:
    """Add a line after the first match in a class."""
    before, begin, after = path.read_text(encoding="utf-8").partition(f"class {name}(")
    found = re.search(rf"(?m)^.*(?:{pattern}).*\n", after)
    assert found is not None
    after = f"{after[: found.end()]}{added}\n{after[found.end() :]}"
    path.write_text(before + begin + after, encoding="utf-8")


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of ctxdb whose tool_uses has one more column."""
    copy = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("*.pyc.*")  # with what was compiled, but for what is halfway
    for name in ("src", "migrations", "sql"):
        shutil.copytree(CHECKOUT / name, copy / name, ignore=ignored)
    shutil.copy(CHECKOUT / "pyproject.toml", copy)
    (schema,) = [
        path
        for path in (copy / "migrations").glob("[0-9]*.sql")
        if "CREATE TABLE tool_uses (" in path.read_text(encoding="utf-8")
    ]
    insert_after(
        schema,
        r"^  result_message_id INTEGER .*message that holds the result",
        "  is_background INTEGER, -- 1 when it went on in the background",
    )
    insert_into_class(
        copy / "src/ctxdb/rows.py",
        "ToolUse",
        r"^    result_message_id: ",
        "    is_background: int | None = column(said_by=RESULT)",
    )
    insert_after(
        copy / "src/ctxdb/claude/tools.py",
        r"^        is_error=1 if is_error else 0,",
        '        is_background=1 if fields.get("backgroundTaskId") else 0,',
    )
    return copy


def test_a_new_column_needs_no_edit_on_the_way(changed: Path) -> None:
    tests = CHECKOUT / "tests"
    env = {**os.environ, "PYTHONPATH": f"{changed / 'src'}{os.pathsep}{tests}"}
    command = [sys.executable, "-W", "error", str(tests / "column_paths.py"), *PATHS]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
