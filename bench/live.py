"""The daemon: how soon a line is there, and what waiting for it costs.

    python bench/run.py --only live

Everything is real: files on disk, the daemon in a process of its own, a reader that asks SQLite.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tree import Daemon, Tree, reader, remove

WRITER = """
import os, sys, time
folder, files, rate, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
sys.path.insert(0, sys.argv[5])
from live import line, session
fds = [os.open(f"{folder}/{session(1000 + n)}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
       for n in range(files)]
made = [[line(1000 + n, k) for k in range(int(rate * seconds))] for n in range(files)]
print("go", flush=True)
sys.stdin.readline()
began = time.monotonic()
for k in range(int(rate * seconds)):
    wait = began + k / rate - time.monotonic()
    if wait > 0:
        time.sleep(wait)
    for n in range(files):
        os.write(fds[n], made[n][k])
    print(time.monotonic(), flush=True)
"""


def session(n: int) -> str:
    """The id of the n-th session."""
    return f"30000000-0000-4000-8000-{n:012x}"


def line(n: int, k: int) -> bytes:
    """The k-th line of the n-th session."""
    entry = {
        "type": "assistant" if k % 2 else "user",
        "uuid": f"{n:08x}-0000-4000-9000-{k:012x}",
        "parentUuid": f"{n:08x}-0000-4000-9000-{k - 1:012x}" if k else None,
        "sessionId": session(n),
        # To the millisecond, as Claude Code writes it: sessions seldom share one.
        "timestamp": f"2026-08-24T22:{k // 60 % 60:02}:{k % 60:02}.{n * 7 % 1000:03}Z",
        "version": "2.1.280",
        "cwd": f"/work/p{n % 50}",
        "isSidechain": False,
        "requestId": f"req_{n}_{k}",
        "message": {
            "role": "assistant" if k % 2 else "user",
            "id": f"msg_{n}_{k}",
            "model": "claude-opus-4-5",
            "content": [{"type": "text", "text": f"line {k} " + "word " * 20}],
            "usage": {"input_tokens": 10, "output_tokens": 20},
        },
    }
    return json.dumps(entry).encode() + b"\n"


@contextmanager
def caught_up(tree: Tree, folder: Path, files: int, folders: int) -> Iterator[tuple[Daemon, Path]]:
    """A daemon that has caught up with that many files of one line each."""
    root = folder / f"live-{files}"
    if not root.exists():
        for n in range(files):
            path = root / f"-work-p{n % folders}" / f"{session(n)}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(line(n, 0))
        time.sleep(3)  # folders of this very moment would be listed once more
    db = folder / "live.db"
    remove(db)
    with tree.watch(db, root) as daemon:
        daemon.wait_for_lines(files)
        time.sleep(8)  # the last checkpoint, and memory given back
        yield daemon, root


def latency(tree: Tree, folder: Path) -> None:
    """From write(2) to a row that a reader finds, one line at a time."""
    rng = random.Random(1)
    shutil.rmtree(folder / "live-1000", ignore_errors=True)  # lines of an earlier run are there
    with caught_up(tree, folder, 1000, 50) as (found, root):
        files = sorted(root.rglob("*.jsonl"))
        conn = reader(found.db)
        took = []
        for k in range(1, 301):
            path = rng.choice(files)
            data = line(int(path.stem[-12:], 16), 1_000_000 + k)
            uuid = json.loads(data)["uuid"]
            began = time.perf_counter()
            with path.open("ab") as file:
                file.write(data)
            while not conn.execute("SELECT 1 FROM messages WHERE uuid = ?", (uuid,)).fetchone():
                time.sleep(0.0005)
            took.append((time.perf_counter() - began) * 1000)
            time.sleep(rng.uniform(0, 0.06))
        conn.close()
        cuts = statistics.quantiles(took, n=100)
        print(
            f"append to queryable, 1,000 files: p50 {cuts[49]:.0f} ms, p99 {cuts[98]:.0f} ms,"
            f" most {max(took):.0f} ms   (goal: p50 under 30, p99 under 150)"
        )


def idle(tree: Tree, folder: Path, seconds: float = 60.0) -> None:
    """Doing nothing, with 10,000 files watched."""
    with caught_up(tree, folder, 10_000, 200) as (found, _):
        before, written = found.cpu_of_threads(), found.written()
        time.sleep(seconds)
        share = (found.cpu_of_threads() - before) / seconds * 100
        print(
            f"idle for {seconds:.0f} s, 10,000 files: {share:.3f} % of a core,"
            f" {found.written() - written:,} bytes written, {found.megabytes():.0f} MB resident"
            "   (goal: under 0.1 %, none, under 80 MB)"
        )


def many(tree: Tree, folder: Path, files: int, rate: float, seconds: float, goal: str) -> None:
    """Files that grow at once: how far behind is the database, at what cost."""
    shutil.rmtree(folder / "live-100", ignore_errors=True)
    with caught_up(tree, folder, 100, 50) as (found, root):
        target = root / "-work-storm"
        target.mkdir()
        command = [sys.executable, "-c", WRITER, str(target), str(files), str(rate), str(seconds)]
        writer = subprocess.Popen(
            [*command, str(Path(__file__).parent)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if writer.stdin is None or writer.stdout is None:
            raise RuntimeError("no pipes")
        writer.stdout.readline()
        conn = reader(found.db)
        taken = "SELECT sum(lines) FROM source_files"  # cheaper than counting messages
        (start,) = conn.execute(taken).fetchone()
        before = found.cpu()
        began = time.monotonic()
        writer.stdin.write("\n")
        writer.stdin.flush()
        seen: list[tuple[float, int]] = []
        total = files * int(rate * seconds)
        while not seen or seen[-1][1] < total:
            time.sleep(0.05)
            (last,) = conn.execute(taken).fetchone()
            seen.append((time.monotonic(), last - start))
            if time.monotonic() - began > seconds + 120:
                break
        ended = time.monotonic()
        cpu = found.cpu() - before
        times = [float(row) for row in writer.communicate()[0].splitlines()]
        lags = []
        for at, there in seen:
            done = there // files  # rounds that are in whole
            if done < len(times) and times[done] <= at:
                lags.append(at - times[done])
        wrote = times[-1] - times[0]
        conn.close()
        print(
            f"{files} files x {rate:.0f} lines/s for {seconds:.0f} s (written in {wrote:.1f} s):"
            f" lag at most {max(lags, default=0.0):.2f} s, last line after"
            f" {ended - times[-1]:.2f} s, {cpu / (ended - began):.2f} of a core   (goal: {goal})"
        )


def measure(tree: Tree, folder: Path) -> None:
    """Measure everything."""
    latency(tree, folder)
    many(tree, folder, 20, 5, 10, "lag under 0.5 s, under half a core")
    many(tree, folder, 100, 100, 10, "lag under 2 s, under one core")
    idle(tree, folder)
