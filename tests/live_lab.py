"""Daemons for tests: in a process of their own, or in a thread where something is to be injected.

Waiting is by asking again and again, with deadlines that only a hanging daemon misses.
"""

from __future__ import annotations

import io
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import watchdog.observers  # noqa: F401  (a daemon that runs as nobody may not be allowed to read it)

from ctxdb import daemon_health as beats
from ctxdb.daemon.logs import Log
from ctxdb.daemon.main import Daemon
from ctxdb.daemon_health import Health
from world import PATIENCE, World, line

WATCH = [sys.executable, "-P", "-m", "ctxdb"]


def until(fact: Callable[[], Any], what: Any = "", seconds: float = PATIENCE) -> Any:
    """Ask until the answer is true."""
    __tracebackhide__ = True
    give_up = time.monotonic() + seconds
    while True:
        answer = fact()
        if answer:
            return answer
        if time.monotonic() > give_up:
            what = what() if callable(what) else what
            raise AssertionError(f"still not so after {seconds:.0f} s: {what or answer!r}")
        time.sleep(0.01)


def runtime_folder() -> None:
    """What a login makes: the folder that the health file lives in."""
    Path(os.environ["XDG_RUNTIME_DIR"]).mkdir(mode=0o700, exist_ok=True)


def session(n: int) -> str:
    return f"6e550000-0000-4000-8000-{n:012x}"


def own_line(n: int, k: int) -> bytes:
    """The k-th line of the n-th session."""
    return line(n * 1000 + k, sessionId=session(n))


def transcript(world: World, n: int, folder: str = "-work-tides") -> Path:
    return world.file(f"{folder}/{session(n)}.jsonl")


def count(world: World) -> int:
    """Messages in the database; none while it is being made or replaced."""
    try:
        return int(world.one("SELECT count(*) FROM messages"))
    except sqlite3.Error:
        return 0


def has(world: World, lines: int) -> None:
    """Wait until exactly so many messages are there."""
    __tracebackhide__ = True
    until(lambda: count(world) >= lines, f"{lines} messages")
    assert count(world) == lines


def events_come(world: World, daemon: Daemon, n: int, path: Path | None = None) -> int:
    """Append line after line, from number `n` on, until one is told of; return the next number.

    One alone would not do: it may be found by looking just before the folder is watched again.
    """
    __tracebackhide__ = True
    before = daemon.health.events
    give_up = time.monotonic() + PATIENCE
    while daemon.health.events == before:
        assert time.monotonic() < give_up, f"no event comes: {daemon.health}"
        world.append(line(n), path)
        n += 1
        has(world, n)
    return n


def put_in_place(path: Path, data: bytes) -> None:
    """Replace a file at once: no daemon finds nothing there in between."""
    other = path.with_name(f"{path.name}.new")
    other.write_bytes(data)
    other.replace(path)


@contextmanager
def paused(daemon: Daemon, owner: Any = None, name: str = "once") -> Iterator[None]:
    """Keep a daemon in a thread from going on: it sees several changes as one.

    It waits where it calls `name` of `owner`: by default where a round of its loop begins.
    """
    owner = owner or daemon.loop
    real = getattr(owner, name)
    reached, go_on = threading.Event(), threading.Event()

    def wait(*args: Any) -> Any:
        reached.set()
        go_on.wait()
        return real(*args)

    setattr(owner, name, wait)
    try:
        daemon.wakeup.set()
        assert reached.wait(PATIENCE)
        yield
    finally:
        setattr(owner, name, real)
        go_on.set()


class Live:
    """`ctxdb watch` in a process of its own."""

    def __init__(
        self,
        world: World,
        *more: str | Path,
        before: Sequence[str] = (),
        code: str | None = None,
        roots: Sequence[Path] | None = None,
    ) -> None:
        runtime_folder()
        self.world = world
        self.said = world.db.parent / f"said-{time.monotonic_ns()}"
        program = WATCH if code is None else [sys.executable, "-c", code]
        words: list[str | Path] = [*before, *program, "--db", world.db, "watch", *more]
        for root in [world.root] if roots is None else roots:
            words += ["--root", root]
        with self.said.open("wb") as file:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def stderr(self) -> str:
        return self.said.read_text()

    def health(self) -> Health:
        """What it last said of itself; nothing yet is an empty Health."""
        found = beats.read(self.world.db)
        return found if found is not None and found.pid == self.pid else Health()

    def is_in(self, *states: str) -> Self:
        """Wait until it is in one of these states."""
        __tracebackhide__ = True

        def there() -> bool:
            assert self.process.poll() is None, self.stderr()
            return self.health().state in states

        until(there, lambda: f"{states}; {self.health()}; {self.stderr()}")
        return self

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Keep it from running: it sees several changes as one."""
        self.send(signal.SIGSTOP)
        try:
            until(lambda: Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2][0] == "T")
            yield
        finally:
            self.send(signal.SIGCONT)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Self:
        try:
            return self.is_in("watching")
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise


@contextmanager
def inside(
    world: World, *, change: Callable[[Daemon], Any] = lambda _: None, roots: Sequence[Path] = ()
) -> Iterator[Daemon]:
    """A daemon in a thread of this process; `change` may put something into it first."""
    runtime_folder()
    config = world.config
    if roots:
        config = type(config)(config.db_path, tuple(map(str, roots)))
    said = io.StringIO()
    daemon = Daemon(config, Log(None, said))
    change(daemon)
    failed: list[BaseException] = []

    def run() -> None:
        try:
            daemon.run(signals=False)
        except BaseException as e:  # noqa: BLE001
            failed.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: failed or daemon.health.state == "watching", said.getvalue)
        if failed:
            raise failed[0]  # noqa: TRY301
        yield daemon
    except BaseException as e:
        e.add_note(f"{daemon.health}\n{said.getvalue()}")
        raise
    finally:
        daemon.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert not failed, failed
    assert "Traceback" not in said.getvalue()
