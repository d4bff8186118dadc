"""Full text over everything that was said and done: what fits best, first.

Two indexes are asked, the messages and the tool calls, and their answers are merged by rank, not
by score: scores of two indexes cannot be compared. What people and the model said weighs more than
what tools printed; among equals the newest is first.

A common word is in a hundred thousand rows, and to rank them all would take longer than anybody
waits. So only the newest CANDIDATES rows that fit are ranked: rows are numbered as they came in.

Two things count only where nothing else is found, and are then said to be all there is: names of
fields in the inputs of tools, and the letters of a word that is nothing without its signs (C++).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from ctxdb.query.fields import without_names
from ctxdb.query.guard import rows_within
from ctxdb.query.vocabulary import corrected, near, open_vocabulary, spelling
from ctxdb.query.words import Node, Word, expression, is_plain, parse, quoted, words_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

CANDIDATES = 3000  # rows that are ranked, of each index
RANKED = 300  # of these, the best that are looked at more closely
CHECKED = 1000  # of tool calls, the best of which it is asked whether a value fits or a name
ENOUGH = 100  # rows from the index that make reading others needless
SCANNED_MESSAGES = 80_000  # newest rows that are read for what the index does not know
SCANNED_TOOLS = 5000
BUDGET_SECONDS = 1.5  # for each index; what is found by then is ranked
LONGEST = 1000  # characters of a word that are looked for to the letter
PER_SESSION = 3  # hits shown of one session, unless only one is asked for
LOOSE = 20  # first place of what lacks a word of code to the letter: the other index may have it
RANK_DAMPING = 8  # the lower, the more the first places are worth

Depth = Literal["words", "fields", "letters"]  # what counts besides, if nothing else is found

# What a place in the ranking is worth, by who speaks.
WEIGHTS = {"human": 1.0, "command": 0.9, "shell": 0.9, "assistant": 0.9, "compact_summary": 0.7}
OTHER_MESSAGE, TOOL = 0.6, 0.6


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where to look. Times are as the transcripts write them; None is everywhere."""

    since: str | None = None
    until: str | None = None
    projects: tuple[int, ...] | None = None
    session: str | None = None  # whole id
    model: str | None = None  # what is in the name of the model that said or called it
    tool: str | None = None
    kind: str | None = None  # of a message; tool for calls, thinking for thoughts
    errors: bool = False
    limit: int = 20


@dataclass(slots=True)
class Hit:
    """One message or tool call."""

    source: str  # message or tool
    id: int
    session_id: str
    score: float
    uuid: str | None = None
    agent_id: str | None = None
    turn: int | None = None
    kind: str = ""
    timestamp: str | None = None
    tool: str | None = None
    status: str | None = None
    exit_code: int | None = None


@dataclass(slots=True)
class Group:
    """The hits of one session, best first."""

    session_id: str
    hits: list[Hit] = field(default_factory=list)
    more: int = 0  # hits that are not shown


@dataclass(slots=True)
class Found:
    """The answer to a search."""

    words: list[Word]
    groups: list[Group] = field(default_factory=list)
    suggestion: str | None = None
    missing: list[str] = field(default_factory=list)  # words that are nowhere
    is_cut: bool = False  # time was over before all was looked at
    depth: Depth = "words"  # how far one had to go to find anything
    lossy: list[Word] = field(default_factory=list)  # of these only letters and digits were found


def search(conn: sqlite3.Connection, text: str, wanted: Wanted) -> Found:
    """Look for a text; the connection is read from only."""
    node = parse(text)
    if node is None:
        return Found([])
    open_vocabulary(conn)
    found = Found(list(dict.fromkeys(words_of(node))))
    hits, has_fields = _found_at(conn, node, wanted, found)
    if not hits and has_fields:
        found.depth = "fields"
        hits, _ = _found_at(conn, node, wanted, found)
    lossy = [word for word in found.words if _is_lossy(word)]
    if not hits and lossy and is_plain(node):
        found.depth = "letters"
        hits, _ = _found_at(conn, node, wanted, found)
    if found.depth == "letters" or not is_plain(node):
        found.lossy = lossy
    # The score first; what is newer, of two that are worth the same.
    hits.sort(key=lambda hit: hit.timestamp or "", reverse=True)
    hits.sort(key=lambda hit: -round(hit.score, 4))
    found.groups = _grouped(hits, wanted)
    if not found.groups:
        changes = near(conn, found.words)
        found.missing = list(changes)
        found.suggestion = corrected(text, changes)
    return found


def _found_at(
    conn: sqlite3.Connection, node: Node, wanted: Wanted, found: Found
) -> tuple[list[Hit], bool]:
    """All hits of that depth, and whether names of fields would be more."""
    hits: list[Hit] = []
    has_fields = False
    for table in _tables(wanted):
        ranked = _ranked(conn, table, node, found.depth)
        found.is_cut |= ranked.is_cut
        has_fields |= ranked.has_fields
        hits += _hits(conn, table, ranked.rows)
    return hits, has_fields


# -- where to look ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Table:
    index: str
    name: str
    weights: str  # of the index's columns
    texts: tuple[str, ...]
    scanned: int
    where: str
    values: tuple[object, ...]


def _tables(wanted: Wanted) -> Iterator[_Table]:
    if wanted.tool is None and wanted.kind != "tool":
        texts = {None: ("text", "thinking"), "thinking": ("thinking",)}.get(wanted.kind, ("text",))
        where, values = _common("messages", "timestamp", wanted)
        if wanted.model is not None:
            where += " AND instr(lower(messages.model), ?)"
            values += (wanted.model.lower(),)
        if wanted.kind not in (None, "thinking"):
            where += " AND messages.kind = ?"
            values += (wanted.kind,)
        if wanted.errors:
            where += " AND messages.kind = 'synthetic'"
        yield _Table("messages_fts", "messages", "1.0, 0.4", texts, SCANNED_MESSAGES, where, values)
    if wanted.kind in (None, "tool"):
        where, values = _common("tool_uses", "started_at", wanted)
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
        texts = ("target", "input", "result_text")
        yield _Table(
            "tool_uses_fts", "tool_uses", "2.0, 1.0, 0.5", texts, SCANNED_TOOLS, where, values
        )


def _common(table: str, at: str, wanted: Wanted) -> tuple[str, tuple[object, ...]]:
    where = ""
    values: list[object] = []
    for condition, value in (
        (f"{table}.{at} >= ?", wanted.since),
        (f"{table}.{at} < ?", wanted.until),
        (f"{table}.session_id = ?", wanted.session),
    ):
        if value is not None:
            where += f" AND {condition}"
            values.append(value)
    if wanted.projects is not None:
        marks = ", ".join("?" * len(wanted.projects))
        where += (
            f" AND {table}.session_id IN (SELECT id FROM sessions WHERE project_id IN ({marks}))"
        )
        values += wanted.projects
    if wanted.session is not None:
        # Rows of one session lie close together: the index need not be read beyond them.
        span = f"FROM {table} WHERE session_id = ?"
        where += (
            f" AND {table}_fts.rowid BETWEEN (SELECT min(id) {span}) AND (SELECT max(id) {span})"
        )
        values += [wanted.session, wanted.session]
    return where, tuple(values)


# -- what fits -------------------------------------------------------------------------------------


class _Ranked(NamedTuple):
    rows: list[tuple[int, float]]  # with what their place is worth, best first
    is_cut: bool
    has_fields: bool  # names of fields fit, and were passed over


def _ranked(conn: sqlite3.Connection, table: _Table, node: Node, depth: Depth) -> _Ranked:
    words = list(words_of(node))
    only_said = table.name == "tool_uses" and depth == "words"
    is_cut = has_fields = False
    places: dict[int, int] = {}  # first come, first in rank; equals share a place
    loose = 0
    for stage in _stages(conn, table, node, words, depth):
        rows, cut = _matching(conn, table, stage)
        is_cut |= cut
        if only_said:
            best = sorted(rows, key=_by_rank)[:CHECKED]
            is_all = len(rows) == len(best)
            rows, dropped = without_names(conn, best, stage.node, RANKED)
            has_fields |= dropped > 0
            if dropped and not is_all:
                # Names of fields have pushed other rows out.
                said = replace(table, texts=("target", "result_text"))
                others, cut = _matching(conn, said, stage)
                is_cut |= cut
                rows = list((dict(others) | dict(rows)).items())
        _take_places(places, rows, 0 if stage.literal else loose)
        loose = LOOSE if stage.literal else 0
    unknown = any(word.is_run or not word.tokens for word in words)
    if unknown and is_plain(node) and len(places) < ENOUGH:
        rows, cut = _scanned(conn, table, words)
        is_cut |= cut
        if only_said:
            rows, dropped = without_names(conn, rows, node, RANKED)
            has_fields |= dropped > 0
        _take_places(places, rows)
    ranked = list(places.items())[:RANKED]
    return _Ranked([(row, 1 / (RANK_DAMPING + place)) for row, place in ranked], is_cut, has_fields)


def _by_rank(row: tuple[int, float]) -> tuple[float, int]:
    return round(row[1], 3), -row[0]


def _take_places(places: dict[int, int], rows: list[tuple[int, float]], first: int = 0) -> None:
    """Put rows behind those that have a place already, best score first, from place `first` on."""
    last: float | None = None
    place = max(len(places), first)
    for row, score in sorted(rows, key=_by_rank):
        if row in places:
            continue
        if last is not None and round(score, 3) != last:
            place = max(len(places), first)
        last = round(score, 3)
        places[row] = place


@dataclass(frozen=True, slots=True)
class _Stage:
    match: str  # an expression of FTS5, for all columns
    node: Node  # the same as a person wrote it
    literal: list[Word]  # words that must be there to the letter


def _stages(
    conn: sqlite3.Connection, table: _Table, node: Node, words: list[Word], depth: Depth
) -> Iterator[_Stage]:
    """What to ask the index, from strict to loose."""
    if not any(word.tokens for word in words):
        return
    match = expression(node, lambda word: spelling(conn, table.index, word))
    literal = [word for word in words if word.is_literal and not word.is_run]
    if is_plain(node) and depth != "letters":
        if len(words) > 1 and not any(word.is_run or word.is_prefix for word in words):
            # Words that are typed side by side are best found side by side.
            phrase = Word(" ".join(word.text for word in words))
            yield _Stage(quoted(phrase.text), phrase, [])
        if literal:
            yield _Stage(match, node, literal)
        if any(map(_is_lossy, words)):
            return
    yield _Stage(match, node, [])


def _is_lossy(word: Word) -> bool:
    """Of "C++" the index knows only "c": without the signs it is another word."""
    return word.is_literal and not word.is_run and sum(map(len, word.tokens)) < 3


def _matching(
    conn: sqlite3.Connection, table: _Table, stage: _Stage
) -> tuple[list[tuple[int, float]], bool]:
    """The newest rows that the index names, and that have what must be there to the letter."""
    letters, values = _containing(table, stage.literal)
    match = f"{{{' '.join(table.texts)}}} : ({stage.match})"
    sql = (
        f"SELECT {table.name}.id, bm25({table.index}, {table.weights}) FROM {table.index}"
        f" CROSS JOIN {table.name} ON {table.name}.id = {table.index}.rowid"
        f" WHERE {table.index} MATCH ?{table.where}{letters}"
        f" ORDER BY {table.index}.rowid DESC LIMIT ?"
    )
    found = (match, *table.values, *values, CANDIDATES)
    return rows_within(conn, sql, found, BUDGET_SECONDS)


def _scanned(
    conn: sqlite3.Connection, table: _Table, words: list[Word]
) -> tuple[list[tuple[int, float]], bool]:
    """Newest first, rows with all these words somewhere in them, as only reading can tell."""
    letters, values = _containing(table, words)
    where = table.where.replace(f"{table.index}.rowid", f"{table.name}.id")
    sql = (
        f"SELECT {table.name}.id, 0 FROM {table.name} WHERE {table.name}.id >"
        f" (SELECT max(id) FROM {table.name}) - {table.scanned}{where}{letters}"
        f" ORDER BY {table.name}.id DESC LIMIT ?"
    )
    return rows_within(conn, sql, (*table.values, *values, RANKED), BUDGET_SECONDS)


def _containing(table: _Table, words: list[Word]) -> tuple[str, tuple[str, ...]]:
    where, values = "", []
    for word in words:
        # SQLite has a longest pattern; nobody types so much that its beginning would not do.
        escaped = word.text[:LONGEST].replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        tests = " OR ".join(f"{table.name}.{text} LIKE ? ESCAPE '\\'" for text in table.texts)
        where += f" AND ({tests})"
        values += [f"%{escaped}%"] * len(table.texts)
    return where, tuple(values)


# -- what is shown ---------------------------------------------------------------------------------

_MESSAGE = """
SELECT 'message', m.id, m.session_id, 0.0, m.uuid, m.agent_id, t.ordinal, m.kind, m.timestamp
FROM messages m LEFT JOIN turns t ON t.id = m.turn_id WHERE m.id = ?
"""
_TOOL = """
SELECT 'tool', u.id, u.session_id, 0.0, m.uuid, u.agent_id, t.ordinal, 'tool', u.started_at,
  u.name, u.status, u.exit_code
FROM tool_uses u LEFT JOIN messages m ON m.id = u.message_id LEFT JOIN turns t ON t.id = u.turn_id
WHERE u.id = ?
"""


def _hits(
    conn: sqlite3.Connection, table: _Table, ranked: list[tuple[int, float]]
) -> Iterator[Hit]:
    sql = _MESSAGE if table.name == "messages" else _TOOL
    for row_id, worth in ranked:
        row = conn.execute(sql, (row_id,)).fetchone()
        if row is None or row[2] is None:
            continue
        hit = Hit(*row)
        weight = TOOL if hit.source == "tool" else WEIGHTS.get(hit.kind, OTHER_MESSAGE)
        hit.score = worth * weight
        yield hit


def _grouped(hits: list[Hit], wanted: Wanted) -> list[Group]:
    groups: dict[str, Group] = {}
    each = wanted.limit if wanted.session else PER_SESSION
    shown = 0
    for hit in hits:
        group = groups.get(hit.session_id)
        if shown >= wanted.limit:
            if group is not None:
                group.more += 1
            continue
        if group is None:
            group = groups[hit.session_id] = Group(hit.session_id)
        if len(group.hits) < each:
            group.hits.append(hit)
            shown += 1
        else:
            group.more += 1
    return list(groups.values())
