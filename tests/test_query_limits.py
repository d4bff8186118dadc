"""Fault case 90: an answer is limited in rows and in bytes, in every format."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ctxdb.output import ByteLimit
from demo_db import demo_folder
from thinning import thinned
from world import Done, run_ctxdb, run_python

FORMATS = ("table", "json", "jsonl", "csv", "md")
# 300 rows of a million characters each; a table cuts each of them.
LONG = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300)"
    " SELECT i, printf('%.1000000c', 'x') AS text FROM n"
)
SHORT = LONG.replace("1000000", "90")
RAISE_BYTES = "--max-bytes N shows up to N bytes, --max-bytes 0 shows all."


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "own/demo.db"
    path.parent.mkdir()
    shutil.copy(demo_folder() / "demo.db", path)
    monkeypatch.setenv("CTXDB_DB", str(path))
    return path


def query(*args: str) -> Done:
    result = run_ctxdb("query", "--no-sync", *args)
    assert result.returncode == 0, result.stderr
    return result


def query_into(out: Path, *args: str) -> str:
    """Run `ctxdb query` so that what it prints goes to that file; what it says."""
    command = [sys.executable, "-m", "ctxdb", "query", "--no-sync", *args]
    with out.open("wb") as file:
        result = subprocess.run(
            command, text=True, check=False, stdout=file, stderr=subprocess.PIPE
        )
    assert result.returncode == 0, result.stderr
    return result.stderr


def rows_in(text: str, format_: str) -> int:
    """How many rows a program reads from it; it must be valid."""
    if format_ == "json":
        return len(json.loads(text))
    if format_ == "jsonl":
        return len([json.loads(line) for line in text.splitlines()])
    if format_ == "csv":
        return len(list(csv.reader(io.StringIO(text)))) - 1
    return len(text.splitlines()) - 2


@pytest.mark.parametrize("format_", FORMATS)
def test_case_90_every_format_is_limited_in_bytes(db: Path, format_: str) -> None:
    whole = query(SHORT, "--format", format_)
    assert whole.stderr == ""
    assert rows_in(whole.stdout, format_) == 300
    part = query(SHORT, "--format", format_, "--max-bytes", "5000")
    assert 4000 < len(part.stdout.encode()) <= 5000
    assert 30 < rows_in(part.stdout, format_) < 60
    assert part.stderr == f"Truncated at 5.0 kB, there is more: {RAISE_BYTES}\n"
    assert whole.stdout.startswith(part.stdout[:-4])


FEWER_ROWS = """
import sys
from ctxdb.cli.main import main
from ctxdb.query import present
assert (present.PEOPLE_ROWS, present.PROGRAM_ROWS) == (1000, 1_000_000)
present.PEOPLE_ROWS, present.PROGRAM_ROWS = 100, 200
main()
"""


@pytest.mark.parametrize("format_", FORMATS)
def test_case_90_every_format_is_limited_in_rows(db: Path, format_: str) -> None:
    result = run_python(FEWER_ROWS, "query", "--no-sync", SHORT, "--format", format_)
    assert result.returncode == 0
    most = 100 if format_ in ("table", "md") else 200
    assert rows_in(result.stdout, format_) == most
    assert result.stderr == f"Truncated at {most} rows, there are more: --limit N shows up to N.\n"


def test_case_90_the_first_thousand_rows_of_a_table_are_shown(db: Path) -> None:
    result = query(SHORT.replace("LIMIT 300", "LIMIT 1001"))
    assert rows_in(result.stdout, "table") == 1000
    assert result.stderr == "Truncated at 1,000 rows, there are more: --limit N shows up to N.\n"


def test_case_90_a_limit_of_bytes_that_is_not_reached_says_nothing(db: Path) -> None:
    for size in ("100000", "0"):
        assert query(SHORT, "--format", "csv", "--max-bytes", size).stderr == ""


@pytest.mark.parametrize(
    ("format_", "most"), thinned([("md", 10_000_000), ("jsonl", 100_000_000)], 2)
)
def test_case_90_unless_it_is_asked_for_no_answer_fills_the_disk(
    db: Path, tmp_path: Path, format_: str, most: int
) -> None:
    out = tmp_path / "out"
    said = query_into(out, LONG, "--format", format_)
    assert most * 0.9 < out.stat().st_size <= most
    assert said == f"Truncated at {most // 10**6} MB, there is more: {RAISE_BYTES}\n"


# test_case_90_a_limit_of_bytes_that_is_not_reached_says_nothing has 0 with a short answer.
@pytest.mark.slow
def test_case_90_with_max_bytes_0_all_of_it_is_written(db: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    long = LONG.replace("LIMIT 300", "LIMIT 101")
    assert query_into(out, long, "--format", "csv", "--max-bytes", "0") == ""
    assert out.stat().st_size > 101_000_000


def test_case_90_a_row_that_is_too_large_is_left_out_whole(db: Path) -> None:
    result = query(LONG, "--format", "json", "--max-bytes", "1000")
    assert json.loads(result.stdout) == []
    assert result.stderr == f"Truncated at 1.0 kB, there is more: {RAISE_BYTES}\n"


def test_rows_that_were_asked_for_are_not_said_to_be_truncated(db: Path) -> None:
    result = query(SHORT, "--limit", "7")
    assert rows_in(result.stdout, "table") == 7
    assert result.stderr == ""


def test_bytes_are_counted_not_characters() -> None:
    limit = ByteLimit(7)
    assert list(limit.within(["äö", "abc", "d"])) == ["äö", "abc"]
    assert limit.is_reached
    assert list(ByteLimit().within(["\ud800", "x"])) == ["\ud800", "x"]
