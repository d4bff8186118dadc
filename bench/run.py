"""Speed and memory of this source tree, most of it as ratios within one run.

    python bench/run.py [--mb 250] [--keep FOLDER] [--only NAME]

A ratio does not depend on how fast the machine is, and little on what else it does. CPU time
depends less on other work than wall time does. Goals are printed beside what is measured; MISSED
marks a goal that is not reached. The baseline is that of baseline.py, everywhere.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import cases
import corpus
import live
import pages
import team
from baseline import baseline
from shell import shell
from tree import CHECKOUT, SAMPLE_SECONDS, Tree, bytes_of, workplace
from views import views

MEMORY_MB = 250
NOTHING_NEW_SECONDS = 0.3
CATCH_UP_TIMES = 1.5
MANY_CPU_SECONDS = 2.0


class Bench:
    """The measurements, with what they share: a tree, a folder and the options."""

    def __init__(self, tree: Tree, folder: Path, options: argparse.Namespace) -> None:
        self.tree = tree
        self.folder = folder
        self.options = options
        self._synced = False

    def synced(self) -> tuple[Path, Path]:
        """The corpus, and a database that has all of it."""
        root = corpus.write(self.folder, self.options.mb << 20)
        db = self.folder / "first.db"
        if not self._synced:
            self.tree.first_sync(db, root)
            self._synced = True
        return root, db

    def first(self) -> None:
        """The first sync of a corpus."""
        root = corpus.write(self.folder, self.options.mb << 20)
        db = self.folder / "first.db"
        files, size = corpus.size_of(root)
        bases, syncs = [], []
        for _ in range(self.options.rounds):
            bases.append(baseline(root))
            syncs.append(self.tree.first_sync(db, root))
        print(f"first sync, {size / 1e6:.0f} MB in {files:,} files, {len(syncs)} rounds")
        print("  baseline: orjson.loads of each line, files in the page cache, reading included")
        for name in ("cpu", "wall"):
            base = [getattr(cost, name) for cost in bases]
            took = [getattr(cost, name) for cost in syncs]
            ratio = statistics.median(t / b for t, b in zip(took, base, strict=True))
            show(
                f"{name} time",
                f"{statistics.median(took):.2f} s, baseline {statistics.median(base):.2f} s:"
                f" {ratio:.1f} times   (minima {min(took):.2f} s, {min(base):.2f} s:"
                f" {min(took) / min(base):.1f} times)",
            )
        show("database", f"{bytes_of(db) / 1e6:.0f} MB, {bytes_of(db) / size:.2f} of the source")
        memory = self.tree.first_sync(db, root, sample_seconds=SAMPLE_SECONDS).memory_mb
        self._synced = True
        show(
            "peak memory",
            f"{memory:.0f} MB, PSS of all processes together, in a run of its own",
            f"under {MEMORY_MB} MB",
            reached=memory < MEMORY_MB,
        )

    def nothing(self) -> None:
        """A sync with nothing to read."""
        root, db = self.synced()
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], env=self.tree.env, check=True)
        start = time.perf_counter() - began
        cost = cases.nothing_new(self.tree, db, root)
        print(f"nothing new in {corpus.size_of(root)[0]:,} files, `ctxdb sync` from a cold shell")
        show(
            "wall time",
            f"{cost.wall:.3f} s, cpu {cost.cpu:.3f} s   (Python alone: {start:.3f} s)",
            f"under {NOTHING_NEW_SECONDS} s",
            reached=cost.wall < NOTHING_NEW_SECONDS,
        )

    def line(self) -> None:
        """One appended line in a small and a large database."""
        root, db = self.synced()
        small = cases.small_line(self.tree, self.folder)
        large = cases.large_line(self.tree, self.folder, db, root)
        print(
            "one appended line: cpu in a file of 50 kB alone, and in one of 50 MB in a database of"
            f" {bytes_of(db) / 1e6:.0f} MB"
        )
        show(
            "daemon",
            f"{small.daemon:.2f} ms, {large.daemon:.2f} ms: {large.daemon / small.daemon:.2f} times"
            f"   (mean of {cases.LINE_RUNS} lines, {cases.LINE_GAP_SECONDS} s apart)",
            "about 1",
        )
        show(
            "whole sync",
            f"{small.sync:.0f} ms, {large.sync:.0f} ms: {large.sync / small.sync:.2f} times"
            "   (starting Python included)",
        )

    def catch_up(self) -> None:
        """A daemon that was away, against a sync."""
        found = cases.catch_up(self.tree, self.folder, self.options.catch_up_mb * 1_000_000)
        ratio = found.daemon / found.sync
        files = cases.CATCH_UP_FILES
        print(f"catching up with {found.megabytes:.0f} MB of new lines in {files} files")
        show(
            "daemon / sync",
            f"cpu {found.daemon:.2f} s / {found.sync:.2f} s: {ratio:.2f} times",
            f"at most {CATCH_UP_TIMES}",
            reached=ratio <= CATCH_UP_TIMES,
        )
        if found.differences:
            show(
                "rows",
                f"{found.differences} tables have another number of rows",
                "none",
                reached=False,
            )

    def many(self) -> None:
        """Very many files with nothing new."""
        found = cases.many_files(self.tree, self.folder, self.options.files)
        print(f"{self.options.files:,} files of one line, `ctxdb sync` with nothing new")
        show(
            "peak memory",
            f"{found.again.memory_mb:.0f} MB   (first sync: {found.first.memory_mb:.0f} MB)",
            f"under {MEMORY_MB} MB",
            reached=found.again.memory_mb < MEMORY_MB,
        )
        show(
            "cpu time",
            f"{found.again.cpu:.2f} s, wall {found.again.wall:.2f} s"
            f"   (first sync: {found.first.cpu:.1f} s, {found.first.wall:.1f} s)",
            f"under {MANY_CPU_SECONDS} s",
            reached=found.again.cpu < MANY_CPU_SECONDS,
        )

    def unfinished(self) -> None:
        """A very long last line without a newline."""
        megabytes = self.options.unfinished_mb
        found = cases.unfinished_line(self.tree, self.folder, megabytes * 1_000_000)
        print(f"a last line of {megabytes} MB without a newline, nothing new since the first sync")
        show(
            "cpu time",
            f"first sync {found.first.cpu:.2f} s, next {found.again.cpu:.2f} s:"
            f" {found.again.cpu / found.first.cpu:.2f} times",
        )
        show(
            "peak memory",
            f"first sync {found.first.memory_mb:.0f} MB, next {found.again.memory_mb:.0f} MB",
            f"under {MEMORY_MB} MB",
            reached=max(found.first.memory_mb, found.again.memory_mb) < MEMORY_MB,
        )

    def shell(self) -> None:
        """Questions from a cold shell."""
        shell(self.tree, self.folder, max(self.options.mb, self.options.question_mb))

    def views(self) -> None:
        """Every view."""
        views(self.tree, self.folder, max(self.options.mb, self.options.question_mb))

    def pages(self) -> None:
        """The pages of `ctxdb serve`."""
        pages.pages(self.tree, self.folder, max(self.options.mb, self.options.question_mb))

    def live(self) -> None:
        """The daemon: how soon a line is there."""
        live.measure(self.tree, self.folder)

    def team(self) -> None:
        """Pushing to a team's server."""
        root, db = self.team_db()
        found = team.measure(self.tree, self.folder, db)
        _, size = corpus.size_of(root)
        print(f"`ctxdb push` of {size / 1e6:.0f} MB of transcripts at level metadata")
        for label, cost, most in (
            ("first", found.first, team.FIRST_SECONDS),
            ("nothing new", found.nothing, team.NOTHING_SECONDS),
            (f"{team.NEW_ROWS:,} new rows", found.rows, team.ROWS_SECONDS),
        ):
            text = f"{cost.wall:.2f} s, cpu of ctxdb {cost.cpu:.2f} s"
            show(label, text, f"under {most} s", reached=cost.wall < most)
        problems = "; ".join(found.problems) or "no deadlock, no duplicate"
        text = f"{found.together_seconds:.1f} s: {problems}"
        show(f"{team.MACHINES} at once", text, "no problem", reached=not found.problems)

    def team_db(self) -> tuple[Path, Path]:
        """A corpus of the size that the goals name, and its database."""
        root = corpus.write(self.folder, max(self.options.mb, self.options.question_mb) << 20)
        db = self.folder / "team.db"
        self.tree.first_sync(db, root)
        return root, db


def show(label: str, text: str, goal: str = "", *, reached: bool = True) -> None:
    """Print one number."""
    print(
        f"  {label:14} {text}"
        + (f"   (goal: {goal})" if goal else "")
        + ("" if reached else "  MISSED"),
        flush=True,
    )


MEASUREMENTS = {
    "first": Bench.first,
    "nothing": Bench.nothing,
    "line": Bench.line,
    "catch-up": Bench.catch_up,
    "many": Bench.many,
    "unfinished": Bench.unfinished,
    "shell": Bench.shell,
    "views": Bench.views,
    "pages": Bench.pages,
    "live": Bench.live,
    "team": Bench.team,
}


def main(words: Sequence[str] | None = None) -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description="Speed and memory of this source tree.")
    parser.add_argument("--mb", type=int, default=250, help="size of the corpus")
    parser.add_argument("--rounds", type=int, default=3, help="of the first sync")
    parser.add_argument("--keep", type=Path, help="keep corpora here between runs")
    parser.add_argument("--only", choices=MEASUREMENTS, action="append", help="repeatable")
    parser.add_argument("--files", type=int, default=200_000, help="of many")
    parser.add_argument("--catch-up-mb", type=int, default=75)
    parser.add_argument("--unfinished-mb", type=int, default=300)
    parser.add_argument(
        "--question-mb", type=int, default=500, help="at least, of shell, views, pages and team"
    )
    options = parser.parse_args(words)
    with workplace(options.keep) as folder:
        bench = Bench(Tree("now", CHECKOUT, folder, masks=True), folder, options)
        for name in options.only or MEASUREMENTS:
            MEASUREMENTS[name](bench)


if __name__ == "__main__":
    main()
