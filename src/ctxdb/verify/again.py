"""A second database, made again from the bytes that the first one was made from.

It is made as a first sync makes one, aside and without a journal, from the same files up to the
saved offsets. What files beside the transcripts say (meta.json, sessions-index.json) is taken from
the first database: it may have changed since, and is no line.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb.columns import all_columns
from ctxdb.files.walk import FoundFile
from ctxdb.ingest.huge_line import read_again
from ctxdb.ingest.plan import Work, utc_now
from ctxdb.ingest.report import SyncReport
from ctxdb.ingest.run import FileLoop, Policy, finish, start_readers
from ctxdb.lock import is_alive
from ctxdb.rows import AgentFact, SourceFile
from ctxdb.store import source_files
from ctxdb.store.connection import open_aside, write_transaction
from ctxdb.store.insert import load
from ctxdb.store.keys import copy_keys
from ctxdb.store.masked_places import load_places
from ctxdb.store.schema import make_tables
from ctxdb.store.tombstones import copy_tombstones
from ctxdb.verify.side import give_side_files, settle_side_files

if TYPE_CHECKING:
    from ctxdb.ingest.masked_line import Reading
    from ctxdb.progress import Progress

_FOLDER = ".verifying-"  # and the process that does it
_FACTS = (
    f"SELECT {', '.join(all_columns(AgentFact))} FROM _agent_facts"
    " WHERE session_id = ? AND agent_id = ? AND source IN ('file', 'meta')"
)


class NoRoom(Exception):
    """A second database cannot be made here; says why."""


@contextmanager
def place_beside(db_path: Path) -> Iterator[Path]:
    """An empty file for the second database, in a private folder that goes afterwards.

    Beside the first one: where that has room there is most likely room for another, while /tmp is
    often memory.
    """
    for old in db_path.parent.glob(f"{_FOLDER}*"):
        pid = old.name.removeprefix(_FOLDER)
        if not (pid.isdecimal() and len(pid) < 10 and is_alive(int(pid))):
            shutil.rmtree(old, ignore_errors=True)  # of a run that was killed
    folder = db_path.parent / f"{_FOLDER}{os.getpid()}"
    with suppress(OSError):
        folder.mkdir(mode=0o700)
    second = folder / "again.db"
    try:
        with suppress(OSError):
            second.touch(mode=0o600)
        yield second
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_again(
    first: sqlite3.Connection, path: Path, wanted: set[int], progress: Progress, reading: Reading
) -> None:
    """Fill the second database from these files of the first."""
    if not path.exists():
        raise NoRoom(f"{path.parent.parent} cannot be written to")
    (pages, size) = (
        first.execute(f"PRAGMA main.{what}").fetchone()[0] for what in ("page_count", "page_size")
    )
    free = shutil.disk_usage(path.parent).free
    if free < pages * size:
        raise NoRoom(f"it takes {pages * size >> 20:,} MB beside the database, {free >> 20:,} free")
    try:
        _fill(first, path, wanted, progress, reading)
    except sqlite3.OperationalError as e:
        if e.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise
        raise NoRoom(f"{path.parent.parent}: {e}") from e


def _fill(
    first: sqlite3.Connection, path: Path, wanted: set[int], progress: Progress, reading: Reading
) -> None:
    with closing(open_aside(path)) as conn:
        make_tables(conn)
        with write_transaction(conn):
            conn.executemany(
                "INSERT OR REPLACE INTO _meta VALUES (?, ?)",
                first.execute("SELECT key, value FROM _meta WHERE key LIKE 'index:%'").fetchall(),
            )
            copy_keys(first, conn)
            copy_tombstones(first, conn)
        give_side_files(first, conn)
        work = _work(first, conn, wanted)
        progress.start(sum(one.unread for one in work), "Making it again")
        report, now = SyncReport(), utc_now()
        loop = FileLoop(conn, report, now, _policy(first), progress, reading)
        loop.read(work)
        finish(conn, now)
        settle_side_files(conn)
        if loop.failures or report.unreadable_files:
            raise NoRoom("a transcript changed meanwhile; verify again")


def _policy(first: sqlite3.Connection) -> Policy:
    """How to read bytes again that the first database was made from."""
    passed_over = {
        (path, start)
        for path, start in first.execute(
            "SELECT f.path, e.byte_start FROM ingest_errors e JOIN source_files f"
            " ON f.id = e.source_file_id WHERE e.reason = 'too_large'"
        )
    }

    return Policy(
        start_readers=start_readers,
        read_huge_line=lambda writer, one, fd, offset: read_again(
            writer, one, fd, offset, passed_over
        ),
        commits_on_the_way=False,  # nothing else sees it
        notes_failures=False,
    )


def _work(first: sqlite3.Connection, conn: sqlite3.Connection, wanted: set[int]) -> list[Work]:
    """The files as they were when they were read."""
    now = utc_now()
    work: list[Work] = []
    with write_transaction(conn):
        for known in [*load(first, SourceFile, "ORDER BY t.path")]:
            if known.id not in wanted:
                continue
            path = os.fsdecode(known.path_bytes or known.path)
            end = known.offset
            found = FoundFile(path, known.root or "", 0, 0, end, 0, 0)
            item = source_files.add_file(conn, found, now)
            file = item.file
            # A file that was renamed still belongs to the same session.
            file.session_id, file.agent_id = known.session_id, known.agent_id
            file.workflow_run = known.workflow_run
            conn.execute(
                "UPDATE source_files SET session_id = ?, agent_id = ? WHERE id = ?",
                (file.session_id, file.agent_id, file.id),
            )
            conn.execute(
                "UPDATE _file_marks SET workflow_run = ? WHERE source_file_id = ?",
                (file.workflow_run, file.id),
            )
            facts = first.execute(_FACTS, (file.session_id, file.agent_id))
            file.facts = [AgentFact(*values) for values in facts]
            if end:
                masked = load_places(first, known.id)
                work.append(Work(item, found, end, limit=end, masked=masked))
    return work
