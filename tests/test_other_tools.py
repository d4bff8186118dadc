"""The database in tools that are not ours: every view, while somebody writes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlite_utils import Database

from ctxdb.config import Config
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from ctxdb.store import sql_files
from ctxdb.store.connection import open_reader
from ctxdb.store.version import says_it_is_not_old
from ctxdb.web.ours import is_ours
from demo_db import demo_folder
from live_lab import until
from world import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "ctxdb.db"
    shutil.copy(demo_folder() / "demo.db", path)
    return path


@contextmanager
def writing(db: Path, tmp_path: Path) -> Iterator[None]:
    """Somebody writes: lines come in and are synced, again and again."""
    root = tmp_path / "projects/-p"
    root.mkdir(parents=True)
    config = Config(db, (str(root.parent),))
    transcript = root / "00000000-0000-4000-8000-00000000aaaa.jsonl"
    stop = threading.Event()
    rounds = []

    def write() -> None:
        while not stop.wait(0.2):
            n = len(rounds)
            line = {
                "type": "user",
                "uuid": f"00000000-0000-4000-8000-{n:012x}",
                "timestamp": "2026-03-01T10:00:00.000Z",
                "message": {"role": "user", "content": f"line {n}"},
            }
            with transcript.open("a") as file:
                file.write(json.dumps(line) + "\n")
            sync(config, progress=NullProgress())
            rounds.append(n)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        until(lambda: bool(rounds))
        yield
    finally:
        stop.set()
        thread.join()
    assert rounds


@contextmanager
def running(*args: str | Path, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, **more
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_views_run_on_a_plain_connection_with_nothing_of_ours(db: Path) -> None:
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as conn:
        for one in sql_files.all_views():
            columns = [c[0] for c in conn.execute(f"SELECT * FROM {one.name} LIMIT 3").description]
            assert columns == list(one.columns), one.name


def test_looking_at_the_file_does_not_end_the_locks_of_a_reader(db: Path) -> None:
    """Closing any descriptor of a file ends a process's locks on it; SQLite relies on them."""
    with closing(open_reader(db)) as conn:
        conn.execute("SELECT count(*) FROM messages").fetchone()
        log = db.with_name(f"{db.name}-wal")
        for look in (is_ours, says_it_is_not_old, lambda path: open_reader(path).close()):
            look(db)
            write_and_close = (
                f"import sqlite3; c = sqlite3.connect({str(db)!r}); c.execute('BEGIN IMMEDIATE');"
                "c.execute('UPDATE sessions SET title = title'); c.commit(); c.close()"
            )
            subprocess.run([sys.executable, "-c", write_and_close], check=True)
            assert log.exists(), f"{look}: the writer took itself for the last connection"


def test_stock_datasette_reads_every_view_beside_a_running_writer(db: Path, tmp_path: Path) -> None:
    if find_spec("datasette") is None:
        pytest.skip("datasette is not installed")
    # Port 0: the system gives one that is free.
    settings = ["--setting", "sql_time_limit_ms", f"{PATIENCE * 1000:.0f}"]
    command = [sys.executable, "-m", "datasette", "serve", db, "-p", "0", *settings]
    environ = os.environ | {"PYTHONWARNINGS": "ignore", "PYTHONUNBUFFERED": "1"}
    with running(*command, env=environ) as server, writing(db, tmp_path):
        assert server.stdout is not None
        address = ""
        for line in server.stdout:
            if found := re.search(rb"running on (http://[\d.]+:\d+)", line):
                address = found[1].decode()
                break

        def get(path: str) -> Any:
            try:
                with urllib.request.urlopen(f"{address}{path}", timeout=PATIENCE) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as e:
                assert server.stdout is not None
                server.kill()
                said = (e.read() + b"\n" + server.stdout.read()).decode(errors="replace")
                raise AssertionError(f"{path}: {e}\n{said}") from None

        database = get("/ctxdb.json")
        assert next(iter(database["tables"]))["name"] == "README"
        views = database["views"]
        listed = {view if isinstance(view, str) else view["name"] for view in views}
        for one in sql_files.all_views():
            assert one.name in listed
            page = get(f"/ctxdb/{one.name}.json?_shape=objects&_size=5&_nocount=1&_nofacet=1")
            assert page.get("ok") is not False, page
            rows = page["rows"]
            assert not rows or list(rows[0]) == list(one.columns), one.name
        for table in ("messages", "tool_uses"):
            found = get(f"/ctxdb/{table}.json?_shape=objects&_search=backoff")
            with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as conn:
                (hits,) = conn.execute(
                    f"SELECT count(*) FROM {table}_fts WHERE {table}_fts MATCH 'backoff'"
                ).fetchone()
            assert 0 < found["filtered_table_rows_count"] == hits


def test_sqlite_utils_searches_messages_and_calls(db: Path) -> None:
    found = Database(f"{db}")
    for table, column in (("messages", "text"), ("tool_uses", "input")):
        hits = list(found[table].search("backoff", columns=[column]))
        assert any("backoff" in (hit[column] or "") for hit in hits)


def test_db_browser_opens_it_and_reads_every_view(db: Path, tmp_path: Path) -> None:
    browser, screen = shutil.which("sqlitebrowser"), shutil.which("Xvfb")
    if browser is None or screen is None:
        pytest.skip("sqlitebrowser and Xvfb are not installed")
    # It prints nothing; what it has read shows in tables that a script makes of it.
    names = [one.name for one in sql_files.all_views()]
    script = tmp_path / "views.sql"
    script.write_text(
        "".join(f"CREATE TABLE read_{name} AS SELECT * FROM {name} LIMIT 20;\n" for name in names)
    )

    def unread() -> set[str]:
        with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as conn:
            made = conn.execute("SELECT name FROM sqlite_master WHERE name LIKE 'read_%'")
            return set(names) - {name.removeprefix("read_") for (name,) in made}

    with running(screen, "-displayfd", "1", "-screen", "0", "800x600x24") as x:
        assert x.stdout is not None
        display = re.search(rb"\d+", x.stdout.readline())
        assert display is not None
        environ = os.environ | {"DISPLAY": f":{display[0].decode()}", "QT_QPA_PLATFORM": "xcb"}
        with running(browser, "--sql", script, db, env=environ) as process:
            until(lambda: not unread() or process.poll() is not None, unread)
    assert unread() == set()
