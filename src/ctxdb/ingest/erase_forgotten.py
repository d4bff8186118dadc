"""Erasing the bytes of forgotten sessions from every file of a database.

Their rows are gone by then. What is left is in the archive, in the full text (a deleted word stays
in it until its segments are merged), in freed pages, in SQLite's log, in the daemon's log, and in
the database that a rebuild has kept. All of it is found by the tombstones alone, so a sync can
finish what was interrupted or what a reader has held up.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ctxdb.archive.archive_file import archive_path, open_archive
from ctxdb.archive.erase import clear_free_pages, erase_files
from ctxdb.archive.read import ArchiveReader, Generation
from ctxdb.claude.sidecars import INDEX_NAME, sessions_named
from ctxdb.daemon_health import files_of_daemon
from ctxdb.errors import ArchiveError, DamagedBytes
from ctxdb.ingest.gate import HistoryGate
from ctxdb.lock import is_alive
from ctxdb.store.connection import write_transaction
from ctxdb.store.erase_pages import empty_log, erase_pages, overwrite_removed
from ctxdb.store.tombstones import SESSION, SLUG, Tombstones

WAIT_SECONDS = 10.0  # for readers of the database and of the archive
KEPT = ".before-rebuild*"  # what a rebuild has kept, after the name of the database
BUILDING = "-building*"  # what a killed process has left, after the name of the database
VERIFYING = ".verifying-"  # and the process: a second database, while verify runs
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(slots=True)
class Erasure:
    """What became of the bytes."""

    is_done: bool = True
    archived_files: int = 0
    archived_bytes: int = 0
    waits_for: list[str] = field(default_factory=list)  # what is not erased yet, and why
    problems: list[str] = field(default_factory=list)


class Mentions(NamedTuple):
    """What tells that a text is about a forgotten session."""

    tombstones: Tombstones
    words: tuple[str, ...] = ()  # such as paths, while they are still known

    def are_in(self, text: str) -> bool:
        """Whether a text names one."""
        if any(word in text for word in self.words):
            return True
        return any(self.tombstones.is_forgotten(found) for found in _ID.findall(text))


def is_unfinished(conn: sqlite3.Connection) -> bool:
    """Whether bytes of a forgotten session are still to be erased."""
    sql = "SELECT 1 FROM _forgotten WHERE erased_at IS NULL LIMIT 1"
    return conn.execute(sql).fetchone() is not None


def erase_forgotten(
    db_path: Path,
    conn: sqlite3.Connection,
    now: str,
    words: Iterable[str] = (),
    *,
    wait: float = WAIT_SECONDS,
) -> Erasure:
    """Erase all that is left of forgotten sessions. The caller holds the writer lock."""
    done = Erasure()
    mentions = Mentions(Tombstones(conn), tuple(words))
    _erase_archive(db_path, conn, done)
    _clean_texts(files_of_daemon(db_path), mentions, done)
    _remove_kept(db_path, done)
    overwrite_removed(conn)
    _forget_daemon_facts(conn, mentions)
    why = erase_pages(conn, wait)
    if why is not None:
        done.waits_for.append(f"{db_path}: {why}")
    done.is_done = not done.waits_for
    if done.is_done:
        with write_transaction(conn):
            conn.execute("UPDATE _forgotten SET erased_at = ? WHERE erased_at IS NULL", (now,))
        empty_log(conn, wait)
    return done


# -- the archive -----------------------------------------------------------------------------------


def _erase_archive(db_path: Path, conn: sqlite3.Connection, done: Erasure) -> None:
    path = archive_path(db_path)
    if not path.exists():
        return
    gate = HistoryGate(conn)
    try:
        with closing(open_archive(db_path, wait=WAIT_SECONDS)) as archive:
            erased = erase_files(archive, _is_gone(archive, gate), gate.line_filter)
            why = clear_free_pages(archive)
            if why is not None:
                done.waits_for.append(f"{path}: {why}")
    except (sqlite3.Error, ArchiveError) as e:
        done.waits_for.append(f"{path}: {e}")
        return
    done.archived_files, done.archived_bytes = erased.files, erased.bytes
    done.problems += erased.problems


def _is_gone(archive: sqlite3.Connection, gate: HistoryGate) -> Callable[[Generation], bool]:
    tombstones = gate.tombstones
    reader = ArchiveReader(archive)

    def is_gone(file: Generation) -> bool:
        if tombstones.keeps_out(SESSION, file.session_id):
            return True
        if any(tombstones.is_forgotten(found) for found in _ID.findall(file.path)):
            return True
        name = os.path.basename(file.path)
        if name.endswith(".md") and os.path.basename(os.path.dirname(file.path)) == "plans":
            return tombstones.keeps_out(SLUG, name.removesuffix(".md"))
        if name == INDEX_NAME:
            try:
                named = sessions_named(reader.read(file))
            except DamagedBytes:
                return True
            return any(tombstones.keeps_out(SESSION, one) for one in named)
        return False

    return is_gone


# -- files of text, and kept databases -------------------------------------------------------------


def _clean_texts(paths: Iterable[Path], mentions: Mentions, done: Erasure) -> None:
    """Take lines out of logs that mention a forgotten session."""
    for path in paths:
        try:
            if path.is_symlink() or not path.is_file():
                continue
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
            kept = [line for line in text.splitlines(keepends=True) if not mentions.are_in(line)]
            if len("".join(kept)) == len(text):
                continue
            _write_again(path, "".join(kept).encode("utf-8", "surrogateescape"))
        except OSError as e:
            done.waits_for.append(f"{path}: {e.strerror}")


def _write_again(path: Path, data: bytes) -> None:
    """In place: a daemon may have it open as its standard error."""
    fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        os.pwrite(fd, data + b"\n" * (size - len(data)), 0)
        os.fsync(fd)
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)


def _remove_kept(db_path: Path, done: Erasure) -> None:
    """Delete the database that a rebuild has kept, and what killed processes have left."""
    for pattern in (db_path.name + KEPT, db_path.name + BUILDING, f"{VERIFYING}*"):
        for path in db_path.parent.glob(pattern):
            pid = path.name.removeprefix(VERIFYING)
            if pid.isdecimal() and len(pid) < 10 and is_alive(int(pid)):
                done.waits_for.append(f"{path}: `ctxdb verify` is running")
                continue
            try:
                if path.is_dir() and not path.is_symlink():
                    import shutil  # rarely needed

                    shutil.rmtree(path)
                else:
                    path.unlink()
            except OSError as e:
                done.waits_for.append(f"{path}: {e.strerror}")


# -- the database ----------------------------------------------------------------------------------


def _forget_daemon_facts(conn: sqlite3.Connection, mentions: Mentions) -> None:
    """What the daemon has stored about itself may name a file."""
    rows = conn.execute("SELECT key, value FROM _meta WHERE key NOT LIKE 'key %'").fetchall()
    for key, value in rows:
        if mentions.are_in(f"{key} {value}"):
            with write_transaction(conn):
                conn.execute("DELETE FROM _meta WHERE key = ?", (key,))
