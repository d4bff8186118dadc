"""Read what is new in the transcript of this session, while no daemon does.

Loading the ingest takes longer than a status line may. So a child process reads, after the line was
printed: the numbers are as of the last time that the line was shown. Only this one file is read.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from ctxdb.errors import CtxdbError
from ctxdb.lock import WriterLock, current_writer

if TYPE_CHECKING:
    from ctxdb.config import Config
    from ctxdb.files.walk import FoundFile

BUSY_SECONDS = 1.0  # to wait for a program that holds the write lock of the database
MOST_BYTES = 64 << 20  # more is for a sync or a daemon


def read_tail_in_background(config: Config, path: str) -> bool:
    """Start a process that reads the file, if there is something to read; says whether it did."""
    if not _has_unread_lines(config, path) or current_writer(config.db_path) is not None:
        return False
    child = os.fork()
    if child:
        os.waitpid(child, 0)  # it ends at once: the process that reads is its child
        return True
    code = 1
    try:
        os.setsid()
        if os.fork() == 0:
            nothing = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):  # the client waits until they are closed
                os.dup2(nothing, fd)
            with suppress(CtxdbError, sqlite3.Error, OSError):
                read_tail(config, path)
        code = 0
    finally:
        os._exit(code)


def _has_unread_lines(config: Config, path: str) -> bool:
    from ctxdb.files.walk import text_of
    from ctxdb.store.connection import open_reader

    try:
        size = os.lstat(path).st_size
    except (OSError, ValueError):
        return False
    if root_of(config, path) is None:
        return False
    with closing(open_reader(config.db_path)) as conn:
        row = conn.execute(
            'SELECT f."offset" FROM source_files f JOIN _file_marks b ON b.source_file_id = f.id'
            " WHERE f.path = ? AND b.root NOT LIKE '/dev/null/%'",  # there: of another machine
            (text_of(path),),
        ).fetchone()
    (offset,) = row or (0,)
    return bool(size > offset)


def root_of(config: Config, path: str) -> str | None:
    """The root that a transcript is in; None: it is in no root, and is not read."""
    if os.path.abspath(path) != path or not path.endswith(".jsonl"):  # noqa: PTH100
        return None
    inside = [root for root in config.roots if path.startswith(root.rstrip("/") + "/")]
    return max(inside, key=len, default=None)


def read_tail(config: Config, path: str) -> None:
    """Read what is new in one transcript. Raises LockHeld if another process writes."""
    from ctxdb.daemon.slice import Limits, Slice
    from ctxdb.ingest.masked_line import stars_beside
    from ctxdb.privacy.rule_settings import masker_of
    from ctxdb.store.connection import open_writer
    from ctxdb.store.version import is_current

    root = root_of(config, path)
    if root is None:
        return
    with (
        WriterLock(config.db_path),
        closing(open_writer(config.db_path, wait=BUSY_SECONDS)) as conn,
    ):
        if not is_current(conn):
            return  # a sync brings it to this version
        masker, stars = masker_of(config.settings), stars_beside(config.db_path)
        read = 0
        while read < MOST_BYTES:
            part = Slice(conn, Limits(), masker, stars)
            read += part.take([_found(path, root)]).bytes_read
            if not part.unfinished:
                return


def _found(path: str, root: str) -> FoundFile:
    from ctxdb.files.walk import FoundFile, numbers_of

    return FoundFile(path, root, *numbers_of(os.lstat(path)))
