"""Replacing a database that an earlier version of ctxdb has made.

Its tables had other columns, so it is never read as if it were of this version. While all its
transcripts still exist, or are archived, it is made again from them: in a new file beside it, which
takes its name when it is complete. A kill at any moment leaves the old file. If a transcript is
gone, or lines that were read are no longer in it, the old file is the only copy: it is refused and
not changed.

The rows of `prices` that the user wrote, and views and tables of the user, are kept.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from ctxdb.archive.opening import archived_sizes
from ctxdb.errors import CtxdbError, DamagedDatabase, OldDatabase
from ctxdb.files.identity import mark_of, open_regular
from ctxdb.files.walk import store_path
from ctxdb.ingest.first_sync import put_in_place, remove_unfinished, unfinished
from ctxdb.store.connection import (
    BUSY_SECONDS,
    open_old,
    open_writer,
    remove_log,
    write_transaction,
)
from ctxdb.store.kept import keep_own_tables, keep_rows
from ctxdb.store.version import is_old, says_it_is_not_old

Fill = Callable[[Path, Sequence[str]], None]  # the ordinary first sync of a file from some roots


class OldSource(NamedTuple):
    """A transcript that an old database was made from."""

    path: str
    path_bytes: bytes | None
    offset: int
    mark: bytes | None
    root: str | None


def find_old(path: Path) -> list[OldSource] | None:
    """The sources of a database that an earlier version has made; None when it is no such one."""
    if not path.is_file() or not path.stat().st_size or says_it_is_not_old(path):
        return None
    with suppress(sqlite3.Error, DamagedDatabase), closing(open_old(path)) as conn:
        if is_old(conn):
            sql = 'SELECT path, path_bytes, "offset", mark, root FROM source_files'
            if conn.execute("SELECT 1 FROM sqlite_master WHERE name = '_file_marks'").fetchone():
                sql += " LEFT JOIN _file_marks ON source_file_id = id"
            return [*map(OldSource._make, conn.execute(f"{sql} ORDER BY id"))]
    return None


def is_made_from(sources: Sequence[OldSource], roots: Sequence[str]) -> bool:
    """Whether any of its transcripts was found under one of these roots, or there is none."""
    return not sources or not {s.root for s in sources}.isdisjoint(store_path(r)[0] for r in roots)


def replace_old(path: Path, roots: Sequence[str], fill: Fill, wait: float = BUSY_SECONDS) -> bool:
    """Make an old database again from its transcripts; False when it is not an old one.

    The caller holds the writer lock. Raises OldDatabase when a transcript is gone.
    """
    sources = find_old(path)
    if sources is None:
        return False
    _refuse_if_gone(path, sources)
    new = unfinished(path)
    try:
        fill(new, _all_roots(sources, roots))
        _refuse_if_not_read(path, sources, new)
        with closing(open_old(path)) as old:
            _keep_what_is_the_users(old, new)
        _swap(new, path, wait)
    finally:
        remove_unfinished(path)
    return True


def _refuse_if_gone(path: Path, sources: Sequence[OldSource]) -> None:
    archived = archived_sizes(path)
    gone = [
        source.path
        for source in sources
        if archived.get(source.path, 0) < source.offset and not _is_there(source)
    ]
    if gone:
        raise OldDatabase(path, gone)
    with closing(open_old(path)) as conn:
        for table in ("messages", "events"):
            sql = (
                f"SELECT f.path FROM {table} t JOIN source_files f ON f.id = t.source_file_id"
                " WHERE t.byte_length < 0 LIMIT 1"
            )
            for (rewritten,) in conn.execute(sql):
                raise OldDatabase(path, [rewritten])


def _is_there(source: OldSource) -> bool:
    """Whether all that was read of a file is still in it."""
    if not source.offset:
        return True
    try:
        fd = open_regular(source.path_bytes or source.path)
    except OSError:
        return False
    try:
        is_long_enough = os.fstat(fd).st_size >= source.offset
        return is_long_enough and source.mark in (None, mark_of(fd, source.offset))
    except OSError:
        return False
    finally:
        os.close(fd)


def _all_roots(sources: Sequence[OldSource], roots: Sequence[str]) -> list[str]:
    """The folders to read: those of this sync, and those that the old database was made from."""
    named = {store_path(root)[0] for root in roots}
    others = {source.root for source in sources if source.root is not None}
    return [*roots, *sorted(others - named)]


def _refuse_if_not_read(path: Path, sources: Sequence[OldSource], new: Path) -> None:
    """Whatever the reason: a source that has not been read again counts as gone."""
    with closing(open_writer(new)) as conn:
        read = dict(conn.execute('SELECT path, "offset" FROM source_files'))
    if lost := [source.path for source in sources if read.get(source.path, 0) < source.offset]:
        raise OldDatabase(path, lost)


def _keep_what_is_the_users(old: sqlite3.Connection, new: Path) -> None:
    with closing(open_writer(new)) as conn, write_transaction(conn):
        keep_rows(old, conn)
        keep_own_tables(old, conn)


def _swap(new: Path, path: Path, wait: float) -> None:
    """Give the new file the old one's name; until then the old one is complete."""
    # A log that stayed beside the old file would be read into the new one.
    for one in (new, path):
        if not remove_log(one, wait):
            why = "another program has it open; close it there, then sync again"
            raise CtxdbError(f"{one}: {why}")
    put_in_place(new, path, replace=True)
