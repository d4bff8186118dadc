"""The recipes of CONTRIBUTING.md work as they are written, in a copy of the code."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from textwrap import dedent

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
RECIPES = (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md")

LINE = (
    b'{"type":"user","uuid":"00000000-0000-4000-8000-000000000001","userType":"external",'
    b'"timestamp":"2026-08-24T10:00:00.000Z","version":"2.1.280","gitBranch":"main","cwd":"/p",'
    b'"sessionId":"5e551000-0000-4000-8000-00000000000a","message":{"role":"user","content":"hi"}}\n'
)
MOOD = (
    b'{"type":"mood","mood":"calm","timestamp":"2026-08-24T10:00:01.000Z",'
    b'"sessionId":"5e551000-0000-4000-8000-00000000000a"}\n'
)
HEARTBEAT = b'{"type":"heartbeat","sessionId":"5e551000-0000-4000-8000-00000000000a"}\n'
SESSION_FILE = "-p/5e551000-0000-4000-8000-00000000000a.jsonl"


def code_of(recipe: str) -> list[str]:
    """The code blocks of one recipe."""
    _, _, section = RECIPES.partition(f"\n## {recipe}\n")
    section, _, _ = section.partition("\n## ")
    return [dedent(block) for block in re.findall(r"   ```\w+\n(.*?)   ```", section, re.DOTALL)]


def insert(path: Path, before: str, added: str) -> None:
    """Add a line before the first match of a pattern, with its indentation."""
    text = path.read_text(encoding="utf-8")
    found = re.search(before, text, re.DOTALL)
    assert found is not None
    at = found.start("here")
    path.write_text(f"{text[:at]}    {added}{text[at:]}", encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code after all recipes, and a database that was made before the last of them."""
    copy = tmp_path_factory.mktemp("recipes")
    ignored = shutil.ignore_patterns("*.pyc.*")  # with what was compiled, but for what is halfway
    for name in ("src", "migrations", "sql"):
        shutil.copytree(CHECKOUT / name, copy / name, ignore=ignored)
    shutil.copy(CHECKOUT / "pyproject.toml", copy)
    step, field, reading = code_of("Add a column")
    (copy / "migrations/9000_user_type.sql").write_text(step, encoding="utf-8")
    place = r"class Message\(Row\).*?(?P<here>^)    \w+: [^\n]* = working\("
    insert(copy / "src/ctxdb/rows.py", f"(?m){place}", field)
    place = r"def _threaded\(.*?(?P<here>^)    _READERS\["
    insert(copy / "src/ctxdb/claude/entries.py", f"(?m){place}", reading)
    (view,) = code_of("Add a view")
    (copy / "sql/claude_versions.sql").write_text(view, encoding="utf-8")
    (query,) = code_of("Add a query")
    (copy / "sql/queries/sessions_on_branch.sql").write_text(query, encoding="utf-8")
    add_entry_types(copy / "src/ctxdb/claude")
    transcript = copy / "projects" / SESSION_FILE
    transcript.parent.mkdir(parents=True)
    transcript.write_bytes(LINE + MOOD + HEARTBEAT)
    run(copy, "sync", "--quiet", "--root", copy / "projects")
    (migration,) = code_of("Add a migration")
    (copy / "migrations/9001_notes.sql").write_text(migration, encoding="utf-8")
    run(copy, "sync", "--quiet", "--root", copy / "projects")
    return copy


def add_entry_types(claude: Path) -> None:
    known, subtypes, skipping = code_of("Add an entry type")
    place = r"EVENT_TYPES = frozenset\(\n    \(\n(?P<here>)"
    insert(claude / "known_types.py", place, f"    {known}")
    path = claude / "side_data.py"
    text, changed = re.subn(r"(?m)^_SUBTYPES = .*\n", subtypes, path.read_text(encoding="utf-8"))
    assert changed == 1
    path.write_text(text, encoding="utf-8")
    place = r'def read_entry\(.*?"""[^"]*"""\n(?P<here>)'
    insert(claude / "entries.py", place, skipping.replace("\n    ", "\n        "))


def run(copy: Path, *args: str | Path) -> str:
    command = [sys.executable, "-P", "-m", "ctxdb", "--db", copy / "ctxdb.db", *args]
    env = {**os.environ, "PYTHONPATH": str(copy / "src")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def verified(copy: Path) -> None:
    """`verify` agrees with the database."""
    run(copy, "verify", "--root", copy / "projects")


def ask(copy: Path, *words: str) -> str:
    return run(copy, "query", *words, "--no-sync", "--format", "csv")


def rows(copy: Path, sql: str) -> list[tuple[object, ...]]:
    """What the database says, without starting a process."""
    with closing(sqlite3.connect(f"file:{copy / 'ctxdb.db'}?mode=ro", uri=True)) as conn:
        return conn.execute(sql).fetchall()


@pytest.mark.usefixtures("verified")
def test_the_recipe_for_a_column_gives_a_column_that_is_filled(copy: Path) -> None:
    assert rows(copy, "SELECT user_type FROM messages") == [("external",)]
    [(described,), *_] = rows(
        copy, "SELECT description FROM schema_docs WHERE \"column\" = 'user_type'"
    )
    assert "NULL in rows" in str(described)


def test_the_recipe_for_a_view_gives_a_view_that_answers(copy: Path) -> None:
    found = ask(copy, "claude_versions", "--since", "2026-01-01")
    assert found == "version,sessions,last_at\n2.1.280,1,2026-08-24T10:00:00.000Z\n"
    assert ("view claude_versions",) in rows(copy, "SELECT topic FROM README")


def test_the_recipe_for_a_query_gives_a_query_that_takes_its_parameter(copy: Path) -> None:
    assert "hi,5e551000" in ask(copy, "sessions_on_branch", "-p", "branch", "main")
    assert "hi" not in ask(copy, "sessions_on_branch", "-p", "branch", "another")


@pytest.mark.usefixtures("verified")
def test_the_recipe_for_an_entry_type_gives_a_subtype_and_skips_lines(copy: Path) -> None:
    assert rows(copy, "SELECT type, subtype FROM events") == [("mood", "calm")]
    found = rows(copy, "SELECT type, reason FROM line_counts WHERE outcome = 'skipped'")
    assert found == [("heartbeat", "heartbeat")]


def test_the_recipe_for_a_migration_upgrades_a_database_with_rows(copy: Path) -> None:
    assert rows(copy, "SELECT text FROM notes") == [("hi",)]
    described = rows(copy, "SELECT description FROM schema_docs WHERE name = 'notes'")
    assert any("Notes about sessions" in str(one) for (one,) in described)


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_is_named_exists(page: str) -> None:
    text = (CHECKOUT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[\w.]+/)*\w+\.(?:py|toml|md)|(?:[\w.]+/)+)`", text))
    assert len(named) > 10
    places = (CHECKOUT, CHECKOUT / "src/ctxdb", CHECKOUT / "src/ctxdb/claude")
    missing = [name for name in named if not any((place / name).exists() for place in places)]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_every_name_in_python_that_is_named_exists(page: str) -> None:
    text = (CHECKOUT / page).read_text(encoding="utf-8")
    source = "".join(p.read_text(encoding="utf-8") for p in (CHECKOUT / "src").rglob("*.py"))
    named = set(re.findall(r"`(_?[a-z]+(?:_[a-z]+)+|_?[A-Z_]{5,}|[A-Z][a-z]+)`", text))
    schema = (CHECKOUT / "migrations/0001_schema.sql").read_text(encoding="utf-8")
    missing = [name for name in named if not re.search(rf"\b{name}\b", source + schema)]
    assert missing == []
