"""Search everything that was said and done, and put the best matches first.

There are full-text indexes of what people asked, of the names of sessions, of messages, of tool
calls, of plans, of to-dos and of the history of prompts. The scores of two indexes cannot be
compared, so their answers are merged by rank: the first of one index with the first of the other. A
prompt and the message that has it are one hit.
What people and the model said counts more than what tools printed. Of equal matches the newest is
first.

A common word is in a hundred thousand rows, and ranking them all would take too long. So only the
newest CANDIDATES rows that match are ranked; ids of rows grow with time.

Two kinds of matches count only if there is nothing else, and the answer says so: names of fields in
the inputs of tools, and the letters of a word that means something else without its signs (C++).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from ctxdb.query.candidates import Candidate, is_lossy, matching, scanned, stages, tables, unasked
from ctxdb.query.field_names import without_field_names
from ctxdb.query.search_words import Word, is_plain, parse, words_of
from ctxdb.query.vocabulary import corrected, near, open_vocabulary, other_forms

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from ctxdb.query.candidates import Table, Wanted
    from ctxdb.query.search_words import Node

CHECKED = 1000  # of the tool calls that match, the best: is it a value that matches, or a name?
RANKED = 300  # rows of each index that can be hits
ENOUGH = 100  # matches in the index; with so many, other rows are not read
PER_SESSION = 3  # hits shown of one session, unless only one session is searched
# The first place of a match that lacks the signs of a word: the other index may have them.
LOOSE_PLACE = 20
RANK_DAMPING = 8  # the lower, the more the first places count

Depth = Literal["words", "fields", "letters"]  # what counts as a match, if nothing else is found

# What a place in the ranking is worth, by who speaks.
WEIGHTS = {"human": 1.0, "command": 0.9, "shell": 0.9, "assistant": 0.9, "compact_summary": 0.7}
OTHER_MESSAGE, TOOL, TITLE = 0.6, 0.6, 1.0
FEW = 5  # hits; with fewer, other forms of the words are searched too


@dataclass(slots=True)
class Hit:
    """One message, tool call, prompt or name of a session."""

    source: str  # message, tool, turn or session
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
    message_id: int | None = None  # of a prompt


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
    suggestion: str | None = None  # the search with other words, if nothing was found
    missing: list[str] = field(default_factory=list)  # words that are nowhere
    is_cut: bool = False  # there was no time to look at everything
    depth: Depth = "words"
    lossy: list[Word] = field(default_factory=list)  # only letters and digits of these were found
    forms: list[str] = field(default_factory=list)  # other forms of words that were searched too


def search(conn: sqlite3.Connection, text: str, wanted: Wanted) -> Found:
    """Search for a text; the connection is only read from."""
    node = parse(text)
    if node is None:
        return Found([])
    open_vocabulary(conn)
    found = Found(list(dict.fromkeys(words_of(node))))
    hits, has_field_names = _hits_at_depth(conn, node, wanted, found)
    if not hits and has_field_names:
        found.depth = "fields"
        hits, _ = _hits_at_depth(conn, node, wanted, found)
    lossy = [word for word in found.words if is_lossy(word)]
    if not hits and lossy and is_plain(node):
        found.depth = "letters"
        hits, _ = _hits_at_depth(conn, node, wanted, found)
    if found.depth == "letters" or not is_plain(node):
        found.lossy = lossy
    if len(hits) < FEW:
        hits = _with_other_forms(conn, node, wanted, found, hits)
    # By score; of equal scores the newest first.
    hits.sort(key=lambda hit: hit.timestamp or "", reverse=True)
    hits.sort(key=lambda hit: -round(hit.score, 4))
    found.groups = _grouped(hits, wanted)
    if not found.groups:
        changes = near(conn, found.words)
        found.missing = list(changes)
        found.suggestion = corrected(text, changes)
    return found


def _with_other_forms(
    conn: sqlite3.Connection, node: Node, wanted: Wanted, found: Found, hits: list[Hit]
) -> list[Hit]:
    """Search with the singular or plural of each word too; what is found comes after the hits."""
    wider, forms = other_forms(conn, node)
    if not forms:
        return hits
    more, _ = _hits_at_depth(conn, wider, wanted, found)
    known = {(hit.source, hit.id) for hit in hits}
    added = [hit for hit in more if (hit.source, hit.id) not in known]
    if not added:
        return hits
    worst = min((hit.score for hit in hits), default=1.0)
    for hit in added:
        hit.score *= worst
    found.forms = forms
    found.words += [Word(form) for form in forms]
    return hits + added


def _hits_at_depth(
    conn: sqlite3.Connection, node: Node, wanted: Wanted, found: Found
) -> tuple[list[Hit], bool]:
    """Return all hits at the depth of `found`, and whether names of fields match besides."""
    hits: list[Hit] = []
    has_field_names = False
    for table in tables(wanted):
        ranked = _ranked(conn, table, node, found.depth)
        found.is_cut |= ranked.is_cut
        has_field_names |= ranked.has_field_names
        hits += _hits(conn, table, ranked.worth_by_row)
    if is_plain(node) and wanted.kind in (None, "human") and _is_of_people(wanted):
        hits += _unasked_hits(conn, list(words_of(node)), wanted)
    return _without_prompts_twice(hits), has_field_names


def _is_of_people(wanted: Wanted) -> bool:
    """Whether what people said is wanted at all."""
    return wanted.tool is None and wanted.model is None and not wanted.errors


def _unasked_hits(conn: sqlite3.Connection, words: list[Word], wanted: Wanted) -> Iterator[Hit]:
    for place, one in enumerate(unasked(conn, words, wanted)):
        score = WEIGHTS["human"] / (RANK_DAMPING + place)
        yield Hit("queue", one.id, one.session_id, score, kind="human", timestamp=one.timestamp)


def _without_prompts_twice(hits: list[Hit]) -> list[Hit]:
    """Leave out a message if the prompt in it is a hit: the prompt is what the person wrote."""
    asked = {hit.message_id for hit in hits if hit.source == "turn"}
    return [hit for hit in hits if hit.source != "message" or hit.id not in asked]


# -- ranking ---------------------------------------------------------------------------------------


class _Ranked(NamedTuple):
    worth_by_row: dict[int, float]  # what the place of a row is worth, best first
    is_cut: bool
    has_field_names: bool  # names of fields match, and were left out


def _ranked(conn: sqlite3.Connection, table: Table, node: Node, depth: Depth) -> _Ranked:
    words = list(words_of(node))
    only_values = table.name == "tool_uses" and depth == "words"
    is_cut = has_field_names = False
    places: dict[int, int] = {}  # of rows by id; equal matches have the same place
    loose_place = 0
    for stage in stages(conn, table, node, words, ignore_signs=depth == "letters"):
        rows, cut = matching(conn, table, stage)
        is_cut |= cut
        if only_values:
            best = sorted(rows, key=_by_score)[:CHECKED]
            is_all = len(rows) == len(best)
            rows, dropped = without_field_names(conn, best, stage.node, RANKED)
            has_field_names |= dropped > 0
            if dropped and not is_all:
                # Names of fields have displaced other rows.
                without_input = replace(table, texts=("target", "searched_text"))
                others, cut = matching(conn, without_input, stage)
                is_cut |= cut
                rows = list(({one.id: one for one in [*others, *rows]}).values())
        _take_places(places, rows, 0 if stage.literal else loose_place)
        loose_place = LOOSE_PLACE if stage.literal else 0
    has_unindexed = any(word.is_run or not word.tokens for word in words)
    if has_unindexed and is_plain(node) and len(places) < ENOUGH:
        rows, cut = scanned(conn, table, words, RANKED)
        is_cut |= cut
        if only_values:
            rows, dropped = without_field_names(conn, rows, node, RANKED)
            has_field_names |= dropped > 0
        _take_places(places, rows)
    ranked = list(places.items())[:RANKED]
    worth = {row_id: 1 / (RANK_DAMPING + place) for row_id, place in ranked}
    return _Ranked(worth, is_cut, has_field_names)


def _by_score(row: Candidate) -> tuple[float, int]:
    return round(row.score, 3), -row.id


def _take_places(places: dict[int, int], rows: list[Candidate], first: int = 0) -> None:
    """Put rows behind those that have a place already, best score first, from place `first` on."""
    last: float | None = None
    place = max(len(places), first)
    for row in sorted(rows, key=_by_score):
        if row.id in places:
            continue
        score = round(row.score, 3)
        if last is not None and score != last:
            place = max(len(places), first)
        last = score
        places[row.id] = place


# -- hits ------------------------------------------------------------------------------------------

_MESSAGE = """
SELECT 'message', m.id, m.session_id, 0.0, m.uuid, m.agent_id, t.ordinal, m.kind, m.timestamp
FROM messages m LEFT JOIN turns t ON t.id = m.turn_id
WHERE m.id = ? AND m.session_id IS NOT NULL
"""
_TOOL = """
SELECT 'tool', u.id, u.session_id, 0.0, m.uuid, u.agent_id, t.ordinal, 'tool', u.started_at,
  u.name, u.status, u.exit_code
FROM tool_uses u LEFT JOIN messages m ON m.id = u.message_id LEFT JOIN turns t ON t.id = u.turn_id
WHERE u.id = ? AND u.session_id IS NOT NULL
"""


# A prompt that was queued has no message; the uuid is that of the message where there is one.
_TURN = """
SELECT 'turn', t.id, t.session_id, 0.0, m.uuid, NULL, t.ordinal,
  CASE WHEN t.kind IN ('command', 'shell') THEN t.kind ELSE 'human' END, t.started_at,
  NULL, NULL, NULL, t.message_id
FROM turns t LEFT JOIN messages m ON m.id = t.message_id
WHERE t.id = ? AND t.session_id IS NOT NULL
"""
_SESSION = """
SELECT 'session', s.rowid, s.id, 0.0, NULL, NULL, NULL, 'title', s.started_at
FROM sessions s WHERE s.rowid = ?
"""
_HISTORY = """
SELECT 'history', h.id, coalesce(h.session_id, ''), 0.0, NULL, NULL, NULL, 'human', h.timestamp
FROM history h WHERE h.id = ?
"""
_PLAN = """
SELECT 'plan', p.id, coalesce(p.session_id, ''), 0.0, NULL, NULL, NULL, 'plan', p.updated_at
FROM plans p WHERE p.id = ?
"""
_TODO = """
SELECT 'todo', d.id, coalesce(d.session_id, ''), 0.0, NULL, d.agent_id, t.ordinal, 'todo',
  d.updated_at
FROM todos d LEFT JOIN turns t ON t.id = d.turn_id WHERE d.id = ?
"""
_HIT = {
    "messages": _MESSAGE,
    "tool_uses": _TOOL,
    "turns": _TURN,
    "sessions": _SESSION,
    "history": _HISTORY,
    "plans": _PLAN,
    "todos": _TODO,
}


def _hits(conn: sqlite3.Connection, table: Table, worth_by_row: dict[int, float]) -> Iterator[Hit]:
    sql = _HIT[table.name]
    for row_id, worth in worth_by_row.items():
        for row in conn.execute(sql, (row_id,)):
            hit = Hit(*row)
            weight = {"tool": TOOL, "session": TITLE}.get(hit.source) or WEIGHTS.get(
                hit.kind, OTHER_MESSAGE
            )
            hit.score = worth * weight
            yield hit


def _grouped(hits: list[Hit], wanted: Wanted) -> list[Group]:
    """Return the best sessions; of one session alone, as many hits as else sessions."""
    groups: dict[str, Group] = {}
    each = wanted.limit if wanted.session else PER_SESSION
    for hit in hits:
        group = groups.get(hit.session_id)
        if group is None:
            if len(groups) >= wanted.limit:
                continue
            group = groups[hit.session_id] = Group(hit.session_id)
        if len(group.hits) < each:
            group.hits.append(hit)
        else:
            group.more += 1
    return list(groups.values())
