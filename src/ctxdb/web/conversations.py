"""Conversations that pages show part by part, kept for a moment so that each part is quick."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from ctxdb.session.find import NoSuchSession, find_session
from ctxdb.session.load import Detail, load_conversation
from ctxdb.store.connection import open_reader
from ctxdb.web.page import Missing

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

    from ctxdb.session.conversation import Conversation

KEPT = 3  # conversations; a long one takes some megabytes
# What is known of a file when it is as it was: size and time of its last change.
_Stamp = tuple[tuple[int, int] | None, ...]

_lock = threading.Lock()
_kept: OrderedDict[tuple[Path, str], tuple[_Stamp, Conversation]] = OrderedDict()


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that can only read, for the loaders of ctxdb.session."""
    with closing(open_reader(path)) as conn:
        yield conn


def whole_id(path: Path, named: str) -> str:
    """The id of the session that an address names: by its id, the beginning of it, or a slug."""
    with reading(path) as conn:
        try:
            return find_session(conn, named)
        except NoSuchSession as e:
            raise Missing(str(e)) from e


def conversation(path: Path, session_id: str) -> Conversation:
    """A conversation without inputs and results of calls, and without those of agents.

    Others may have it too: it is only read.
    """
    key, stamp = (path, session_id), _stamp(path)
    with _lock:
        found = _kept.get(key)
        if found is not None:
            kept_stamp, kept = found
            if kept_stamp == stamp:
                _kept.move_to_end(key)
                return kept
    with reading(path) as conn:
        loaded = load_conversation(conn, session_id, Detail(thinking=True))
    with _lock:
        _kept[key] = (stamp, loaded)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return loaded


def version(path: Path, session_id: str) -> str:
    """A text that changes whenever something of the session was read or its prices changed."""
    with reading(path) as conn:
        (read,) = conn.execute(
            'SELECT coalesce(sum("offset"), 0) FROM source_files WHERE session_id = ?',
            (session_id,),
        ).fetchone()
        row = conn.execute(
            "SELECT ended_at, title FROM sessions WHERE id = ?", (session_id,)
        ).fetchone()
    ended_at, title = row or (None, None)
    return f"{read}.{ended_at or ''}.{title or ''}"[:200]


def _stamp(path: Path) -> _Stamp:
    return tuple(_stat(f"{path}{end}") for end in ("", "-wal"))


def _stat(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
