"""What the documents say is so."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from ctxdb import __version__, cli
from ctxdb.claude.versions import NEWEST_TESTED
from ctxdb.cli import typer_app
from ctxdb.config import Config
from ctxdb.demo import write_demo
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from ctxdb.store.connection import MIN_SQLITE

CHECKOUT = Path(__file__).resolve().parents[1]
README = (CHECKOUT / "README.md").read_text()
CLI_DOCS = (CHECKOUT / "docs/cli.md").read_text()
PAGES = [
    *CHECKOUT.glob("*.md"),
    *(CHECKOUT / "docs").glob("*.md"),
    CHECKOUT / "bench/README.md",
]
COMMANDS = sorted(typer.main.get_command(typer_app.app).commands)  # type: ignore[attr-defined]
QUERIES = re.findall(r"```sql\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture(scope="module")
def demo_db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    write_demo(folder / "projects")
    config = Config(folder / "demo.db", (str(folder / "projects"),))
    sync(config, wait=False, progress=NullProgress())
    return config.db_path


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_every_query_in_the_readme_finds_something_in_the_demo(demo_db: Path, query: str) -> None:
    db = sqlite3.connect(f"file:{demo_db}?mode=ro", uri=True)
    try:
        assert db.execute(query).fetchall()
    finally:
        db.close()


def test_every_table_in_the_readme_exists(demo_db: Path) -> None:
    section = README.split("## What is in it")[1].split("## ")[0]
    named = set(re.findall(r"`(\w+)`", section)) - {"byte_start", "source_file_id"}
    db = sqlite3.connect(f"file:{demo_db}?mode=ro", uri=True)
    try:
        known = {name for (name,) in db.execute("SELECT name FROM sqlite_schema")}
    finally:
        db.close()
    assert len(named) > 12
    assert named <= known


@pytest.mark.parametrize("text", [README, CLI_DOCS], ids=["README", "docs/cli.md"])
def test_every_command_that_a_document_names_exists(text: str) -> None:
    # In code only: "ctxdb reads" is English.
    named = set(re.findall(r"(?:`|\$ |\$\(|bin/|  )ctxdb (?:--db \S+ )?([a-z]+)\b", text))
    assert len(named) > 3
    assert named <= set(COMMANDS)


@pytest.mark.parametrize("command", [*cli.COMMANDS, *cli.GROUPS])
def test_every_command_is_documented(command: str) -> None:
    assert f"### ctxdb {command}\n" in CLI_DOCS


def test_every_list_of_commands_has_whole_sentences() -> None:
    lists = [part.split("```", 1)[0] for part in CLI_DOCS.split("Commands:\n")[1:]]
    assert len(lists) == 1 + len(cli.GROUPS)
    for listed in lists:
        assert [line for line in listed.splitlines() if not line.endswith(".")] == []
        assert "..." not in listed


def test_every_variable_of_the_environment_is_documented() -> None:
    source = "".join(path.read_text() for path in (CHECKOUT / "src").rglob("*.py"))
    read = set(re.findall(r"(?:environ\.get\(|environ\[|_xdg\(environ, )\"([A-Z_]+)\"", source))
    of_shells = {"COMP_WORDS", "_TYPER_COMPLETE_ARGS"}  # set while a shell completes
    not_settings = {"TERM", "CTXDB_TEST_KILL"} | of_shells
    assert {"CTXDB_DB", "XDG_DATA_HOME", "NO_COLOR", "PAGER"} <= read
    assert [name for name in sorted(read - not_settings) if f"`{name}`" not in CLI_DOCS] == []


def test_every_test_that_the_readme_names_exists() -> None:
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", README)
    assert named
    for file, function in named:
        (path,) = (CHECKOUT / "tests").rglob(file)
        assert re.search(rf"def {function}\(", path.read_text()), f"{file}::{function}"


def test_every_document_names_the_same_oldest_sqlite() -> None:
    major, minor, _ = MIN_SQLITE
    documents = [CHECKOUT / "README.md", *(CHECKOUT / "docs").glob("*.md")]
    named = {
        f"{path.name}: {version}"
        for path in documents
        for version in re.findall(
            r"SQLite[^.;]{0,30}?\b(3\.\d+) or (?:later|newer)", path.read_text()
        )
    }
    naming = ("README.md", "platforms.md", "tools.md")
    assert named == {f"{name}: {major}.{minor}" for name in naming}


def test_the_changelog_has_this_version_and_a_date_for_each_release() -> None:
    titles = re.findall(r"^## (.*)", (CHECKOUT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert any(title.startswith(f"[{__version__}] - ") for title in titles)
    dated = re.compile(r"\[?\d+\.\d+\.\d+\]? - \d{4}-\d\d-\d\d")
    assert [title for title in titles if not dated.fullmatch(title)] in ([], ["[Unreleased]"])


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.*)", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    text = re.sub(r"\[\[\[cog.*?\]\]\]", "", page.read_text(), flags=re.DOTALL)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_listed_in_the_readme_and_on_the_site() -> None:
    names = {path.stem for path in (CHECKOUT / "docs").glob("*.md")} - {"index"}
    assert {name for name in names if f"](docs/{name}.md)" not in README} == set()
    site = (CHECKOUT / "docs/index.md").read_text().split("\n")
    assert names <= set(site)


def test_the_readme_counts_the_views_as_they_are() -> None:
    views = [path for path in (CHECKOUT / "sql").glob("*.sql") if not path.name.startswith("_")]
    assert f"documented tables, {len(views)} views" in README


def test_every_json_schema_is_named() -> None:
    page = (CHECKOUT / "docs/agents.md").read_text()
    names = [path.name.split(".")[0] for path in (CHECKOUT / "docs/schemas").glob("*.json")]
    assert len(names) > 10
    listed = page.partition("`docs/schemas/` has")[2].partition("New keys")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == set(names)


def test_every_check_of_doctor_is_on_the_page_of_troubles() -> None:
    source = "".join(path.read_text() for path in (CHECKOUT / "src/ctxdb/doctor").glob("*.py"))
    checks = set(re.findall(r"Finding\(\s*\"(\w+)\"", source))
    assert len(checks) > 15
    page = (CHECKOUT / "docs/troubleshooting.md").read_text()
    assert {name for name in checks if f"`{name}`" not in page} == set()


def test_make_alone_lists_every_target() -> None:
    makefile = (CHECKOUT / "Makefile").read_text()
    targets = re.findall(r"^([a-z]+):", makefile, flags=re.MULTILINE)
    listed = subprocess.run(
        ["make", "--no-print-directory"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout
    assert {"run", "test", "lint", "fmt", "bench", "build"} <= set(targets)
    for target in set(targets) - {"venv"}:
        assert f"make {target} " in listed


def test_every_place_where_the_system_matters_is_on_the_page_of_platforms() -> None:
    page = (CHECKOUT / "docs/platforms.md").read_text()
    of_one_system = re.compile(
        r"/proc/|\"darwin\"|\"win32\"|import (?:fcntl|termios|pwd|resource)|malloc_trim"
        r"|CLOCK_BOOTTIME|os\.fork"
    )
    source = CHECKOUT / "src/ctxdb"
    files = [
        str(path.relative_to(source))
        for path in sorted(source.rglob("*.py"))
        if of_one_system.search(path.read_text())
    ]
    assert len(files) > 8
    assert [name for name in files if f"`{name}`" not in page] == []


def test_windows_is_refused_in_one_line() -> None:
    code = """
import sys
sys.platform = "win32"
sys.modules |= dict.fromkeys(("fcntl", "termios", "pwd", "resource", "grp", "tty", "pty"))
sys.argv = ["ctxdb", "query", "overview"]
from ctxdb.cli.main import main
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "Error: ctxdb runs on Linux and macOS; on Windows, install it in WSL\n"


def test_the_newest_version_that_was_tested_is_the_same_everywhere() -> None:
    assert f"Claude Code 0.2 to {NEWEST_TESTED}" in README
