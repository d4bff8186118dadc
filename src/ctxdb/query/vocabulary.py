"""The index's own list of words: what stands inside of longer ones, and what was perhaps meant.

FTS5 shows it as a virtual table, which lives in the connection's temporary schema: nothing is
written to the database. A look at a range of words costs as much as reading what the index holds
for them, so only narrow ranges are looked at.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ctxdb.query.guard import rows_within
from ctxdb.query.words import FIRST_OF_RUNS, Word, quoted, tokens

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

INDEXES = ("messages_fts", "tool_uses_fts")
MAX_TERMS = 300  # of one word: an expression stays short enough
LAST = "\U0010ffff"
NEAR_SECONDS = 0.25  # to look for what was perhaps meant
NEAR_WORDS = 1000  # between two looks at the clock
# For one range. Who writes Chinese has a million words in the index; what is not seen of them in
# time is found by reading the newest messages themselves, which is quicker then.
RANGE_SECONDS = 0.1


def open_vocabulary(conn: sqlite3.Connection) -> None:
    """Make the lists readable on this connection."""
    (was,) = conn.execute("PRAGMA query_only").fetchone()
    conn.execute("PRAGMA query_only = 0")  # SQLite counts a temporary table as a change
    for name in INDEXES:
        conn.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{name}_words"
            f" USING fts5vocab('main', '{name}', 'row')"
        )
    conn.execute(f"PRAGMA query_only = {int(was)}")


def spelling(conn: sqlite3.Connection, index: str, word: Word) -> str:
    """What a word is in an expression for this index, with the longer words that it is part of."""
    parts = word.tokens
    if not parts:
        return quoted(word.text)
    if word.is_run:
        return "(" + " AND ".join(_inside(conn, index, part) for part in parts) + ")"
    plain = quoted(word.text) + ("*" if word.is_prefix else "")
    if word.is_prefix or len(parts) > 1:
        return plain
    # "API" is in "APIを" too: the index has no boundary between a letter and a sign.
    longer = _terms(conn, index, parts[0] + FIRST_OF_RUNS, parts[0] + LAST, parts[0])
    return _any([plain, *map(quoted, longer)])


def _inside(conn: sqlite3.Connection, index: str, part: str) -> str:
    longer = _terms(conn, index, FIRST_OF_RUNS, LAST, *sorted(_forms(part)))
    return _any([quoted(part) + "*", *map(quoted, longer)])


def _forms(part: str) -> set[str]:
    """A name of a file may come with its letters taken apart (macOS), or put together."""
    import unicodedata

    return {part, unicodedata.normalize("NFC", part), unicodedata.normalize("NFD", part)}


def _terms(conn: sqlite3.Connection, index: str, first: str, last: str, *parts: str) -> list[str]:
    """Words of a range with one of these in them, as many as are found in time."""
    tests = " OR ".join("instr(term, ?)" for _ in parts)
    sql = f"SELECT term FROM temp.{index}_words WHERE term >= ? AND term < ? AND ({tests}) LIMIT ?"
    rows, _ = rows_within(conn, sql, (first, last, *parts, MAX_TERMS), RANGE_SECONDS)
    return [term for (term,) in rows]


def _any(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else "(" + " OR ".join(parts) + ")"


# -- what was perhaps meant ------------------------------------------------------------------------


def near(conn: sqlite3.Connection, words: Iterable[Word]) -> dict[str, str | None]:
    """Words that are nowhere, each with the one that is most like it, if any is."""
    found: dict[str, str | None] = {}
    until = time.monotonic() + NEAR_SECONDS
    for word in words:
        for part in word.tokens:
            if part not in found and not _known(conn, part, is_prefix=word.is_prefix):
                found[part] = _nearest(conn, part, until)
    return found


def _known(conn: sqlite3.Connection, part: str, *, is_prefix: bool) -> bool:
    last = part + LAST if is_prefix else part
    return any(
        conn.execute(
            f"SELECT 1 FROM temp.{index}_words WHERE term >= ? AND term <= ? LIMIT 1", (part, last)
        ).fetchone()
        for index in INDEXES
    )


def _nearest(conn: sqlite3.Connection, part: str, until: float) -> str | None:
    if len(part) < 3:
        return None
    allowed = 1 if len(part) < 6 else 2
    best: tuple[int, int, str] | None = None
    for prefix in (part[:2], part[0]):
        for index in INDEXES:
            rows = conn.execute(
                f"SELECT term, doc FROM temp.{index}_words WHERE term >= ? AND term < ?"
                " AND length(term) BETWEEN ? AND ?",
                (prefix, prefix + LAST, len(part) - allowed, len(part) + allowed),
            )
            for n, (term, documents) in enumerate(rows, 1):
                steps = distance(part, term, allowed)
                if steps <= allowed and (best is None or (steps, -documents, term) < best):
                    best = (steps, -documents, term)
                if n % NEAR_WORDS == 0 and time.monotonic() > until:
                    return best[2] if best else None
        if best:
            return best[2]
    return None


def distance(one: str, other: str, most: int) -> int:
    """How many letters to change, add, leave out or swap; `most` + 1 for anything more."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row, last = row, [i], before
        for j, b in enumerate(other, 1):
            steps = min(row[-1] + 1, before[j] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                steps = min(steps, last[j - 2] + 1)
            row.append(steps)
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)


def corrected(text: str, changes: dict[str, str | None]) -> str | None:
    """The question with the nearest words in place; None where there is none to put."""
    new = text
    for old, better in changes.items():
        if better is None:
            return None
        at = new.casefold().find(old)
        if at < 0 or len(new.casefold()) != len(new):
            return None
        new = new[:at] + better + new[at + len(old) :]
    return new if changes and tokens(new) != tokens(text) else None
