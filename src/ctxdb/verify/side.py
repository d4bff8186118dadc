"""Files beside the transcripts: what was read of them is still what they say.

A file that is gone, or that looks otherwise than when it was read, cannot be compared. Then what is
stored is given to the second database as it is, so that to-dos, plans and matched prompts are
worked out again from the same files.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from typing import TYPE_CHECKING

from ctxdb.claude.side_contents import HISTORY, RESULT, typed_line
from ctxdb.columns import columns
from ctxdb.files.identity import open_regular, pread
from ctxdb.files.parse import Bad, parse
from ctxdb.files.tail import read_block
from ctxdb.files.walk import numbers_of, pack
from ctxdb.ingest.gate import HistoryGate
from ctxdb.ingest.history_file import with_marks
from ctxdb.ingest.masked_line import Reading
from ctxdb.ingest.saved_output_files import packed_output, read_outputs
from ctxdb.ingest.side_files import MAX_FILE_BYTES, content_of
from ctxdb.privacy.masked_form import is_masked_form
from ctxdb.settle.history import begin_matching
from ctxdb.settle.plans import refresh_plans
from ctxdb.settle.saved_outputs import unpack, waiting_outputs
from ctxdb.settle.todos import refresh_todos
from ctxdb.side_rows import SideFile
from ctxdb.store.connection import write_transaction
from ctxdb.store.insert import load
from ctxdb.store.lookup import first_column

if TYPE_CHECKING:
    from ctxdb.verify.differences import VerifyReport

# What is told by files and follows from nothing else.
_COPIED = (
    ("_side_files", ", ".join(f'"{name}"' for name in columns(SideFile))),
    ("history", "id, timestamp, project_path, session_id, prompt, pasted_bytes"),
    ("_history_lines", "history_id, line_hash, nth, text_hash"),
)
_PLACES = (
    "SELECT p.byte_start, l.line_hash, l.nth FROM _history_places p"
    " JOIN _history_lines l ON l.history_id = p.history_id WHERE p.side_file_id = ?"
)


def check_side_files(conn: sqlite3.Connection, report: VerifyReport, reading: Reading) -> None:
    """Read each file again that looks as it did, and compare."""
    for file in load(conn, SideFile, "WHERE t.stat IS NOT NULL AND t.state <> 'missing'"):
        try:
            fd = open_regular(file.path_bytes or file.path)
        except OSError:
            continue  # gone, or no longer readable
        try:
            if pack(numbers_of(os.fstat(fd))) != file.stat:
                continue
            if file.kind == HISTORY:
                same = _is_same_history(conn, fd, file, reading)
            else:
                same = _is_same(fd, file, reading)
        except OSError:
            continue
        finally:
            os.close(fd)
        report.rows_compared += 1
        if not same:
            report.differ(f"{file.path}: what was read of it differs")


def _is_same(fd: int, file: SideFile, reading: Reading) -> bool:
    if file.content is None or file.state != "ok":
        return True  # what was read of an earlier one stays
    path, masker = file.path_bytes or file.path, reading.masker
    if file.kind == RESULT:
        if not isinstance(file.content, bytes):
            return False
        stored, clear = (
            unpack(file.content),
            unpack(packed_output(fd, reading._replace(masker=None), path)),
        )
        return stored == clear or is_masked_form(stored, clear, masker)
    stored = str(file.content)
    clear = content_of(file.kind, reading.marked(path, pread(fd, MAX_FILE_BYTES, 0)), None)
    return stored == clear or is_masked_form(stored, clear, masker)


def _is_same_history(conn: sqlite3.Connection, fd: int, file: SideFile, reading: Reading) -> bool:
    """Whether each complete line has its row."""
    stars = reading.stars_in(file.path_bytes or file.path)
    gate = HistoryGate(conn)
    known = {start: (hashed, nth) for start, hashed, nth in conn.execute(_PLACES, (file.id,))}
    before: Counter[int] = Counter()
    offset = 0
    while offset < file.offset:
        block = read_block(fd, offset)
        if block.is_empty:
            return False
        for start, size, raw in block.lines:
            data, known_by = with_marks(stars, start, size, raw)
            found = parse(data)
            if found is None or isinstance(found, Bad):
                continue
            for within, length, entry in found.objects:
                typed, line = typed_line(entry), data[within : within + length]
                if typed is None:
                    continue
                hashed = reading.digest(line) if known_by is None else known_by
                row = known.pop(start + within, None)
                if row is None and gate.keeps_out(typed, line):
                    continue
                if row != (hashed, before[hashed]):
                    return False
                before[hashed] += 1
        offset = block.end
    return offset == file.offset and not known


def give_side_files(first: sqlite3.Connection, second: sqlite3.Connection) -> None:
    """Copy what files say into the second database, before lines are read into it."""
    with write_transaction(second):
        for table, names in _COPIED:
            places = ", ".join("?" * len(names.split(", ")))
            second.executemany(
                f"INSERT INTO {table} ({names}) VALUES ({places})",
                first.execute(f"SELECT {names} FROM {table}"),
            )


def settle_side_files(second: sqlite3.Connection) -> None:
    """Work out what follows from the files, after the lines are read."""
    with write_transaction(second):
        sessions = "SELECT DISTINCT session_id FROM _side_files WHERE session_id IS NOT NULL"
        refresh_todos(second, first_column(second.execute(sessions)))
        slugs = "SELECT DISTINCT slug FROM _side_files WHERE slug IS NOT NULL"
        refresh_plans(second, (), first_column(second.execute(slugs)))
        begin_matching(second)
        # Only those that were read by the first: the files themselves are not opened.
        known = set(first_column(second.execute("SELECT path FROM _side_files")))
        outputs = [one for one in waiting_outputs(second) if one.path in known]
        read_outputs(second, outputs, "", [], Reading(), may_read=False)
