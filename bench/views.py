"""How long each view takes to answer with its first 100 rows.

    python bench/run.py --only views
    python bench/run.py --only views --mb 2000
    python bench/views.py some.db

The corpus is synced once. Every view answers TIMES times, one connection as a person has it, with
the file in the page cache; the median counts. The time that the processor spent is shown beside it:
on a machine that does other things too, that is the one to look at.

The goals are for a machine that does nothing else: 150 ms for 500 MB of transcripts (20 times
../shared/corpus), 400 ms for four times as much.
"""

from __future__ import annotations

import sqlite3
import statistics
import sys
import time
from contextlib import closing
from pathlib import Path

import corpus
from tree import Tree, reader, remove

GOAL_MS = 150  # up to SMALL_BYTES of transcripts
LARGE_GOAL_MS = 400
SMALL_BYTES = 600_000_000
ROWS = 100
TIMES = 5


def views(tree: Tree, folder: Path, megabytes: int) -> None:
    """Build the database, measure, print."""
    path = folder / "views.db"
    tree.first_sync(path, corpus.write(folder, megabytes << 20))
    measure(path)
    remove(path)


def measure(path: Path) -> None:
    """Measure every view of a database."""
    with closing(reader(path)) as conn:
        (read,) = conn.execute('SELECT total("offset") FROM source_files').fetchone()
        goal = GOAL_MS if read <= SMALL_BYTES else LARGE_GOAL_MS
        size = path.stat().st_size / 1e6
        print(f"first {ROWS} rows of each view, {read / 1e6:.0f} MB of transcripts, a database of"
              f" {size:.0f} MB (goal: each under {goal} ms)")  # fmt: skip
        names = [
            name
            for (name,) in conn.execute("SELECT name FROM sqlite_schema WHERE type = 'view'")
            if not name.startswith("_")
        ]
        missed = 0
        for view in sorted(names):
            took, used = zip(*(_ask(conn, view) for _ in range(TIMES)), strict=True)
            is_missed = min(statistics.median(took), *used) >= goal
            missed += is_missed
            mark = "  MISSED" if is_missed else ""
            print(f"  {view:20} {statistics.median(took):8.1f} ms   cpu {min(used):8.1f}{mark}")
        print(f"  {len(names) - missed} of {len(names)} views reach the goal")


def _ask(conn: sqlite3.Connection, view: str) -> tuple[float, float]:
    """Milliseconds on the clock, and of the processor."""
    began, used = time.perf_counter(), time.process_time()
    conn.execute(f"SELECT * FROM {view} LIMIT {ROWS}").fetchall()  # noqa: S608
    return (time.perf_counter() - began) * 1000, (time.process_time() - used) * 1000


if __name__ == "__main__":
    for name in sys.argv[1:]:
        measure(Path(name))
