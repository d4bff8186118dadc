"""`ctxdb export --site`: pages that open from disk; --redact takes out what is private."""

from __future__ import annotations

import json
import re
import stat
import sys
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from browser import NARROW, WIDE, a_browser, needs_browser
from builder import World as Files
from builder import text
from ctxdb.cli import main
from ctxdb.errors import UsageError
from ctxdb.progress import NullProgress
from ctxdb.session.redaction import Redactor
from ctxdb.web import site_session
from ctxdb.web.site import FILE_LIST, Wanted, write_site
from demo_db import demo_folder
from hostile import HOSTILE, MARKUP
from readlab import fill, unsafe
from test_web_session import Html, hostile_session
from world import Done, World

# A token in the form of GitHub's, of which no account knows.
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


@pytest.fixture
def files() -> Files:
    return Files()


Cli = Callable[..., Done]


@pytest.fixture
def cli(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line in this process, which has imported the pages already."""

    def run(*words: str | Path) -> Done:
        given = ["ctxdb", "--db", str(world.db), *map(str, words)]
        monkeypatch.setattr(sys, "argv", given)
        try:
            main.main()
            code = 0
        except SystemExit as left:
            code = int(left.code or 0)
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def demo_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "pages"
    write_site(demo_folder() / "demo.db", folder, Wanted(), NullProgress())
    return folder


def pages_of(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.html"))
    }


def site(world: World, folder: Path, **wanted: object) -> dict[str, str]:
    write_site(world.db, folder, Wanted(**wanted), NullProgress())
    return pages_of(folder)


def test_every_link_leads_to_a_page_of_the_site(demo_site: Path) -> None:
    pages = pages_of(demo_site)
    assert {"index.html", "sessions.html"} <= pages.keys()
    for name, page in pages.items():
        assert "nowhere:" not in page
        here = (demo_site / name).parent
        for href in re.findall(r'(?:href|src)="([^"]*)"', page):
            path, _, anchor = unescape(href).partition("#")
            if re.match(r"https?:|mailto:", path):
                continue
            target = here / path if path else demo_site / name
            assert target.is_file(), (name, href)
            if anchor and target.suffix == ".html":
                assert f'id="{anchor}"' in target.read_text(encoding="utf-8"), (name, href)


def test_a_site_has_the_dashboard_the_list_and_the_sessions(demo_site: Path) -> None:
    pages = pages_of(demo_site)
    assert "Cost by" in pages["index.html"]
    assert "Fix parcels lost on restart" in pages["sessions.html"]
    session = pages["session/8e52f546-6280-48f3-b12a-7dd9f0a85ff6.html"]
    for word in ("FER-212", "Nowhere: Queue.items lives in memory only", "package"):
        assert word in session
    assert "default-src 'none'" in session


def test_only_the_owner_can_read_it(demo_site: Path) -> None:
    for path in demo_site.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_a_long_session_is_split_into_pages(
    world: World, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_session, "PAGE_BYTES", 3000)
    one = files.session()
    for n in range(6):
        one.prompt(f"request {n}")
        one.reply(text(f"answer {n} " + "word " * 400))
    one.prompt("a long one")
    for n in range(4):
        one.reply(text(f"part {n} " + "word " * 400))
    fill(world, files)
    pages = site(world, tmp_path / "pages")
    parts = {name: page for name, page in pages.items() if one.session in name}
    assert len(parts) > 3
    words = "".join(Html(page).text for page in parts.values())
    for n in range(6):
        assert f"answer {n} " in words
    assert all(f"part {n} " in words for n in range(4))
    assert "Turn 7, continued" in words
    first = parts[f"session/{one.session}.html"]
    assert f'href="{one.session}-2.html"' in first


def test_sessions_are_chosen_by_period_and_project(
    world: World, files: Files, tmp_path: Path, cli: Cli
) -> None:
    one = files.session("-home-ada-one", cwd="/home/ada/one")
    one.prompt("in the first project")
    two = files.session("-home-ada-two", cwd="/home/ada/two")
    two.prompt("in the second project")
    fill(world, files)
    pages = site(world, tmp_path / "pages", project="two")
    assert f"session/{two.session}.html" in pages
    assert not any(one.session in name for name in pages)
    done = cli("export", "--site", tmp_path / "none", "--since", "2001", "--until", "2001",
                     "--no-sync")  # fmt: skip
    assert done.returncode == 1
    assert "no session fits" in done.stderr


def test_the_command_writes_and_says_where(
    world: World, files: Files, tmp_path: Path, cli: Cli
) -> None:
    files.session().prompt("hello")
    fill(world, files)
    done = cli("export", "--site", tmp_path / "pages", "--no-sync")
    assert done.returncode == 0, done.stderr
    assert "Wrote 1 session" in done.stderr
    assert str(tmp_path / "pages" / "index.html") in done.stderr
    for wrong in (["--format", "md"], ["last"], ["-o", "x"]):
        assert cli("export", "--site", tmp_path / "p", *wrong).returncode == 2
    assert cli("export", "last", "--since", "7d").returncode == 2


# -- the folder ------------------------------------------------------------------------------------


def test_a_folder_with_other_things_is_refused(world: World, files: Files, tmp_path: Path) -> None:
    files.session().prompt("hello")
    fill(world, files)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        site(world, tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".txt"] == ["mine.txt"]
    assert not (tmp_path / "index.html").exists()


def test_only_files_of_an_earlier_site_are_removed(
    world: World, files: Files, tmp_path: Path
) -> None:
    one, two = files.session(), files.session()
    one.prompt("first")
    two.prompt("second")
    fill(world, files)
    folder = tmp_path / "pages"
    site(world, folder)
    (folder / "mine.txt").write_text("mine")
    outside = tmp_path / "outside.html"
    outside.write_text("outside")
    listed = json.loads((folder / FILE_LIST).read_text())
    listed["files"] += ["../outside.html", "session/../../outside.html", "/etc/passwd", 5, ".x"]
    (folder / FILE_LIST).write_text(json.dumps(listed))
    world.change(f"DELETE FROM sessions WHERE id = '{two.session}'")
    pages = site(world, folder)
    assert f"session/{one.session}.html" in pages
    assert f"session/{two.session}.html" not in pages
    assert (folder / "mine.txt").read_text() == "mine"
    assert outside.read_text() == "outside"


# -- what is taken out -----------------------------------------------------------------------------


def private_session(files: Files) -> str:
    one = files.session("-home-marisol-tide", cwd="/home/marisol/tide", branch="marisol/fix")
    one.prompt(f"marisol here: use {SECRET} in /home/marisol/tide/.env")
    one.reply(text(f"I use {SECRET} for /Users/marisol/x, Marisolitude stays."))
    one.tool("Bash", {"command": f"curl -H 'token {SECRET}' /home/marisol/x"}, "private output")
    one.tool("Write", {"file_path": "/home/marisol/tide/a.py", "content": f"key = '{SECRET}'\n"})
    one.prompt("<local-command-stdout>printed for me</local-command-stdout>")
    return one.session


def test_redact_takes_out_secrets_homes_names_and_results(
    world: World, files: Files, tmp_path: Path
) -> None:
    session = private_session(files)
    fill(world, files)
    plain = "".join(site(world, tmp_path / "plain").values())
    for word in ("[redacted:", "/home/marisol", "private output", "printed for me"):
        assert word in plain
    assert SECRET not in plain  # it is masked as it comes in
    pages = site(world, tmp_path / "redacted", redact=True)
    found = "".join(pages.values())
    for word in (SECRET, "/home/marisol", "/Users/marisol", "private output", "printed for me"):
        assert word not in found
    assert re.search(r"(?<![A-Za-z])marisol(?![A-Za-z])", found) is None
    page = Html(pages[f"session/{session}.html"]).text
    assert "[redacted:" in page
    assert "~/tide" in page
    assert "Marisolitude stays" in page
    assert "[left out: 14 B]" in page


@pytest.mark.parametrize("format_", ["html", "md"])
def test_one_session_can_be_redacted_too(
    world: World, files: Files, format_: str, cli: Cli
) -> None:
    session = private_session(files)
    fill(world, files)
    done = cli("export", session, "--format", format_, "--redact", "--no-sync")
    assert done.returncode == 0, done.stderr
    for word in (SECRET, "/home/marisol", "private output"):
        assert word not in done.stdout
    assert cli("export", session, "--format", "jsonl", "--redact").returncode == 2


def test_common_words_are_no_names_of_people() -> None:
    redactor = Redactor(["code", "al", "marisol"])
    assert redactor.text("code by al and marisol") == "code by al and user"
    assert redactor.text("C:\\Users\\marisol\\x /home/code/y") == "~\\x ~/y"


# -- safe ------------------------------------------------------------------------------------------


def test_hostile_text_stays_inert_in_a_site(world: World, files: Files, tmp_path: Path) -> None:
    payloads = {**HOSTILE, **MARKUP}
    del payloads["half of a pair"]
    hostile_session(files, "\n\n".join(payloads.values()))
    for payload in list(payloads.values())[::8]:
        hostile_session(files, payload)
    fill(world, files)
    for redact in (False, True):
        for page in site(world, tmp_path / f"pages-{redact}", redact=redact).values():
            assert unsafe(page) == []
            body = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)  # charts of the dashboard
            Html(body)


@needs_browser
@pytest.mark.xdist_group("browser")
def test_a_site_opens_from_disk(demo_site: Path, tmp_path: Path) -> None:
    with a_browser(tmp_path) as browser:
        for size, dark in ((WIDE, False), (NARROW, True)):
            browser.look(size, dark=dark)
            for name in ("index", "sessions", "session/8e52f546-6280-48f3-b12a-7dd9f0a85ff6"):
                browser.open(f"{demo_site.as_uri()}/{name}.html")
                assert browser.fits()
                browser.check("file://")
                assert dark or browser.problems() == []
        browser.open(f"{demo_site.as_uri()}/sessions.html")
        browser.run(
            "const field = document.getElementById('filter'); field.value = 'parcels';"
            "field.dispatchEvent(new Event('input'))"
        )
        shown = "[...document.querySelectorAll('#sessions tbody tr:not([hidden])')].length"
        browser.wait(f"{shown} === 1")
        browser.check("file://")
