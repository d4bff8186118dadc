"""The first sync at several sizes: whether a byte costs more in a large corpus.

    python bench/scale.py [--sizes 500,1000,2000,4000] [--keep FOLDER]

The goal: four times the bytes take at most five times as long. Memory is sampled four times a
second in the same run. The baseline of each size is measured before and after it: if that takes
more than four times as long too, the machine was busy. Corpora are made where they are missing, and
kept with --keep.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import corpus
from baseline import baseline
from run import MEMORY_MB, show
from tree import CHECKOUT, Cost, Tree, bytes_of, remove, workplace

SIZES = "500,1000,2000,4000"  # MB
TIMES = 5.0  # as long, for four times the bytes
SAMPLE_SECONDS = 0.25
ROOM = 2.5  # of the largest corpus, for its database while it is built


@dataclass(frozen=True, slots=True)
class Found:
    """One size."""

    megabytes: int  # as asked for
    size: int  # bytes
    cost: Cost
    base: Cost


def measure(tree: Tree, folder: Path, megabytes: int, rounds: int) -> Found:
    """Make the corpus, sync it, print."""
    root = corpus.write(folder, megabytes << 20)
    files, size = corpus.size_of(root)
    if size > os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 2:
        print("  the files may not stay in the page cache", flush=True)
    db = folder / "scale.db"
    bases, costs = [baseline(root)], []
    for _ in range(rounds):
        costs.append(tree.first_sync(db, root, sample_seconds=SAMPLE_SECONDS))
        bases.append(baseline(root))
    cost = _least(costs)
    # Before and after, because a busy machine changes in the minutes of a large sync.
    base = Cost(
        statistics.mean(cost.wall for cost in bases),
        statistics.mean(cost.cpu for cost in bases),
        0.0,
    )
    show(
        f"{size / 1e6:,.0f} MB",
        f"wall {cost.wall:.1f} s, cpu {cost.cpu:.1f} s, {size / 1e6 / cost.wall:.1f} MB/s,"
        f" cpu / baseline {cost.cpu / base.cpu:.1f}, wall / baseline {cost.wall / base.wall:.1f},"
        f" database / source {bytes_of(db) / size:.2f}, {files:,} files",
    )
    show(
        "",
        f"peak memory {cost.memory_mb:.0f} MB",
        f"under {MEMORY_MB} MB",
        reached=cost.memory_mb < MEMORY_MB,
    )
    remove(db)
    return Found(megabytes, size, cost, base)


def _least(costs: Sequence[Cost]) -> Cost:
    """The least time of several rounds: other work can only add to it. Memory is the most."""
    return Cost(
        min(cost.wall for cost in costs),
        min(cost.cpu for cost in costs),
        max(cost.memory_mb for cost in costs),
    )


def compare(found: Sequence[Found]) -> None:
    """Print how much longer four times the bytes take."""
    pairs = [(a, b) for a, b in combinations(found, 2) if b.megabytes == 4 * a.megabytes]
    if not pairs and len(found) > 1:
        pairs = [(found[0], found[-1])]
    for a, b in pairs:
        wall = _per_four_times(a, b, b.cost.wall / a.cost.wall)
        cpu = _per_four_times(a, b, b.cost.cpu / a.cost.cpu)
        base = _per_four_times(a, b, b.base.cpu / a.base.cpu)
        show(
            "per 4x bytes",
            f"wall {wall:.2f} times, cpu {cpu:.2f} times, baseline cpu {base:.2f} times"
            f"   ({a.megabytes} to {b.megabytes} MB)",
            f"at most {TIMES:.0f}",
            reached=max(wall, cpu) <= TIMES,
        )


def _per_four_times(a: Found, b: Found, ratio: float) -> float:
    """The corpora have whole repetitions, so one is seldom exactly four times the other."""
    return float(4 ** (math.log(ratio) / math.log(b.size / a.size)))


def check_room(folder: Path, sizes: Sequence[int]) -> None:
    """Exit if the disk is too small."""
    missing = [mb for mb in sizes if not (folder / f"projects-{mb}mb" / ".done").exists()]
    needed = int((sum(missing) + ROOM * max(sizes)) * (1 << 20))
    free = shutil.disk_usage(folder).free
    if free < needed:
        sys.exit(f"{folder} has {free / 1e9:.1f} GB free, and {needed / 1e9:.1f} GB are needed")


def main(words: Sequence[str] | None = None) -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description="The first sync at several sizes.")
    parser.add_argument("--sizes", default=SIZES, help=f"in MB, with commas [{SIZES}]")
    parser.add_argument("--keep", type=Path, help="keep corpora here between runs")
    parser.add_argument("--rounds", type=int, default=1, help="of each size; the minimum counts")
    options = parser.parse_args(words)
    sizes = sorted(int(word) for word in options.sizes.split(","))
    with workplace(options.keep) as folder:
        check_room(folder, sizes)
        tree = Tree("now", CHECKOUT, folder, masks=True)
        print("first sync by size", flush=True)
        compare([measure(tree, folder, size, options.rounds) for size in sizes])


if __name__ == "__main__":
    main()
