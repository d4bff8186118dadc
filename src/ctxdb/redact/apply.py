"""Mask secrets in every text that is stored, and erase the clear text from the file.

All rows are masked in one transaction. Where a line with such a secret is still there, the place of
the secret is noted, so that the line says the same when it is read again. Then the clear text is
erased from the pages, the full text and the log (store/erase_pages.py).
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.claude.tools import input_fields, target_of
from ctxdb.files.parse import parse_plain
from ctxdb.formatting import counted
from ctxdb.ingest.masked_line import excerpt, records_in
from ctxdb.ingest.reread import line_at
from ctxdb.privacy.digests import UNKEYED
from ctxdb.privacy.json_bytes import joined, places_in_text
from ctxdb.redact.masked_data import write_masked_data
from ctxdb.redact.scan import secrets_in
from ctxdb.redact.texts import Column, columns, masked_value, places_in_line
from ctxdb.rules.history import text_hash
from ctxdb.settle import sessions
from ctxdb.settle.agent_facts import text_hash as prompt_hash
from ctxdb.settle.history import match_texts, refresh_history
from ctxdb.settle.plans import refresh_plans
from ctxdb.settle.todos import refresh_todos
from ctxdb.store.changes import stamp
from ctxdb.store.connection import write_transaction
from ctxdb.store.erase_pages import erase_pages, note_unerased, overwrite_removed
from ctxdb.store.lookup import json_list
from ctxdb.store.masked_places import add_places, load_places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ctxdb.files.identity import Opener
    from ctxdb.privacy.masking import Masker
    from ctxdb.progress import Progress
    from ctxdb.redact.archived import ArchiveMasked

# The lines that a changed row is from: (file, byte_start, byte_length), copies too.
_LINES = {
    "messages": "SELECT source_file_id, byte_start, byte_length FROM messages m WHERE m.id IN ids"
    " UNION SELECT source_file_id, byte_start, byte_length FROM message_copies"
    "  WHERE message_id IN ids",
    "tool_uses": "SELECT m.source_file_id, m.byte_start, m.byte_length FROM tool_uses t"
    "  JOIN messages m ON m.id IN (t.message_id, t.result_message_id) WHERE t.id IN ids"
    " UNION SELECT c.source_file_id, c.byte_start, c.byte_length FROM tool_uses t"
    "  JOIN message_copies c ON c.message_id IN (t.message_id, t.result_message_id)"
    "  WHERE t.id IN ids",
    "events": "SELECT source_file_id, byte_start, byte_length FROM events WHERE id IN ids"
    " UNION SELECT source_file_id, byte_start, byte_length FROM _event_copies"
    "  WHERE event_id IN ids",
    "ingest_errors": "SELECT source_file_id, byte_start, byte_length FROM ingest_errors"
    " WHERE id IN ids",
}
_EXCERPT = "UPDATE ingest_errors SET excerpt = ? WHERE source_file_id = ? AND byte_start = ?"
_MOST_EQUAL = 10_000  # rows that differ only in a secret where only one may be


class _Line(NamedTuple):
    file_id: int
    start: int
    length: int


@dataclass(slots=True)
class Applied:
    """What was masked."""

    rules: dict[str, int] = field(default_factory=dict)  # places in rows, by rule
    rows: int = 0
    sessions: int = 0
    names: int = 0  # files with a secret in their path, which stays
    is_erased: bool = True
    in_archive: ArchiveMasked | None = None  # None: the archive keeps the exact bytes

    def as_dict(self) -> Mapping[str, object]:
        """As data with stable names."""
        return {
            "rules": dict(sorted(self.rules.items())),
            "rows": self.rows,
            "sessions": self.sessions,
            "names": self.names,
            "erased": self.is_erased,
            "archive": None if self.in_archive is None else asdict(self.in_archive),
        }

    def lines(self) -> Iterator[str]:
        """As text."""
        for rule, places in sorted(self.rules.items()):
            yield f"{rule}: {places:,} place{'' if places == 1 else 's'}"
        if not self.rows:
            yield "Nothing to mask."
        else:
            yield f"Masked in {self.rows:,} rows of {self.sessions:,} sessions."
        if self.in_archive is not None:
            secrets = counted(self.in_archive.secrets, "secret")
            files = counted(self.in_archive.files, "file")
            yield f"In the archive: {secrets} overwritten with * in {files}."
            yield from self.in_archive.problems
            if not self.in_archive.is_erased:
                yield "In the archive not yet erased: another program reads it. Run this again."
        if not self.is_erased:
            yield "Masked, not yet erased: another program has the database open. The next sync"
            yield "erases the old text; close that program first."


class _Masking:
    """Masks the texts of one database, in the open transaction."""

    def __init__(self, conn: sqlite3.Connection, masker: Masker, opener: Opener) -> None:
        self.conn = conn
        self.masker = masker
        self.opener = opener
        self.applied = Applied()
        self.sessions: set[str] = set()
        self.changed: dict[str, set[int]] = {}  # ids of changed rows, by table

    def run(self, wanted: Callable[[Column], bool], progress: Progress) -> None:
        """Mask all columns, then work out again what follows from them."""
        found = [column for column in columns(self.conn) if wanted(column)]
        progress.start(len(found), "Masking")
        for column in found:
            self._mask_column(column)
            progress.advance(1)
        if not self.applied.rows:
            return
        self.applied.sessions = len(self.sessions)
        self._note_places()
        self._work_out_again()

    def _mask_column(self, column: Column) -> None:
        changes = []
        for value, session_id, key in column.rows(self.conn):
            masked = masked_value(column, value, self.masker)
            if masked is None:
                continue
            changes.append((masked, key))
            for rule, _ in secrets_in(column, value, self.masker):
                self.applied.rules[rule] = self.applied.rules.get(rule, 0) + 1
            if session_id is not None:
                self.sessions.add(session_id)
            for number in key:
                if column.key == ("rowid",) and isinstance(number, int):
                    self.changed.setdefault(column.table, set()).add(number)
        where = " AND ".join(f'"{name}" IS ?' for name in column.key)
        sql = f'UPDATE "{column.table}" SET "{column.name}" = ? WHERE {where}'
        for masked, key in changes:
            self._write(sql, masked, key)
        self.applied.rows += len(changes)

    def _write(self, sql: str, masked: str | bytes, key: tuple[object, ...]) -> None:
        """Write a masked value. Where no two rows may be equal, a number tells them apart."""
        for number in range(1, _MOST_EQUAL):
            numbered = masked if number == 1 else f"{masked!s} ({number})"
            with suppress(sqlite3.IntegrityError):
                self.conn.execute(sql, (numbered, *key))
                return
        raise sqlite3.IntegrityError(sql)

    def _note_places(self) -> None:
        """Note where the secrets are in the lines that are still there, and what they say now."""
        lines: set[_Line] = set()
        for table, sql in _LINES.items():
            if ids := self.changed.get(table):
                of_ids = sql.replace("IN ids", "IN (SELECT value FROM json_each(?1))")
                lines.update(
                    _Line(*values) for values in self.conn.execute(of_ids, (json_list(ids),))
                )
        by_file: dict[int, list[_Line]] = {}
        for line in sorted(lines):
            if line.length > 0:
                by_file.setdefault(line.file_id, []).append(line)
        for file_id, of_file in by_file.items():
            self._note_places_of(file_id, of_file)

    def _note_places_of(self, file_id: int, lines: list[_Line]) -> None:
        row = self.conn.execute(
            "SELECT coalesce(b.path_bytes, f.path), f.agent_id IS NOT NULL FROM source_files f"
            " LEFT JOIN _file_marks b ON b.source_file_id = f.id WHERE f.id = ?",
            (file_id,),
        ).fetchone()
        try:
            path, in_agent_file = row or ("", 0)
            fd = self.opener(path)
        except (OSError, ValueError):
            return  # nothing can be read again
        try:
            for line in lines:
                self._note_places_in(fd, line, in_agent_file=bool(in_agent_file))
        except OSError:
            return
        finally:
            os.close(fd)

    def _note_places_in(self, fd: int, line: _Line, *, in_agent_file: bool) -> None:
        data = line_at(fd, line.start, line.length)
        if data is None:
            return
        before = load_places(self.conn, line.file_id, line.start, line.start + line.length)
        places = places_in_line(data, self.masker)
        if parse_plain(data) is None:  # what is shown of it may be any part of the line
            places = joined(places, places_in_text(data, self.masker))
        found = joined(before, [place.moved(line.start) for place in places])
        add_places(self.conn, line.file_id, found)
        in_line = [place.moved(-line.start) for place in found]
        said = records_in(data, line.start, line.length, in_line, in_agent_file, UNKEYED)
        write_masked_data(self.conn, line.file_id, said.records)
        self.conn.execute(_EXCERPT, (excerpt(said.covered), line.file_id, line.start))

    def _work_out_again(self) -> None:
        """What was cut off, or hashed, follows from the masked texts now."""
        conn = self.conn
        for tool_id in self.changed.get("tool_uses", ()):
            name, tool_input = conn.execute(
                "SELECT name, input FROM tool_uses WHERE id = ?", (tool_id,)
            ).fetchone()
            if name is not None and tool_input is not None:
                target = target_of(name, input_fields(tool_input))
                conn.execute(
                    "UPDATE tool_uses SET target = ? WHERE id = ? AND target IS NOT ?",
                    (target, tool_id, target),
                )
        self._hash_prompts_again()
        sessions.refresh(conn, self.sessions)
        refresh_todos(conn, self.sessions)
        slugs = conn.execute("SELECT DISTINCT slug FROM _side_files WHERE slug IS NOT NULL")
        refresh_plans(conn, self.sessions, [slug for (slug,) in slugs.fetchall()])
        refresh_history(conn, self.sessions)
        stamp(conn, self.sessions)
        self._match_history_again()

    def _hash_prompts_again(self) -> None:
        """Prompts of agents are known by their hashes."""
        conn = self.conn
        for before, prompt in conn.execute("SELECT hash, prompt FROM _agent_prompts").fetchall():
            hashed = prompt_hash(prompt)
            if hashed != before:
                conn.execute(
                    "INSERT OR REPLACE INTO _agent_prompts VALUES (?, ?)", (hashed, prompt)
                )
                conn.execute("DELETE FROM _agent_prompts WHERE hash = ?", (before,))
                conn.execute(
                    "UPDATE _agent_facts SET prompt_hash = ? WHERE prompt_hash = ?",
                    (hashed, before),
                )

    def _match_history_again(self) -> None:
        texts = set()
        for history_id in self.changed.get("history", ()):
            prompt, before = self.conn.execute(
                "SELECT h.prompt, l.text_hash FROM history h JOIN _history_lines l"
                " ON l.history_id = h.id WHERE h.id = ?",
                (history_id,),
            ).fetchone()
            hashed = text_hash(prompt)
            self.conn.execute(
                "UPDATE _history_lines SET text_hash = ? WHERE history_id = ?", (hashed, history_id)
            )
            texts |= {before, hashed}
        if texts:
            match_texts(self.conn, texts)


def apply(
    conn: sqlite3.Connection,
    masker: Masker,
    opener: Opener,
    progress: Progress,
    wanted: Callable[[Column], bool] = lambda _: True,
) -> Applied:
    """Mask what the rules find in the texts of these columns, and erase the clear text.

    The caller holds the writer lock.
    """
    overwrite_removed(conn)
    with write_transaction(conn):
        masking = _Masking(conn, masker, opener)
        masking.run(wanted, progress)
        if masking.applied.rows:
            note_unerased(conn)
    applied = masking.applied
    if applied.rows:
        applied.is_erased = erase_pages(conn) is None
    return applied
