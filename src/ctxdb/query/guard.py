"""Limit what SQLite may do for a question: it may only read, for a limited time.

SQL comes from scripts, and from agents that have read web pages. So there are several safeguards:

- the file is opened read-only, and the connection is told to refuse writes;
- an authorizer checks every statement before it runs: it may select, call harmless functions and
  ask a few PRAGMAs, nothing else (on a read-only connection, ATTACH could still create files);
- the clock is checked every few thousand steps; values and statements have a largest size, because
  no check can stop a single step that makes half a gigabyte;
- SQLite and the process may use only so much memory;
- one step cannot be stopped in these ways (finding one huge text in another): with `hard`, the
  process ends then.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ctxdb.errors import CtxdbError, DamagedDatabase, UsageError
from ctxdb.store.connection import naming_damage, open_reader
from ctxdb.store.fulltext import INDEXES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

SECONDS = 30.0  # for a question, unless --timeout says otherwise
GRACE_SECONDS = 3.0  # after that, a step that cannot be interrupted ends the process
STEPS = 4000  # of SQLite between two checks of the clock: about a millisecond
SEARCH_STEPS = 20_000  # the same for a search, whose limits are in tenths of a second
VALUE_BYTES = 50_000_000
SQL_BYTES = 1_000_000
LIKE_BYTES = 1000  # of a pattern; its cost is a power of the text's length
SQLITE_BYTES = 1 << 30  # of memory, mostly for sorting
PROCESS_BYTES = 4 << 30
INFINITE = float("inf")
REPAIR = (
    "the full-text index is damaged, the tables may not be; to rebuild it, run in the sqlite3"  # noqa: S608
    f" shell: INSERT INTO {INDEXES[0]}({INDEXES[0]}) VALUES ('rebuild'); and the same with"
    f" {', '.join(INDEXES[1:-1])} and {INDEXES[-1]}"
)

_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"})
_PRAGMAS = frozenset(
    {
        "application_id",
        "collation_list",
        "compile_options",
        "data_version",
        "encoding",
        "foreign_key_list",
        "freelist_count",
        "function_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "journal_mode",
        "page_count",
        "page_size",
        "schema_version",
        "table_info",
        "table_list",
        "table_xinfo",
        "user_version",
    }
)
# The argument of these is a name to describe; of the others it would be a new value.
_WITH_ARGUMENT = frozenset(
    {
        "foreign_key_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "table_info",
        "table_list",
        "table_xinfo",
    }
)
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_DEFENSIVE = 1010  # SQLITE_DBCONFIG_DEFENSIVE
_SCHEMA = frozenset({"sqlite_master", "sqlite_schema"})


class TooMuch(CtxdbError):
    """The question was stopped at a limit of time, size or memory."""


class Guarded:
    """A guarded connection; `seconds` is the time for everything that is asked on it.

    With `hard`, the process ends if SQLite does not stop in time: only for the command line. With
    `any_thread`, threads may use it in turn.
    """

    def __init__(
        self,
        path: Path,
        *,
        seconds: float = SECONDS,
        hard: bool = False,
        any_thread: bool = False,
    ) -> None:
        self.path = path
        self.seconds = seconds
        self._left = seconds
        self._began = 0.0
        self._until = INFINITE
        self._is_open = True
        self._connection = open_reader(path, any_thread=any_thread)
        limit = self._connection.setlimit
        limit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES)
        limit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES)
        limit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, LIKE_BYTES)
        limit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        limit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)
        self._connection.execute(f"PRAGMA hard_heap_limit = {SQLITE_BYTES}")
        if configure := getattr(self._connection, "setconfig", None):  # from Python 3.12 on
            configure(_DEFENSIVE, True)
        self._connection.text_factory = _decode
        self._connection.set_authorizer(_authorize)
        self._connection.set_progress_handler(self._is_over, STEPS)
        if hard:
            self._watch()

    def close(self) -> None:
        """Close the connection. It is safe to call this twice."""
        self._is_open = False
        self._connection.close()

    def renew(self) -> None:
        """Allow the whole time again: the connection is used for another question."""
        self._left = self.seconds

    @contextmanager
    def asking(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection; time counts only inside. Errors of SQLite become one-line errors."""
        self._began = time.monotonic()
        self._until = self._began + self._left
        try:
            with naming_damaged_index(self.path):
                yield self._connection
        except sqlite3.Error as e:
            raise self._in_words(e) from e
        except MemoryError as e:
            why = f"it needs more than {SQLITE_BYTES >> 30} GB of memory"
            raise TooMuch(f"stopped: {why}; ask for less at a time") from e
        finally:
            self._until = INFINITE
            self._left -= time.monotonic() - self._began

    def _is_over(self) -> bool:
        return time.monotonic() > self._until

    def _watch(self) -> None:
        """End the process if one step of SQLite does not end; this thread runs beside it."""
        from _thread import start_new_thread

        def watch() -> None:
            while self._is_open:
                time.sleep(1.0)
                if time.monotonic() > self._until + GRACE_SECONDS:
                    os.write(2, f"Error: stopped after {self.seconds:g} seconds\n".encode())
                    os._exit(1)

        start_new_thread(watch, ())

    def _in_words(self, error: sqlite3.Error) -> BaseException:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_INTERRUPT:
            if self._left > time.monotonic() - self._began:
                # It was Ctrl-C: sqlite3 swallows it if it arrives while the clock is checked.
                return KeyboardInterrupt()
            return TooMuch(
                f"stopped after {self.seconds:g} seconds; narrow it (--since, WHERE, LIMIT) or"
                " give it more (--timeout)"
            )
        if code == sqlite3.SQLITE_TOOBIG:
            size = f"{VALUE_BYTES // 1_000_000} MB"
            return TooMuch(f"stopped: a value or statement is too large (at most {size} a value)")
        if code == sqlite3.SQLITE_AUTH or "not authorized" in str(error):
            return UsageError(f"{error}: only reading is allowed here")
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return UsageError(f"{error}: only reading is allowed here")
        if isinstance(error, sqlite3.ProgrammingError):
            return UsageError(_of_programming(str(error)))
        if code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_MISMATCH):
            return UsageError(f"SQL: {error}")
        return error


def _decode(data: bytes) -> str:
    return data.decode(errors="replace")  # CAST(x'ff' AS TEXT) must not fail


def _of_programming(text: str) -> str:
    if "one statement at a time" in text:
        return "SQL: one statement at a time"
    if "binding parameter" in text:
        _, _, name = text.strip(" .").rpartition(":")
        return f"SQL: it needs a value for :{name}; give it as -p {name} VALUE"
    if "number of bindings" in text or "has no name" in text:
        return "SQL: write parameters as :name, and give them as -p name VALUE"
    return f"SQL: {text}"


def _authorize(
    action: int, one: str | None, two: str | None, _database: str | None, _inner: str | None
) -> int:
    if action in _ALLOWED:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if two in _FUNCTIONS else sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and one in _PRAGMAS and (not two or one in _WITH_ARGUMENT):
        return sqlite3.SQLITE_OK
    # FTS5, json_each and pragma_table_info look like an update of the schema. A real update fails,
    # because the file is open read-only.
    if action == sqlite3.SQLITE_UPDATE and one in _SCHEMA:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def limit_memory() -> None:
    """Limit the memory of this process, if the system has such limits."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        room = PROCESS_BYTES if hard == resource.RLIM_INFINITY else min(PROCESS_BYTES, hard)
        resource.setrlimit(resource.RLIMIT_AS, (room, hard))


def rows_within(
    conn: sqlite3.Connection, sql: str, values: Iterable[object], seconds: float
) -> tuple[list[Any], bool]:
    """Return the rows that are found in this time, and whether there was no time for more."""
    until = time.monotonic() + seconds
    conn.set_progress_handler(lambda: time.monotonic() > until, SEARCH_STEPS)
    rows: list[Any] = []
    try:
        for row in conn.execute(sql, tuple(values)):
            rows.append(row)  # noqa: PERF402 - rows found before an interruption are kept
    except sqlite3.OperationalError as e:
        if e.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        if time.monotonic() < until:  # Ctrl-C, as above
            raise KeyboardInterrupt from e
        return rows, True
    finally:
        conn.set_progress_handler(None, 0)
    return rows, False


@contextmanager
def naming_damaged_index(path: Path, *, by_index: bool = False) -> Iterator[None]:
    """Say so if the full-text index is damaged, and how to rebuild it from the tables.

    With `by_index`, everything is read by way of that index, so any damage is taken for its damage.
    """
    with naming_damage(path):
        try:
            yield
        except sqlite3.DatabaseError as e:
            code = getattr(e, "sqlite_errorcode", 0)
            is_corrupt = by_index and code & 0xFF == sqlite3.SQLITE_CORRUPT
            if is_corrupt or code == sqlite3.SQLITE_CORRUPT_VTAB:
                raise DamagedDatabase(path, REPAIR) from e
            raise
