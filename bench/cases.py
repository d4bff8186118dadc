"""What is measured of one source tree: each function prepares files, runs ctxdb, returns numbers.

run.py prints them beside the goals, against.py beside those of another tree.
"""

from __future__ import annotations

import shutil
import statistics
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import corpus
from live import line, session
from tree import SAMPLE_SECONDS, Cost, Tree, copy, reader, remove

CATCH_UP_BASE = 50 << 20  # bytes in the database before the daemon has something to catch up with
CATCH_UP_FILES = 10
LINE_RUNS = 200  # lines, appended one by one
LINE_GAP_SECONDS = 0.05  # between two of them: each is a commit of its own
SMALL_FILE, LARGE_FILE = 50_000, 50_000_000  # bytes
MANY_FOLDERS = 400
FAR = 1000  # repetitions from here on are in no corpus of write()


def nothing_new(tree: Tree, db: Path, *roots: Path, runs: int = 7) -> Cost:
    """`ctxdb sync` with nothing to read: medians of several runs."""
    tree.sync(db, *roots)
    costs = [tree.sync(db, *roots) for _ in range(runs)]
    return Cost(
        statistics.median(cost.wall for cost in costs),
        statistics.median(cost.cpu for cost in costs),
        0.0,
    )


# -- one appended line -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LineCost:
    """CPU milliseconds for one appended line."""

    daemon: float
    sync: float  # a whole `ctxdb sync`, starting Python included


def small_line(tree: Tree, folder: Path) -> LineCost:
    """In a file of 50 kB and a database of nothing else."""
    db = folder / f"{tree.name}-small.db"
    remove(db)
    return _line_cost(tree, folder, db, SMALL_FILE)


def large_line(tree: Tree, folder: Path, full_db: Path, *roots: Path) -> LineCost:
    """In a file of 50 MB and a database that has all of the corpus too."""
    db = folder / f"{tree.name}-large.db"
    copy(full_db, db)
    cost = _line_cost(tree, folder, db, LARGE_FILE, *roots)
    remove(db)
    return cost


def _line_cost(tree: Tree, folder: Path, db: Path, size: int, *roots: Path) -> LineCost:
    root = folder / f"line-{size}"
    shutil.rmtree(root, ignore_errors=True)
    number = 2000
    path = root / "-work-p" / f"{session(number)}.jsonl"
    path.parent.mkdir(parents=True)
    _grow(path, corpus.Transcripts(folder), size, FAR)
    tree.sync(db, *roots, root)
    with tree.watch(db, *roots, root) as daemon:
        daemon.wait_until_quiet()
        before = daemon.cpu()
        for k in range(LINE_RUNS):
            with path.open("ab") as file:
                file.write(line(number, k))
            time.sleep(LINE_GAP_SECONDS)
        daemon.wait_for_bytes(corpus.size_of(root)[1])
        live = (daemon.wait_until_quiet() - before) / LINE_RUNS
    syncs = []
    for k in range(LINE_RUNS, LINE_RUNS + 9):
        with path.open("ab") as file:
            file.write(line(number, k))
        syncs.append(tree.sync(db, *roots, root).cpu)
    return LineCost(live * 1000, statistics.median(syncs) * 1000)


# -- a daemon that was away ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CatchUp:
    """CPU seconds for the same new lines."""

    megabytes: float
    daemon: float
    sync: float
    differences: int  # between the numbers of rows; there must be none


def catch_up(tree: Tree, folder: Path, size: int) -> CatchUp:
    """A daemon is stopped, ten files grow, it is started again; a sync does the same on a copy."""
    root = folder / "catch-up"
    shutil.rmtree(root, ignore_errors=True)
    transcripts = corpus.Transcripts(folder)
    corpus.add(root, transcripts, CATCH_UP_BASE)
    paths = [root / "-work-p" / f"{session(n)}.jsonl" for n in range(3000, 3000 + CATCH_UP_FILES)]
    paths[0].parent.mkdir(parents=True)
    first = {path: FAR + 100 * n for n, path in enumerate(paths)}
    for path in paths:
        _grow(path, transcripts, SMALL_FILE, first[path])
    db, other = folder / f"{tree.name}-catch-up.db", folder / f"{tree.name}-caught-up.db"
    remove(db)
    tree.sync(db, root)
    with tree.watch(db, root) as daemon:
        daemon.wait_until_quiet()
    before = corpus.size_of(root)[1]
    for path in paths:
        _grow(path, transcripts, path.stat().st_size + size // CATCH_UP_FILES, first[path] + 50)
    after = corpus.size_of(root)[1]
    copy(db, other)
    by_sync = tree.sync(other, root).cpu
    with tree.watch(db, root) as daemon:
        daemon.wait_for_bytes(after)
        by_daemon = daemon.wait_until_quiet()
    found = CatchUp((after - before) / 1e6, by_daemon, by_sync, _differences(db, other))
    for path in (db, other):
        remove(path)
    return found


def _differences(db: Path, other: Path) -> int:
    """In how many tables the two have not the same number of rows."""
    with closing(reader(db)) as one, closing(reader(other)) as two:
        return sum(
            one.execute(sql).fetchone() != two.execute(sql).fetchone()
            for sql in (
                f"SELECT count(*) FROM {table}"  # noqa: S608
                for table in ("messages", "message_copies", "events", "tool_uses", "usage")
            )
        )


# -- extremes --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Again:
    """A first sync, and one more with nothing new."""

    first: Cost
    again: Cost


def many_files(tree: Tree, folder: Path, count: int) -> Again:
    """So many files of one line each."""
    root = folder / f"many-{count}"
    if not (root / ".done").exists():
        for n in range(count):
            path = root / f"-work-p{n % MANY_FOLDERS}" / f"{session(n)}.jsonl"
            if n < MANY_FOLDERS:
                path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(line(n, 0))
        (root / ".done").touch()
    return _again(tree, folder / f"{tree.name}-many.db", root)


def unfinished_line(tree: Tree, folder: Path, size: int) -> Again:
    """A file whose last line is that long and has no newline yet."""
    root = folder / f"unfinished-{size >> 20}mb"
    path = root / "-work-p" / f"{session(4000)}.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True)
        building = path.with_suffix(".building")
        with building.open("wb") as file:
            for k in range(1000):
                file.write(line(4000, k))
            head, _, _ = line(4000, 1000).partition(b"word ")
            file.write(head)
            words = b"some more words of a line that has no end yet, " * 10_000
            for _ in range(size // len(words) + 1):
                file.write(words)
        building.rename(path)
    return _again(tree, folder / f"{tree.name}-unfinished.db", root)


def _again(tree: Tree, db: Path, root: Path) -> Again:
    """Memory is from runs of its own, because sampling takes CPU time from both."""
    first = tree.first_sync(db, root, sample_seconds=SAMPLE_SECONDS)
    tree.sync(db, root)
    sampled = tree.sync(db, root, sample_seconds=SAMPLE_SECONDS / 2)
    again = nothing_new(tree, db, root, runs=3)
    remove(db)
    return Again(first, Cost(again.wall, again.cpu, sampled.memory_mb))


def _grow(path: Path, transcripts: corpus.Transcripts, size: int, first: int) -> None:
    """Append whole lines of one session until the file has `size` bytes, a line more or less."""
    with path.open("ab") as file:
        for data in transcripts.session(path.stem, first):
            room = size - file.tell()
            if room <= 0:
                return
            end = data.find(b"\n", room) + 1 if len(data) > room else len(data)
            file.write(data[: end or len(data)])
