"""The daemons of live_lab, forked from a process that has ctxdb imported, and waited for cheaply.

Starting Python for each takes ten times as much, and so does opening the database for each look.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import live_lab
from live_lab import count, runtime_folder
from world import FORKS, PATIENCE, RUN, World

# Answers a job with the id of the process that does it, and an id with how that process ended.
DAEMONS = (
    FORKS.partition("def run(job):")[0]
    + """
import watchdog.observers
def run(job):
    os.environ.clear()
    os.environ.update(job["env"])
    time.tzset()
    os.chdir(job["cwd"])
    os.umask(job["umask"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    said = os.open(job["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.close(said)
    sys.argv = job["argv"]
    try:
        exec(job["code"], {"__name__": "__main__"})
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
for row in sys.stdin:
    job = json.loads(row)
    if isinstance(job, int):
        child, status = os.waitpid(job, os.WNOHANG)
        answer = os.waitstatus_to_exitcode(status) if child else None
    else:
        answer = os.fork()
        if answer == 0:
            code = 1
            try:
                code = run(job)
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)
    print(json.dumps(answer), flush=True)
"""
)


@cache
def daemons() -> subprocess.Popen[str]:
    words = [sys.executable, "-P", "-c", DAEMONS]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.communicate)  # ends its input, and waits for it
    return process


def ask(question: Any) -> Any:
    process = daemons()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(question) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


class Forked:
    """What tests need of a Popen, for a process that another one has started."""

    def __init__(self, code: str, words: Sequence[str | Path], said: Path) -> None:
        mask = os.umask(0o022)
        os.umask(mask)
        self.returncode: int | None = None
        self.pid: int = ask(
            {
                "code": code,
                "argv": ["ctxdb", *map(str, words)],
                "env": dict(os.environ),
                "cwd": os.getcwd(),
                "umask": mask,
                "said": str(said),
            }
        )

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = ask(self.pid)
        return self.returncode

    def wait(self, timeout: float = PATIENCE) -> int:
        give_up = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > give_up:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.005)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Live(live_lab.Live):
    """`ctxdb watch` in a process that was forked."""

    def __init__(self, world: World, *more: str | Path, code: str = RUN) -> None:
        runtime_folder()
        self.world = world
        self.said = world.db.parent / f"said-{time.monotonic_ns()}"
        words = ["--db", world.db, "watch", *more, "--root", world.root]
        self.said.touch(0o600)
        self.process = Forked(code, words, self.said)  # type: ignore[assignment]


def until(fact: Callable[[], Any], what: Any = "", seconds: float = PATIENCE) -> Any:
    """Ask until the answer is true, and rest the longer the more work it is to ask."""
    __tracebackhide__ = True

    def rested() -> Any:
        began = time.thread_time()
        answer = fact()
        if not answer:
            time.sleep(3 * (time.thread_time() - began))
        return answer

    return live_lab.until(rested, what, seconds)


def has(world: World, lines: int) -> None:
    """Wait until exactly so many messages are there; ask when the database was written to."""
    __tracebackhide__ = True
    seen: Any = None
    asked_at, found = 0.0, 0

    def there() -> bool:
        nonlocal seen, asked_at, found
        now = [_stat(Path(f"{world.db}{suffix}")) for suffix in ("", "-wal")]
        # Times of files are coarse: ask now and then, too.
        if now != seen or time.monotonic() > asked_at + 0.2:
            seen, asked_at = now, time.monotonic()
            found = count(world)
        return found >= lines

    live_lab.until(there, f"{lines} messages")
    assert found == lines


def _stat(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
