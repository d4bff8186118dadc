"""A slice of the daemon's work: a bounded part of some files, read in one transaction."""

from __future__ import annotations

import errno
import gc
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

# ingest.plan loads it when needed. By then an upgrade may have replaced it, so load it now.
import ctxdb.verify.lines  # noqa: F401
from ctxdb.files.identity import NotRegular
from ctxdb.files.walk import FoundFile, Scan, text_of
from ctxdb.ingest.plan import Work, differs, inodes_of, may_be_edited
from ctxdb.ingest.report import SyncReport
from ctxdb.ingest.run import Pass
from ctxdb.progress import NullProgress
from ctxdb.store import source_files
from ctxdb.store.connection import write_transaction

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.rules.chunk import Chunk

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


class Slice(Pass):
    """Reads what is new in some files."""

    def __init__(self, conn: sqlite3.Connection, limits: Limits | None = None) -> None:
        super().__init__(conn, (), NullProgress())
        self.limits = limits or Limits()
        self.unfinished: list[str] = []  # paths with more to read
        self.unreached: list[str] = []  # paths that were left for another slice
        self.failed: dict[str, bool] = {}  # path that could not be read -> whether that may pass
        self.put_off: list[FoundFile] = []  # may have been edited: to be compared later

    def find(self, found: Scan) -> list[FoundFile]:
        """Store which files have come, gone or moved; return the files with something to read.

        Files that may have been edited are among them: the slice that reads them compares them.
        """
        work = self._look(found)
        return [*(one.found for one in work), *self.put_off]

    def take(self, files: Sequence[FoundFile]) -> SyncReport:
        """Read on in these files."""
        self.report.files = len(files)
        paths = {text_of(file.path): file for file in files}
        known = source_files.load_some(self.conn, paths)
        changed = [(path, file) for path, file in paths.items() if differs(known.get(path), file)]
        if not changed:
            return self.report
        came_back = any(item.state == "missing" for item in known.values())
        gc.disable()
        try:
            self.conn.execute("BEGIN IMMEDIATE")
            by_inode, gone = self._moved(changed, known)
            work: list[Work] = []
            for done, (path, file) in enumerate(changed):
                # A file that was touched is compared as a whole, and all files may have been.
                if done and self.limits.are_reached(0):
                    self.unreached += [file.path for _, file in changed[done:]]
                    break
                one = self._look_at(known.get(path), file, by_inode, gone)
                if one is not None:
                    work.append(one)
            self._read(work, 0)
            if came_back or self.report.renamed_files:
                self.settle()
        except BaseException as e:
            if self.conn.in_transaction:
                self.conn.execute("ROLLBACK")
            self._survived(e)
            raise
        finally:
            gc.enable()
        return self.report

    def settle(self) -> None:
        """Mark sessions that have no transcript left. Known only when all found files are read."""
        with write_transaction(self.conn):
            source_files.mark_deleted_sessions(self.conn, self.now)

    def _moved(
        self, changed: list[tuple[str, FoundFile]], known: dict[str, source_files.KnownFile]
    ) -> tuple[
        dict[tuple[int, int], list[source_files.KnownFile]], dict[str, source_files.KnownFile]
    ]:
        """Known files that are gone and whose inode one of the new files has."""
        new = [file for path, file in changed if path not in known]
        gone = {
            item.file.path: item
            for item in source_files.load_by_inode(self.conn, new)
            if not os.path.lexists(item.open_path)
        }
        return inodes_of(gone.values()), gone

    def _can_wait(self, item: source_files.KnownFile | None, file: FoundFile) -> bool:
        """Put off a file that may have been edited: comparing it as a whole takes long."""
        if item is None or not may_be_edited(item, file.numbers):
            return False
        self.put_off.append(file)
        return True

    def _unreadable(
        self, item: source_files.KnownFile | None, file: FoundFile, error: OSError
    ) -> None:
        super()._unreadable(item, file, error)
        self.failed[file.path] = _may_pass(error)

    def _failed(self, one: Work, error: OSError) -> None:
        super()._failed(one, error)
        if error.errno != errno.ENOENT:
            self.failed[one.found.path] = _may_pass(error)

    def _is_enough(self, one: Work, found: Chunk) -> bool:
        """One chunk of each file is enough, because the others wait."""
        if found.at_end:
            return False
        self.unfinished.append(one.found.path)
        return True

    def _is_time_to_stop(self, read: int, left: list[Work]) -> bool:
        # A slice reads something even if it is late: else a slow machine would get nowhere.
        if read == 0 or not self.limits.are_reached(read):
            return False
        self.unreached += [work.found.path for work in left]
        return True


def _may_pass(error: OSError) -> bool:
    return error.errno not in LASTING and not isinstance(error, NotRegular)
