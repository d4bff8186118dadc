"""A connection on which nothing but reading is possible, and that not for ever.

SQL comes from scripts and from agents that have read web pages, so no single lock is trusted:

- the file is opened read-only, and the connection is told to refuse writes;
- an authorizer looks at every statement before it runs: it may select, call harmless functions and
  ask a few PRAGMAs, nothing else (a read-only connection alone would let ATTACH make files);
- a clock is looked at every few thousand steps; values and statements have a largest size, because
  no clock can stop a single step that makes half a gigabyte;
- SQLite and the process have a largest amount of memory;
- and for the one step that goes on regardless (looking for one huge text in another), `hard` ends
  the process.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ctxdb.errors import CtxdbError, UsageError
from ctxdb.query.damage import naming_what_is_damaged
from ctxdb.store.connection import open_reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS = 30.0  # unless told otherwise
GRACE_SECONDS = 3.0  # after which a step that cannot be interrupted ends the process
STEPS = 4000  # between two looks at the clock: about a millisecond
VALUE_BYTES = 50_000_000
SQL_BYTES = 1_000_000
LIKE_BYTES = 1000  # of a pattern; its cost is a power of the text's length
SQLITE_BYTES = 1 << 30  # that SQLite may use, for sorting above all
PROCESS_BYTES = 4 << 30
INFINITE = float("inf")

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
# Of these the argument is a name to tell about; of the others it would be a new value.
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
    """The question was stopped at a limit."""


class Guarded:
    """A guarded connection: everything that is asked on it together has so many seconds.

    With `hard`, the process ends when SQLite does not stop in time: only for the command line.
    """

    def __init__(self, path: Path, *, seconds: float = SECONDS, hard: bool = False) -> None:
        self.path = path
        self.seconds = seconds
        self._left = seconds
        self._began = 0.0
        self._until = INFINITE
        self._is_open = True
        self._connection = open_reader(path)
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
        """Close it. Safe to call twice."""
        self._is_open = False
        self._connection.close()

    @contextmanager
    def asking(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection; the clock runs inside only. Errors are said in one line."""
        self._began = time.monotonic()
        self._until = self._began + self._left
        try:
            with naming_what_is_damaged(self.path):
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
        """End the process if one step of SQLite takes for ever; other threads run meanwhile."""
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
                # Ctrl-C arrives while the clock is looked at, and sqlite3 swallows it there.
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
    return data.decode(errors="replace")  # CAST(x'ff' AS TEXT) is no reason to fail


def _of_programming(text: str) -> str:
    if "one statement at a time" in text:
        return "SQL: one statement at a time"
    if "binding parameter" in text:
        name = text.rpartition(":")[2].strip(" .")
        return f"SQL: it wants a value for :{name}; give it as -p {name} VALUE"
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
    # FTS5, json_each and pragma_table_info declare themselves so; a real update of it still fails,
    # because the file is open read-only.
    if action == sqlite3.SQLITE_UPDATE and one in _SCHEMA:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def limit_memory() -> None:
    """Keep this process from filling the machine's memory, where the system knows such limits."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        room = PROCESS_BYTES if hard == resource.RLIM_INFINITY else min(PROCESS_BYTES, hard)
        resource.setrlimit(resource.RLIMIT_AS, (room, hard))
