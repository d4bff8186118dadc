"""Our pages in a real browser: no error, nothing from elsewhere, nothing serious for axe-core."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from browser import NARROW, WIDE, Browser, needs_browser
from test_web_serve import OTHER, own_database, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [needs_browser, pytest.mark.xdist_group("browser")]

PAGES = (
    "/-/ctxdb?period=all",
    "/-/ctxdb/sessions",
    "/-/ctxdb/search?q=queue",
    "/-/ctxdb/file?path=sync.ts",
    "/-/ctxdb/project?name=lantern&period=all",
    "/-/ctxdb/ask",
    "/-/ctxdb/ask/daily_usage?since=all",
)
DATASETTE = ("/demo", "/demo/sessions", "/demo/standup")
ALL_LOOKS = [
    (python, size, dark)
    for python in (sys.executable, str(OTHER))
    for size in (WIDE, NARROW)
    for dark in (False, True)
]


@pytest.fixture
def window(tmp_path: Path) -> Iterator[Browser]:
    one = Browser(tmp_path / "chromium")
    yield one
    one.close()


def go_through(window: Browser, base: str, size: tuple[int, int], *, dark: bool) -> None:
    window.look(size, dark=dark)
    for path in PAGES:
        window.open(base + path)
        window.check(base)
        assert window.fits(), path
        if size == WIDE or not dark:
            assert window.problems() == [], path
    for path in DATASETTE:
        window.open(base + path)
        window.check(base)


def test_pages_in_light_and_dark_wide_and_narrow(window: Browser, tmp_path: Path) -> None:
    with serving(sys.executable, own_database(tmp_path), "--no-token", "--no-sync") as server:
        base = f"http://127.0.0.1:{server.port}"
        go_through(window, base, WIDE, dark=False)
        go_through(window, base, NARROW, dark=True)


@pytest.mark.slow
@pytest.mark.parametrize(("python", "size", "dark"), ALL_LOOKS)
def test_pages_in_every_look(
    window: Browser, tmp_path: Path, python: str, size: tuple[int, int], dark: bool
) -> None:
    if python == str(OTHER) and not OTHER.exists():
        pytest.skip(f"{OTHER} is missing: make .venv/.datasette1")
    with serving(python, own_database(tmp_path), "--no-token", "--no-sync") as server:
        go_through(window, f"http://127.0.0.1:{server.port}", size, dark=dark)


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
