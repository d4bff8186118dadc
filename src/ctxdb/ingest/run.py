"""One pass over all transcripts: what is new is read, normalized and stored, batch by batch.

A pass looks at every file by stat, opens only those that have changed, tells an append from a
rewrite by content, and reads complete lines from the saved offset on. Batches may span files; each
is one transaction that holds the rows and the new offsets. One bad file never stops the rest.
"""

from __future__ import annotations

import errno
import gc
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from ctxdb.claude.layout import is_transcript
from ctxdb.errors import is_of_the_machine
from ctxdb.files.tail import Unfinished
from ctxdb.files.walk import Scan, scan
from ctxdb.ingest.line_reader import (
    FilePlace,
    ReaderDied,
    must_be_the_same,
    open_at,
    read_apart,
    read_chunk,
    read_file,
)
from ctxdb.ingest.plan import NO_DESCRIPTORS, Work
from ctxdb.ingest.report import SyncReport
from ctxdb.ingest.storing import Storing
from ctxdb.ingest.workers import FAILED, LARGE, Arrived, Limits, ReaderProcesses, Task
from ctxdb.progress import Progress
from ctxdb.rules.chunk import Chunk
from ctxdb.store import fulltext, source_files
from ctxdb.store.connection import write_transaction
from ctxdb.store.file_stats import load_stats

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH_BYTES = 4 << 20  # of transcript stored at once: its rows take several times the memory
BATCH_LINES = 8000
MAX_AHEAD_BYTES = 512 << 20  # more, into a database that is there, would take 300 MB of memory
READ_AHEAD_BYTES = 8 << 20  # less than this is read before another process has started


class Pass(Storing):
    """One pass with one writer connection."""

    doing = "Reading transcripts"

    def __init__(
        self,
        conn: sqlite3.Connection,
        roots: Sequence[str],
        progress: Progress,
        *,
        ahead: bool = True,
    ) -> None:
        super().__init__(conn)
        self.ahead = ahead  # read much in other processes
        self.max_ahead = MAX_AHEAD_BYTES
        self.roots = roots
        self.progress = progress
        self.announced = False  # a huge line is marked in the database as being read

    def run(self, found: Scan | None = None) -> SyncReport:
        """Bring the database up to date with the files."""
        began = time.monotonic()
        found = found or scan(self.roots, is_transcript, load_stats(self.conn))
        self.report.files = found.unchanged + len(found.files)
        self.report.missing_roots = found.missing_roots
        self.report.problems = [f"{path}: {why}" for path, why in found.unreadable]
        work = self._look(found)
        total = sum(max(w.size - w.item.file.offset, 0) for w in work)
        self.progress.start(total, self.doing)
        gc.disable()
        try:
            self._read_all(work, total)
        except BaseException as e:
            self._survived(e)
            raise
        finally:
            gc.enable()
        # Only now is it known which sessions the files that were found are of.
        if self.has_changes:
            with write_transaction(self.conn):
                source_files.mark_deleted_sessions(self.conn, self.now)
                fulltext.merge_again(self.conn)
        self.report.seconds = round(time.monotonic() - began, 3)
        return self.report

    # -- reading and storing -------------------------------------------------------------------

    def _read_all(self, work: list[Work], total: int) -> None:
        try:
            self._read(work, total)
        except Exception as e:
            if is_of_the_machine(e) or isinstance(e, MemoryError):
                raise
            self._read_each_alone(work)

    def _read_each_alone(self, work: list[Work]) -> None:
        """Something cannot be stored, for a reason that nobody thought of: find out of which file.

        What was not committed was rolled back, so files are read from where the database says.
        """
        self._rolled_back()
        for one in work:
            source_files.load_place(self.conn, one.item.file)
            try:
                self._read_here([one])
                self._commit()
            except Exception as e:
                if is_of_the_machine(e) or isinstance(e, MemoryError):
                    raise
                self._rolled_back()
                # Its kind, not its words: they may quote the transcript.
                self._note_unreadable(one, f"cannot be stored ({type(e).__name__})")

    def _read(self, work: list[Work], total: int) -> None:
        self.lost = set()
        try:
            worth = READ_AHEAD_BYTES <= total <= self.max_ahead
            readers = None
            if self.ahead and worth and (os.cpu_count() or 1) > 1:
                with suppress(OSError):  # no process or memory to be had: this one reads, then
                    readers = read_ahead([_task(one) for one in work])
            if readers is None:
                self._read_here(work)
            else:
                with closing(readers):
                    self._read_ahead(readers, dict(enumerate(work)))
        finally:
            self._commit()

    def _read_here(self, work: list[Work]) -> None:
        """Read and write in turns."""
        batch: list[Chunk] = []
        size = lines = 0
        for done, one in enumerate(work):
            if self._is_time_to_stop(size + self.uncommitted, work[done:]):
                break
            try:
                for found in self._chunks(one):
                    batch.append(found)
                    size += found.end - found.start
                    lines += found.lines
                    if size >= BATCH_BYTES or lines >= BATCH_LINES:
                        self._store(batch)
                        batch, size, lines = [], 0, 0
            except OSError as e:
                self._store(batch)  # what was read of it counts first: its end is that it failed
                batch, size, lines = [], 0, 0
                self._failed(one, e)
        self._store(batch)

    def _chunks(self, one: Work) -> Iterator[Chunk]:
        file = one.item.file
        at, mark = file.offset, file.mark
        for chunk in read_file(
            one.item.open_path,
            at,
            mark,
            place_of(one),
            limit=one.limit,
            unfinished=unfinished_of(one),
        ):
            if chunk.is_large:
                yield from self._large(one, at, mark)
                return
            chunk.file = file
            yield chunk
            if self._is_enough(one, chunk):
                return
            at, mark = chunk.end, chunk.mark

    def _read_ahead(self, readers: ReaderProcesses, work: dict[int, Work]) -> None:
        """Read in other processes, write in this one. Files go by the numbers of their tasks."""
        unread = dict(work)
        try:
            with write_transaction(self.conn):
                fulltext.merge_later(self.conn)
            for arrived in readers.batches():
                self._take_in(arrived, work, unread)
        except ReaderDied:
            self._read_here(list(unread.values()))
        finally:
            self._commit()

    def _take_in(self, arrived: Arrived, work: dict[int, Work], unread: dict[int, Work]) -> None:
        one = unread.pop(arrived.task, None)
        if arrived.kind == FAILED and one is not None:
            self._failed(one, OSError(*arrived.value))
        elif arrived.kind == LARGE and one is not None:
            try:
                for chunk in self._large(one, *arrived.value):
                    self._store([chunk])
            except OSError as e:
                self._failed(one, e)
        chunks = []
        for n, chunk in arrived.chunks:
            if n in work and work[n].item.file.id not in self.lost:
                chunk.file = work[n].item.file
                chunks.append(chunk)
        self._store(chunks)
        for n, chunk in arrived.chunks:
            if chunk.at_end:
                unread.pop(n, None)

    def _is_enough(self, _one: Work, _chunk: Chunk) -> bool:
        """A pass reads each file to its end; the daemon has others to serve."""
        return False

    def _is_time_to_stop(self, _read: int, _left: list[Work]) -> bool:
        """A pass reads all files; the daemon, a bit of them in each turn."""
        return False

    def _large(self, one: Work, offset: int, mark: bytes | None) -> Iterator[Chunk]:
        """From a huge line on, each such line apart."""
        file = one.item.file
        fd = open_at(one.item.open_path, offset, mark)
        try:
            while True:
                chunk = read_chunk(fd, offset, place_of(one), parse_large=False, limit=one.limit)
                if chunk.is_large:
                    chunk = self._huge_line(one, fd, offset)
                must_be_the_same(fd, one.item.open_path, offset, mark)
                chunk.file = file
                yield chunk
                offset, mark = chunk.end, chunk.mark
                if chunk.at_end or self._is_enough(one, chunk):
                    return
        finally:
            os.close(fd)

    def _huge_line(self, one: Work, fd: int, offset: int) -> Chunk:
        """Announce the line in the database, then parse it, so a crash on it is not repeated.

        The process may have been killed for another reason. So the second try is made in a process
        of its own, and only the third time the line is passed over.
        """
        place = place_of(one)
        tried = one.item.file.attempting
        failed = 0 if tried is None else {offset: 1, -1 - offset: 2}.get(tried, 0)
        if failed < 2:
            self.announced = True
            self._commit()
            with write_transaction(self.conn):
                self.conn.execute(
                    "UPDATE _file_marks SET attempting = ? WHERE source_file_id = ?",
                    (-1 - offset if failed else offset, one.item.file.id),
                )
            with suppress(MemoryError, ReaderDied):
                read = read_apart if failed else read_chunk
                return read(fd, offset, place)
        return read_chunk(fd, offset, place, give_up=True)

    def _survived(self, error: BaseException) -> None:
        """What ends a pass but not the process (Ctrl-C, a full disk) is not a huge line's doing."""
        if self.announced and not isinstance(error, MemoryError):
            with suppress(sqlite3.Error):
                self.conn.execute("UPDATE _file_marks SET attempting = NULL")

    def _failed(self, one: Work, error: OSError) -> None:
        if error.errno == errno.ENOENT:
            return  # gone, or another file has taken its place: the next pass looks again
        reason = (error.strerror or str(error)).lower()
        if error.errno in NO_DESCRIPTORS:
            self.report.unreadable_files += 1
            self.report.problems.append(f"{one.item.file.path}: {reason}")
            return
        self._commit()
        self._note_unreadable(one, reason)


def place_of(one: Work) -> FilePlace:
    """What is known of a file before it is read."""
    return FilePlace(one.item.file.session_id, one.item.file.agent_id)


def unfinished_of(one: Work) -> Unfinished | None:
    """How far a file's unfinished last line has been searched for its end."""
    found = one.item.file.unfinished
    return None if found is None else Unfinished(*found)


def read_ahead(tasks: list[Task]) -> ReaderProcesses:
    """Processes that read."""
    return ReaderProcesses(tasks, Limits(BATCH_BYTES, BATCH_LINES, BATCH_BYTES // 8))


def _task(one: Work) -> Task:
    file = one.item.file
    return Task(
        one.item.open_path,
        file.offset,
        file.mark,
        max(one.size - file.offset, 0),
        file.session_id,
        file.agent_id,
        one.limit,
        unfinished_of(one),
    )
