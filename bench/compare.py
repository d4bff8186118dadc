"""ctxdb beside other programs, on the same transcripts: times, sizes, sums, and what is kept.

    python bench/compare.py [FOLDER of projects] [--rounds 3] [--only NAME] [--tools FOLDER]

Without a folder: the corpus beside the checkout, else the demo. Each program comes from its
registry by name and version, into a temporary folder, and gets a home with a copy of the files. It
is run as its own README says. Prints a table in Markdown.

CPU time is that of the process, its children, and a daemon that it leaves behind. "After deleting":
all transcripts are deleted, the program runs once more, and is asked for the same sum. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import corpus
from tree import CHECKOUT, TICKS

CCUSAGE = "20.0.24"  # the newest that has a binary for Linux in the registry
AGENTSVIEW = "0.46.1"
CLAUDE_CODE_LOG = "1.7.0"
DATASETTE = "0.65.5"
NAIVE = """
SELECT sum(json_extract(line, '$.message.usage.output_tokens')) FROM lines
WHERE json_extract(line, '$.type') = 'assistant'
"""


@dataclass
class Sums:
    """What a program says of all transcripts. None: it does not say."""

    output_tokens: int | None = None
    usd: float | None = None


@dataclass
class Program:
    """How one program is installed, run and asked."""

    name: str
    install: Callable[[Path], None]
    read: Callable[[Path, Path], list[str | Path]]  # tools, home: the command that reads the files
    sums: Callable[[Path, Path, dict[str, str]], Sums]
    stop: Callable[[Path, Path], list[str | Path]] | None = None


def pip(*packages: str) -> Callable[[Path], None]:
    """Install packages into a venv."""

    def install(tools: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", tools], check=True)
        quiet = ("--quiet", "--disable-pip-version-check")
        subprocess.run([tools / "bin/pip", "install", *quiet, *packages], check=True)

    return install


def npm(*packages: str) -> Callable[[Path], None]:
    """Install packages with npm."""

    def install(tools: Path) -> None:
        quiet = ("--silent", "--no-audit", "--no-fund")
        subprocess.run(
            [shutil.which("npm") or "npm", "install", *quiet, "--prefix", tools, *packages],
            check=True,
        )

    return install


def asked(words: list[str | Path], env: dict[str, str]) -> str:
    """What a command prints."""
    done = subprocess.run(words, env=env, check=True, capture_output=True, text=True)
    return done.stdout


def ctxdb_sums(tools: Path, _home: Path, env: dict[str, str]) -> Sums:
    """The sums of `overview`."""
    sql = "SELECT sum(output_tokens) AS tokens, sum(cost_usd) AS usd FROM usage_by_model"
    out = asked([tools / "bin/ctxdb", "query", sql, "--no-sync", "--format", "jsonl"], env)
    row = json.loads(out)
    return Sums(row["tokens"], row["usd"])


def agentsview_sums(tools: Path, _home: Path, env: dict[str, str]) -> Sums:
    """The totals of its daily summary."""
    words = ["usage", "daily", "--all", "--offline", "--no-sync", "--json"]
    totals = json.loads(asked([tools / "bin/agentsview", *words], env))["totals"]
    return Sums(totals["outputTokens"], totals["totalCost"]["microdollars"] / 1e6)


def ccusage_sums(tools: Path, _home: Path, env: dict[str, str]) -> Sums:
    """The totals of its daily report."""
    words = ["claude", "daily", "--offline", "--json"]
    report = json.loads(asked([tools / "node_modules/.bin/ccusage", *words], env))
    totals = report.get("totals") or {}
    return Sums(totals.get("outputTokens"), totals.get("totalCost"))


def claude_code_log_sums(_tools: Path, home: Path, _env: dict[str, str]) -> Sums:
    """The first sum on its index page."""
    page = home / ".claude/projects/index.html"
    found = re.search(r"Output: (\d+)", page.read_text()) if page.exists() else None
    return Sums(int(found[1]) if found else None)


def lines_sums(_tools: Path, home: Path, _env: dict[str, str]) -> Sums:
    """One SELECT over all lines: each line of a reply counts, and so does each copy."""
    with closing(sqlite3.connect(home / "lines.db")) as db:
        ((tokens,),) = db.execute(NAIVE)
    return Sums(tokens)


# What a person does who has no other program: each line is a row, and the full text of all lines.
LOAD = """
import pathlib, sqlite_utils, sys
db = sqlite_utils.Database(sys.argv[2], recreate=True)
rows = (
    {"file": str(path), "line": line}
    for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.jsonl"))
    for line in path.read_text(errors="replace").split("\\n")
    if line
)
db["lines"].insert_all(rows)
db.execute("DELETE FROM lines WHERE NOT json_valid(line)")
db.conn.commit()
db["lines"].enable_fts(["line"])
"""

PROGRAMS = (
    Program(
        "ctxdb",
        pip(f"{CHECKOUT}"),
        lambda tools, _home: [tools / "bin/ctxdb", "sync", "--quiet"],
        ctxdb_sums,
    ),
    Program(
        f"agentsview {AGENTSVIEW}",
        pip(f"agentsview=={AGENTSVIEW}"),
        lambda tools, _home: [tools / "bin/agentsview", "sync"],
        agentsview_sums,
        lambda tools, _home: [tools / "bin/agentsview", "daemon", "stop"],
    ),
    Program(
        f"ccusage {CCUSAGE}",
        npm(f"ccusage@{CCUSAGE}", f"@ccusage/ccusage-linux-x64@{CCUSAGE}"),
        lambda tools, _home: [tools / "node_modules/.bin/ccusage", "claude", "daily", "--offline"],
        ccusage_sums,
    ),
    Program(
        f"claude-code-log {CLAUDE_CODE_LOG}",
        pip(f"claude-code-log=={CLAUDE_CODE_LOG}"),
        lambda tools, _home: [tools / "bin/claude-code-log", "--all-projects"],
        claude_code_log_sums,
    ),
    Program(
        f"sqlite-utils and Datasette {DATASETTE}",
        pip(f"datasette=={DATASETTE}", "sqlite-utils>=4"),
        lambda tools, home: [
            *(tools / "bin/python", "-c", LOAD),
            *(home / ".claude/projects", home / "lines.db"),
        ],
        lines_sums,
    ),
)


def cpu_of_daemons(home: Path) -> float:
    """CPU seconds of all running processes that have this home."""
    ticks = 0
    wanted = f"HOME={home}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
                user, system = fields[11:13]
                ticks += int(user) + int(system)
        except OSError:  # it has ended, or is not ours
            continue
    return ticks / TICKS


def timed(words: list[str | Path], env: dict[str, str], home: Path) -> tuple[float, float]:
    """Wall and CPU seconds of one command, with what its daemon used meanwhile."""
    before = cpu_of_daemons(home)
    began = time.perf_counter()
    process = subprocess.Popen(
        words, env=env, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{words[0]} ended with {process.returncode}")
    return wall, used.ru_utime + used.ru_stime + cpu_of_daemons(home) - before


def size_of(home: Path) -> int:
    """Bytes of all files in the home."""
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())


def environment(home: Path) -> dict[str, str]:
    """Nothing of the user's."""
    kept = ("PATH", "LANG", "npm_config_cache")
    here = {name: os.environ[name] for name in kept if name in os.environ}
    return {**here, "HOME": str(home), "TZ": "UTC", "TERM": "dumb", "NO_COLOR": "1"}


def compare(program: Program, source: Path, folder: Path, tools: Path, rounds: int) -> list[str]:
    """One row of the table."""
    if not tools.exists():
        program.install(tools)
    firsts, repeats = [], []
    for round_number in range(rounds):
        home = folder / f"home{round_number}"
        shutil.copytree(source, home / ".claude/projects")
        env = environment(home)
        own = size_of(home)
        try:
            firsts.append(timed(program.read(tools, home), env, home))
            repeats.append(timed(program.read(tools, home), env, home))
            size = size_of(home) - own
            sums = program.sums(tools, home, env)
            if round_number == rounds - 1:
                for path in (home / ".claude/projects").rglob("*.jsonl"):
                    path.unlink()
                try:
                    timed(program.read(tools, home), env, home)
                    left = program.sums(tools, home, env)
                except (RuntimeError, subprocess.CalledProcessError, sqlite3.Error):
                    left = Sums()
        finally:
            if program.stop:
                subprocess.run(program.stop(tools, home), env=env, check=False, capture_output=True)
    wall, cpu = min(firsts)
    wall_again, cpu_again = min(repeats)
    tokens = "not shown" if sums.output_tokens is None else f"{sums.output_tokens:,}"
    usd = "not shown" if sums.usd is None else f"{sums.usd:.2f}"
    kept = "the same" if left == sums else f"{left.output_tokens or 0:,} tokens"
    return [
        program.name,
        f"{wall:.1f} s ({cpu:.1f} s CPU)",
        f"{wall_again:.1f} s ({cpu_again:.1f} s CPU)",
        f"{size / 1e6:.0f} MB",
        *(tokens, usd, kept),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", default=[], help="a part of a program's name")
    parser.add_argument("--tools", type=Path, help="keep what is installed here, for other runs")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ctxdb-compare-") as name:
        top = Path(name)
        source = args.folder or top / "projects"
        if args.folder is None:
            for path, data in corpus.originals(top / "work"):
                to = source / path
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(data)
        head = ["", "first run", "again", "on disk", "output tokens", "USD", "after deleting"]
        rows = [head, ["---"] * len(head)]
        for place, program in enumerate(PROGRAMS):
            if args.only and not any(part in program.name for part in args.only):
                continue
            try:
                tools = (args.tools or top / "tools").resolve() / program.name.replace(" ", "-")
                rows.append(compare(program, source, top / str(place), tools, args.rounds))
            except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
                rows.append([program.name, f"not run: {error}", *[""] * (len(head) - 2)])
        print(
            f"{sum(1 for _ in source.rglob('*.jsonl'))} transcripts, {args.rounds} rounds, minima"
        )
        for row in rows:
            print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
