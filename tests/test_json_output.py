"""What commands print with --json has the shape that docs/schemas says, errors included."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ctxdb.cli.main import wants_json
from demo_db import demo_folder
from in_process import run_here
from world import Done

SCHEMAS = Path(__file__).parents[1] / "docs/schemas"


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("json") / "demo.db"
    shutil.copy(demo_folder() / "demo.db", path)
    path.chmod(0o600)
    return path


def run(db: Path, *words: str) -> Done:
    return run_here("--db", db, *words)


def check(name: str, value: Any) -> None:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    errors = [error.message for error in Draft202012Validator(schema).iter_errors(value)]
    assert errors == []


COMMANDS: list[tuple[str, list[str]]] = [
    ("sync", ["sync", "--root", "ROOT"]),
    ("query", ["query", "sessions_overview", "--since", "all", "--no-sync"]),
    ("query", ["query", "SELECT 1 AS a, x'00' AS b, NULL AS c", "--no-sync"]),
    ("search", ["search", "the", "--no-sync"]),
    ("status", ["status"]),
    ("verify", ["verify", "--root", "ROOT"]),
    ("show", ["show", "last", "--no-sync", "--tools", "--agents", "--thinking"]),
    ("query", ["show", "last", "--brief", "--no-sync"]),
    ("rebuild", ["rebuild", "--check", "--root", "ROOT"]),
    ("path", ["path"]),
    ("path", ["paths", "sql"]),
    ("prices", ["prices", "list"]),
    ("config", ["config", "list"]),
    ("redact", ["redact", "--scan"]),
    ("redact", ["redact", "--apply"]),
    ("redact", ["redact", "--rules"]),
    ("agent", ["agent", "uninstall"]),
    ("forget", ["forget", "--session", "last", "--dry-run"]),
    ("forget", ["forget", "--list"]),
    ("forget", ["forget", "--session", "last", "--yes"]),
]


def once_per_schema() -> list[Any]:
    """The first command of each schema for `make test`; the others are slow."""
    found: list[Any] = []
    seen: set[str] = set()
    for schema, words in COMMANDS:
        marks = [pytest.mark.slow] if schema in seen else []
        found.append(pytest.param(schema, words, marks=marks))
        seen.add(schema)
    return found


@pytest.mark.parametrize(("schema", "words"), once_per_schema(), ids=lambda value: str(value)[:40])
def test_the_output_has_the_documented_shape(db: Path, schema: str, words: list[str]) -> None:
    root = str(demo_folder() / "projects")
    done = run(db, *(root if word == "ROOT" else word for word in words), "--json")
    assert done.returncode == 0, done.stderr
    check(schema, json.loads(done.stdout))


@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        (["query", "no_such_view", "--no-sync", "--json"], 2, "usage_error"),
        (["query", "no_such_view", "--no-sync", "--format", "json"], 2, "usage_error"),
        (["show", "zzzz", "--no-sync", "--json"], 2, "no_such_session"),
        (["query", "--nonsense", "--json"], 2, "usage_error"),
        (["prices", "remove", "nothing", "--json"], None, None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_errors_are_json_with_a_code(
    db: Path, words: list[str], exit_code: int | None, code: str | None
) -> None:
    done = run(db, *words)
    assert done.returncode != 0
    assert exit_code in (None, done.returncode)
    line = done.stderr.splitlines()[-1]
    check("error", json.loads(line))
    assert code in (None, json.loads(line)["error"]["code"])
    assert done.stdout == ""


def test_an_error_without_a_database_names_it(home: Path) -> None:
    done = run(home / "none.db", "query", "overview", "--json", "--no-sync")
    error = json.loads(done.stderr)["error"]
    assert error["code"] == "no_database"
    assert str(home / "none.db") in error["message"]


def test_doctor_has_the_documented_shape_whatever_it_finds(db: Path) -> None:
    done = run(db, "doctor", "--json")
    assert done.returncode in (0, 1), done.stderr
    check("doctor", json.loads(done.stdout))


def test_words_after_two_dashes_ask_for_nothing() -> None:
    assert wants_json(["search", "--json", "x"])
    assert wants_json(["query", "x", "-f", "json"])
    assert not wants_json(["search", "--", "--json"])
    assert not wants_json(["query", "x", "-f", "csv"])


def test_every_schema_is_used_by_a_test() -> None:
    used = {name for name, _ in COMMANDS} | {"error", "doctor"}
    used |= {"push", "merge"}  # test_push.py and test_merge.py check these
    assert {path.name.removesuffix(".schema.json") for path in SCHEMAS.iterdir()} == used
