"""Adding to the archive what the database has read: after the rows, and apart from them.

The archive notes up to which time of reading it has looked. So a sync looks only at files that were
read since, and at those that end with an unfinished line. If archiving fails (a full disk, a
damaged archive), indexing goes on and the archive catches up later.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.archive.add import Added, add_files
from ctxdb.archive.archive_file import archive_path, open_archive, open_archive_to_read
from ctxdb.archive.merge import merge_frames
from ctxdb.archive.seal import SEAL_BYTES, seal_projects
from ctxdb.archive.sources import BESIDE, HISTORY, TRANSCRIPT, Source
from ctxdb.claude.side_contents import HISTORY_NAME
from ctxdb.claude.sidecars import INDEX_NAME, meta_path
from ctxdb.errors import ArchiveError
from ctxdb.files.walk import store_path
from ctxdb.ingest.archived_secrets import finder
from ctxdb.ingest.gate import Gate, HistoryGate
from ctxdb.ingest.masked_line import Reading, reading_of, stars_beside
from ctxdb.store.connection import path_of

if TYPE_CHECKING:
    from ctxdb.privacy.masking import Masker

FILES_AT_ONCE = 50  # between two notes of how far it has come
_READ_UP_TO = "read_up_to"  # a key of `meta` in the archive: the last `last_read_at` it has seen
_TRANSCRIPTS = (
    "SELECT f.path, b.path_bytes, coalesce(b.root, '/'), f.session_id, f.agent_id, f.last_read_at"
    " FROM source_files f JOIN _file_marks b ON b.source_file_id = f.id"
    " WHERE f.machine = '' AND f.state <> 'missing'"
    ' AND (f.last_read_at >= ? OR f.size > f."offset") ORDER BY f.id'
)
_SIDE_FILES = (
    "SELECT path, path_bytes, NULL, session_id, NULL, read_at FROM _side_files"
    " WHERE kind <> 'folder' AND state IN ('ok', 'partial') AND read_at >= ? ORDER BY id"
)


class _ReadFile(NamedTuple):
    """A file that the database has read; without a root it is beside the transcripts."""

    path: str
    path_bytes: bytes | None
    root: str | None
    session_id: str | None
    agent_id: str | None
    read_at: str | None

    @property
    def open_path(self) -> str:
        return os.fsdecode(self.path_bytes or self.path)


def archive_new(
    db_path: Path,
    conn: sqlite3.Connection,
    now: str,
    masker: Masker | None = None,
    *,
    most_bytes: int | None = None,
    ignore: Sequence[str] | None = None,
) -> Added:
    """Add what was read since the last time. Raises ArchiveError if the archive cannot be used.

    With `most_bytes` it stops after about so many; `is_complete` says whether anything is left.
    What a `masker` finds is overwritten. Without `ignore`, those projects are ignored that the last
    sync has ignored.
    """
    try:
        with closing(open_archive(db_path)) as archive:
            return _archive_since(archive, conn, now, masker, most_bytes, ignore)
    except sqlite3.Error as e:
        raise ArchiveError(f"{archive_path(db_path)}: {e}; indexing goes on without it") from e


def _archive_since(
    archive: sqlite3.Connection,
    conn: sqlite3.Connection,
    now: str,
    masker: Masker | None,
    most_bytes: int | None,
    ignore: Sequence[str] | None,
) -> Added:
    row = archive.execute("SELECT value FROM meta WHERE key = ?", (_READ_UP_TO,)).fetchone()
    (since,) = row or ("",)
    roots = [root for (root,) in conn.execute("SELECT DISTINCT root FROM _file_marks") if root]
    files = [
        *map(_ReadFile._make, conn.execute(_TRANSCRIPTS, (since,))),
        *map(_ReadFile._make, conn.execute(_SIDE_FILES, (since,))),
    ]
    files.sort(key=lambda file: file.read_at or "")
    gate = HistoryGate(conn)
    reading = None if masker is None else reading_of(conn, masker, stars_beside(path_of(conn)))
    ignored = Gate(conn, ignore)
    waiting = _searched(_limited(_waiting(archive, gate), ignored), reading)
    added = add_files(archive, waiting, now, most_bytes=most_bytes)
    for start in range(0, len(files), FILES_AT_ONCE):
        if not added.is_complete:
            break
        some = files[start : start + FILES_AT_ONCE]
        left = None if most_bytes is None else max(most_bytes - added.bytes, 1)
        sources = _searched(_limited(_sources(some, roots, gate), ignored), reading)
        part = add_files(archive, sources, now, most_bytes=left)
        added.add(part)
        last = _all_read_up_to(some, files[start + FILES_AT_ONCE :])
        if part.is_complete and last > since:
            since = last
            archive.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_READ_UP_TO, last))
    return added


def _all_read_up_to(done: list[_ReadFile], left: list[_ReadFile]) -> str:
    """The last time of which no file is left: a sync reads many files at one time."""
    following = left[0].read_at or "" if left else None
    times = [file.read_at or "" for file in done]
    return max((at for at in times if following is None or at < following), default="")


def is_behind(db_path: Path, conn: sqlite3.Connection) -> bool:
    """Whether something was read that is not archived, or a file ends with an unfinished line."""
    archive = open_archive_to_read(db_path)
    if archive is None:
        return True
    with closing(archive):
        waits = archive.execute("SELECT 1 FROM files WHERE has_all = 0 LIMIT 1").fetchone()
        row = archive.execute("SELECT value FROM meta WHERE key = ?", (_READ_UP_TO,)).fetchone()
    (since,) = row or ("",)
    (read_at,) = conn.execute(
        "SELECT max(coalesce((SELECT max(last_read_at) FROM source_files WHERE machine = ''), ''),"
        " coalesce((SELECT max(read_at) FROM _side_files), ''))"
    ).fetchone()
    if read_at > since:
        return True
    unfinished = (
        "SELECT 1 FROM source_files WHERE machine = '' AND state <> 'missing'"
        ' AND size > "offset" LIMIT 1'
    )
    return bool(waits or conn.execute(unfinished).fetchone())


def archive_all(
    db_path: Path,
    conn: sqlite3.Connection,
    now: str,
    masker: Masker | None = None,
    ignore: Sequence[str] | None = None,
) -> Added:
    """Look at every file again, whatever the archive has noted."""
    with closing(open_archive(db_path)) as archive:
        archive.execute("DELETE FROM meta WHERE key = ?", (_READ_UP_TO,))
    return archive_new(db_path, conn, now, masker, ignore=ignore)


def seal(db_path: Path, now: str, *, quiet_since: str, smallest: int = SEAL_BYTES) -> int:
    """Make the archive small; returns how many blocks were made."""
    with closing(open_archive(db_path)) as archive:
        merge_frames(archive, quiet_since=quiet_since)
        return seal_projects(archive, now, quiet_since=quiet_since, smallest=smallest)


def _searched(sources: Iterable[Source], reading: Reading | None) -> Iterator[Source]:
    """The same files, to be searched for secrets as they are archived."""
    if reading is None:
        yield from sources
        return
    for source in sources:
        yield source._replace(find_secrets=finder(reading, source.kind, source.path, source.root))


def _limited(sources: Iterable[Source], gate: Gate) -> Iterator[Source]:
    """The same files; of an ignored project only what was read before it was ignored."""
    sql = "SELECT id, \"offset\" FROM source_files WHERE path = ? AND machine = ''"
    for source in sources:
        end = None
        if source.kind == TRANSCRIPT:
            row = gate.conn.execute(sql, (store_path(source.path)[0],)).fetchone()
            file_id, offset = row or (None, 0)
            if file_id is not None and gate.reads_no_more_of(source.path, file_id):
                end = offset
        yield source._replace(end=end)


def _waiting(archive: sqlite3.Connection, gate: HistoryGate) -> Iterator[Source]:
    """Files of which the last bytes are not archived."""
    rows = archive.execute(
        "SELECT path, path_bytes, root, kind, session_id FROM files f WHERE has_all = 0"
        " AND generation = (SELECT max(generation) FROM files n WHERE n.path = f.path)"
    ).fetchall()
    for path, path_bytes, root, kind, session_id in rows:
        found = os.fsdecode(path_bytes or path)
        if os.path.basename(found) == INDEX_NAME and gate.is_named_in(found):
            continue
        leaves_out = gate.line_filter if kind == HISTORY else None
        yield Source(found, root, kind, session_id, leaves_out)


def _sources(files: Iterable[_ReadFile], roots: list[str], gate: HistoryGate) -> Iterator[Source]:
    folders: set[str] = set()
    for file in files:
        path = file.open_path
        if file.root is None:  # beside the transcripts
            is_history = os.path.basename(path) == HISTORY_NAME
            kind, leaves_out = (HISTORY, gate.line_filter) if is_history else (BESIDE, None)
            yield Source(path, _root_of(path, roots), kind, file.session_id, leaves_out)
            continue
        yield Source(path, file.root, TRANSCRIPT, file.session_id)
        if file.agent_id is not None:
            if os.path.lexists(meta := meta_path(path)):
                yield Source(meta, file.root, BESIDE, file.session_id)
        elif (folder := os.path.dirname(path)) not in folders:
            folders.add(folder)
            index = os.path.join(folder, INDEX_NAME)
            if os.path.lexists(index) and not gate.is_named_in(index):
                yield Source(index, file.root, BESIDE, None)


def _root_of(path: str, roots: list[str]) -> str:
    """The root that a file is in, or the folder that holds a root, or its own folder."""
    above = [os.path.dirname(root) for root in roots]
    for candidates in (roots, above):
        inside = [one for one in candidates if path.startswith(one.rstrip("/") + "/")]
        if inside:
            return max(inside, key=len)
    return os.path.dirname(path)
