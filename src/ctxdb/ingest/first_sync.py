"""The first sync of many transcripts: a database built aside, and put in place when it is whole.

A database that no other process can see yet needs no journal. If the building ends early, for any
reason, its file is deleted and the next sync begins again; nothing was promised, so nothing is
lost. That saves writing every page to the log first, a tenth of the time. What the building leaves
out (huge lines, which are announced in the database before they are parsed, and files that cannot
be read) is read by the ordinary sync that follows it.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb.claude.layout import is_transcript, reading_order, role_of
from ctxdb.files.walk import scan
from ctxdb.ingest.gate import set_patterns
from ctxdb.ingest.huge_line import leave_file
from ctxdb.ingest.masked_line import Reading
from ctxdb.ingest.run import READ_AHEAD_BYTES, Policy, read_ahead, read_found_files
from ctxdb.ingest.workers import Task
from ctxdb.privacy.digests import Digest
from ctxdb.store import fulltext
from ctxdb.store.connection import SIDE_FILES, open_aside, write_transaction
from ctxdb.store.keys import LINES, give_key, new_key
from ctxdb.store.schema import prepare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxdb.files.walk import Scan
    from ctxdb.ingest.masked_line import StarsOf
    from ctxdb.ingest.report import SyncReport
    from ctxdb.ingest.workers import ReaderProcesses
    from ctxdb.privacy.masking import Masker
    from ctxdb.progress import Progress

MIN_BYTES = READ_AHEAD_BYTES  # less is over in a second either way
# What was built is thrown away if it is interrupted, so this is some minutes of work. The sync that
# follows reads the rest, in other processes too.
MAX_BYTES = 8 << 30


def build(
    path: Path,
    roots: Sequence[str],
    progress: Progress,
    masker: Masker | None,
    ignore: Sequence[str] = (),
    stars: StarsOf | None = None,
) -> SyncReport | None:
    """Build the database from what there is; None when the ordinary way is the better one.

    The caller holds the writer lock, and an ordinary sync follows.
    """
    if any(os.path.lexists(beside(path, side)) for side in SIDE_FILES):
        return None
    found = _first(scan(roots, is_transcript))
    if sum(file.size for file in found.files) < MIN_BYTES or (os.cpu_count() or 1) < 2:
        return None
    aside = unfinished(path)
    try:
        key = new_key()
        reading = Reading(masker, Digest(key), stars=stars)
        report = _fill(aside, found, progress, key, reading, ignore)
        put_in_place(aside, path)
    except Exception:  # noqa: BLE001
        return None  # the ordinary way will say what is wrong, and keep what it can
    finally:
        _remove(aside)
    return report


def remove_unfinished(path: Path) -> None:
    """Remove what a building that was killed has left; the caller holds the writer lock."""
    _remove(unfinished(path))
    _remove(unfinished(unfinished(path)))  # of one that was to replace an old database
    _remove(salvaged(path))


def unfinished(path: Path) -> Path:
    """The file that a database is made in before it gets its name."""
    return beside(path, "-building")


def salvaged(path: Path) -> Path:
    """The file for what can be read of a damaged database."""
    return beside(unfinished(path), "-salvaged")


def beside(path: Path, suffix: str) -> Path:
    """A file beside a database, named after it."""
    return path.with_name(path.name + suffix)


def _first(found: Scan) -> Scan:
    """The files that are read before MAX_BYTES are reached."""
    found.files.sort(key=reading_order)
    size = 0
    for n, file in enumerate(found.files):
        size += file.size
        if size > MAX_BYTES:
            found.files = found.files[:n]
            break
    return found


def _fill(
    aside: Path,
    found: Scan,
    progress: Progress,
    key: bytes,
    reading: Reading,
    ignore: Sequence[str],
) -> SyncReport:
    tasks = []
    for file in found.files:
        role = role_of(file.path, file.root)
        tasks.append(Task(file.path, 0, None, file.size, role.session_id, role.agent_id))
    # They read while the tables are made.
    with closing(read_ahead(tasks, reading)) as readers, closing(open_aside(aside)) as conn:
        prepare(conn, aside)
        give_key(conn, LINES, key)
        set_patterns(conn, ignore)
        with write_transaction(conn):
            triggers = fulltext.put_off(conn)
        report = read_found_files(conn, found, policy(readers), progress, reading)
        with write_transaction(conn):
            size = sum(file.size for file in found.files)
            fulltext.make_up(conn, triggers, progress, size)
        return report


def policy(readers: ReaderProcesses) -> Policy:
    """How to fill a database that is thrown away if anything goes wrong."""
    return Policy(
        start_readers=lambda _work, _reading: readers,
        read_huge_line=leave_file,
        commits_on_the_way=False,  # nothing else sees it
        notes_failures=False,
        tries_each_alone=False,
    )


def put_in_place(aside: Path, path: Path, *, replace: bool = False) -> None:
    """Give the database its name, all of it on disk.

    Unless it is to be replaced, a file that has come meanwhile stays.
    """
    sync_to_disk(aside)
    if replace:
        aside.rename(path)
    else:
        _name_if_free(aside, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # not every file system knows it
            os.fsync(folder)
    finally:
        os.close(folder)


def sync_to_disk(path: Path) -> None:
    """Wait until all of a file is on the disk."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _name_if_free(aside: Path, path: Path) -> None:
    try:
        os.link(aside, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        aside.rename(path)


def _remove(aside: Path) -> None:
    for side in SIDE_FILES:
        with suppress(OSError):
            beside(aside, side).unlink()
