"""Find the rows that match a search: by the full-text indexes, or by reading the newest rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.claude.human_text import queued_turn
from ctxdb.claude.names import ENQUEUE, POP_ALL, QUEUE_OPERATION
from ctxdb.claude.stored_data import QUEUED_TEXT
from ctxdb.query.guard import rows_within
from ctxdb.query.search_words import Node, Word, expression, is_plain, quoted
from ctxdb.query.vocabulary import spelling

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

CANDIDATES = 3000  # rows that are ranked, of each index
SCANNED_MESSAGES = 80_000  # newest rows that are read for words that the index does not have
SCANNED_TOOLS = 5000
SCANNED_TURNS = 20_000
# The kinds of turns that each kind of message of a person is.
TURN_KINDS = {
    "human": ("prompt", "queued", "sdk", "plan"),
    "command": ("command",),
    "shell": ("shell",),
}
BUDGET_SECONDS = 1.5  # for each look at an index or a table; rows found by then are ranked
LONGEST_CHARS = 1000  # of a word that is compared to the letter; SQLite limits its patterns


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where to look. Times are as the transcripts write them; None is everywhere."""

    since: str | None = None
    until: str | None = None
    projects: tuple[int, ...] | None = None
    session: str | None = None  # whole id
    model: str | None = None  # a part of the name of the model that said or called it
    tool: str | None = None
    kind: str | None = None  # of a message; tool for calls, thinking for thoughts
    errors: bool = False
    limit: int = 20  # of sessions


class Candidate(NamedTuple):
    """A row that matches; the lower its score, the better."""

    id: int
    score: float


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a full-text index, and the conditions for its rows."""

    index: str
    name: str
    weights: str  # of the index's columns
    texts: tuple[str, ...]  # the columns that are searched
    scanned: int  # newest rows that may be read
    where: str
    values: tuple[object, ...]
    key: str = "id"  # the column that has the number of a row in the index


@dataclass(frozen=True, slots=True)
class Stage:
    """One look at an index."""

    match: str  # an expression of FTS5, for all columns
    node: Node  # the same as a person wrote it
    literal: list[Word]  # words that must be there to the letter


# -- where to look ---------------------------------------------------------------------------------


def tables(wanted: Wanted) -> Iterator[Table]:
    """Return the tables to look in."""
    if wanted.tool is None and wanted.model is None and not wanted.errors:
        yield from _small_tables(wanted)
    if wanted.tool is None and wanted.kind not in ("tool", "title", "plan", "todo"):
        texts = {None: ("text", "thinking"), "thinking": ("thinking",)}.get(wanted.kind, ("text",))
        where, values = _conditions("messages", "timestamp", wanted)
        if wanted.model is not None:
            where += " AND instr(lower(messages.model), ?)"
            values += (wanted.model.lower(),)
        if wanted.kind not in (None, "thinking"):
            where += " AND messages.kind = ?"
            values += (wanted.kind,)
        if wanted.errors:
            where += " AND messages.kind = 'synthetic'"
        yield Table("messages_fts", "messages", "1.0, 0.4", texts, SCANNED_MESSAGES, where, values)
    if wanted.kind in (None, "tool"):
        where, values = _conditions("tool_uses", "started_at", wanted)
        if wanted.model is not None:
            where += (
                " AND (SELECT instr(lower(model), ?) FROM messages WHERE id = tool_uses.message_id)"
            )
            values += (wanted.model.lower(),)
        if wanted.tool is not None:
            where += " AND ? IN (lower(tool_uses.name), lower(raw_name), lower(mcp_server))"
            values += (wanted.tool.lower(),)
        if wanted.errors:
            where += " AND tool_uses.status = 'error'"
        texts = ("target", "input", "searched_text")
        yield Table(
            "tool_uses_fts", "tool_uses", "2.0, 1.0, 0.5", texts, SCANNED_TOOLS, where, values
        )


def _small_tables(wanted: Wanted) -> Iterator[Table]:
    """Return the indexes of what people asked, of names of sessions, of plans and of to-dos."""
    kinds = TURN_KINDS.get(wanted.kind or "")
    if wanted.kind is None or kinds is not None:
        where, values = _conditions("turns", "started_at", wanted)
        if kinds is not None:
            where += f" AND turns.kind IN ({', '.join('?' * len(kinds))})"
            values += kinds
        yield Table("turns_fts", "turns", "1.0", ("prompt",), SCANNED_TURNS, where, values)
    if wanted.kind in (None, "human"):
        where, values = _conditions("history", "timestamp", wanted)
        where += " AND history.turn_id IS NULL"  # the others are turns
        yield Table("history_fts", "history", "1.0", ("prompt",), SCANNED_TURNS, where, values)
    if wanted.kind in (None, "plan"):
        where, values = _conditions("plans", "updated_at", wanted)
        yield Table("plans_fts", "plans", "1.0", ("text",), SCANNED_TURNS, where, values)
    if wanted.kind in (None, "todo"):
        where, values = _conditions("todos", "updated_at", wanted)
        both = ("subject", "description")
        yield Table("todos_fts", "todos", "1.0, 0.5", both, SCANNED_TURNS, where, values)
    if wanted.kind in (None, "title"):
        where, values = _conditions("sessions", "ended_at", wanted)
        # A title that is not a name is the beginning of a prompt, a plan or a reply: found there.
        texts = ("names",)
        yield Table(
            "sessions_fts", "sessions", "1.0, 1.0", texts, SCANNED_TURNS, where, values, "rowid"
        )


def _conditions(table: str, time: str, wanted: Wanted) -> tuple[str, tuple[object, ...]]:
    """Return the conditions that all tables have."""
    session = "sessions.id" if table == "sessions" else f"{table}.session_id"
    where = ""
    values: list[object] = []
    for condition, value in (
        (f"{table}.{time} >= ?", wanted.since),
        (f"{table}.{time} < ?", wanted.until),
        (f"{session} = ?", wanted.session),
    ):
        if value is not None:
            where += f" AND {condition}"
            values.append(value)
    if wanted.projects is not None:
        marks = ", ".join("?" * len(wanted.projects))
        where += f" AND {session} IN (SELECT id FROM sessions WHERE project_id IN ({marks}))"
        values += wanted.projects
    if wanted.session is not None and table != "sessions":
        # The rows of one session are close together: the index need not be read beyond them.
        span = f"FROM {table} WHERE session_id = ?"
        where += (
            f" AND {table}_fts.rowid BETWEEN (SELECT min(id) {span}) AND (SELECT max(id) {span})"
        )
        values += [wanted.session, wanted.session]
    return where, tuple(values)


# -- what to look for ------------------------------------------------------------------------------


def stages(
    conn: sqlite3.Connection,
    table: Table,
    node: Node,
    words: list[Word],
    *,
    ignore_signs: bool,
) -> Iterator[Stage]:
    """Return what to ask the index, from strict to loose.

    With `ignore_signs`, the letters and digits of a word are enough.
    """
    if not any(word.tokens for word in words):
        return
    match = expression(node, lambda word: spelling(conn, table.index, word))
    literal = [word for word in words if word.is_literal and not word.is_run]
    if is_plain(node) and not ignore_signs:
        if len(words) > 1 and not any(word.is_run or word.is_prefix for word in words):
            # Words that are typed side by side match best where they are side by side.
            phrase = Word(" ".join(word.text for word in words))
            yield Stage(quoted(phrase.text), phrase, [])
        if literal:
            yield Stage(match, node, literal)
        if any(map(is_lossy, words)):
            return
    yield Stage(match, node, [])


def is_lossy(word: Word) -> bool:
    """Return whether the index has too little of a word: of "C++" it has only "c"."""
    return word.is_literal and not word.is_run and sum(map(len, word.tokens)) < 3


# -- looking ---------------------------------------------------------------------------------------


def matching(conn: sqlite3.Connection, table: Table, stage: Stage) -> tuple[list[Candidate], bool]:
    """Return the newest rows that match by the index, and whether there was no time for more."""
    letters, values = _containing(table, stage.literal)
    match = f"{{{' '.join(table.texts)}}} : ({stage.match})"
    sql = (
        f"SELECT {table.index}.rowid, bm25({table.index}, {table.weights}) FROM {table.index}"
        f" CROSS JOIN {table.name} ON {table.name}.{table.key} = {table.index}.rowid"
        f" WHERE {table.index} MATCH ?{table.where}{letters}"
        f" ORDER BY {table.index}.rowid DESC LIMIT ?"
    )
    return _candidates(conn, sql, (match, *table.values, *values, CANDIDATES))


def scanned(
    conn: sqlite3.Connection, table: Table, words: list[Word], most: int
) -> tuple[list[Candidate], bool]:
    """Return rows that have all these words somewhere, newest first, without the index."""
    letters, values = _containing(table, words)
    where = table.where.replace(f"{table.index}.rowid", f"{table.name}.id")
    sql = (
        f"SELECT {table.name}.{table.key}, 0 FROM {table.name} WHERE {table.name}.{table.key} >"
        f" (SELECT max({table.key}) FROM {table.name}) - {table.scanned}{where}{letters}"
        f" ORDER BY {table.name}.{table.key} DESC LIMIT ?"
    )
    return _candidates(conn, sql, (*table.values, *values, most))


_UNASKED = """
SELECT e.id, e.session_id, e.timestamp, e.data -> ? FROM events e
WHERE e.type = ? AND e.subtype IN (?, ?) AND e.session_id IS NOT NULL
  AND json_extract(e.data, ?) <> '' AND NOT EXISTS (
    SELECT 1 FROM turns t WHERE t.session_id = e.session_id
      AND t.prompt = trim(json_extract(e.data, ?), char(9, 10, 13, 32)))
"""
_QUEUED = (QUEUED_TEXT, QUEUE_OPERATION, ENQUEUE, POP_ALL, QUEUED_TEXT, QUEUED_TEXT)


class Unasked(NamedTuple):
    """A prompt that was queued and taken back, so that it is no turn."""

    id: int
    session_id: str
    timestamp: str | None


def unasked(conn: sqlite3.Connection, words: list[Word], wanted: Wanted) -> list[Unasked]:
    """Return queued prompts that were taken back and have all these words, newest first.

    Programs queue notices too: only what a person wrote counts, by the rule for turns.
    """
    table = Table("", "e", "", ("data",), 0, "", ())
    letters, values = _containing(table, words)
    where, others = _conditions("e", "timestamp", replace(wanted, session=None))
    if wanted.session is not None:
        where += " AND e.session_id = ?"
        others += (wanted.session,)
    sql = f"{_UNASKED}{letters}{where} ORDER BY e.timestamp DESC LIMIT {CANDIDATES}"
    rows, _ = rows_within(conn, sql, (*_QUEUED, *values, *others), BUDGET_SECONDS)
    return [Unasked(*row) for *row, content in rows if queued_turn(json.loads(content))]


def _candidates(
    conn: sqlite3.Connection, sql: str, values: tuple[object, ...]
) -> tuple[list[Candidate], bool]:
    rows, is_cut = rows_within(conn, sql, values, BUDGET_SECONDS)
    return [Candidate(*row) for row in rows], is_cut


def _containing(table: Table, words: list[Word]) -> tuple[str, tuple[str, ...]]:
    """Return the condition that some text of a row has each of these words to the letter."""
    where, values = "", []
    for word in words:
        text = word.text[:LONGEST_CHARS]
        escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        tests = " OR ".join(f"{table.name}.{text} LIKE ? ESCAPE '\\'" for text in table.texts)
        where += f" AND ({tests})"
        values += [f"%{escaped}%"] * len(table.texts)
    return where, tuple(values)
