"""Ask the database for a page: views as the command line asks them, several at a time.

SQLite reads without Python's lock, so parts of a page that do not depend on each other are asked in
threads. Connections are kept, because a new one would begin with an empty cache. So are the answers
that a page asks for with `remember`, until the database changes.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ctxdb.query.execute import execute
from ctxdb.query.guard import Guarded
from ctxdb.query.statement import Ask, Statement, statement_for
from ctxdb.web.data_version import DataVersion
from ctxdb.web.remembered import Remembered

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ctxdb.store.sql_files import Display

SECONDS = 20.0  # for all that a page asks on one connection
THREADS = 4  # questions of one page at a time
KEPT = 6  # connections that wait for the next page
MOST_ROWS = 100_000

Row = dict[str, Any]


class Rows(list[Row]):
    """The rows of an answer, and how they were asked for."""

    def __init__(
        self,
        rows: Iterable[Row],
        columns: Sequence[str] = (),
        displays: Sequence[Display] = (),
        statement: Statement | None = None,
        uncertain: str | None = None,
    ) -> None:
        super().__init__(rows)
        self.columns = tuple(columns)
        self.displays = tuple(displays)
        self.statement = statement
        self.uncertain = uncertain  # one line on what the sums leave out, if anything


class Database:
    """A database of ctxdb that is only read; any thread may ask."""

    def __init__(self, path: Path, *, seconds: float = SECONDS) -> None:
        self.path = path
        self._seconds = seconds
        self._lock = threading.Lock()
        self._idle: list[Guarded] = []
        self._file: tuple[int, int] | None = None  # of the idle connections
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="ctxdb-ask")
        self._version = DataVersion(path)
        self._remembered = Remembered(lambda: self._version.now(self._file_now()))

    def close(self) -> None:
        """Close all connections that are not lent."""
        self._threads.shutdown()
        with self._lock:
            idle, self._idle = self._idle, []
        for one in idle:
            one.close()
        self._version.close()

    @contextmanager
    def lend(self) -> Iterator[Guarded]:
        """Lend a guarded connection to this thread."""
        guarded = self._take()
        try:
            yield guarded
        except BaseException:
            guarded.close()  # it may be in the middle of an answer
            raise
        else:
            self._give_back(guarded)

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection that can only read, for as long as a page may take."""
        with self.lend() as guarded, guarded.asking() as conn:
            yield conn

    def ask(self, what: str, **narrow: Any) -> Rows:
        """Ask a view, a canned query or a table; `narrow` has the options of `ctxdb query`."""
        return self.answer(Ask(what, **narrow))

    def remember(self, key: Hashable, work: Callable[[], Any]) -> Any:
        """What `work` returns, kept until the database changes. Do not change it."""
        return self._remembered.answer(key, work)

    def ask_once(self, what: str, **narrow: Any) -> Rows:
        """Like `ask`, but the answer is kept until the database changes."""
        key = (what, *sorted(narrow.items()))
        rows: Rows = self.remember(key, lambda: self.ask(what, **narrow))
        return rows

    def answer(self, ask: Ask) -> Rows:
        """Ask what the command line would ask."""
        with self.lend() as guarded:
            with guarded.asking() as conn:
                statement = statement_for(ask, conn)
            return _rows(guarded, statement)

    def sql(self, sql: str, values: Mapping[str, Any] | None = None) -> Rows:
        """Run a statement of a page."""
        with self.lend() as guarded:
            return _rows(guarded, Statement("", sql, values or {}))

    def statement(self, ask: Ask) -> Statement:
        """The SQL for what is asked, without running it."""
        with self.connection() as conn:
            return statement_for(ask, conn)

    def together(self, parts: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
        """Call these functions at the same time; the first that fails is raised."""
        running = {name: self._threads.submit(part) for name, part in parts.items()}
        return {name: one.result() for name, one in running.items()}

    def _take(self) -> Guarded:
        found = self._file_now()
        with self._lock:
            if found != self._file:  # another database has this path now
                stale, self._idle, self._file = self._idle, [], found
            else:
                stale = []
            guarded = self._idle.pop() if self._idle else None
        for one in stale:
            one.close()
        if guarded is None:
            return Guarded(self.path, seconds=self._seconds, any_thread=True)
        guarded.renew()
        return guarded

    def _give_back(self, guarded: Guarded) -> None:
        found = self._file_now()
        with self._lock:
            if found == self._file and len(self._idle) < KEPT:
                self._idle.append(guarded)
                return
        guarded.close()

    def _file_now(self) -> tuple[int, int] | None:
        try:
            stat = os.stat(self.path)  # noqa: PTH116
        except OSError:
            return None
        return stat.st_dev, stat.st_ino


def _rows(guarded: Guarded, statement: Statement) -> Rows:
    answer = execute(guarded, statement, MOST_ROWS)
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    return Rows(rows, answer.columns, answer.displays or (), statement, answer.left_out.in_words())
