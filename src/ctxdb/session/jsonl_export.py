"""Export a session as JSON lines: the transcript's own bytes, or entries rebuilt from the rows.

The files of a session are written one after another, the main thread first, then its agents. A
file that has not changed since it was read is copied byte for byte, up to the last line in the
database. If a file is gone or rewritten, its lines come from the archive. If they are not there,
each entry is rebuilt from its rows, in the form of the transcripts as far as the database knows it,
and marked with ``"reconstructed": true``.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ctxdb.archive.read import archived_name
from ctxdb.claude.rebuilt_entry import rebuilt_entry
from ctxdb.claude.stored_data import json_object
from ctxdb.files.identity import mark_of, open_regular
from ctxdb.rows import Message, ToolUse
from ctxdb.session.archived_files import ArchivedFiles
from ctxdb.session.source_line import Place, read_archived_line, read_line

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILES = (
    'SELECT f.id, f.path, b.path_bytes, f."offset", b.mark, f.agent_id FROM source_files f'
    " JOIN _file_marks b ON b.source_file_id = f.id WHERE f.session_id = ?"
    " ORDER BY f.agent_id IS NOT NULL, f.agent_id, f.id"
)
_ENTRIES = """
SELECT m.byte_start, m.id, NULL FROM messages m WHERE m.source_file_id = :file
UNION ALL
SELECT c.byte_start, c.message_id, NULL FROM message_copies c WHERE c.source_file_id = :file
UNION ALL
SELECT e.byte_start, NULL, e.data FROM events e WHERE e.source_file_id = :file
ORDER BY 1
"""
_PLACES = (
    "SELECT m.uuid, f.path, b.path_bytes, m.byte_start, m.byte_length, 0, m.id FROM messages m"
    " JOIN source_files f ON f.id = m.source_file_id"
    " JOIN _file_marks b ON b.source_file_id = f.id WHERE m.session_id = ?"
    " ORDER BY m.source_file_id, m.byte_start"
)
_MESSAGE = (
    "SELECT uuid, parent_uuid, logical_parent_uuid, session_id, agent_id, type, subtype,"
    " timestamp, model,"
    " api_message_id, request_id, stop_reason, text, thinking, is_sidechain, cwd, git_branch,"
    " version, kind FROM messages WHERE id = ?"
)
_CALLS = "SELECT tool_use_id, raw_name, input FROM tool_uses WHERE message_id = ? ORDER BY id"
_RESULTS = (
    "SELECT tool_use_id, result_text, is_error FROM tool_uses WHERE result_message_id = ?"
    " ORDER BY id"
)
Kind = TypeVar("Kind", Message, ToolUse)


class _File(NamedTuple):
    id: int
    path: str
    path_bytes: bytes | None
    offset: int
    mark: bytes | None
    agent_id: str | None


class SessionLines:
    """The lines of a session; then `archived` and `rebuilt` name files that have changed."""

    def __init__(self, conn: sqlite3.Connection, session_id: str) -> None:
        self._conn = conn
        self._session_id = session_id
        self._archive = ArchivedFiles(conn)
        self.archived: list[str] = []  # files whose lines are from the archive
        self.rebuilt: list[str] = []  # files whose lines are made from the database

    def __iter__(self) -> Iterator[bytes]:
        with closing(self._archive):
            yield from self._all_lines()

    def _all_lines(self) -> Iterator[bytes]:
        files = [_File(*row) for row in self._conn.execute(_FILES, (self._session_id,))]
        if not files:
            yield from self._lines_in_other_files()
        threads: dict[str | None, list[_File]] = {}
        for file in files:
            threads.setdefault(file.agent_id, []).append(file)
        for thread in threads.values():
            yield from self._lines_of(thread)

    def _lines_of(self, thread: list[_File]) -> Iterator[bytes]:
        """The lines of one thread. A file may be a copy of one before it: no line comes twice."""
        seen: set[bytes] = set()  # hashes of lines
        for file in thread:
            lines = self._lines_of_file(file)
            if len(thread) == 1:
                yield from lines
                continue
            before = frozenset(seen)  # a line may be repeated within a file
            for line in lines:
                key = hashlib.blake2b(line, digest_size=16).digest()
                seen.add(key)
                if key not in before:
                    yield line

    def _lines_of_file(self, file: _File) -> Iterator[bytes]:
        fd = _open_unchanged(file)
        if fd is not None:
            return _lines(fd, file.offset)
        name = archived_name(file.path, file.path_bytes)
        archived = self._archive.lines(name, file.offset, file.mark)
        if archived is None:
            return self._rebuild(file)
        self.archived.append(file.path)
        return archived

    def _lines_in_other_files(self) -> Iterator[bytes]:
        """The lines of a session that has no file of its own."""
        for row in self._conn.execute(_PLACES, (self._session_id,)).fetchall():
            place = Place(*row)
            line = read_line(place) or read_archived_line(self._archive, place)
            yield _dumps(self._entry(place.message_id)) if line is None else line + b"\n"

    def _rebuild(self, file: _File) -> Iterator[bytes]:
        self.rebuilt.append(file.path)
        for _, message_id, data in self._conn.execute(_ENTRIES, {"file": file.id}).fetchall():
            entry = json_object(data) if message_id is None else self._entry(message_id)
            yield _dumps(entry)

    def _entry(self, message_id: int) -> dict[str, Any]:
        (message,) = self._rows(Message, _MESSAGE, message_id)
        message.calls = self._rows(ToolUse, _CALLS, message_id)
        message.results = self._rows(ToolUse, _RESULTS, message_id)
        return rebuilt_entry(message)

    def _rows(self, kind: type[Kind], sql: str, message_id: int) -> list[Kind]:
        cursor = self._conn.cursor()
        cursor.row_factory = sqlite3.Row
        return [kind(**row) for row in map(dict, cursor.execute(sql, (message_id,)))]


def _dumps(entry: dict[str, Any]) -> bytes:
    marked = {**entry, "reconstructed": True}
    text = json.dumps(marked, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="replace") + b"\n"


def _lines(fd: int, offset: int) -> Iterator[bytes]:
    """The lines up to an offset, unchanged; closes the file."""
    with os.fdopen(fd, "rb") as file:
        left = offset
        while left > 0 and (line := file.readline(left)):
            yield line
            left -= len(line)


def _open_unchanged(file: _File) -> int | None:
    """Open the file if it has not changed since it was read; the caller closes it."""
    try:
        fd = open_regular(file.path_bytes or file.path)
    except OSError:
        return None
    try:
        is_long_enough = os.fstat(fd).st_size >= file.offset
        if is_long_enough and (not file.offset or mark_of(fd, file.offset) == file.mark):
            return fd
    except OSError:
        pass
    os.close(fd)
    return None
