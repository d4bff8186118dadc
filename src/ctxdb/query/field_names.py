"""Leave out tool calls where only the name of a field matches a search.

The index has these names among its words. But a search for "timeout" is about what was said of a
timeout, not about every call that was given one.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ctxdb.claude.stored_data import json_value
from ctxdb.query.search_words import Both, Either, Node, Without, Word

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from ctxdb.query.candidates import Candidate

_GAP = r"[\W_]{1,40}"  # between the parts of a word, as in ctxdb.query.snippets


class FieldTexts(NamedTuple):
    """The texts of a JSON object, one a line."""

    names: str
    values: str


def names_and_values(text: str) -> FieldTexts:
    """Return the names of all fields of a JSON text, and all its values."""
    value = json_value(text)
    if value is None:
        return FieldTexts("", text)
    waiting: list[Any] = [value]
    names: list[str] = []
    values: list[str] = []
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            names += value
            waiting += reversed(value.values())
        elif isinstance(value, list):
            waiting += reversed(value)
        else:
            values.append(value if isinstance(value, str) else json.dumps(value))
    return FieldTexts("\n".join(names), "\n".join(values))


def without_field_names(
    conn: sqlite3.Connection, rows: Iterable[Candidate], node: Node, most: int
) -> tuple[list[Candidate], int]:
    """Return the first `most` of these tool calls where a value matches.

    Also return how many were left out because only names of fields match.
    """
    has = {word: _finder(word) for word in _words(node)}
    kept: list[Candidate] = []
    dropped = 0
    for row in rows:
        if len(kept) >= most:
            break
        if _is_in_a_value(conn, row.id, node, has):
            kept.append(row)
        else:
            dropped += 1
    return kept, dropped


def _is_in_a_value(
    conn: sqlite3.Connection, tool_id: int, node: Node, has: dict[Word, Callable[[str], bool]]
) -> bool:
    sql = "SELECT ifnull(input, ''), ifnull(target, '') FROM tool_uses WHERE id = ?"
    input_, target = conn.execute(sql, (tool_id,)).fetchone()
    fields = names_and_values(input_)
    # A word that is in no name was found elsewhere; how the index folds letters does not matter.
    doubtful = {word for word, is_in in has.items() if is_in(fields.names.lower())}
    doubtful = {word for word in doubtful if not has[word](f"{target}\n{fields.values}".lower())}
    if doubtful and not _fits(node, doubtful):
        sql = "SELECT ifnull(searched_text, '') FROM tool_uses WHERE id = ?"
        (result,) = conn.execute(sql, (tool_id,)).fetchone()
        doubtful = {word for word in doubtful if not has[word](result.lower())}
    return _fits(node, doubtful)


def _fits(node: Node, lacking: set[Word]) -> bool:
    """Return whether a text without these words matches."""
    match node:
        case Word():
            return node not in lacking
        case Without():
            return _fits(node.wanted, lacking)
        case Either():
            return any(_fits(part, lacking) for part in node.parts)
        case Both():
            return all(_fits(part, lacking) for part in node.parts)


def _words(node: Node) -> set[Word]:
    match node:
        case Word():
            return {node}
        case Without():
            return _words(node.wanted)
        case _:
            return set().union(*map(_words, node.parts))


def _finder(word: Word) -> Callable[[str], bool]:
    """Return a test whether a text in lower case has a word, also inside of another word."""
    parts = [] if word.is_run else word.tokens
    if len(parts) < 2:
        part = next(iter(parts), word.text.lower())
        return lambda text: part in text
    pattern = re.compile(_GAP.join(map(re.escape, parts)))
    return lambda text: pattern.search(text) is not None
