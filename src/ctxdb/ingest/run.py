"""The one loop: read files, make rows of their lines, store them batch by batch, commit.

Sync, first sync, daemon and verify all run it. A policy says what each of them does in its own way.
Batches may span files; each transaction holds rows and the offsets that belong to them. One bad
file never stops the rest.
"""

from __future__ import annotations

import errno
import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxdb.errors import is_of_the_machine
from ctxdb.files.identity import Opener, open_regular
from ctxdb.ingest.line_reader import ReaderDied, must_be_the_same, open_at, read_chunk, read_file
from ctxdb.ingest.masked_line import Reading
from ctxdb.ingest.plan import NO_DESCRIPTORS, Failure, FileChanges, Work, reason_of, utc_now
from ctxdb.ingest.report import SyncReport
from ctxdb.ingest.storing import ChunkWriter
from ctxdb.ingest.workers import FAILED, LARGE, Arrived, Limits, ReaderProcesses, Task
from ctxdb.store import fulltext, source_files
from ctxdb.store.connection import write_transaction

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from ctxdb.files.walk import Scan
    from ctxdb.progress import Progress
    from ctxdb.rules.chunk import Chunk

BATCH_BYTES = 4 << 20  # of transcript stored at once: its rows take several times the memory
BATCH_LINES = 8000
READ_AHEAD_BYTES = 8 << 20  # less than this is read before another process has started


@dataclass(frozen=True, slots=True)
class Policy:
    """What sync, first sync, daemon and verify do differently."""

    # The processes that make rows, for these files; None: this process makes them.
    start_readers: Callable[[Sequence[Work], Reading], ReaderProcesses | None]
    # Reads the huge line at an offset of an open file; None: the file is left for a later run.
    read_huge_line: Callable[[ChunkWriter, Work, int, int], Chunk | None]
    chunks_per_file: int | None = None  # then the next file's turn comes; None: read to the end
    is_enough: Callable[[int], bool] = lambda _read: False  # bytes: leave the other files unread
    commits_on_the_way: bool = True  # else once, at the end
    commits_at_end: bool = True  # else the caller does, who has begun the transaction
    notes_failures: bool = True  # of files, in the database; else only in `failures`
    tries_each_alone: bool = True  # after an error that does not say which file was the reason
    opener: Opener = open_regular  # of the files


def start_readers(work: Sequence[Work], reading: Reading) -> ReaderProcesses | None:
    """Start processes that read, if there is enough to read and more than one core."""
    if sum(one.unread for one in work) < READ_AHEAD_BYTES or (os.cpu_count() or 1) < 2:
        return None
    with suppress(OSError):  # no process or memory to be had: this one reads, then
        return read_ahead([_task(one) for one in work], reading)
    return None


def no_readers(_work: Sequence[Work], _reading: Reading) -> None:
    """Read in this process."""


def read_ahead(tasks: Sequence[Task], reading: Reading) -> ReaderProcesses:
    """Processes that read."""
    return ReaderProcesses(tasks, reading, Limits(BATCH_BYTES, BATCH_LINES, BATCH_BYTES // 8))


def _task(one: Work) -> Task:
    file = one.item.file
    where = (one.found.path, file.offset, file.mark, one.unread)
    place = one.place
    ends = (one.limit, one.unfinished)
    return Task(*where, place.session_id, place.agent_id, *ends, place.masked)


def read_found_files(
    conn: sqlite3.Connection, found: Scan, policy: Policy, progress: Progress, reading: Reading
) -> SyncReport:
    """Bring the database up to date with the files that were found."""
    began = time.monotonic()
    report = SyncReport(
        files=found.unchanged + len(found.files),
        missing_roots=found.missing_roots,
        problems=[f"{path}: {why}" for path, why in found.unreadable],
    )
    now = utc_now()
    changes = FileChanges(conn, report, now, progress, reading)
    work = changes.find(found)
    progress.start(sum(one.unread for one in work), "Reading transcripts")
    FileLoop(conn, report, now, policy, progress, reading).read(work)
    if changes.are_any or source_files.has_unmarked_sessions(conn):
        finish(conn, now)
    report.seconds = round(time.monotonic() - began, 3)
    return report


def finish(conn: sqlite3.Connection, now: str) -> None:
    """Do what can be done only when all files are read: it is known now which sessions are gone."""
    with write_transaction(conn):
        source_files.mark_deleted_sessions(conn, now)
        fulltext.merge_again(conn)


class FileLoop:
    """Reads files and stores what is new in them."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        report: SyncReport,
        now: str,
        policy: Policy,
        progress: Progress,
        reading: Reading,
    ) -> None:
        self.conn = conn
        self.policy = policy
        commits = policy.commits_on_the_way
        if policy.opener is not open_regular:
            reading = reading._replace(opener=policy.opener)
        self.reading = reading
        self.writer = ChunkWriter(conn, report, now, progress, reading, commits_on_the_way=commits)
        self.failures: list[Failure] = []
        self.unfinished: list[str] = []  # paths with more to read
        self.unreached: list[str] = []  # paths that the policy has left for another run

    def read(self, work: list[Work]) -> None:
        """Read the files, as far as the policy says, and commit."""
        gc.disable()
        try:
            try:
                self._read(work)
            except Exception as e:
                if not self.policy.tries_each_alone or _is_not_of_a_file(e):
                    raise
                self._read_each_alone(work)
        except BaseException as e:
            self.writer.roll_back()
            self.writer.forget_announced(e)
            raise
        finally:
            gc.enable()

    def _read_each_alone(self, work: list[Work]) -> None:
        """Something cannot be stored, for a reason that nothing foresees: find out of which file.

        What was not committed was rolled back, so files are read from where the database says.
        """
        self.writer.count_from_last_commit()
        for one in work:
            source_files.load_place(self.conn, one.item.file)
            try:
                self._read_here([one])
                self.writer.commit()
            except Exception as e:
                if _is_not_of_a_file(e):
                    raise
                self.writer.count_from_last_commit()
                # Its kind, not its words: they may quote the transcript.
                reason = f"cannot be stored ({type(e).__name__})"
                self.writer.note_unreadable(one.item.file, reason)

    def _read(self, work: list[Work]) -> None:
        try:
            readers = self.policy.start_readers(work, self.reading)
            if readers is None:
                self._read_here(work)
            else:
                with closing(readers):
                    self._read_ahead(readers, {one.found.path: one for one in work})
        finally:
            if self.policy.commits_at_end:
                self.writer.commit()

    # -- in this process -----------------------------------------------------------------------

    def _read_here(self, work: list[Work]) -> None:
        """Read and write in turns."""
        batch = _Batch([])
        for done, one in enumerate(work):
            read = batch.size + self.writer.uncommitted
            # Something is read even if it is late: else a slow machine would get nowhere.
            if read and self.policy.is_enough(read):
                self.unreached += [left.found.path for left in work[done:]]
                break
            try:
                for chunk in self._chunks(one):
                    if batch.add(chunk):
                        batch = self._store(batch)
            except OSError as e:
                batch = self._store(batch)  # what was read of it counts first
                self._failed(one, e)
        self._store(batch)

    def _store(self, batch: _Batch) -> _Batch:
        self.writer.store(batch.chunks)
        return _Batch([])

    def _chunks(self, one: Work) -> Iterator[Chunk]:
        """The next chunks of a file, as many as the policy wants."""
        for number, chunk in enumerate(self._all_chunks(one), 1):
            yield chunk
            if number == self.policy.chunks_per_file and not chunk.at_end:
                self.unfinished.append(one.found.path)
                return

    def _all_chunks(self, one: Work) -> Iterator[Chunk]:
        file = one.item.file
        at, mark = file.offset, file.mark
        whole = read_file(
            one.found.path,
            at,
            mark,
            one.place,
            self.reading,
            limit=one.limit,
            unfinished=one.unfinished,
        )
        for chunk in whole:
            if chunk.is_large:
                yield from self._from_huge_line(one, at, mark)
                return
            chunk.file = file
            yield chunk
            at, mark = chunk.end, chunk.mark

    def _from_huge_line(self, one: Work, offset: int, mark: bytes | None) -> Iterator[Chunk]:
        """From a huge line on, each such line apart."""
        path = one.found.path
        fd = open_at(path, offset, mark, self.reading.opener)
        try:
            while True:
                chunk = read_chunk(
                    fd, offset, one.place, self.reading, parse_large=False, limit=one.limit
                )
                if chunk.is_large:
                    read = self.policy.read_huge_line(self.writer, one, fd, offset)
                    if read is None:
                        return
                    chunk = read
                must_be_the_same(fd, path, offset, mark)
                chunk.file = one.item.file
                yield chunk
                offset, mark = chunk.end, chunk.mark
                if chunk.at_end:
                    return
        finally:
            os.close(fd)

    # -- in other processes --------------------------------------------------------------------

    def _read_ahead(self, readers: ReaderProcesses, unread: dict[str, Work]) -> None:
        """Read in other processes, write in this one."""
        if self.policy.commits_at_end:
            with write_transaction(self.conn):
                fulltext.merge_later(self.conn)
        try:
            for arrived in readers.batches():
                self._take_in(arrived, unread)
        except ReaderDied:
            self._read_here(list(unread.values()))

    def _take_in(self, arrived: Arrived, unread: dict[str, Work]) -> None:
        """Store what has come; files that are read to their end are no longer unread."""
        one = unread.pop(arrived.path, None)
        if arrived.kind == FAILED and one is not None:
            self._failed(one, OSError(*arrived.value))
        elif arrived.kind == LARGE and one is not None:
            try:
                for chunk in self._from_huge_line(one, *arrived.value):
                    self.writer.store([chunk])
            except OSError as e:
                self._failed(one, e)
        chunks = []
        for path, chunk in arrived.chunks:
            if path in unread:
                chunk.file = unread[path].item.file
                chunks.append(chunk)
        self.writer.store(chunks)
        for path, chunk in arrived.chunks:
            if chunk.at_end:
                unread.pop(path, None)

    def _failed(self, one: Work, error: OSError) -> None:
        self.failures.append(Failure(one.found.path, error))
        if not self.policy.notes_failures or error.errno == errno.ENOENT:
            return  # ENOENT: gone, or another file has its name: the next run looks again
        if error.errno in NO_DESCRIPTORS:
            self.writer.report.unreadable_files += 1
            self.writer.report.problems.append(f"{one.item.file.path}: {reason_of(error)}")
            return
        self.writer.commit()
        self.writer.note_unreadable(one.item.file, reason_of(error))


@dataclass(slots=True)
class _Batch:
    """The chunks that are stored together."""

    chunks: list[Chunk]
    size: int = 0
    lines: int = 0

    def add(self, chunk: Chunk) -> bool:
        """Add a chunk; True when that is enough for a batch."""
        self.chunks.append(chunk)
        self.size += chunk.end - chunk.start
        self.lines += chunk.lines
        return self.size >= BATCH_BYTES or self.lines >= BATCH_LINES


def _is_not_of_a_file(error: Exception) -> bool:
    """Whether reading the files one by one would not help."""
    return is_of_the_machine(error) or isinstance(error, MemoryError)
