"""Reads what the archive has and the database lacks: by the same loop as any file.

A database that was restored from an older copy, made new, or made again has files to read whose
sources are gone. Each generation of such a file is read as the file was then: the oldest first, and
each following one as a file that was rewritten. So lines that only an older generation has get
their rows too.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb.archive.archive_file import archive_id, open_archive_to_read
from ctxdb.archive.opening import ArchiveOpener, stat_of
from ctxdb.archive.read import Generation, generations
from ctxdb.archive.sources import HISTORY, TRANSCRIPT
from ctxdb.claude.layout import is_transcript, reading_order
from ctxdb.claude.side_contents import SideRole, role_of
from ctxdb.claude.sidecars import read_meta, read_sessions_index
from ctxdb.elsewhere import name_elsewhere, split_name
from ctxdb.files.identity import mark_of
from ctxdb.files.walk import FoundFile, scan, text_of, unpack
from ctxdb.ingest.gate import Gate
from ctxdb.ingest.huge_line import read_announced
from ctxdb.ingest.masked_line import Reading
from ctxdb.ingest.plan import Work, utc_now
from ctxdb.ingest.report import SyncReport
from ctxdb.ingest.run import FileLoop, Policy, finish, read_found_files, start_readers
from ctxdb.ingest.saved_output_files import read_archived_outputs
from ctxdb.ingest.side_files import read_archived_side_files
from ctxdb.settle.saved_outputs import waiting_outputs
from ctxdb.store import source_files
from ctxdb.store.connection import write_transaction
from ctxdb.store.file_stats import load_stats

if TYPE_CHECKING:
    from ctxdb.progress import Progress

ARCHIVE_KEY = "archive"  # of `_meta`: the id of the archive that the database was compared with

_KNOWN = (
    'SELECT f.machine, f.path, f."offset", b.generation FROM source_files f'
    " JOIN _file_marks b ON b.source_file_id = f.id"
)


@dataclass(slots=True)
class Lacking:
    """What the archive has and the database lacks."""

    transcripts: list[list[Generation]] = field(default_factory=list)  # of a path, oldest first
    beside: list[list[Generation]] = field(default_factory=list)
    newest: dict[str, Generation] = field(default_factory=dict)  # of all paths, by that to open

    def __bool__(self) -> bool:
        return bool(self.transcripts or self.beside)


def find_lacking(conn: sqlite3.Connection, archive: sqlite3.Connection) -> Lacking:
    """Compare both. Nothing is decompressed."""
    found = Lacking()
    known = {
        name_elsewhere(machine, path): (offset, n)
        for machine, path, offset, n in conn.execute(_KNOWN)
    }
    beside = dict(conn.execute('SELECT path, "offset" FROM _side_files'))
    for files in _by_path(generations(archive)):
        newest = files[-1]
        found.newest[newest.open_path] = newest
        is_there = os.path.lexists(newest.open_path)
        if newest.kind != TRANSCRIPT:
            if not is_there and (
                newest.path not in beside
                or (newest.kind == HISTORY and beside[newest.path] < newest.size)
            ):
                found.beside.append(files)
        elif newest.path not in known:
            found.transcripts.append(files)
        else:
            offset, rewritten = known[newest.path]
            if rewritten < len(files) - 1:
                found.transcripts.append(files)
            elif not is_there and offset < newest.size:
                found.transcripts.append(files[-1:])
    return found


def _by_path(files: Iterable[Generation]) -> Iterator[list[Generation]]:
    group: list[Generation] = []
    for file in files:
        if group and group[-1].path != file.path:
            yield group
            group = []
        group.append(file)
    if group:
        yield group


def read_lacking(
    conn: sqlite3.Connection,
    db_path: Path,
    report: SyncReport,
    progress: Progress,
    reading: Reading,
) -> None:
    """Read from the archive of `db_path` what this database lacks, unless it has looked before.

    Whether it has is told by the archive's id, so this costs nothing in an ordinary sync.
    """
    row = conn.execute("SELECT value FROM _meta WHERE key = ?", (ARCHIVE_KEY,)).fetchone()
    (known,) = row or (None,)
    archive = open_archive_to_read(db_path)
    if archive is None:
        if known is not None:
            report.problems.append(f"the archive of {db_path}: it is gone; {_NEW_ONE}")
            look_at_archive_again(conn)
        return
    with closing(archive):
        found = archive_id(archive)
        if found == known:
            return
        if known is not None:
            report.problems.append(f"the archive of {db_path}: another one is there; {_NEW_ONE}")
        lacking = find_lacking(conn, archive)
        if lacking:
            read_archived(conn, db_path, archive, lacking, report, progress, reading)
    _note(conn, found)


_NEW_ONE = "bytes that were only in the old one are lost, and a new one is kept from now on"


def note_archive(conn: sqlite3.Connection, db_path: Path) -> None:
    """Note that the database agrees with its archive, which may be a new one."""
    archive = open_archive_to_read(db_path)
    if archive is not None:
        with closing(archive):
            _note(conn, archive_id(archive))


def _note(conn: sqlite3.Connection, found: str | None) -> None:
    row = conn.execute("SELECT value FROM _meta WHERE key = ?", (ARCHIVE_KEY,)).fetchone()
    if found is not None and row != (found,):
        with write_transaction(conn):
            conn.execute("INSERT OR REPLACE INTO _meta VALUES (?, ?)", (ARCHIVE_KEY, found))


def is_another_archive(conn: sqlite3.Connection, archive: sqlite3.Connection) -> bool:
    """Whether this is not the archive that the database was compared with."""
    row = conn.execute("SELECT value FROM _meta WHERE key = ?", (ARCHIVE_KEY,)).fetchone()
    return row is not None and row != (archive_id(archive),)


def look_at_archive_again(conn: sqlite3.Connection) -> None:
    """Let the next sync compare the database with the archive: one of them has been restored."""
    with write_transaction(conn):
        conn.execute("DELETE FROM _meta WHERE key = ?", (ARCHIVE_KEY,))


def read_archived(
    conn: sqlite3.Connection,
    db_path: Path,
    archive: sqlite3.Connection,
    lacking: Lacking,
    report: SyncReport,
    progress: Progress,
    reading: Reading,
) -> None:
    """Read these files, generation by generation, then the files beside the transcripts."""
    now = utc_now()
    with closing(ArchiveOpener(db_path, lacking.newest)) as opener:
        reading = reading._replace(opener=opener, stars=opener.stars)
        policy = Policy(
            start_readers=start_readers,
            read_huge_line=read_announced,
            opener=opener,
        )
        paths = sorted(lacking.transcripts, key=lambda files: reading_order(_as_found(files[-1])))
        sizes = sum(file.size for files in paths for file in files)
        progress.start(sizes, "Reading the archive")
        for nth in range(max(map(len, paths), default=0)):
            files = [files[nth] for files in paths if nth < len(files)]
            opener.chosen = {file.open_path: file for file in files}
            work = _work(conn, files, opener, now, reading)
            FileLoop(conn, report, now, policy, progress, reading).read(work)
        opener.chosen = {}
        with write_transaction(conn):
            for files in paths:
                _note_source(conn, files[-1], stat_of(archive, files[-1]), now)
        _read_sources_on(conn, paths, policy, report, progress, reading)
        finish(conn, now)
        beside = read_archived_side_files(conn, _roles(lacking.beside), opener, now, reading)
        report.problems += beside.problems
        report.side_files += beside.read
        outputs = [one for one in waiting_outputs(conn) if one.path in lacking.newest]
        if outputs:
            with write_transaction(conn):
                report.side_files += read_archived_outputs(conn, outputs, reading, now)
    report.from_archive += len(paths)


def _as_found(file: Generation) -> FoundFile:
    return FoundFile(file.open_path, file.root, 0, 0, file.size, 0, 0)


def _work(
    conn: sqlite3.Connection,
    files: Sequence[Generation],
    opener: ArchiveOpener,
    now: str,
    reading: Reading,
) -> list[Work]:
    """A file with something to read for each generation; its row is made if it is not there."""
    work: list[Work] = []
    known = source_files.load_some(conn, [file.path for file in files])
    gate = Gate(conn)
    with write_transaction(conn):
        for file in files:
            found = _as_found(file)
            item = known.get(file.path)
            if item is None:
                if _is_kept_out(gate, found, file, opener):
                    continue
                item = source_files.add_file(conn, found, now)
            elif not _goes_on(item.file.mark, item.file.offset, file, opener):
                source_files.begin_again(conn, item.file)
            if item.file.agent_id is not None:
                agent = (item.file.agent_id, item.file.workflow_run)
                item.file.facts = read_meta(file.open_path, *agent, reading.read_sidecar)
            elif item.file.is_new:
                _read_index(conn, os.path.dirname(file.open_path), reading)
            work.append(Work(item, found, file.size))
    return work


def _is_kept_out(gate: Gate, found: FoundFile, file: Generation, opener: ArchiveOpener) -> bool:
    """Whether a file is of a forgotten session or of an ignored project."""
    fd = opener.open(file)
    try:
        return gate.keeps_out(found, fd)
    finally:
        os.close(fd)


def _goes_on(mark: bytes | None, offset: int, file: Generation, opener: ArchiveOpener) -> bool:
    """Whether a generation begins with the bytes that were read already."""
    if not offset:
        return True
    if file.size < offset:
        return False
    fd = opener.open(file)
    try:
        return os.fstat(fd).st_size >= offset and mark_of(fd, offset) == mark
    finally:
        os.close(fd)


def _read_index(conn: sqlite3.Connection, folder: str, reading: Reading) -> None:
    key = f"index:{text_of(folder)}"
    if conn.execute("SELECT 1 FROM _meta WHERE key = ?", (key,)).fetchone() is None:
        path = read_sessions_index(folder, reading.read_sidecar)
        if path is not None:
            conn.execute("INSERT OR REPLACE INTO _meta VALUES (?, ?)", (key, path))


def _note_source(conn: sqlite3.Connection, file: Generation, stat: bytes | None, now: str) -> None:
    """Note how the source looked when it was archived, and that it is gone if it is."""
    machine, path = split_name(file.path)
    if machine:  # it may be there, on that machine
        stat = None
    _, ino, size, _, _ = unpack(stat)
    conn.execute(
        "UPDATE _file_marks SET stat = ?, ino = ? WHERE source_file_id ="
        " (SELECT id FROM source_files WHERE path = ? AND machine = ?)",
        (stat, ino or None, path, machine),
    )
    if not machine and not os.path.lexists(file.open_path):
        conn.execute(
            "UPDATE source_files SET state = 'missing', size = ?,"
            " missing_since = coalesce(missing_since, ?) WHERE path = ? AND machine = ''",
            (max(size, file.size), now, file.path),
        )


def _read_sources_on(
    conn: sqlite3.Connection,
    paths: Sequence[Sequence[Generation]],
    policy: Policy,
    report: SyncReport,
    progress: Progress,
    reading: Reading,
) -> None:
    """Read on in the files that are still there: they may have more than was archived."""
    folders = {
        os.path.dirname(files[-1].open_path)
        for files in paths
        if os.path.lexists(files[-1].open_path)
    }
    if folders:
        known = load_stats(conn)
        found = scan(folders, is_transcript, known)
        found.gone = {}
        wanted = {files[-1].open_path: files[-1].root for files in paths}
        found.files = [
            one._replace(root=wanted[one.path]) for one in found.files if one.path in wanted
        ]
        more = read_found_files(conn, found, policy, progress, reading)
        report.lines_read += more.lines_read
        report.bytes_read += more.bytes_read


def _roles(beside: Sequence[Sequence[Generation]]) -> list[tuple[Sequence[Generation], SideRole]]:
    found: list[tuple[Sequence[Generation], SideRole]] = []
    for files in beside:
        role = role_of(files[-1].open_path, files[-1].root)
        if role is not None:
            found.append((files, role))
    return found
