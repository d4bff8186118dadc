"""How long each view takes on a large database, whole and cut to 30,000 requests.

Every view is read to its last row (usage_costs: its first 100), five times, with the file in the
page cache; the median counts. The time that the processor spent is shown beside it: on a machine
that does other things too, that is the one to look at. Views that sum money have a goal.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from contextlib import closing
from pathlib import Path

import corpus
from tree import Tree, copy, reader, remove

GOAL_MS = 150
REQUESTS = 30_000
TIMES = 5
# The views that answer with money, of which the goal is meant.
WITH_GOAL = {
    "usage_costs", "daily_usage", "weekly_usage", "monthly_usage", "usage_by_model",
    "usage_by_project", "usage_by_session", "usage_blocks", "cache_efficiency", "unpriced_models",
    "usage_audit", "sessions_overview", "projects_overview", "turns_overview", "subagent_runs",
    "pull_requests", "activity_by_hour",
}  # fmt: skip
FIRST_ROWS = {"usage_costs": 100}


def views(tree: Tree, folder: Path, megabytes: int) -> None:
    """Build the databases, measure, print."""
    whole, cut = folder / "views.db", folder / "views-cut.db"
    tree.first_sync(whole, corpus.write(folder, megabytes << 20))
    copy(whole, cut)
    _cut(cut)
    for path in (cut, whole):
        _measure(path)
        remove(path)


def _cut(path: Path) -> None:
    """Keep the first requests and the lines that report them."""
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute(
            "DELETE FROM usage WHERE id NOT IN (SELECT id FROM usage ORDER BY id LIMIT ?)",
            (REQUESTS,),
        )
        conn.execute(
            "DELETE FROM _usage_lines WHERE request_key NOT IN (SELECT request_key FROM usage)"
        )


def _measure(path: Path) -> None:
    with closing(reader(path)) as conn:
        (requests,) = conn.execute("SELECT count(*) FROM usage").fetchone()
        size = path.stat().st_size / 1e6
        goal = f"   (goal: each under {GOAL_MS} ms)" if requests <= REQUESTS else ""
        print(f"views, {requests:,} requests, a database of {size:.0f} MB{goal}")
        missed = []
        found = [
            name
            for (name,) in conn.execute("SELECT name FROM sqlite_schema WHERE type = 'view'")
            if not name.startswith("_")
        ]
        for view in sorted(found, key=lambda name: (name not in WITH_GOAL, name)):
            took, used = zip(*(_ask(conn, view) for _ in range(TIMES)), strict=True)
            median = statistics.median(took)
            mark = ""
            if view in WITH_GOAL and requests <= REQUESTS and median >= GOAL_MS:
                mark = "  MISSED"
                missed.append(view)
            beside = "" if view in WITH_GOAL else "  (no goal)"
            print(f"  {view:20} {median:8.1f} ms   cpu {min(used):8.1f}{mark}{beside}")
        if goal:
            there = WITH_GOAL.intersection(found)
            print(f"  {len(there) - len(missed)} of {len(there)} views reach the goal")
            for name in sorted(WITH_GOAL - there):
                print(f"  {name} is not in the database")


def _ask(conn: sqlite3.Connection, view: str) -> tuple[float, float]:
    """Milliseconds on the clock, and of the processor."""
    limit = f" LIMIT {FIRST_ROWS[view]}" if view in FIRST_ROWS else ""
    began, used = time.perf_counter(), time.process_time()
    conn.execute(f"SELECT * FROM {view}{limit}").fetchall()  # noqa: S608
    return (time.perf_counter() - began) * 1000, (time.process_time() - used) * 1000
