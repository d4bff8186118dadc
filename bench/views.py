"""How long each view takes on a large database, whole and cut to 30,000 requests.

Every view is read to its last row (usage_costs: its first 100), five times, with the file in the
page cache; the median counts. The time that the processor spent is shown beside it: on a machine
that does other things too, that is the one to look at. Views that sum money have a goal.
"""

from __future__ import annotations

import shutil
import sqlite3
import statistics
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import corpus

from ctxdb.store import sql_files
from ctxdb.store.connection import open_reader, open_writer, write_transaction
from ctxdb.store.schema import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

GOAL_MS = 150
REQUESTS = 30_000
TIMES = 5
MEGABYTES = 500
# The views that answer with money, of which the goal is meant.
WITH_GOAL = {
    "usage_costs", "daily_usage", "weekly_usage", "monthly_usage", "usage_by_model",
    "usage_by_project", "usage_by_session", "usage_blocks", "cache_efficiency", "unpriced_models",
    "usage_audit", "sessions_overview", "projects_overview", "turns_overview", "subagent_runs",
    "pull_requests", "activity_by_hour",
}  # fmt: skip
FIRST_ROWS = {"usage_costs": 100}


def views(folder: Path, sync: Callable[[Path, Path], object], megabytes: int = MEGABYTES) -> None:
    """Build what is missing, measure, print."""
    whole = folder / f"views-{megabytes}mb.db"
    if not whole.exists():
        building = whole.with_suffix(".building")
        for old in folder.glob(f"{building.name}*"):
            old.unlink()
        sync(building, corpus.write(folder, megabytes << 20))
        building.rename(whole)
    cut = folder / f"views-{megabytes}mb-{REQUESTS}.db"
    if not cut.exists():
        shutil.copyfile(whole, cut)
        cut.chmod(0o600)
        _cut(cut)
    for path in (cut, whole):
        _bring_up_to_date(path)
        _measure(path)


def _cut(path: Path) -> None:
    """Keep the first requests and the lines that told of them."""
    with closing(open_writer(path)) as conn, write_transaction(conn):
        conn.execute(
            "DELETE FROM usage WHERE id NOT IN (SELECT id FROM usage ORDER BY id LIMIT ?)",
            (REQUESTS,),
        )
        conn.execute(
            "DELETE FROM _usage_lines WHERE request_key NOT IN (SELECT request_key FROM usage)"
        )


def _bring_up_to_date(path: Path) -> None:
    with closing(open_writer(path)) as conn:
        prepare(conn, path)
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _measure(path: Path) -> None:
    with closing(open_reader(path)) as conn:
        (requests,) = conn.execute("SELECT count(*) FROM usage").fetchone()
        size = path.stat().st_size / 1e6
        goal = f"   (goal: each under {GOAL_MS} ms)" if requests <= REQUESTS else ""
        print(f"views, {requests:,} requests, a database of {size:.0f} MB{goal}")
        missed = []
        for view in sorted(sql_files.names("view"), key=lambda name: (name not in WITH_GOAL, name)):
            took, used = zip(*(_ask(conn, view) for _ in range(TIMES)), strict=True)
            median = statistics.median(took)
            mark = ""
            if view in WITH_GOAL and requests <= REQUESTS and median >= GOAL_MS:
                mark = "  MISSED"
                missed.append(view)
            beside = "" if view in WITH_GOAL else "  (no goal)"
            print(f"  {view:20} {median:8.1f} ms   cpu {min(used):8.1f}{mark}{beside}")
        if goal:
            print(f"  {len(WITH_GOAL) - len(missed)} of {len(WITH_GOAL)} views reach the goal")


def _ask(conn: sqlite3.Connection, view: str) -> tuple[float, float]:
    """Milliseconds on the clock, and of the processor."""
    limit = f" LIMIT {FIRST_ROWS[view]}" if view in FIRST_ROWS else ""
    began, used = time.perf_counter(), time.process_time()
    conn.execute(f"SELECT * FROM {view}{limit}").fetchall()  # noqa: S608
    return (time.perf_counter() - began) * 1000, (time.process_time() - used) * 1000
