"""Look words up in the indexes' own list of words.

The list says in which longer words a word is, and which words are like one that is nowhere. FTS5
shows the list as a virtual table in the temporary schema of the connection, so nothing is written
to the database. To read a range of words, FTS5 reads all that the index has for them, so only
narrow ranges are read.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.query.guard import rows_within
from ctxdb.query.search_words import (
    FIRST_OF_RUNS,
    Both,
    Either,
    Without,
    Word,
    quoted,
    tokens,
)
from ctxdb.store.fulltext import INDEXES

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from ctxdb.query.search_words import Node

MIN_FORM = 3  # letters of a word that is searched in other forms too
MAX_TERMS = 300  # longer words for one word: the expression must stay short
LAST = "\U0010ffff"  # greater than any character of a word
NEAR_SECONDS = 0.25  # to look for similar words
NEAR_WORDS = 1000  # between two checks of the clock
# For one range. With Chinese texts the index has a million words. For those that are not read in
# time, the newest messages are read, which is quicker then.
RANGE_SECONDS = 0.1


def open_vocabulary(conn: sqlite3.Connection) -> None:
    """Create the virtual tables on this connection."""
    (was,) = conn.execute("PRAGMA query_only").fetchone()
    conn.execute("PRAGMA query_only = 0")  # SQLite counts a temporary table as a change
    for name in INDEXES:
        conn.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{name}_words"
            f" USING fts5vocab('main', '{name}', 'row')"
        )
    conn.execute(f"PRAGMA query_only = {int(was)}")


def spelling(conn: sqlite3.Connection, index: str, word: Word) -> str:
    """Return a word as a part of an expression, with the longer words that it is in."""
    parts = word.tokens
    if not parts:
        return quoted(word.text)
    if word.is_run:
        return "(" + " AND ".join(_inside(conn, index, part) for part in parts) + ")"
    plain = quoted(word.text) + ("*" if word.is_prefix else "")
    if word.is_prefix or len(parts) > 1:
        return plain
    # "API" is in "APIを" too: for the index, that is one word.
    (part,) = parts
    longer = _terms(conn, index, part + FIRST_OF_RUNS, part + LAST, part)
    return _any([plain, *map(quoted, longer)])


def _inside(conn: sqlite3.Connection, index: str, part: str) -> str:
    longer = _terms(conn, index, FIRST_OF_RUNS, LAST, *sorted(_forms(part)))
    return _any([quoted(part) + "*", *map(quoted, longer)])


def _forms(part: str) -> set[str]:
    """Return the forms of a word: on macOS, accents in names of files are separate characters."""
    import unicodedata

    return {part, unicodedata.normalize("NFC", part), unicodedata.normalize("NFD", part)}


def _terms(conn: sqlite3.Connection, index: str, first: str, last: str, *parts: str) -> list[str]:
    """Return words of a range that contain one of these parts, as many as are found in time."""
    tests = " OR ".join("instr(term, ?)" for _ in parts)
    sql = f"SELECT term FROM temp.{index}_words WHERE term >= ? AND term < ? AND ({tests}) LIMIT ?"
    rows, _ = rows_within(conn, sql, (first, last, *parts, MAX_TERMS), RANGE_SECONDS)
    return [term for (term,) in rows]


def _any(parts: list[str]) -> str:
    joined = " OR ".join(parts)
    return joined if len(parts) == 1 else f"({joined})"


# -- forms of a word -------------------------------------------------------------------------------


def other_forms(conn: sqlite3.Connection, node: Node) -> tuple[Node, list[str]]:
    """Return the search with the other forms of its words, and these: conflicts for conflict."""
    forms: list[str] = []

    def wider(one: Node) -> Node:
        match one:
            case Word():
                found = [form for form in _numbers(one) if _known(conn, form, is_prefix=False)]
                forms.extend(found)
                return Either((one, *map(Word, found))) if found else one
            case Both(parts):
                return Both(tuple(map(wider, parts)))
            case Either(parts):
                return Either(tuple(map(wider, parts)))
            case Without(wanted, unwanted):
                return Without(wider(wanted), unwanted)

    return wider(node), list(dict.fromkeys(forms))


def _numbers(word: Word) -> list[str]:
    """Return the plural and the singular that an English word may have."""
    text = word.text.lower()
    if word.is_prefix or not text.isascii() or not text.isalpha() or len(text) < MIN_FORM:
        return []
    if text.endswith("ies"):
        return [text[:-3] + "y"]
    if text.endswith("es"):
        return [text[:-1], text[:-2]]
    if text.endswith("s"):
        return [text[:-1], text + "es"]
    if text.endswith("y"):
        return [text[:-1] + "ies", text + "s"]
    return [text + "s", text + "es"]


# -- words that are like a word --------------------------------------------------------------------


def near(conn: sqlite3.Connection, words: Iterable[Word]) -> dict[str, str | None]:
    """Return the words that are nowhere, each with the word that is most like it, or None."""
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
    best: _Similar | None = None
    for prefix in (part[:2], part[:1]):
        for index in INDEXES:
            rows = conn.execute(
                f"SELECT term, doc FROM temp.{index}_words WHERE term >= ? AND term < ?"
                " AND length(term) BETWEEN ? AND ?",
                (prefix, prefix + LAST, len(part) - allowed, len(part) + allowed),
            )
            for n, (term, documents) in enumerate(rows, 1):
                one = _Similar(distance(part, term, allowed), -documents, term)
                if one.steps <= allowed and (best is None or one < best):
                    best = one
                if n % NEAR_WORDS == 0 and time.monotonic() > until:
                    return best.term if best else None
        if best:
            return best.term
    return None


class _Similar(NamedTuple):
    """A word that is like another; the smallest of several is the best."""

    steps: int
    minus_documents: int
    term: str


def distance(one: str, other: str, most: int) -> int:
    """Return how many letters to change, add, remove or swap; `most` + 1 if more than `most`."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    # The Damerau-Levenshtein distance; a line of its table is made from the two lines before.
    previous: list[int] = []
    line = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        previous, line, second_last = line, [i], previous
        for j, b in enumerate(other, 1):
            steps = min(line[-1] + 1, previous[j] + 1, previous[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                steps = min(steps, second_last[j - 2] + 1)
            line.append(steps)
        if min(line) > most:
            return most + 1
    return min(line[-1], most + 1)


def corrected(text: str, changes: dict[str, str | None]) -> str | None:
    """Return the search with these words replaced; None if one has no replacement."""
    new = text
    for old, better in changes.items():
        if better is None:
            return None
        at = new.casefold().find(old)
        if at < 0 or len(new.casefold()) != len(new):
            return None
        new = new[:at] + better + new[at + len(old) :]
    return new if changes and tokens(new) != tokens(text) else None
