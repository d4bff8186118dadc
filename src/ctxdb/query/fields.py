"""Names of fields in the inputs of tools: not what people look for.

The index has them among the words. But who looks for "timeout" looks for what was said of one, not
for every call that was given one.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ctxdb.query.words import Both, Either, Node, Without, Word
from ctxdb.session.json_values import json_value

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

_GAP = r"[\W_]{1,40}"  # between the parts of a word, as in ctxdb.query.snippets


def names_and_values(text: str) -> tuple[str, str]:
    """The names of all fields of a JSON text, and all its values, one a line."""
    value = json_value(text)
    if value is None:
        return "", text
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
    return "\n".join(names), "\n".join(values)


def without_names(
    conn: sqlite3.Connection, rows: Iterable[tuple[int, float]], node: Node, most: int
) -> tuple[list[tuple[int, float]], int]:
    """Of the tool calls that the index names, best first, up to `most` that say it in a value.

    Also how many were passed over, because only names of fields fit.
    """
    has = {word: _finder(word) for word in _words(node)}
    kept: list[tuple[int, float]] = []
    dropped = 0
    for row in rows:
        if len(kept) >= most:
            break
        if _is_said(conn, row[0], node, has):
            kept.append(row)
        else:
            dropped += 1
    return kept, dropped


def _is_said(
    conn: sqlite3.Connection, tool_id: int, node: Node, has: dict[Word, Callable[[str], bool]]
) -> bool:
    found = conn.execute("SELECT input, target FROM tool_uses WHERE id = ?", (tool_id,)).fetchone()
    names, values = names_and_values(found[0] or "")
    # What is in no name was found elsewhere, in whatever way the index folds letters.
    doubtful = {word for word, is_in in has.items() if is_in(names.lower())}
    doubtful = {word for word in doubtful if not has[word](f"{found[1] or ''}\n{values}".lower())}
    if doubtful and not _fits(node, doubtful):
        sql = "SELECT result_text FROM tool_uses WHERE id = ?"
        result = (conn.execute(sql, (tool_id,)).fetchone()[0] or "").lower()
        doubtful = {word for word in doubtful if not has[word](result)}
    return _fits(node, doubtful)


def _fits(node: Node, lacking: set[Word]) -> bool:
    """Whether it fits without these words."""
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
    """Whether a text in lower case has a word, whole or inside of another."""
    parts = [] if word.is_run else word.tokens
    if len(parts) < 2:
        part = parts[0] if parts else word.text.lower()
        return lambda text: part in text
    pattern = re.compile(_GAP.join(map(re.escape, parts)))
    return lambda text: pattern.search(text) is not None
