"""Our pages in a real browser: no error, nothing from elsewhere, nothing serious for axe-core."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import sys
import tarfile
import uuid
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from browser import NARROW, WIDE, Browser, a_browser, needs_browser, served_at
from ctxdb.config import Config
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from demo_db import demo_folder
from real_corpus import CORPUS
from test_web_serve import OTHER, PYTHONS, own_database, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [needs_browser, pytest.mark.xdist_group("browser")]

PAGES = (
    "/-/ctxdb?period=all",
    "/-/ctxdb/sessions",
    "/-/ctxdb/search?q=queue",
    "/-/ctxdb/file?path=sync.ts",
    "/-/ctxdb/ask/daily_usage?since=all",
)
DATASETTE = ("/demo", "/demo/sessions")
PICTURES = os.environ.get("CTXDB_TEST_PICTURES")  # a test itself does not see it


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with a_browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


def look_at(window: Browser, base: str, path: str, *, axe: bool = True) -> None:
    window.open(base + path)
    window.check(base)
    assert window.fits(), path
    if axe:
        found = window.problems()
        assert found == [], f"{path}: {found}"


def test_pages_in_light_and_dark_wide_and_narrow(window: Browser) -> None:
    with served_at(demo_folder() / "demo.db") as base:
        window.look(WIDE)
        for path in PAGES:
            look_at(window, base, path)
        for path in DATASETTE:
            window.open(base + path)
            window.check(base)
        window.look(NARROW, dark=True)
        for path in PAGES[:2]:
            look_at(window, base, path, axe=path == PAGES[0])


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A database of the real transcripts, and the folder that they are in."""
    if not CORPUS.is_file():
        pytest.skip(f"no corpus at {CORPUS}")
    folder = tmp_path_factory.mktemp("real")
    with tarfile.open(CORPUS) as archive:
        archive.extractall(folder, filter="data")
    db = folder / "data/real.db"
    db.parent.mkdir(mode=0o700)
    sync(Config(db, (str(folder / "projects"),)), progress=NullProgress())
    return db, folder


_NAMES = {  # a page -> its argument, and what has most to show
    "session/": "SELECT session_id FROM messages GROUP BY 1 ORDER BY count(*) DESC LIMIT 1",
    "file?path=": "SELECT path FROM file_activity ORDER BY edits DESC LIMIT 1",
    "project?period=all&name=": "SELECT project FROM usage_by_project ORDER BY cost_usd DESC",
    "model?period=all&name=": "SELECT model FROM usage_by_model ORDER BY cost_usd DESC",
    "commit?sha=": "SELECT sha FROM commits WHERE sha IS NOT NULL ORDER BY timestamp DESC",
    "pr?number=": "SELECT pr_number FROM pull_requests ORDER BY last_at DESC",
}


def real_pages(db: Path) -> dict[str, str]:
    """The pages to look at, by a short name."""
    found = {
        "dashboard": "/-/ctxdb",
        "all": "/-/ctxdb?period=all&by=model",
        "sessions": "/-/ctxdb/sessions?sort=-cost_usd",
        "search": "/-/ctxdb/search?q=error+test",
        "ask": "/-/ctxdb/ask",
        "query": "/-/ctxdb/ask/daily_usage?since=all",
    }
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as conn:
        for page, sql in _NAMES.items():
            if row := conn.execute(sql).fetchone():
                (name,) = row
                found[page.partition("?")[0].strip("/")] = f"/-/ctxdb/{page}{quote(str(name))}"
    return found


@pytest.mark.slow
@pytest.mark.parametrize("python", PYTHONS)
def test_real_transcripts_in_every_look(
    window: Browser, real: tuple[Path, Path], python: str
) -> None:
    """With CTXDB_TEST_PICTURES=FOLDER, pictures of all pages are left there."""
    db, _ = real
    bad = []
    with serving(python, db, "--no-token", "--no-sync") as server:
        base = f"http://127.0.0.1:{server.port}"
        for size, dark in itertools.product((WIDE, NARROW), (False, True)):
            for name, path in real_pages(db).items():
                window.look(size, dark=dark)
                try:
                    look_at(window, base, path)
                except AssertionError as e:
                    bad.append(f"{path} {size} dark={dark}: {e}")
                if PICTURES:
                    about = f"{name}-{size[0]}-{'dark' if dark else 'light'}"
                    version = "1" if python == str(OTHER) else "065"
                    window.whole_picture(Path(PICTURES) / f"{about}-{version}.png")
            for path in ("/real", "/real/sessions", "/real/standup"):
                window.open(base + path)
                window.check(base)
    assert bad == []


@pytest.mark.slow
@pytest.mark.parametrize("python", PYTHONS)
def test_a_session_grows_beside_real_ones(
    window: Browser,
    real: tuple[Path, Path],
    python: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    db, claude = real
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(claude))
    session = str(uuid.uuid4())
    folder = claude / "projects/-work-live"
    folder.mkdir(exist_ok=True)
    transcript = folder / f"{session}.jsonl"

    def say(kind: str, content: object) -> None:
        line = {
            "type": kind,
            "uuid": str(uuid.uuid4()),
            "sessionId": session,
            "timestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.000Z}",
            "cwd": "/work/live",
            "message": {"role": kind, "content": content},
        }
        with transcript.open("a") as file:
            file.write(json.dumps(line) + "\n")

    say("user", "begin the long task")
    with serving(python, db, "--no-token") as server:
        base = f"http://127.0.0.1:{server.port}"
        for size, dark in ((WIDE, False), (NARROW, True)):
            window.look(size, dark=dark)
            look_at(window, base, f"/-/ctxdb/session/{session}")
            words = f"The task is done in {size}, {'dark' if dark else 'light'}."
            say("assistant", [{"type": "text", "text": words}])
            window.wait("document.querySelector('main').textContent.includes(arguments[0])", words)
            window.check(base)


def test_a_person_enters_searches_and_filters(window: Browser, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    python = str(OTHER) if OTHER.exists() else sys.executable
    with serving(python, own_database(tmp_path), "--no-sync") as server:
        base = f"http://127.0.0.1:{server.port}"
        window.look(WIDE)
        window.open(server.url)  # the token becomes a cookie, and the dashboard is shown
        window.wait("document.querySelector('.figures') !== null")
        assert window.driver.current_url.startswith(f"{base}/-/ctxdb")
        assert "token" not in window.driver.current_url
        window.check(base)
        # Ctrl-K and / go to the search.
        window.driver.find_element(By.TAG_NAME, "body").send_keys(Keys.CONTROL, "k")
        window.wait("document.activeElement.id === 'find'")
        window.driver.switch_to.active_element.send_keys("queue", Keys.ENTER)
        window.wait("document.querySelector('mark') !== null")
        assert "q=queue" in window.driver.current_url
        # A filter is applied when it is chosen, and is in the URL.
        window.open(f"{base}/-/ctxdb?period=all")
        window.run(
            "const s = document.querySelector('select[name=project]'); s.value = 'lantern';"
            "s.dispatchEvent(new Event('change', {bubbles: true}));"
        )
        window.wait("location.search.includes('project=lantern')")
        assert "from=" not in window.driver.current_url
        # The theme is remembered.
        window.run("document.getElementById('theme').click()")
        chosen = window.run("return document.documentElement.dataset.theme")
        window.open(f"{base}/-/ctxdb/sessions")
        assert window.run("return document.documentElement.dataset.theme") == chosen
        # Ctrl-K works on Datasette's own pages; long texts are the last columns there.
        window.open(f"{base}/demo/sessions")
        window.run(
            "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', ctrlKey: true}))"
        )
        window.wait("location.pathname.endsWith('/-/ctxdb/search')")
        window.check(base)
