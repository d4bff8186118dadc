"""A real browser on a real server: Chromium, driven by Selenium.

Without Chromium, its driver or Selenium, tests that need them are skipped with the reason. So are
checks by axe-core, if `npm install axe-core` has not put it into node_modules beside the tests.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
import time
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
AXE = Path(
    os.environ.get("CTXDB_AXE")
    or Path(__file__).resolve().parents[1] / "node_modules/axe-core/axe.min.js"
)
MISSING = [
    name
    for name, found in (
        ("chromium", CHROMIUM),
        ("chromedriver", DRIVER),
        ("the Python package selenium", find_spec("selenium")),
    )
    if not found
]
needs_browser = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
WIDE, NARROW = (1400, 1000), (400, 800)
PATIENCE = 60  # seconds, on a loaded machine


@contextmanager
def served_at(db: Path, **wishes: Any) -> Iterator[str]:
    """Serve a database without a token, in a thread; yields the address."""
    import uvicorn

    from ctxdb.web import plugin
    from ctxdb.web.server import Wishes, application

    datasette, app = application(db, None, Wishes(token=False, **wishes))
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(32)
        _, port = sock.getsockname()
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
        thread.start()
        wait_until(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            plugin.close(datasette)


def wait_until(is_so: Callable[[], Any], what: str = "") -> Any:
    """Wait for a condition; its value is returned."""
    until = time.monotonic() + PATIENCE
    while not (found := is_so()):
        assert time.monotonic() < until, f"not in {PATIENCE} s: {what or is_so}"
        time.sleep(0.05)
    return found


class Browser:
    """One window of Chromium."""

    def __init__(self, folder: Path) -> None:
        from selenium import webdriver

        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for flag in (
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--no-first-run",
            "--disable-default-apps", "--disable-dev-shm-usage", f"--user-data-dir={folder}",
        ):  # fmt: skip
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        service = webdriver.ChromeService(executable_path=DRIVER)
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_page_load_timeout(PATIENCE)
        self.driver.set_script_timeout(PATIENCE)

    def close(self) -> None:
        self.driver.quit()

    def look(self, size: tuple[int, int] = WIDE, *, dark: bool = False) -> None:
        """Set the size of the window, and what the system prefers."""
        width, height = size
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, still]})

    def open(self, url: str) -> None:
        """Open a page; what was logged before is forgotten."""
        self.driver.get("about:blank")  # so that another #anchor of the same page loads it again
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(url)

    def run(self, script: str, *values: Any) -> Any:
        return self.driver.execute_script(script, *values)

    def wait(self, script: str, *values: Any) -> Any:
        """Wait until the script returns something."""
        return wait_until(lambda: self.run(f"return {script}", *values), script)

    def press(self, keys: str) -> None:
        from selenium.webdriver.common.by import By

        self.driver.find_element(By.TAG_NAME, "body").send_keys(keys)

    def picture(self, path: Path) -> None:
        self.driver.save_screenshot(str(path))

    def whole_picture(self, path: Path) -> None:
        """All of the page, also what is below the window."""
        width, height = self.run("return [innerWidth, document.documentElement.scrollHeight]")
        screen = {"width": width, "height": min(height, 4000), "deviceScaleFactor": 1}
        change = "Emulation.setDeviceMetricsOverride"
        self.driver.execute_cdp_cmd(change, {**screen, "mobile": False})
        self.picture(path)

    def check(self, base: str) -> None:
        """No error on the console, and no request but to this server."""
        errors = [one["message"] for one in self.driver.get_log("browser") if _is_error(one)]
        assert errors == []
        elsewhere = [url for url in self.requests() if not _is_ours(url, base)]
        assert elsewhere == []

    def requests(self) -> list[str]:
        """The addresses that were asked for since the last look."""
        messages = [
            json.loads(one["message"])["message"] for one in self.driver.get_log("performance")
        ]
        return [
            one["params"]["request"]["url"]
            for one in messages
            if one["method"] == "Network.requestWillBeSent"
        ]

    def fits(self) -> bool:
        """Whether the page is not wider than the window."""
        return bool(
            self.run(
                "return document.documentElement.scrollWidth"
                " <= document.documentElement.clientWidth"
            )
        )

    def problems(self) -> list[str]:
        """What axe-core finds that is serious or worse, each in one line."""
        if not AXE.is_file():
            pytest.skip("axe-core is not installed: npm install axe-core")
        self.run(AXE.read_text(encoding="utf-8"))
        found = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "axe.run(document, {preload: false, resultTypes: ['violations']})"
            ".then((result) => done(result.violations));"
        )
        return [
            f"{one['id']} ({one['impact']}): {one['help']}: {node['html'][:200]}"
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"][:3]
        ]


def _is_error(entry: dict[str, Any]) -> bool:
    return entry["level"] == "SEVERE"


def _is_ours(url: str, base: str) -> bool:
    # chrome: and data: are what the browser opens by itself when it starts.
    own = ("data", "blob", "about", "file", "chrome", "chrome-untrusted")
    return urlsplit(url).scheme in own or url.startswith(f"{base}/")


@contextmanager
def a_browser(folder: Path) -> Iterator[Browser]:
    """Start Chromium with an empty profile in a folder."""
    browser = Browser(folder / "chromium")
    try:
        yield browser
    finally:
        with suppress(Exception):
            browser.close()
