"""How long the pages of `ctxdb serve` take, after each was asked for once.

    python bench/run.py --only pages
    python bench/pages.py some.db

A server runs as a person has it, and pages are asked for over HTTP, one after the other. `same` is
a page of data that has not changed since, `new` one after a write to the database (as a daemon
makes while somebody works), when nothing that the server keeps is of use. The CPU time is that of
the server: on a machine that does other things too, that is the one to look at. Minima of TIMES.
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote, urlencode

import corpus
from tree import Tree, reader, remove

TIMES = 5
DASHBOARD_MS, PAGE_MS = 1000, 300
TICKS = os.sysconf("SC_CLK_TCK")
BASE = "/-/ctxdb"
_LONGEST = "SELECT session_id FROM messages GROUP BY session_id ORDER BY count(*) DESC LIMIT 1"
_MOST_EDITED = (
    "SELECT path FROM files_touched WHERE operation = 'edit' GROUP BY path"
    " ORDER BY count(*) DESC LIMIT 1"
)


def pages(tree: Tree, folder: Path, megabytes: int) -> None:
    """Build the database, measure, print."""
    path = folder / "pages.db"
    tree.first_sync(path, corpus.write(folder, megabytes << 20))
    measure(path)
    remove(path)


def measure(db: Path) -> None:
    """Measure the pages of a database."""
    print(f"pages of `ctxdb serve`, a database of {db.stat().st_size / 1e6:.0f} MB")
    with serving(db) as server:
        for name, url, goal in _pages(db):
            server.get(url)
            same = [server.get(url) for _ in range(TIMES)]
            new = []
            for _ in range(TIMES):
                _write(db)
                new.append(server.get(url))
            text = "  ".join(
                f"{kind}: {min(w for w, _ in times):5.0f} ms, cpu {min(c for _, c in times):4.0f}"
                for kind, times in (("same", same), ("new", new))
            )
            missed = "  MISSED" if min(wall for wall, _ in same) >= goal else ""
            print(f"  {name:22} {text}   (goal: under {goal} ms){missed}", flush=True)


def _pages(db: Path) -> Iterator[tuple[str, str, int]]:
    with closing(reader(db)) as conn:
        (session,) = conn.execute(_LONGEST).fetchone()
        (file,) = conn.execute(_MOST_EDITED).fetchone()
        (newest,) = conn.execute("SELECT date(max(timestamp)) FROM usage").fetchone()
        (before,) = conn.execute("SELECT date(?, '-29 days')", (newest,)).fetchone()
    month = urlencode({"from": before, "to": newest})
    yield "dashboard, 30 days", f"{BASE}?{month}", DASHBOARD_MS
    yield "dashboard, all time", f"{BASE}?period=all", DASHBOARD_MS
    yield "sessions", f"{BASE}/sessions", PAGE_MS
    yield "session", f"{BASE}/session/{quote(session)}", PAGE_MS
    yield "search, one word", f"{BASE}/search?q=migration", PAGE_MS
    yield "search, common words", f"{BASE}/search?q=the+test+fails", PAGE_MS
    yield "file", f"{BASE}/file?{urlencode({'path': file})}", PAGE_MS


class Server:
    """A running `ctxdb serve`."""

    def __init__(self, pid: int, port: int) -> None:
        self._pid = pid
        self._port = port

    def get(self, url: str) -> tuple[float, float]:
        """Ask for a page; milliseconds on the clock, and of the server's processor time."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        began, used = time.perf_counter(), self._cpu()
        connection.request("GET", url)
        answer = connection.getresponse()
        answer.read()
        took = time.perf_counter() - began
        connection.close()
        if answer.status != 200:
            raise SystemExit(f"{url}: HTTP {answer.status}")
        return took * 1000, self._cpu() - used

    def _cpu(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        user, system = fields[11:13]
        return (int(user) + int(system)) / TICKS * 1000


@contextmanager
def serving(db: Path) -> Iterator[Server]:
    """Run a server, without a token and without a browser."""
    command = [sys.executable, "-m", "ctxdb", "--db", str(db), "serve"]
    command += ["--no-token", "--no-open", "--no-sync", "--port", "0"]
    environ = os.environ | {"HOME": str(db.parent), "CLAUDE_CONFIG_DIR": str(db.parent / "none")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ
    ) as process:
        try:
            said = ""
            for line in process.stdout or ():
                said += line
                if found := re.search(r"http://127\.0\.0\.1:(\d+)/", line):
                    yield Server(process.pid, int(found[1]))
                    break
            else:
                raise SystemExit(f"the server did not start: {said}")
        finally:
            process.send_signal(signal.SIGINT)


def _write(db: Path) -> None:
    """Change the database a little, as any writer does."""
    with closing(sqlite3.connect(db, timeout=60)) as conn:
        conn.execute("INSERT OR REPLACE INTO _meta VALUES ('bench', random())")
        conn.commit()


if __name__ == "__main__":
    measure(Path(sys.argv[1]))
