"""Stores what was read, in batches, several of them to a transaction.

Rows and offsets are committed together. Nothing of a batch that fails is left. The error goes to
the caller: it is not known yet which of the files was the reason.
"""

from __future__ import annotations

import sqlite3

from ctxdb.errors import CtxdbError
from ctxdb.ingest.batch import Batch
from ctxdb.ingest.plan import Look, Work
from ctxdb.ingest.reread import reread
from ctxdb.rules.chunk import Chunk
from ctxdb.store import source_files
from ctxdb.store.connection import commit, write_transaction
from ctxdb.store.source_files import OffsetMoved

# Batches share a transaction up to this: ids are spread over whole indexes, and each commit writes
# every page it has touched.
COMMIT_BYTES = 48 << 20


class Storing(Look):
    """The part of a pass that writes."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        super().__init__(conn)
        self.uncommitted = 0  # bytes of transcript stored in the open transaction
        self.half_written = False  # part of a batch is in the open transaction
        self.committed = (0, 0, 0)  # lines, bytes and bad lines, as in the report
        self.lost: set[int] = set()  # files that changed while they were read: for the next pass

    def _store(self, chunks: list[Chunk]) -> None:
        """Store a batch of chunks."""
        if not chunks:
            return
        if not self.conn.in_transaction:
            self.conn.execute("BEGIN IMMEDIATE")
        batch = Batch(self.conn, self.now, reread)
        self.half_written = True
        try:
            batch.write(chunks)
            self.half_written = False
        except BaseException as e:
            if self.conn.in_transaction:
                self.conn.execute("ROLLBACK")
            if isinstance(e, OffsetMoved):
                why = "another process has read this file meanwhile; sync again"
                raise CtxdbError(f"{e}: {why}") from e
            raise
        finally:
            batch.let_go()
        for chunk in chunks:
            self._count(chunk)
        if self._is_time_to_commit():
            self._commit()

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

    def _is_time_to_commit(self) -> bool:
        return self.uncommitted >= COMMIT_BYTES

    def _commit(self) -> None:
        """What was stored so far is there to stay: rows and offsets together."""
        self.uncommitted = 0
        report = self.report
        # A second Ctrl-C can come before the first one has rolled back: then closing does it.
        if self.conn.in_transaction and not self.half_written:
            try:
                commit(self.conn)
                self.committed = report.lines_read, report.bytes_read, report.bad_lines
            except BaseException:
                if self.conn.in_transaction:
                    self.conn.execute("ROLLBACK")
                raise

    def _rolled_back(self) -> None:
        """Nothing has happened since the last commit."""
        report = self.report
        report.lines_read, report.bytes_read, report.bad_lines = self.committed
        self.half_written = False
        self.uncommitted = 0

    def _note_unreadable(self, one: Work, reason: str) -> None:
        self.report.unreadable_files += 1
        self.report.problems.append(f"{one.item.file.path}: {reason}")
        with write_transaction(self.conn):
            source_files.note_unreadable(self.conn, one.item.file.id, reason, self.now)
