"""Looking at all files by stat, and into those that have changed, for what there is to read."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from ctxdb.claude.layout import reading_order
from ctxdb.claude.sidecars import read_meta, read_sessions_index
from ctxdb.files.identity import Verdict, is_renamed, judge, open_regular, same_stat
from ctxdb.files.tail import Unfinished
from ctxdb.files.walk import FoundFile, Scan, covers, numbers_of, text_of
from ctxdb.ingest.gate import Gate
from ctxdb.ingest.line_check import has_same_lines
from ctxdb.ingest.line_reader import FilePlace
from ctxdb.ingest.masked_line import Reading
from ctxdb.ingest.report import SyncReport
from ctxdb.privacy.json_bytes import Place
from ctxdb.progress import Progress
from ctxdb.rows import SourceFile
from ctxdb.settle import sessions
from ctxdb.store import source_files
from ctxdb.store.connection import write_transaction
from ctxdb.store.insert import insert, last_id

MUCH_BYTES = 16 << 20  # to look through again: as long as a second
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


def utc_now() -> str:
    """This moment, as transcripts write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(slots=True)
class Work:
    """A file with something to read."""

    item: source_files.KnownFile
    found: FoundFile
    size: int
    limit: int | None = None  # where it ends for us
    masked: tuple[Place, ...] | None = None  # as FilePlace.masked

    @property
    def unread(self) -> int:
        """Bytes to read, about."""
        return max(self.size - self.item.file.offset, 0)

    @property
    def place(self) -> FilePlace:
        """What is known of the file before it is read."""
        file = self.item.file
        return FilePlace(file.session_id, file.agent_id, self.masked, self.item.open_path)

    @property
    def unfinished(self) -> Unfinished | None:
        """How far the file's unfinished last line has been searched for its end."""
        found = self.item.file.unfinished
        return None if found is None else Unfinished(*found)


class Failure(NamedTuple):
    """A file that could not be opened or read."""

    path: str
    error: OSError


PutOff = Callable[[source_files.KnownFile | None, FoundFile], bool]


class FileChanges:
    """Compares the files that were found with those that are known, and notes what differs."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        report: SyncReport,
        now: str,
        progress: Progress,
        reading: Reading,
    ) -> None:
        self.conn = conn
        self.report = report
        self.now = now
        self.progress = progress
        self.reading = reading
        self.are_any = False  # a file has come, gone or changed since the last time
        self.failures: list[Failure] = []
        self.gate = Gate(conn)
        self._unstored: list[SourceFile] | None = None  # new files, while `find` looks at many

    def find(self, found: Scan, put_off: PutOff = lambda _known, _file: False) -> list[Work]:
        """Open the files that are not as they are known, and note those that have vanished.

        Files that are `put_off` are not opened. Only rows of changed files are loaded: 200,000
        unchanged files must not take memory here.
        """
        paths = {text_of(file.path): file for file in sorted(found.files, key=reading_order)}
        known = source_files.load_some(self.conn, paths)
        changed = [(path, file) for path, file in paths.items() if differs(known.get(path), file)]
        new = [file for path, file in changed if path not in known]
        lost = [text_of(path) for path in found.gone if covers(found, path)]
        gone = source_files.load_some(self.conn, lost)
        # A new file may be a renamed one, perhaps from a folder that this walk did not cover.
        for item in source_files.load_by_inode(self.conn, new):
            path = os.fsdecode(item.open_path)
            is_gone = item.state == "missing" or path in found.gone or not os.path.lexists(path)
            if is_gone and item.file.path not in paths:
                gone[item.file.path] = item
        by_inode = inodes_of(gone.values())
        work: list[Work] = []
        self.are_any = bool(changed or gone)
        again = sum(
            known[path].file.offset
            for path, file in changed
            if path in known and may_be_edited(known[path], file.numbers)
        )
        if again > MUCH_BYTES:  # all files, perhaps, have been copied from another disk
            self.progress.start(again, "Looking for changes")
        if self.are_any:
            with write_transaction(self.conn), self._storing_new_files():
                for path, file in changed:
                    if put_off(known.get(path), file):
                        continue
                    looked = self.look_at(known.get(path), file, by_inode, gone)
                    if looked is not None:
                        work.append(looked)
                self._store_new_files()
                self._vanish(found, gone)
        return work

    @contextmanager
    def _storing_new_files(self) -> Iterator[None]:
        """Meanwhile rows of new files are stored many at once."""
        self._unstored = []
        try:
            yield
        finally:
            self._unstored = None

    def _add(self, file: FoundFile) -> source_files.KnownFile:
        """A file that is seen for the first time."""
        self.report.new_files += 1
        if self._unstored is None:
            return source_files.add_file(self.conn, file, self.now)
        last = self._unstored[-1].id if self._unstored else last_id(self.conn, SourceFile)
        item = source_files.new_file(last + 1, file, self.now)
        self._unstored.append(item.file)
        return item

    def _store_new_files(self) -> None:
        """Store what waits: their rows are needed now."""
        if self._unstored:
            insert(self.conn, SourceFile, self._unstored)
            self._unstored.clear()

    def look_at(
        self,
        item: source_files.KnownFile | None,
        file: FoundFile,
        by_inode: dict[tuple[int, int], list[source_files.KnownFile]],
        gone: dict[str, source_files.KnownFile],
    ) -> Work | None:
        """Open a file that looks changed, and say what has happened to it."""
        try:
            fd = open_regular(file.path)
        except FileNotFoundError:
            return None
        except OSError as e:
            self._unreadable(item, file, e)
            return None
        try:
            now = os.fstat(fd)
            if item is None:
                if self.gate.keeps_out(file, fd):
                    return None
                old = next(
                    (
                        one
                        for one in by_inode.get(numbers_of(now)[:2], ())
                        if one.file.path in gone
                        and is_renamed(one.known, now, fd)
                        and not _has_both_names(one, now)
                    ),
                    None,
                )
                if old is not None:
                    del gone[old.file.path]
                    self._store_new_files()
                    source_files.rename_file(self.conn, old, file)
                    self._read_index(file)
                    sessions.refresh_file(self.conn, old.file.id)
                    self.report.renamed_files += 1
                    item = old
                else:
                    item = self._add(file)
            elif self.gate.is_ignored_now(file.path, item.file.id, fd):
                return None  # what was read of it before stays, until it is forgotten
            source_files.forget_unreadable(self.conn, item)
            verdict = judge(item.known, now, fd)
            if verdict is not Verdict.REWRITTEN and self._is_edited(item, now):
                verdict = Verdict.REWRITTEN
            if verdict is Verdict.REWRITTEN:
                source_files.begin_again(self.conn, item.file)
                self.report.rewritten_files += 1
            elif verdict is Verdict.UNCHANGED or now.st_size <= item.file.offset:
                self._store_new_files()
                source_files.note_stat(self.conn, item.file.id, now, item.file.offset)
                return None
            elif not item.file.is_new:
                self.report.grown_files += 1
            self._read_sidecars(item, file)
            return Work(item, file, now.st_size)
        except OSError as e:
            self._unreadable(item, file, e)
            return None
        finally:
            os.close(fd)

    def _is_edited(self, item: source_files.KnownFile, now: os.stat_result) -> bool:
        """Whether a file that may have been written to otherwise than at its end has been.

        Someone has blacked out a password, say: head and tail are as they were, and so is the size.
        """
        if not may_be_edited(item, numbers_of(now)):
            return False
        return not has_same_lines(self.conn, item.file.id, self.progress, self.reading)

    def _unreadable(
        self, item: source_files.KnownFile | None, file: FoundFile, error: OSError
    ) -> None:
        self.failures.append(Failure(file.path, error))
        reason = reason_of(error)
        self.report.unreadable_files += 1
        self.report.problems.append(f"{file.path}: {reason}")
        if error.errno in NO_DESCRIPTORS:
            return  # the machine's trouble, not the file's: the next pass tries again
        if item is None:
            item = self._add(file)
        self._store_new_files()
        source_files.note_unreadable(self.conn, item.file.id, reason, self.now)

    def _vanish(self, found: Scan, gone: dict[str, source_files.KnownFile]) -> None:
        lost = [
            item.file
            for item in gone.values()
            if item.state != "missing"
            and covers(found, os.fsdecode(item.open_path), item.known.dev)
        ]
        source_files.note_missing(self.conn, lost, self.now)
        self.report.missing_files = len(lost)

    def _read_sidecars(self, item: source_files.KnownFile, file: FoundFile) -> None:
        """meta.json beside an agent's file, sessions-index.json beside new transcripts."""
        if item.file.agent_id is not None:
            # Whose agent it is may be known only when its first line is read.
            item.file.facts = read_meta(
                file.path, item.file.agent_id, item.file.workflow_run, self.reading.read_sidecar
            )
        elif item.file.is_new:
            self._read_index(file)

    def _read_index(self, file: FoundFile) -> None:
        folder = os.path.dirname(file.path)
        path = read_sessions_index(folder, self.reading.read_sidecar)
        if path is not None:
            self.conn.execute(
                "INSERT OR REPLACE INTO _meta VALUES (?, ?)",
                (f"index:{text_of(folder)}", path),
            )


def reason_of(error: OSError) -> str:
    """Why a file could not be read, in the words of the system."""
    return (error.strerror or str(error)).lower()


def inodes_of(
    files: Iterable[source_files.KnownFile],
) -> dict[tuple[int, int], list[source_files.KnownFile]]:
    """Files by their inodes. File systems use these again, so that several may have had one."""
    found: dict[tuple[int, int], list[source_files.KnownFile]] = {}
    for item in files:
        if item.known.ino:
            found.setdefault((item.known.dev, item.known.ino), []).append(item)
    return found


def _has_both_names(item: source_files.KnownFile, now: os.stat_result) -> bool:
    """Whether a file is still there under its old name: a hard link, the old name in another root.

    With one link, both names are the same place, and the file goes by the one that was asked for.
    """
    return now.st_nlink > 1 and os.path.lexists(item.open_path)


def may_be_edited(item: source_files.KnownFile, now: tuple[int, int, int, int, int]) -> bool:
    """Whether something was done to a file that is no append: (dev, ino, size, mtime, ctime).

    Of a file that has not grown another inode alone says nothing: copies have one that keep their
    times, and on some network file systems every file has, each time. A file that is half read has
    no ctime yet: that it differs is no sign of an edit, and comparing all lines of it would cost
    more than reading the rest.
    """
    known = item.known
    dev, ino, size, mtime_ns, ctime_ns = now
    if not known.offset:
        return False
    if size > known.size:  # editors, and sed -i, write another file and give it the name
        return dev == known.dev and ino != known.ino
    if mtime_ns != known.mtime_ns:
        return True
    return (dev, ino) == (known.dev, known.ino) and known.ctime_ns not in (0, ctime_ns)


def differs(item: source_files.KnownFile | None, file: FoundFile) -> bool:
    """True unless stat alone proves that nothing has happened to a file."""
    return item is None or item.state not in ("ok", "partial") or not same_stat(item.known, file)
