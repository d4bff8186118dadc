"""Everything at once, for a while: writers, kills, readers, a second writer; then compare all rows.

A few seconds of it in every run; `make soak` does minutes (SOAK_SECONDS).
"""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from live_forks import Live, until
from live_lab import PATIENCE, count, session
from world import World, line, uuid_of

SECONDS = float(os.environ.get("SOAK_SECONDS", "1.5"))
WRITERS = 20


class Writer:
    """One session: its lines reach the file in pieces that end anywhere."""

    def __init__(self, world: World, n: int, rng: random.Random) -> None:
        self.n = n
        self.rng = rng
        folder = f"-work-{n % 5}" if n % 4 else f"-work-{n % 5}/{session(n - 1)}/subagents"
        name = f"{session(n)}.jsonl" if n % 4 else f"agent-{n}.jsonl"
        self.path = world.file(f"{folder}/{name}")
        self.said: dict[str, str] = {}
        self.waiting = b""
        self.lines = 0

    def step(self, *, finish: bool = False) -> None:
        if not self.waiting and not finish:
            text = f"{self.n} says {self.lines} " + "word " * self.rng.randrange(200)
            uuid = uuid_of(self.lines, family=self.n + 1)
            parent = uuid_of(self.lines - 1, family=self.n + 1) if self.lines else None
            self.waiting = line(
                self.lines, text, uuid=uuid, parentUuid=parent, sessionId=session(self.n)
            )
            self.said[uuid] = text
            self.lines += 1
        size = len(self.waiting) if finish else self.rng.randrange(1, 1500)
        piece, self.waiting = self.waiting[:size], self.waiting[size:]
        with self.path.open("ab") as file:
            file.write(piece)


@contextmanager
def running(work: object) -> Iterator[None]:
    """Call something again and again in a thread, until the end of the block."""
    over = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            while not over.is_set():
                work(over)  # type: ignore[operator]
        except BaseException as e:  # noqa: BLE001
            failed.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(PATIENCE)
    assert not failed, failed


@contextmanager
def datasette(world: World) -> Iterator[int]:
    """Datasette on the live database; the port it serves at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "datasette", "serve", world.db, "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE)


@pytest.mark.timeout(SECONDS * 10 + 900)
def test_after_kills_locks_and_readers_every_row_is_what_was_written(world: World) -> None:
    rng = random.Random(os.environ.get("SOAK_SEED", "1"))
    writers = [Writer(world, n, random.Random(n)) for n in range(WRITERS)]
    pace = 0.002 if SECONDS > 10 else 0.02

    def write(over: threading.Event) -> None:
        for writer in writers:
            writer.step()
        over.wait(pace)

    uri = f"file:{world.db}?mode=ro"

    def read(over: threading.Event) -> None:
        with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE)) as conn:
            conn.execute("BEGIN")
            conn.execute("SELECT count(*), max(text) FROM messages").fetchone()
            over.wait(rng.uniform(0, 0.5))

    def hold(over: threading.Event) -> None:
        over.wait(rng.uniform(0.1, 0.5))
        with closing(sqlite3.connect(world.db, isolation_level=None, timeout=PATIENCE)) as conn:
            conn.execute("BEGIN IMMEDIATE")
            conn.execute("INSERT OR REPLACE INTO _meta VALUES ('held', ?)", (str(time.time()),))
            over.wait(rng.uniform(0, 0.3))
            conn.execute("ROLLBACK")

    kills = 0
    with ExitStack() as stack:
        for work in (write, read, hold):
            stack.enter_context(running(work))
        if SECONDS > 10 and importlib.util.find_spec("datasette"):
            stack.enter_context(running(browse(stack.enter_context(datasette(world)))))
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or kills < 2:
            live = Live(world)
            until(lambda live=live: live.health().pid == live.pid or live.process.poll())
            time.sleep(rng.uniform(0, min(SECONDS / 2, 3)))
            if rng.random() < 0.7:
                live.send(signal.SIGKILL)
                live.process.wait()
            else:
                assert live.end() == 0, live.stderr()
            kills += 1
    for writer in writers:
        writer.step(finish=True)
    expected = {uuid: text for writer in writers for uuid, text in writer.said.items()}
    with Live(world):
        until(lambda: count(world) >= len(expected), seconds=PATIENCE * 3)
    assert dict(world.ask("SELECT uuid, text FROM messages")) == expected
    assert count(world) == len(expected)
    assert world.one("SELECT count(*) FROM message_copies") == 0
    world.offsets_agree()
    world.sound()


def browse(port: int) -> object:
    """Somebody who looks at pages of Datasette."""

    def look(over: threading.Event) -> None:
        for page in (
            "ctxdb/messages.json?_size=5",
            "ctxdb/sessions",
            "ctxdb/messages?_search=word",
        ):
            try:
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{port}/{page}", timeout=PATIENCE
                ) as answer:
                    answer.read()
            except (urllib.error.URLError, OSError):
                over.wait(0.1)  # not up yet

    return look


def test_the_soak_leaves_nothing_running(tmp_path: Path) -> None:
    """The helpers above end what they start, also when a test fails in between."""
    threads: list[threading.Thread] = []

    def work(over: threading.Event) -> None:
        threads.append(threading.current_thread())
        over.wait(0.01)

    def fail() -> None:
        until(lambda: threads)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), running(work):
        fail()
    assert not threads[0].is_alive()
