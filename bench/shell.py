"""What a question costs from a shell that has not asked before: start, look for news, ask, print.

    python bench/run.py --only shell

Each command runs in a process of its own, in turns, so that a busy moment of the machine touches
all of them; the median and the best of the runs are shown, and the processor's time, which a busy
machine changes least. Python's own start is measured the same way and shown beside. The corpus is
500 MB in some thousand files, already synced.

The goals: `query daily_usage` under 0.25 s, `search` under 0.3 s.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import corpus
from tree import Tree, remove

RUNS = 9
COMMANDS: dict[str, tuple[list[str | Path], float | None] | None] = {
    "python alone": None,
    "query daily_usage": (["query", "daily_usage"], 0.25),
    "query daily_usage --since all": (["query", "daily_usage", "--since", "all"], None),
    "query daily_usage --no-sync": (["query", "daily_usage", "--no-sync"], None),
    "query sessions_overview -n 20": (["query", "sessions_overview", "-n", "20"], None),
    "search 'connection refused'": (["search", "connection", "refused"], 0.3),
    "search error": (["search", "error"], 0.3),
    "show last": (["show", "last"], None),
}


def shell(tree: Tree, folder: Path, megabytes: int) -> None:
    """Print the times."""
    root = corpus.write(folder, megabytes << 20)
    claude = folder / "claude"
    claude.mkdir(exist_ok=True)
    (claude / "projects").unlink(missing_ok=True)
    (claude / "projects").symlink_to(root)
    db = folder / "shell.db"
    environ = tree.env | {"CLAUDE_CONFIG_DIR": str(claude), "CTXDB_DB": str(db)}
    remove(db)
    subprocess.run(tree.command(["sync", "--quiet"]), env=environ, check=True)
    files, size = corpus.size_of(root)
    print(f"from a cold shell, {size / 1e6:.0f} MB in {files:,} files:")
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    busy: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(RUNS):
        for name, what in COMMANDS.items():
            args = [sys.executable, "-c", "pass"] if what is None else tree.command(what[0])
            before, began = _children(), time.perf_counter()
            subprocess.run(args, env=environ, check=True, capture_output=True)
            times[name].append(time.perf_counter() - began)
            busy[name].append(_children() - before)
    for name, what in COMMANDS.items():
        goal = f"   (goal: under {what[1]} s)" if what and what[1] else ""
        found = times[name]
        print(
            f"  {name:32} {statistics.median(found):.3f} s, best {min(found):.3f} s,"
            f" processor {statistics.median(busy[name]):.3f} s{goal}"
        )
    remove(db)


def _children() -> float:
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime
