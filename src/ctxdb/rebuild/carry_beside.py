"""Carries over what was read of files beside the transcripts, where it cannot be read again.

No bytes of them are left, or a text in them was masked that no rule finds.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from ctxdb.archive.opening import archived_sizes
from ctxdb.claude.side_contents import HISTORY
from ctxdb.files.walk import numbers_of, pack
from ctxdb.rebuild.chosen_before import is_chosen_in
from ctxdb.side_rows import HistoryLine, SideFile
from ctxdb.store.changes import stamp
from ctxdb.store.insert import insert, last_id, load
from ctxdb.store.side_files import save_side_file


def carry_side_files(old: sqlite3.Connection, new: sqlite3.Connection, db_path: Path) -> None:
    """Copy the contents of to-dos, plans and saved outputs. The caller has begun a transaction."""
    archived = archived_sizes(db_path)
    for file in load(old, SideFile, ""):
        where = file.path_bytes or file.path
        if file.kind == HISTORY or file.content is None:
            continue
        is_chosen = is_chosen_in(file.content)
        if os.path.lexists(where):
            if is_chosen and _looks_the_same(file):
                file.id = None
                save_side_file(new, file)
        elif is_chosen or file.path not in archived:
            file.id, file.state, file.stat = None, "missing", None
            save_side_file(new, file)


def _looks_the_same(file: SideFile) -> bool:
    try:
        return file.stat == pack(numbers_of(os.lstat(file.path_bytes or file.path)))
    except OSError:
        return False


def carry_history(old: sqlite3.Connection, new: sqlite3.Connection) -> int:
    """Copy the lines of history.jsonl that the new database lacks; returns how many."""
    known = set(new.execute("SELECT line_hash, nth FROM _history_lines"))
    last = last_id(new, HistoryLine)
    missing: list[HistoryLine] = []
    for line in load(old, HistoryLine, "WHERE b.line_hash IS NOT NULL ORDER BY t.id"):
        if (line.line_hash, line.nth) not in known:
            last += 1
            line.id, line.turn_id = last, None  # which turn it became is worked out again
            missing.append(line)
    insert(new, HistoryLine, missing)
    stamp(new, {line.session_id for line in missing})
    return len(missing)
