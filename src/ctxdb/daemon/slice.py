"""A slice of the daemon's work: a bounded part of some files, read in one transaction."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxdb.files.identity import NotRegular
from ctxdb.files.walk import FoundFile, Scan, text_of
from ctxdb.ingest.huge_line import read_announced
from ctxdb.ingest.masked_line import SHIPPED, reading_of
from ctxdb.ingest.plan import FileChanges, Work, differs, inodes_of, may_be_edited, utc_now
from ctxdb.ingest.report import SyncReport
from ctxdb.ingest.run import FileLoop, Policy, no_readers
from ctxdb.progress import NullProgress
from ctxdb.store import source_files
from ctxdb.store.connection import write_transaction

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.ingest.masked_line import StarsOf
    from ctxdb.privacy.masking import Masker

SLICE_BYTES = 4 << 20  # stored in well under a second
SLICE_SECONDS = 0.25
# These go away only when the file's mode changes, which is noticed: no need to try again.
LASTING = (errno.EACCES, errno.EPERM)


@dataclass(slots=True)
class Limits:
    """How much one slice reads: a chunk of each file, and no more than this of all."""

    bytes: int = SLICE_BYTES
    seconds: float = SLICE_SECONDS
    began: float = field(default_factory=time.monotonic)

    def are_reached(self, read: int) -> bool:
        """True when the rest is for another slice."""
        return read >= self.bytes or time.monotonic() - self.began >= self.seconds


class Slice:
    """Reads what is new in some files."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        limits: Limits | None = None,
        masker: Masker | None = SHIPPED,
        stars: StarsOf | None = None,
    ) -> None:
        self.conn = conn
        self.limits = limits or Limits()
        self.report = SyncReport()
        self.now = utc_now()
        reading = reading_of(conn, masker, stars)
        self.changes = FileChanges(conn, self.report, self.now, NullProgress(), reading)
        policy = Policy(
            start_readers=no_readers,
            read_huge_line=read_announced,
            chunks_per_file=1,  # the others wait
            is_enough=self.limits.are_reached,
            tries_each_alone=False,  # the intake does that
        )
        self.loop = FileLoop(conn, self.report, self.now, policy, NullProgress(), reading)
        self.unreached: list[str] = []  # paths that were left for another slice

    @property
    def unfinished(self) -> list[str]:
        """Paths with more to read."""
        return self.loop.unfinished

    @property
    def failed(self) -> dict[str, bool]:
        """The paths that could not be read, and whether the reason may pass."""
        return {
            path: _may_pass(error)
            for path, error in (*self.changes.failures, *self.loop.failures)
            if error.errno != errno.ENOENT
        }

    def find(self, found: Scan) -> list[FoundFile]:
        """Store which files have come, gone or moved; return the files with something to read.

        Files that may have been edited are among them: comparing one as a whole takes long, so the
        slice that reads it does that.
        """
        put_off: list[FoundFile] = []

        def puts_off(item: source_files.KnownFile | None, file: FoundFile) -> bool:
            if item is None or not may_be_edited(item, file.numbers):
                return False
            put_off.append(file)
            return True

        work = self.changes.find(found, puts_off)
        return [*(one.found for one in work), *put_off]

    def take(self, files: Sequence[FoundFile]) -> SyncReport:
        """Read on in these files."""
        self.report.files = len(files)
        paths = {text_of(file.path): file for file in files}
        known = source_files.load_some(self.conn, paths)
        changed = [(path, file) for path, file in paths.items() if differs(known.get(path), file)]
        if not changed:
            return self.report
        self.conn.execute("BEGIN IMMEDIATE")
        try:
            work = self._look(changed, known)
        except BaseException:
            if self.conn.in_transaction:
                self.conn.execute("ROLLBACK")
            raise
        self.loop.read(work)
        self.unreached += self.loop.unreached
        came_back = any(item.state == "missing" for item in known.values())
        if came_back or self.report.renamed_files:
            self.settle()
        return self.report

    def _look(
        self, changed: list[tuple[str, FoundFile]], known: dict[str, source_files.KnownFile]
    ) -> list[Work]:
        """What there is to read in files that look changed."""
        gone = self._moved([file for path, file in changed if path not in known])
        by_inode = inodes_of(gone.values())
        work: list[Work] = []
        for done, (path, file) in enumerate(changed):
            # A file that was touched is compared as a whole, and all files may have been.
            if done and self.limits.are_reached(0):
                self.unreached += [file.path for _, file in changed[done:]]
                break
            one = self.changes.look_at(known.get(path), file, by_inode, gone)
            if one is not None:
                work.append(one)
        return work

    def _moved(self, new: list[FoundFile]) -> dict[str, source_files.KnownFile]:
        """Known files that are gone and whose inode one of the new files has."""
        return {
            item.file.path: item
            for item in source_files.load_by_inode(self.conn, new)
            if not os.path.lexists(item.open_path)
        }

    def settle(self) -> None:
        """Mark sessions that have no transcript left. Known only when all found files are read."""
        with write_transaction(self.conn):
            source_files.mark_deleted_sessions(self.conn, self.now)


def _may_pass(error: OSError) -> bool:
    return error.errno not in LASTING and not isinstance(error, NotRegular)
