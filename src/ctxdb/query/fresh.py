"""Take in what is new before a question is answered, if nobody else does it already.

First a glance: every transcript's stat is compared with what the database remembers, which costs
some milliseconds for thousands of files. Only when something differs is there an ordinary sync,
under the writer lock, over before the question is asked. It is bounded: what it cannot read in a
few seconds it leaves for ``ctxdb sync``, and says so. Whatever goes wrong here is said in one line
and the question is answered from what is there.

A database that was made from other folders (the demo, a colleague's, a backup) is left as it is:
reading your transcripts into it would be wrong and could not be undone.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from typing import TYPE_CHECKING

from ctxdb.commands.output import note

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ctxdb.config import Config
    from ctxdb.progress import Progress

    Stat = tuple[int, int, int, int, int]  # size, mtime_ns, ctime_ns, ino, dev

BUDGET_SECONDS = 4.0  # of reading before an answer
STALE_SECONDS = 10.0  # what another process has not taken in for so long is worth a word
SUFFIX, JOURNAL = ".jsonl", "journal.jsonl"  # as in ctxdb.discover, which is too slow to import


def freshen(
    config: Config,
    *,
    named: bool = False,
    say: Callable[[str], None] = note,
    budget: float = BUDGET_SECONDS,
) -> None:
    """Bring the database up to date as far as that is quickly done; say what could not be.

    `named` is true when the command line names the database (--db): such a one is not made.
    """
    from ctxdb.errors import CtxdbError, LockHeld

    try:
        if not config.db_path.exists():
            if not named:
                _first_sync(config, say)
            return
        glance = look(config)
        if glance is None or glance.nothing_new:
            return
        from ctxdb.lock import current_writer

        if current_writer(config.db_path) is not None:
            _say_if_stale(glance, say)
            return
        _sync(config, say, budget)
    except LockHeld:
        if glance := look(config):
            _say_if_stale(glance, say)
    except CtxdbError as e:
        say(f"Not brought up to date: {e}")
    except OSError as e:
        say(f"Not brought up to date: {e.filename or config.db_path}: {e.strerror}")


# -- the glance ---------------------------------------------------------------------------------


class Glance:
    """What differs between the transcripts and what the database remembers of them."""

    __slots__ = ("behind", "nothing_new", "oldest_ns")

    def __init__(self) -> None:
        self.nothing_new = True
        self.behind = 0  # bytes not taken in
        self.oldest_ns = 0  # when the first of them was written; 0 for nothing


def look(config: Config) -> Glance | None:
    """Compare; None where this database is not made from these roots, or cannot be read."""
    import sqlite3

    try:
        known, roots, is_current = _remembered(config.db_path)
    except sqlite3.Error:
        return None  # whoever asks next says what is wrong with it
    if roots and roots.isdisjoint(_as_stored(root) for root in config.roots):
        return None
    glance = Glance()
    glance.nothing_new = is_current
    for path, found in _transcripts(config.roots):
        remembered = known.pop(path, None)
        if remembered is None:
            remembered = known.pop(_as_stored(path), None)
        if remembered is None:
            glance.nothing_new = False
            _behind(glance, found, 0)
        elif remembered[0] == found:
            if remembered[1] == "new":
                glance.nothing_new = False
                _behind(glance, found, remembered[2])
        elif remembered[1] != "unreadable" or os.access(path, os.R_OK):
            glance.nothing_new = False
            _behind(glance, found, remembered[2])
    if any(state != "missing" and _gone(path) for path, (_, state, _) in known.items()):
        glance.nothing_new = False
    return glance


def _behind(glance: Glance, found: Stat, offset: int) -> None:
    size, mtime_ns = found[:2]
    glance.behind += max(size - offset, 0)
    if size > offset and (not glance.oldest_ns or mtime_ns < glance.oldest_ns):
        glance.oldest_ns = mtime_ns


def _gone(path: str) -> bool:
    # Below a folder that cannot be listed, or outside of these roots, it may well be there.
    return not os.path.lexists(path)


def _remembered(
    db_path: Path,
) -> tuple[dict[str, tuple[Stat, str, int]], set[str], bool]:
    """Every file's stat, state and offset; all roots; and whether the schema is this version's."""
    from ctxdb.store.connection import open_reader
    from ctxdb.store.version import is_current

    conn = open_reader(db_path)
    try:
        known: dict[str, tuple[Stat, str, int]] = {}
        roots: set[str] = set()
        current = is_current(conn)
        if current or _has_sources(conn):
            for path, root, state, offset, *found in conn.execute(
                'SELECT path, root, state, "offset", size, mtime_ns, ctime_ns, ino, dev'
                " FROM source_files"
            ):
                known[path] = (tuple(found), state, offset)
                roots.add(root)
        return known, roots, current
    finally:
        conn.close()


def _has_sources(conn: sqlite3.Connection) -> bool:
    found = conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'source_files'").fetchone()
    return found is not None


def _transcripts(roots: tuple[str, ...]) -> Iterator[tuple[str, Stat]]:
    """All transcripts by path and stat, as ctxdb.discover finds them; what fails is passed over."""
    seen: set[tuple[int, int]] = set()
    for root in sorted(roots, key=lambda root: os.path.realpath(root).count(os.sep)):
        try:
            info = os.stat(root)  # noqa: PTH116
        except (OSError, ValueError):
            continue
        waiting = [(root, info.st_dev, info.st_ino)]
        while waiting:
            folder, dev, ino = waiting.pop()
            if (dev, ino) in seen:
                continue
            seen.add((dev, ino))
            try:
                entries = os.scandir(folder)
            except OSError:
                continue
            with entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, dev, entry.inode()))
                    elif entry.name.endswith(SUFFIX) and entry.name != JOURNAL:
                        try:
                            info = entry.stat(follow_symlinks=False)
                        except OSError:
                            continue
                        if stat.S_ISREG(info.st_mode):
                            yield (
                                entry.path,
                                (
                                    info.st_size,
                                    info.st_mtime_ns,
                                    info.st_ctime_ns,
                                    info.st_ino,
                                    info.st_dev,
                                ),
                            )


def _as_stored(path: str) -> str:
    if path.isprintable() and "\\" not in path:
        return path
    from ctxdb.discover import store_path

    return store_path(path)[0]


# -- the sync -----------------------------------------------------------------------------------


class _Enough(BaseException):
    """The time for reading is over. Not an Exception: nobody on the way shall handle it."""


class _Bounded:
    """Progress that ends the pass when its time is over; what is stored by then is kept.

    A pass is made to be interrupted between batches, by Ctrl-C or a kill. This uses the same way.
    """

    def __init__(self, shown: Progress, seconds: float) -> None:
        self._shown = shown
        self._until = time.monotonic() + seconds
        self.left = 0

    def start(self, total_bytes: int, what: str) -> None:
        self.left = total_bytes
        self._shown.start(total_bytes, what)

    def advance(self, n: int) -> None:
        self.left -= n
        self._shown.advance(n)
        if self.left > 0 and time.monotonic() > self._until:
            raise _Enough

    def finish(self) -> None:
        self._shown.finish()


def _sync(config: Config, say: Callable[[str], None], budget: float) -> None:
    from ctxdb.ingest import sync
    from ctxdb.progress import human_bytes, progress_on

    progress = _Bounded(progress_on(sys.stderr), budget)
    try:
        sync(config, progress=progress)
    except _Enough:
        progress.finish()
        say(
            f"{human_bytes(progress.left)} of transcripts are not read yet:"
            " this answer is without them. `ctxdb sync` reads them."
        )
    finally:
        progress.finish()


def _first_sync(config: Config, say: Callable[[str], None]) -> None:
    """There is no database yet: an answer from a part of it would be worth nothing."""
    total = sum(found[0] for _, found in _transcripts(config.roots))
    if not total:
        return
    from ctxdb.ingest import sync
    from ctxdb.progress import human_bytes, progress_on

    say(f"Reading {human_bytes(total)} of transcripts into {config.db_path}, this once.")
    progress = progress_on(sys.stderr)
    try:
        sync(config, progress=progress)
    finally:
        progress.finish()


def _say_if_stale(glance: Glance, say: Callable[[str], None]) -> None:
    if not glance.oldest_ns or time.time() - glance.oldest_ns / 1e9 < STALE_SECONDS:
        return
    from ctxdb.progress import human_bytes

    say(
        f"Another process is writing to the database, and {human_bytes(glance.behind)} of"
        " transcripts are not in it yet: this answer is without them."
    )
