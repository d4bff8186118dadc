"""What `redact --match` has masked stays masked when everything is derived again.

No rule says what was chosen, and the text itself is kept nowhere. So the places in transcripts are
taken from the old database, for files that still have the bytes that it was made from. Lines of
history.jsonl and files beside the transcripts are taken over as they are there.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from typing import NamedTuple

from ctxdb.files.identity import mark_of
from ctxdb.privacy.json_bytes import Place
from ctxdb.privacy.rule_settings import CHOSEN
from ctxdb.rules.history import text_hash
from ctxdb.store.changes import stamp

MARK = f"[redacted:{CHOSEN}]"
_FILES = (
    'SELECT DISTINCT f.id, coalesce(b.path_bytes, f.path), f."offset", b.mark FROM _masked m'
    " JOIN source_files f ON f.id = m.source_file_id"
    " JOIN _file_marks b ON b.source_file_id = f.id WHERE m.rule = ?"
)
_PLACES = (
    "SELECT byte_start, byte_length, rule FROM _masked WHERE source_file_id = ? AND rule = ?"
    " ORDER BY byte_start"
)
_HISTORY = (
    "SELECT h.prompt, h.project_path, h.session_id, l.line_hash, l.nth FROM history h"
    " JOIN _history_lines l ON l.history_id = h.id"
    " WHERE instr(h.prompt, ?1) OR instr(h.project_path, ?1)"
)


class _File(NamedTuple):
    offset: int
    mark: bytes | None
    places: tuple[Place, ...]


class ChosenBefore:
    """The places that were chosen in the files of a database."""

    def __init__(self, old: sqlite3.Connection) -> None:
        self._files: dict[str, _File] = {}
        try:
            files = old.execute(_FILES, (CHOSEN,)).fetchall()
        except sqlite3.OperationalError:  # of an earlier version, or what is left of it
            files = []
        for file_id, path, offset, mark in files:
            places = [*map(Place._make, old.execute(_PLACES, (file_id, CHOSEN)))]
            self._files[os.fsdecode(path)] = _File(offset, mark, tuple(places))

    def __call__(self, path: str | bytes, fd: int) -> tuple[Place, ...]:
        """What to mask in an open file, if it begins with the bytes that were read before."""
        file = self._files.get(os.fsdecode(path))
        if file is None or os.fstat(fd).st_size < file.offset:
            return ()
        return file.places if mark_of(fd, file.offset) == file.mark else ()


def is_chosen_in(content: str | bytes | None) -> bool:
    """Whether something was chosen in what is kept of a file beside the transcripts."""
    if isinstance(content, bytes):
        try:
            return MARK.encode() in zlib.decompress(content)
        except zlib.error:
            return False
    return content is not None and MARK in content


def keep_chosen_rows(old: sqlite3.Connection, new: sqlite3.Connection) -> int:
    """Take over rows that are from other files than transcripts; returns how many."""
    return _keep_history(old, new) + _keep_agents(old, new)


def _keep_agents(old: sqlite3.Connection, new: sqlite3.Connection) -> int:
    """What the meta.json beside an agent's transcript says of it."""
    rows = old.execute(
        "SELECT description, agent_type, session_id, agent_id FROM _agent_facts"
        " WHERE source = 'meta' AND (instr(description, ?1) OR instr(agent_type, ?1))",
        (MARK,),
    ).fetchall()
    for row in rows:
        new.execute(
            "UPDATE _agent_facts SET description = ?, agent_type = ?"
            " WHERE session_id = ? AND agent_id = ? AND source = 'meta'",
            row,
        )
    agents = old.execute(
        "SELECT description, agent_type, session_id, agent_id FROM agents"
        " WHERE instr(description, ?1) OR instr(agent_type, ?1)",
        (MARK,),
    ).fetchall()
    for row in agents if rows else ():
        new.execute(
            "UPDATE agents SET description = ?, agent_type = ? WHERE session_id = ?"
            " AND agent_id = ?",
            row,
        )
    return len(rows)


def _keep_history(old: sqlite3.Connection, new: sqlite3.Connection) -> int:
    """Mask lines of history.jsonl as they were; which turns they became is worked out later."""
    lines = old.execute(_HISTORY, (MARK,)).fetchall()
    for prompt, project_path, session_id, line_hash, nth in lines:
        of_line = "(SELECT history_id FROM _history_lines WHERE line_hash = ? AND nth = ?)"
        new.execute(
            f"UPDATE history SET prompt = ?, project_path = ? WHERE id = {of_line}",
            (prompt, project_path, line_hash, nth),
        )
        new.execute(
            "UPDATE _history_lines SET text_hash = ? WHERE line_hash = ? AND nth = ?",
            (text_hash(prompt), line_hash, nth),
        )
        stamp(new, [session_id])
    return len(lines)
