"""`ctxdb serve` as a process of its own, with each version of Datasette that is installed."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from demo_db import demo_folder
from thinning import thinned

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).resolve().parents[1]
# Made by the Makefile. Its ctxdb is this checkout, its Datasette is 1.0.
OTHER = CHECKOUT / ".venv/datasette1/bin/python"
PATIENCE = 120.0
PYTHONS = [
    pytest.param(sys.executable, id="datasette 0.65"),
    pytest.param(
        str(OTHER),
        id="datasette 1.0",
        marks=pytest.mark.skipif(
            not OTHER.exists(), reason=f"{OTHER} is missing: make .venv/.datasette1"
        ),
    ),
]


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    text: str


@dataclass
class Running:
    process: subprocess.Popen[str]
    url: str

    @property
    def port(self) -> int:
        found = re.search(r":(\d+)/", self.url)
        assert found
        return int(found[1])

    def get(self, path: str, **headers: str) -> Reply:
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            conn.request("GET", path, headers=named)
            answer = conn.getresponse()
            body = answer.read().decode(errors="replace")
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, body)
        finally:
            conn.close()

    def enter(self) -> str:
        """Exchange the token for a cookie."""
        reply = self.get(self.url.partition(str(self.port))[2])
        assert reply.status == 200
        return reply.headers["set-cookie"].partition(";")[0]


def own_database(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    shutil.copy(demo_folder() / "demo.db", folder / "demo.db")
    (folder / "demo.db").chmod(0o600)
    return folder / "demo.db"


@contextmanager
def serving(
    python: str, db: Path, *options: str, env: dict[str, str] | None = None
) -> Iterator[Running]:
    command = [python, "-m", "ctxdb", "--db", str(db), "serve", "--no-open", "--port", "0"]
    process = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
    )
    try:
        assert process.stdout
        lines = []
        for line in process.stdout:
            lines.append(line)
            if found := re.search(r" at (http://\S+)", line):
                break
        else:
            pytest.fail("".join(lines))
        running = Running(process, found[1])
        _wait_until_it_answers(running)
        yield running
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def _wait_until_it_answers(running: Running) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            running.get("/-/ctxdb/none")
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("the server does not answer")


@dataclass
class Shared:
    server: Running
    db: Path
    browser_calls: Path  # how the browser was called


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    """A server that no test ends, in a folder that every user can enter.

    Only the modes of files protect what is in it.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        calls = folder / "calls"
        browser = folder / "browser"
        browser.write_text(f'#!/bin/sh\necho "$@" > {calls}.new\nmv {calls}.new {calls}\n')
        browser.chmod(0o755)
        # It begins before the first test has a home of its own.
        strange = ("XDG_", "CTXDB_", "CLAUDE", "PYTHONUNBUFFERED")
        env = {key: value for key, value in os.environ.items() if not key.startswith(strange)}
        env |= {"HOME": str(folder / "home"), "BROWSER": f"{browser} %s &"}
        db = own_database(folder)
        db.parent.chmod(0o755)
        with serving(sys.executable, db, "--no-sync", "--open", env=env) as server:
            yield Shared(server, db, calls)


def run_here(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> int:
    """Run a command that ends by itself in this process, which has imported Datasette already."""
    from ctxdb.cli import main

    monkeypatch.setattr(sys, "argv", ["ctxdb", *map(str, words)])
    try:
        main.main()
    except SystemExit as left:
        return int(left.code or 0)
    return 0


@pytest.mark.parametrize("python", thinned(PYTHONS[::-1], 2))
def test_every_page_answers_in_both_versions_of_datasette(python: str, tmp_path: Path) -> None:
    db = own_database(tmp_path)
    with serving(python, db, "--no-sync") as server:
        for path in ("/", "/-/ctxdb", "/demo", "/demo.json", "/-/static/app.css"):
            assert server.get(path).status == 403
            assert server.get(path, cookie="ctxdb=guess").status == 403
        cookie = server.enter()
        assert server.get(server.url.partition(str(server.port))[2]).status == 403  # it works once

        def get(path: str, **headers: str) -> Reply:
            return server.get(path, cookie=cookie, **headers)

        pages = {}
        for path in (
            "/-/ctxdb?period=all",
            "/-/ctxdb/sessions",
            "/-/ctxdb/search?q=queue",
            "/-/ctxdb/file?path=src/sync.ts",
            "/-/ctxdb/ask",
            "/-/ctxdb/ask/daily_usage?since=all",
            "/-/ctxdb/project?name=lantern&period=all",
            "/-/ctxdb/model?name=claude-opus-5&period=all",
            "/demo",
            "/demo/sessions",
            "/demo/conversation",
            "/demo/standup",
            "/demo/expensive_turns?since=2020-01-01",
        ):
            reply = get(path)
            assert reply.status == 200, (path, reply.text[-2000:])
            assert "content-security-policy" in reply.headers
            pages[path] = reply.text
        shown = pages["/demo"]
        assert "Claude Code transcripts" in shown
        assert "/demo/_file_marks" not in shown.partition("hidden")[0]
        assert "the session" in pages["/demo/sessions"]
        rows: Any = json.loads(get("/demo/sessions.json?_shape=objects&_size=5").text)["rows"]
        began = [row["started_at"] for row in rows]
        assert began == sorted(began, reverse=True)
        # Every mark leads to rows: the SQL of a view, narrowed.
        led = get("/-/ctxdb/rows/daily_by_project?since=2020-01-01&project=lantern")
        assert led.status == 302
        assert get(led.headers["location"]).status == 200
        assert get("/-/ctxdb", host="evil.example").status == 403
        assert get("/-/ctxdb", origin="null").status == 403
        assert get("/-/ctxdb/session/..%2f..%2fetc%2fpasswd").status in (400, 404)
        assert get("/demo.db").status in (403, 404)


def test_only_the_owner_can_read_what_a_server_leaves_behind(shared: Shared) -> None:
    state = shared.db.with_name("demo.db-serve.json")
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    secret = json.loads(state.read_text())["secret"]
    assert secret not in shared.server.url
    assert shared.server.get("/-/ctxdb", cookie=f"ctxdb={secret}").status == 403


AS_ANOTHER_USER = """
import encodings.idna, http.client, json, os, sys  # Python may be where this user cannot go
port, server, *files = json.loads(sys.argv[1])
os.setgroups([]); os.setgid(65534); os.setuid(65534)
def status(path, **headers):
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    conn.request("GET", path, headers=headers)
    return conn.getresponse().status
def text(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError as e:
        return type(e).__name__
paths = ["/", "/-/ctxdb", "/demo.json", "/-/ctxdb/enter?token=a.b", "/-/ctxdb/download"]
commands = [text(f"/proc/{pid}/cmdline") for pid in os.listdir("/proc") if pid.isdecimal()]
print(json.dumps({
    "statuses": [status(path) for path in paths] + [status("/-/ctxdb", Cookie="ctxdb=a")],
    "files": [text(path) for path in files],
    "environ": text(f"/proc/{server}/environ"),
    "commands": commands,
}))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_gets_403_and_finds_no_secret(shared: Shared) -> None:
    db, server = shared.db, shared.server
    beside = [db, db.with_name("demo.db-serve.json"), db.with_name("demo.db-serve.html")]
    assert all(path.is_file() for path in beside)
    secret = json.loads(beside[1].read_bytes())["secret"]
    token = server.url.partition("token=")[2]
    given = json.dumps([server.port, server.process.pid, *map(str, beside)])
    done = subprocess.run(
        [sys.executable, "-c", AS_ANOTHER_USER, given],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert set(seen["statuses"]) == {403}
    assert seen["files"] == ["PermissionError"] * 3
    assert seen["environ"] == "PermissionError"
    end = time.monotonic() + PATIENCE
    while not shared.browser_calls.exists():
        assert time.monotonic() < end, "no browser was opened"
        time.sleep(0.1)
    called = shared.browser_calls.read_text()
    assert "serve.html" in called
    for hidden in (secret, token, token.partition(".")[0]):
        assert not any(hidden in words for words in [called, *seen["commands"]])
    assert server.get("/-/ctxdb", cookie=server.enter()).status == 200


def test_serving_twice_names_the_first_and_gives_another_link(
    shared: Shared, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = shared.server
    assert run_here(monkeypatch, "--db", shared.db, "serve", "--no-open", "--no-sync") == 0
    told = "".join(capsys.readouterr())
    assert f"Process {first.process.pid} serves it already" in told
    found = re.search(r"(http://\S+)", told)
    assert found
    link = found[1]
    assert link != first.url
    assert first.get(link.partition(str(first.port))[2]).status == 200


def test_an_interrupt_ends_it_without_a_traceback(tmp_path: Path) -> None:
    db = own_database(tmp_path)
    with serving(sys.executable, db, "--no-token", "--no-sync") as server:
        assert server.get("/-/ctxdb").status == 200
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE) in (0, 130, -signal.SIGINT)
        assert server.process.stdout
        assert "Traceback" not in server.process.stdout.read()


def test_new_lines_are_read_while_it_runs_and_the_child_ends_with_it(tmp_path: Path) -> None:
    from ctxdb.lock import current_writer
    from lab import put_empty_database

    claude = Path(os.environ["CLAUDE_CONFIG_DIR"])
    (claude / "projects").mkdir(parents=True)
    db = tmp_path / "data/own.db"
    put_empty_database(db)
    line = {
        "type": "user",
        "uuid": "11111111-aaaa-4bbb-8ccc-222222222222",
        "sessionId": "99999999-aaaa-4bbb-8ccc-222222222222",
        "timestamp": "2026-08-20T10:00:00.000Z",
        "cwd": "/work/fresh",
        "message": {"role": "user", "content": "a quite unusual zyzzyva"},
    }
    with serving(sys.executable, db, "--no-token") as server:
        folder = claude / "projects/-work-fresh"
        folder.mkdir()
        (folder / "99999999-aaaa-4bbb-8ccc-222222222222.jsonl").write_text(json.dumps(line) + "\n")
        end = time.monotonic() + PATIENCE
        while "zyzzyva</mark>" not in server.get("/-/ctxdb/search?q=zyzzyva").text:
            assert time.monotonic() < end, "the new line is not found"
            time.sleep(0.3)
        writer = current_writer(db)
        assert writer is not None
        server.process.kill()  # however it ends
        server.process.wait()
        while current_writer(db) is not None:
            assert time.monotonic() < end, "the child goes on"
            time.sleep(0.2)


def test_a_port_in_use_is_an_error_in_one_line(
    shared: Shared,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    db, port = own_database(tmp_path), shared.server.port
    words = ["--db", db, "serve", "--no-sync", "--no-open", "--port", str(port)]
    assert run_here(monkeypatch, *words) == 1
    told = capsys.readouterr().err
    assert f"port {port}: another program uses it" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "key"), [("--print-metadata", "databases"), ("--print-config", "settings")]
)
def test_settings_for_a_datasette_elsewhere_are_json(
    option: str, key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_here(monkeypatch, "--db", demo_folder() / "demo.db", "serve", option) == 0
    made = json.loads(capsys.readouterr().out)
    assert key in made
    assert "standup" in made["databases"]["demo"]["queries"]
