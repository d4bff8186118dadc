"""Bringing the copy of an archive up to date, in one transaction.

Frames and blocks are never edited, so only those that the copy lacks are copied. What the archive
no longer has (merged, sealed, forgotten) is dropped from the copy and overwritten. The tables that
say what they are for are small and copied whole.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from ctxdb.archive.archive_file import archive_path, as_archive_error, open_archive_to_read
from ctxdb.backup.folder import NEW, private_file
from ctxdb.errors import ArchiveError
from ctxdb.lock import refuse_unsafe
from ctxdb.page_gaps import clear_gaps

if TYPE_CHECKING:
    from ctxdb.progress import Progress

# Tables whose rows are large and are never edited, and the columns that tell two rows apart.
PIECES = {"frames": ("file_id", "start", "length", "checksum"), "blocks": ("project", "checksum")}
ARCHIVE_ID = "id"  # a key of `meta`: the random name of an archive
_SCHEMA = (
    "SELECT type, name, sql FROM {}.sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY 1, 2"
)


@dataclass(slots=True)
class Copied:
    """What was done."""

    pieces: int = 0  # frames and blocks that were copied
    bytes: int = 0
    dropped: int = 0  # frames and blocks
    moved_aside: str | None = None  # a copy of another archive that was in the way


def copy_archive(db_path: Path, target: Path, progress: Progress) -> Copied | None:
    """Make `target` a copy of the database's archive; None if the database has no archive."""
    source = archive_path(db_path)
    reader = open_archive_to_read(db_path)  # refuses what is not an archive
    if reader is None:
        return None
    reader.close()
    copied = Copied()
    try:
        if _is_copy_of(source, target, copied):
            with _connected(source, target) as conn:
                _update(conn, copied, progress)
                why = clear_gaps(conn) if copied.dropped else None
                if why is not None:
                    raise ArchiveError(f"{target}: what was dropped is not erased: {why}")
        else:
            aside = target.with_name(target.name + NEW)
            aside.unlink(missing_ok=True)
            with private_file(aside):
                pass
            with _connected(source, aside) as conn:
                _make_tables(conn)
                _update(conn, copied, progress)
            _drop_journal(target)
            aside.replace(target)
    except sqlite3.Error as e:
        raise as_archive_error(target, e) from e
    except OSError as e:
        raise ArchiveError(f"{target}: {e.strerror}") from e
    return copied


def _is_copy_of(source: Path, target: Path, copied: Copied) -> bool:
    """Whether `target` can be brought up to date; a copy of another archive is moved aside."""
    refuse_unsafe(target)
    if not target.exists():
        return False
    try:
        with _connected(source, target) as conn:
            ids = [_id_of(conn, schema) for schema in ("src", "main")]
            is_same = ids[0] == ids[1]
            has_same_tables = _schema_of(conn, "src") == _schema_of(conn, "main")
    except sqlite3.DatabaseError as e:
        if isinstance(e, sqlite3.OperationalError) and not _lacks_tables(e):
            raise  # it cannot be read now, and may be good
        return False  # damaged: a new copy replaces it
    if not is_same:
        aside = _free_name(target)
        target.rename(aside)
        copied.moved_aside = str(aside)
    return is_same and has_same_tables


def _lacks_tables(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode == sqlite3.SQLITE_ERROR


def _drop_journal(target: Path) -> None:
    """A journal of the damaged copy would be rolled back into the new one."""
    target.with_name(target.name + "-journal").unlink(missing_ok=True)


def _free_name(path: Path) -> Path:
    n = 1
    while (free := path.with_name(f"{path.name}.{n}")).exists():
        n += 1
    return free


@contextmanager
def _connected(source: Path, target: Path) -> Iterator[sqlite3.Connection]:
    """The copy, opened for writing, with the archive attached as `src` for reading."""
    target_uri, source_uri = (f"file:{quote(os.fsencode(path))}" for path in (target, source))
    with closing(
        sqlite3.connect(f"{target_uri}?mode=rw", uri=True, timeout=5.0, isolation_level=None)
    ) as conn:
        conn.execute("ATTACH ? AS src", (f"{source_uri}?mode=ro",))
        for name in ("page_size", "application_id", "user_version"):
            (value,) = conn.execute(f"PRAGMA src.{name}").fetchone()
            (present,) = conn.execute(f"PRAGMA main.{name}").fetchone()
            if value != present:
                conn.execute(f"PRAGMA main.{name} = {int(value)}")
        conn.execute("PRAGMA main.auto_vacuum = INCREMENTAL")
        conn.execute("PRAGMA main.journal_mode = DELETE")
        conn.execute("PRAGMA main.secure_delete = ON")  # a forgotten session leaves nothing
        yield conn


def _schema_of(conn: sqlite3.Connection, schema: str) -> list[tuple[str, str, str]]:
    return conn.execute(_SCHEMA.format(schema)).fetchall()


def _id_of(conn: sqlite3.Connection, schema: str) -> object:
    return conn.execute(f"SELECT value FROM {schema}.meta WHERE key = ?", (ARCHIVE_ID,)).fetchone()


def _make_tables(conn: sqlite3.Connection) -> None:
    conn.execute("BEGIN IMMEDIATE")
    for kind in ("table", "index"):
        for found, _, sql in _schema_of(conn, "src"):
            if found == kind and sql:
                conn.execute(sql)
    conn.execute("COMMIT")


def _update(conn: sqlite3.Connection, copied: Copied, progress: Progress) -> None:
    conn.execute("BEGIN IMMEDIATE")
    missing: list[tuple[str, int, int]] = []  # table, id, bytes
    for table, columns in PIECES.items():
        same = " AND ".join(f"s.{name} IS t.{name}" for name in ("id", *columns))
        copied.dropped += conn.execute(
            f"DELETE FROM main.{table} AS t WHERE NOT EXISTS (SELECT 1 FROM src.{table} s"
            f" WHERE {same} AND length(s.data) = length(t.data))"
        ).rowcount
        missing += (
            (table, number, size)
            for number, size in conn.execute(
                f"SELECT id, length(data) FROM src.{table}"
                f" WHERE id NOT IN (SELECT id FROM main.{table})"
            )
        )
    progress.start(sum(size for _, _, size in missing), "Copying the archive")
    for table, number, size in missing:
        conn.execute(f"INSERT INTO main.{table} SELECT * FROM src.{table} WHERE id = ?", (number,))
        copied.pieces += 1
        copied.bytes += size
        progress.advance(size)
    for kind, name, _ in _schema_of(conn, "src"):
        if kind == "table" and name not in PIECES:
            quoted = name.replace('"', '""')
            conn.execute(f'DELETE FROM main."{quoted}"')
            conn.execute(f'INSERT INTO main."{quoted}" SELECT * FROM src."{quoted}"')
    conn.execute("COMMIT")
    conn.execute("PRAGMA main.incremental_vacuum").fetchall()
