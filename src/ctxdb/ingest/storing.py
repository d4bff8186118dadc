"""Stores what was read, in batches, several of them to a transaction.

Rows and offsets are committed together. Nothing of a batch that fails is left. The error goes to
the caller: it is not known yet which of the files was the reason.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ctxdb.errors import CtxdbError
from ctxdb.ingest.batch import Batch
from ctxdb.ingest.reread import reread
from ctxdb.settle.sessions import settle_summaries
from ctxdb.settle.stored_uuids import StoredUuids
from ctxdb.store import source_files
from ctxdb.store.connection import commit, write_transaction
from ctxdb.store.source_files import OffsetMoved

if TYPE_CHECKING:
    from ctxdb.ingest.masked_line import Reading
    from ctxdb.ingest.report import SyncReport
    from ctxdb.progress import Progress
    from ctxdb.rows import SourceFile
    from ctxdb.rules.chunk import Chunk

# Batches share a transaction up to this: ids are spread over whole indexes, and each commit writes
# every page it has touched.
COMMIT_BYTES = 48 << 20
# Up to this many uuids are looked for among what summaries name; else all summaries are gone over.
FEW_UUIDS = 1000


class ChunkWriter:
    """Writes chunks with one connection, and counts them in the report."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        report: SyncReport,
        now: str,
        progress: Progress,
        reading: Reading,
        *,
        commits_on_the_way: bool = True,
    ) -> None:
        self.conn = conn
        self.reading = reading
        self.report = report
        self.now = now
        self.progress = progress
        self.commits_on_the_way = commits_on_the_way
        self.uncommitted = 0  # bytes of transcript stored in the open transaction
        self._is_half_written = False  # part of a batch is in the open transaction
        self._are_entries_moved = False  # in the open transaction: to other sessions, perhaps
        self._named: set[str] = set()  # in the open transaction: uuids that summaries may name
        self._committed = (0, 0, 0)  # lines, bytes and bad lines, as in the report
        self._uuids = StoredUuids(conn)
        self._has_announced = False  # a huge line is marked in the database as being read

    def store(self, chunks: list[Chunk]) -> None:
        """Store a batch of chunks."""
        if not chunks:
            return
        if not self.conn.in_transaction:
            self.conn.execute("BEGIN IMMEDIATE")
        batch = Batch(self.conn, self.now, partial(reread, self.reading), self._uuids)
        self._is_half_written = True
        try:
            are_moved = batch.write(chunks)
            self._are_entries_moved = self._are_entries_moved or are_moved
            if len(self._named) <= FEW_UUIDS:
                self._named |= batch.named
            self._is_half_written = False
        except BaseException as e:
            self.roll_back()
            if isinstance(e, OffsetMoved):
                why = "another process has read this file meanwhile; sync again"
                raise CtxdbError(f"{e}: {why}") from e
            raise
        finally:
            batch.let_go()
        for chunk in chunks:
            self._count(chunk)
        if self.commits_on_the_way and self.uncommitted >= COMMIT_BYTES:
            self.commit()

    def _count(self, chunk: Chunk) -> None:
        """A chunk has been stored."""
        size = chunk.end - chunk.start
        chunk.file.offset, chunk.file.mark = chunk.end, chunk.mark
        chunk.file.unfinished = chunk.unfinished
        self.uncommitted += size
        self.report.lines_read += chunk.lines
        self.report.bytes_read += size
        self.report.bad_lines += sum(
            n for (_, _, outcome, _), n in chunk.counts.items() if outcome == "bad"
        )
        self.progress.advance(size)

    def commit(self) -> None:
        """What was stored so far is there to stay: rows and offsets together."""
        has_stored, self.uncommitted = self.uncommitted > 0, 0
        report = self.report
        # A second Ctrl-C can come before the first one has rolled back: then closing does it.
        if self.conn.in_transaction and not self._is_half_written:
            try:
                if has_stored:
                    named = self._named if len(self._named) <= FEW_UUIDS else None
                    settle_summaries(self.conn, everything=self._are_entries_moved, came=named)
                commit(self.conn)
                self._are_entries_moved = False
                self._named.clear()
                self._committed = report.lines_read, report.bytes_read, report.bad_lines
            except BaseException:
                self.roll_back()
                raise

    def roll_back(self) -> None:
        """Undo what was not committed, if a transaction is open."""
        if self.conn.in_transaction:
            self.conn.execute("ROLLBACK")

    def count_from_last_commit(self) -> None:
        """Take out of the report what was rolled back."""
        report = self.report
        report.lines_read, report.bytes_read, report.bad_lines = self._committed
        self._is_half_written = False
        self.uncommitted = 0

    def note_unreadable(self, file: SourceFile, reason: str) -> None:
        """Say in the database and in the report why a file could not be read."""
        self.report.unreadable_files += 1
        self.report.problems.append(f"{file.path}: {reason}")
        with write_transaction(self.conn):
            source_files.note_unreadable(self.conn, file.id, reason, self.now)

    def announce(self, file: SourceFile, attempt: int) -> None:
        """Say in the database which huge line is parsed next: the process may die of it."""
        self._has_announced = True
        self.commit()
        with write_transaction(self.conn):
            self.conn.execute(
                "UPDATE _file_marks SET attempting = ? WHERE source_file_id = ?",
                (attempt, file.id),
            )

    def forget_announced(self, error: BaseException) -> None:
        """What ends a run but not the process (Ctrl-C, a full disk) is not a huge line's doing."""
        if self._has_announced and not isinstance(error, MemoryError):
            with suppress(sqlite3.Error):
                self.conn.execute("UPDATE _file_marks SET attempting = NULL")
