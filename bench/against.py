"""This source tree against another revision: the same files, turn by turn.

    python bench/against.py REV [--mb 250] [--rounds 3] [--also NAME]
    make bench-against REV=main ARGS="--mb 100 --also catch-up"

REV is checked out into a temporary worktree. Both trees run with the same Python and the same
packages, from the source in src/, so REV must not need a package that is not installed. What is not
committed here is measured too. In every round the baseline, REV and this tree run one after
another, so other work on the machine meets all of them. Ratios below 1 mean that this tree needs
less.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import cases
import corpus
from baseline import baseline
from tree import CHECKOUT, SAMPLE_SECONDS, Tree, bytes_of, workplace

LEAST_ROUNDS = 3
Numbers = dict[str, float]


class Pair:
    """The two trees, and everything that was measured of them."""

    def __init__(self, trees: tuple[Tree, Tree], folder: Path, options: argparse.Namespace) -> None:
        self.trees = trees
        self.folder = folder
        self.options = options
        self.root = corpus.write(folder, options.mb << 20)
        self.size = corpus.size_of(self.root)[1]

    def db(self, tree: Tree) -> Path:
        """The database that a tree makes of the corpus."""
        return self.folder / f"{tree.name}-first.db"

    def first(self, tree: Tree) -> Numbers:
        """The first sync."""
        base = baseline(self.root)
        cost = tree.first_sync(self.db(tree), self.root)
        return {
            "first sync, cpu s": cost.cpu,
            "first sync, wall s": cost.wall,
            "cpu / baseline": cost.cpu / base.cpu,
            "wall / baseline": cost.wall / base.wall,
            "database / source": bytes_of(self.db(tree)) / self.size,
        }

    def memory(self, tree: Tree) -> Numbers:
        """The memory of the first sync."""
        cost = tree.first_sync(self.db(tree), self.root, sample_seconds=SAMPLE_SECONDS)
        return {"peak memory, MB": cost.memory_mb}

    def nothing(self, tree: Tree) -> Numbers:
        """A sync with nothing new."""
        cost = cases.nothing_new(tree, self.db(tree), self.root, runs=5)
        return {"nothing new, cpu s": cost.cpu, "nothing new, wall s": cost.wall}

    def line(self, tree: Tree) -> Numbers:
        """One appended line."""
        small = cases.small_line(tree, self.folder)
        large = cases.large_line(tree, self.folder, self.db(tree), self.root)
        return {
            "a line, daemon, small, cpu ms": small.daemon,
            "a line, daemon, large, cpu ms": large.daemon,
            "a line, sync, small, cpu ms": small.sync,
            "a line, sync, large, cpu ms": large.sync,
        }

    def catch_up(self, tree: Tree) -> Numbers:
        """A daemon that was away."""
        found = cases.catch_up(tree, self.folder, self.options.catch_up_mb * 1_000_000)
        if found.differences:
            print(f"{tree.name}: daemon and sync differ in {found.differences} tables")
        return {
            "catch-up, daemon, cpu s": found.daemon,
            "catch-up, sync, cpu s": found.sync,
            "catch-up, daemon / sync": found.daemon / found.sync,
        }

    def many(self, tree: Tree) -> Numbers:
        """Very many files with nothing new."""
        found = cases.many_files(tree, self.folder, self.options.files)
        return {
            "many files, first sync, cpu s": found.first.cpu,
            "many files, nothing new, cpu s": found.again.cpu,
            "many files, nothing new, MB": found.again.memory_mb,
        }

    def unfinished(self, tree: Tree) -> Numbers:
        """A very long last line without a newline."""
        found = cases.unfinished_line(tree, self.folder, self.options.unfinished_mb * 1_000_000)
        return {
            "unfinished line, first, cpu s": found.first.cpu,
            "unfinished line, again, cpu s": found.again.cpu,
            "unfinished line, first, MB": found.first.memory_mb,
        }

    def interleaved(self, measure: Callable[[Pair, Tree], Numbers]) -> None:
        """Measure both in turns, and print."""
        found: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
        for _ in range(self.options.rounds):
            for place, tree in enumerate(self.trees):
                for name, number in measure(self, tree).items():
                    found[name][place].append(number)
        for name, (before, now) in found.items():
            a, b = statistics.median(before), statistics.median(now)
            print(
                f"  {name:32}{a:10.3f}{min(before):10.3f}{b:10.3f}{min(now):10.3f}"
                f"{_ratio(b, a):>10}{_ratio(min(now), min(before)):>10}",
                flush=True,
            )


def _ratio(now: float, before: float) -> str:
    return f"{now / before:.3f}" if before else "-"


MORE = {
    "memory": Pair.memory,
    "nothing": Pair.nothing,
    "line": Pair.line,
    "catch-up": Pair.catch_up,
    "many": Pair.many,
    "unfinished": Pair.unfinished,
}


@contextmanager
def checked_out(rev: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """The short name of a revision, and a worktree of it that is removed at the end."""
    asked = _git("rev-parse", "--verify", "--short", f"{rev}^{{commit}}")
    if asked.returncode:
        sys.exit(f"{rev} is no revision of {CHECKOUT}")
    name = asked.stdout.strip()
    path = folder / f"tree-{name}"
    _git("worktree", "remove", "--force", str(path))  # of a run that was killed
    added = _git("worktree", "add", "--force", "--detach", str(path), name)
    if added.returncode:
        sys.exit(added.stderr)
    try:
        yield name, path
    finally:
        _git("worktree", "remove", "--force", str(path))


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-C", str(CHECKOUT), *words],  # noqa: S607
        check=False,
        capture_output=True,
        text=True,
    )


def main(words: Sequence[str] | None = None) -> None:
    """Measure both trees."""
    parser = argparse.ArgumentParser(description="This source tree against another revision.")
    parser.add_argument("rev", help="a git revision")
    parser.add_argument("--mb", type=int, default=250, help="size of the corpus")
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS, help="at least 3")
    parser.add_argument("--keep", type=Path, help="keep corpora here between runs")
    parser.add_argument("--also", choices=[*MORE, "all"], action="append", help="repeatable")
    parser.add_argument("--masked", action="store_true", help="with masking, where a tree has it")
    parser.add_argument("--files", type=int, default=200_000, help="of many")
    parser.add_argument("--catch-up-mb", type=int, default=75)
    parser.add_argument("--unfinished-mb", type=int, default=300)
    options = parser.parse_args(words)
    if options.rounds < LEAST_ROUNDS:
        parser.error(f"--rounds must be at least {LEAST_ROUNDS}")
    also = options.also or []
    with workplace(options.keep) as folder, checked_out(options.rev, folder) as (name, path):
        trees = (
            Tree(name, path, folder, masks=options.masked),
            Tree("now", CHECKOUT, folder, masks=options.masked),
        )
        pair = Pair(trees, folder, options)
        files = corpus.size_of(pair.root)[0]
        print(f"{pair.size / 1e6:.0f} MB in {files:,} files, {options.rounds} rounds, interleaved")
        print(f"{'':34}{name:>20}{'this tree':>20}{f'this / {name}':>20}")
        print(f"{'':34}" + f"{'median':>10}{'minimum':>10}" * 2 + f"{'medians':>10}{'minima':>10}")
        pair.interleaved(Pair.first)
        for extra, measure in MORE.items():
            if extra in also or "all" in also:
                pair.interleaved(measure)


if __name__ == "__main__":
    main()
