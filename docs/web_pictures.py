"""Take pictures of the web pages from the demo: `make pictures`. Needs Chromium and Selenium."""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT / "tests"))

PICTURES = (  # name, path, size, dark
    ("dashboard", "/-/ctxdb?period=30d", (1400, 900), False),
    ("dashboard-dark", "/-/ctxdb?period=30d&by=model", (1400, 900), True),
    ("session", "/-/ctxdb/session/8e52f546-6280-48f3-b12a-7dd9f0a85ff6", (1400, 900), False),
    ("search", "/-/ctxdb/search?q=queue", (1400, 700), True),
    ("phone", "/-/ctxdb?period=30d", (400, 800), False),
)


def main() -> None:
    """Make the demo in an empty home, serve it, and take the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"HOME": folder, "XDG_DATA_HOME": f"{folder}/data", "TZ": "UTC"}
        from browser import a_browser, served_at
        from ctxdb.config import Config
        from ctxdb.demo import write_demo
        from ctxdb.ingest.sync import sync
        from ctxdb.progress import NullProgress

        projects = Path(folder) / "projects"
        write_demo(projects, today=datetime.now(UTC).date())
        database = Path(folder) / "ctxdb.db"
        sync(Config(database, (str(projects),)), progress=NullProgress())
        with served_at(database) as base, a_browser(Path(folder)) as browser:
            for name, path, size, dark in PICTURES:
                browser.look(size, dark=dark)
                browser.open(base + path)
                browser.picture(CHECKOUT / f"docs/pictures/{name}.png")
                print(f"docs/pictures/{name}.png")


if __name__ == "__main__":
    main()
