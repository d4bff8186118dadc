"""Reads outputs that Claude Code saved to files because they were too large for their line.

A transcript names the file, and a transcript can say anything. So only the folder of the line's own
session is looked into, each folder on the way is opened without following a link, and the file must
be a regular one.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ctxdb.claude.side_contents import RESULT
from ctxdb.files.identity import NotRegular, open_regular_at, pread
from ctxdb.settle.saved_outputs import MAX_TEXT_BYTES, SavedOutput, pack_output, put_output
from ctxdb.side_rows import SideFile
from ctxdb.store.side_files import find_side_file, note_stat, save_side_file

if TYPE_CHECKING:
    from ctxdb.ingest.masked_line import Reading

LONGEST_SECRET = 32 << 10  # bytes: one that is cut off at the end would not be recognized
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_outputs(
    conn: sqlite3.Connection,
    outputs: Sequence[SavedOutput],
    now: str,
    problems: list[str],
    reading: Reading,
    *,
    may_read: bool = True,
) -> int:
    """Put outputs in place whose files are there or were read before; returns how many.

    Unless it `may_read`, only those that were read before.
    """
    done = 0
    listed: dict[str, frozenset[str]] = {}
    for output in outputs:
        names = listed.get(output.folder)
        if names is None:
            names = _names_in(output.folder) if may_read else frozenset()
            listed[output.folder] = names
        file = find_side_file(conn, output.path)
        if output.name in names and file.content is None:
            _read(conn, output, file, now, problems, reading)
        if isinstance(file.content, bytes):
            put_output(conn, output.tool_id, file.content, file.size or 0)
            done += 1
    return done


def read_archived_outputs(
    conn: sqlite3.Connection, outputs: Sequence[SavedOutput], reading: Reading, now: str
) -> int:
    """Put outputs in place whose files are archived; returns how many."""
    done = 0
    for output in outputs:
        file = find_side_file(conn, output.path)
        if file.content is None:
            try:
                fd = reading.opener(output.path)
            except OSError:
                continue
            _, session_id, _ = output.folders
            file.kind, file.session_id, file.read_at = RESULT, session_id, now
            _keep(conn, file, fd, reading)
            file.state, file.stat = "missing", None
            save_side_file(conn, file)
        if isinstance(file.content, bytes):
            put_output(conn, output.tool_id, file.content, file.size or 0)
            done += 1
    return done


def _names_in(folder: str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()


def _read(
    conn: sqlite3.Connection,
    output: SavedOutput,
    file: SideFile,
    now: str,
    problems: list[str],
    reading: Reading,
) -> None:
    _, session_id, _ = output.folders
    before = (file.state, file.problem)
    file.kind, file.session_id, file.read_at = RESULT, session_id, now
    try:
        fd = open_output(output)
    except OSError as e:
        file.state = "unreadable"
        file.problem = (
            "not read: not a regular file, or a link on the way"
            if isinstance(e, NotRegular) or e.errno in (errno.ELOOP, errno.ENOTDIR)
            else (e.strerror or str(e)).lower()
        )
        problems.append(f"{file.path}: {file.problem}")
        if (file.state, file.problem) != before:
            save_side_file(conn, file)
        return
    _keep(conn, file, fd, reading)


def _keep(conn: sqlite3.Connection, file: SideFile, fd: int, reading: Reading) -> None:
    """Keep the contents of an open file, and close it."""
    try:
        info = os.fstat(fd)
        file.content = packed_output(fd, reading, file.path_bytes or file.path)
        file.state, file.problem = "ok", None
        note_stat(file, info)
    finally:
        os.close(fd)
    save_side_file(conn, file)


def packed_output(fd: int, reading: Reading, path: str | bytes) -> bytes:
    """What is kept of a file: its first part, with secrets masked before it is cut off."""
    data = reading.marked(path, pread(fd, MAX_TEXT_BYTES + LONGEST_SECRET, 0))
    masker = reading.masker
    if masker is not None and masker.may_hold_secret(data):
        text = data.decode("utf-8", "surrogateescape")
        data = masker.mask(text).encode("utf-8", "surrogateescape")
    return pack_output(data)


def open_output(output: SavedOutput) -> int:
    """Open the file without following a link on the way from the root. Raises OSError."""
    folder = os.open(output.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in output.folders:
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = inner
        return open_regular_at(output.name, folder)
    finally:
        os.close(folder)
