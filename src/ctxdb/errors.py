"""Everything that can go wrong and that a person can do something about.

::

    CtxdbError                     exit 1
    ├── UsageError                 exit 2   the command line asks for something impossible
    ├── ConfigError                exit 1   a setting in config.toml is wrong
    ├── LockHeld                   exit 3   another process is writing to this database
    │   └── FrozenDaemon                    it is a daemon that was stopped or hangs
    ├── IncompleteInstallation     exit 1   migrations/ or sql/ did not come with the package
    ├── ArchiveError               exit 1   the archive beside the database cannot be used
    │   └── DamagedBytes                    some archived bytes of a file cannot be read
    ├── BackupError                exit 1   a backup cannot be made, read or put back
    └── DatabaseError              exit 1
        ├── NoDatabase                      nothing has been synced yet
        ├── NotOurDatabase                  a SQLite file that ctxdb did not make, or no SQLite file
        ├── NewerSchema                     made by a newer ctxdb than this one
        ├── OldDatabase                     made before the tables got their present columns
        ├── DamagedDatabase                 SQLite cannot read it
        └── UnsafeDatabase                  another user's file, or a symbolic link

Each error carries its facts as attributes. Its message is one line, and the command line prints
only that. No message quotes transcript text: a path and an offset are enough to find it. Any other
exception is a bug and keeps its traceback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable


# SQLite's result codes for problems of the machine, not of our SQL: locked, table locked,
# read-only, I/O error, corrupt, full, cannot open, protocol, not a database.
_MACHINE_CODES = frozenset({5, 6, 8, 10, 11, 13, 14, 15, 26})


def error_code(error: BaseException) -> str:
    """The name of an error for programs, such as no_database."""
    import re  # rarely needed

    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()


class CtxdbError(Exception):
    """A failure with a one-line reason; the root of the tree above."""

    exit_code: ClassVar[int] = 1


class UsageError(CtxdbError):
    """The command line asks for something impossible."""

    exit_code = 2


class ConfigError(CtxdbError):
    """A setting in the configuration file is wrong, or the file cannot be read."""

    def __init__(self, path: os.PathLike[str] | str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


class LockHeld(CtxdbError):
    """Another process is writing to this database."""

    exit_code = 3

    def __init__(self, db_path: os.PathLike[str] | str, pid: int | None, version: str = "") -> None:
        who = "another process" if pid is None else f"process {pid}"
        running = f" (ctxdb {version})" if version else ""
        self.is_daemon = version.endswith(" daemon")  # it does not end, and reads what is new
        if self.is_daemon:
            self._what = f"{who}{running} is already running and keeps {db_path} up to date"
            what_to_do = "stop it with `ctxdb daemon stop`, then try again"
        else:
            self._what = f"{who}{running} is writing to {db_path}"
            what_to_do = "try again later"
        super().__init__(f"{self._what}; {what_to_do}")
        self.db_path = db_path
        self.pid = pid
        self.version = version

    def say_to_reader(self, *, has_wait: bool) -> None:
        """Change the advice to that for a command that only reads new lines, as a daemon does."""
        if self.is_daemon:
            self.args = (self._what,)
        elif has_wait:
            self.args = (f"{self._what}; try again later, or use --wait",)


class FrozenDaemon(LockHeld):
    """The daemon of this database holds its lock, but it was stopped or hangs."""

    def __init__(self, db_path: os.PathLike[str] | str, pid: int, why: str) -> None:
        super().__init__(db_path, pid)
        self.args = (f"the daemon of {db_path} is frozen: {why}",)
        self.why = why

    def say_to_reader(self, *, has_wait: bool) -> None:
        """The advice is the same for all: a frozen daemon reads nothing."""


class IncompleteInstallation(CtxdbError):
    """A folder that comes with ctxdb is missing."""

    def __init__(self, name: str, looked_in: Iterable[os.PathLike[str] | str]) -> None:
        places = ", ".join(str(place) for place in looked_in)
        super().__init__(
            f"this installation of ctxdb is incomplete: no {name}/ in {places}; install it again"
        )
        self.name = name


class ArchiveError(CtxdbError):
    """The archive cannot be used; the message says why and what to do."""


class DamagedBytes(ArchiveError):
    """Some archived bytes of a file cannot be read."""

    def __init__(self, path: str, start: int, length: int) -> None:
        super().__init__(f"{path}: bytes {start} to {start + length} are damaged in the archive")
        self.path = path
        self.start = start
        self.length = length


class BackupError(CtxdbError):
    """A backup cannot be made, read or put back; the message says why and what to do."""


class DatabaseError(CtxdbError):
    """A database that cannot be used; `path` is its path and `why` the reason."""

    def __init__(self, path: os.PathLike[str] | str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


class NoDatabase(DatabaseError):
    """There is no database yet."""

    def __init__(self, path: os.PathLike[str] | str) -> None:
        super().__init__(path, "no database yet; `ctxdb sync` makes it")


class NotOurDatabase(DatabaseError):
    """A file that ctxdb did not make. It is not changed."""

    def __init__(
        self, path: os.PathLike[str] | str, why: str = "this is not a ctxdb database"
    ) -> None:
        super().__init__(path, why)


class NewerSchema(DatabaseError):
    """Made by a newer ctxdb; `unknown` names the migrations that this one does not know."""

    def __init__(self, path: os.PathLike[str] | str, unknown: Iterable[str]) -> None:
        self.unknown = tuple(unknown)
        super().__init__(
            path,
            "made by a newer version of ctxdb"
            f" (unknown migration {', '.join(self.unknown)}); upgrade ctxdb",
        )


class OldDatabase(DatabaseError):
    """Made by an earlier version with other tables; `gone` names sources that no longer exist.

    Without them it cannot be made again, so it stays as it is.
    """

    def __init__(self, path: os.PathLike[str] | str, gone: Iterable[str] = ()) -> None:
        self.gone = tuple(gone)
        why = "made by an earlier version of ctxdb"
        if self.gone:
            first, *others = self.gone
            more = f" and {len(others):,} more" if others else ""
            why += (
                f", and it cannot be made again: {first}{more} is gone or was rewritten;"
                " it is left as it is: keep it, and sync into another file with --db FILE"
            )
        else:
            why += "; `ctxdb sync` makes it again from its transcripts"
        super().__init__(path, why)


class DamagedDatabase(DatabaseError):
    """SQLite cannot read the file."""


class UnsafeDatabase(DatabaseError):
    """Another user could read or replace this file, so it is neither read nor written."""


def is_of_the_machine(error: BaseException) -> bool:
    """Whether the machine or another program caused an error, not the data to be stored."""
    code = getattr(error, "sqlite_errorcode", None)  # so that sqlite3 need not be imported
    if code is not None:
        return code & 0xFF in _MACHINE_CODES
    return isinstance(error, CtxdbError | OSError)
