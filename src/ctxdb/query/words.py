"""What a person types into a search box, as an expression that FTS5 understands.

Plain words must all be there; "several words" in quotes stand side by side; ``word*`` is how a
word begins; ``OR`` and ``NOT`` in capitals, and parentheses with them, mean what they say.

The index knows only runs of letters and digits. A word with anything else in it (``snake_case``,
``path/to/file.py``, ``foo.bar()``, ``--flag``) is looked for as the phrase of its parts, and what
contains it to the letter comes first. Whatever cannot be read as an expression is taken as plain
words: a search never fails for its syntax.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# Scripts written without spaces, or with particles that stick to the word: from Thai on, Hangul,
# kana, Han. The index has whole runs of them as one word, so they are looked for inside of words.
_RUNS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3130-\u318f\u3400-\u9fff"
    "\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff]"
)
FIRST_OF_RUNS = "\u0e00"
_PARTS = re.compile(r'"([^"]*)"(\*?)|([()])|([^\s"()]+(?:\([^\s"()]*\)[^\s"()]*)*)')
_PLAIN_PARTS = re.compile(r'"([^"]*)"(\*?)|()([^\s"]+)')  # a parenthesis is a character of a word
_OPERATORS = frozenset(("AND", "OR", "NOT"))
MAX_WORDS = 64  # a pasted page is cut here: more words find nothing more


@dataclass(frozen=True, slots=True)
class Word:
    """A word or a phrase."""

    text: str
    is_prefix: bool = False

    @property
    def tokens(self) -> list[str]:
        """Its parts as the index has them."""
        return tokens(self.text)

    @property
    def is_run(self) -> bool:
        """Whether it has to be looked for inside of words."""
        return _RUNS.search(self.text) is not None

    @property
    def is_literal(self) -> bool:
        """Whether it has characters that the index does not know, so that the text is asked."""
        return bool(self.text) and " ".join(self.tokens) != self.text.casefold()


@dataclass(frozen=True, slots=True)
class Both:
    """All of these."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """At least one of these."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Without:
    """The first, where the second is not."""

    wanted: Node
    unwanted: Node


Node = Word | Both | Either | Without


def tokens(text: str) -> list[str]:
    """Split as unicode61 does: letters and digits stay together, everything else parts them."""
    if text.isascii():
        return re.findall(r"[a-z0-9]+", text.lower())
    import unicodedata

    found = "".join(
        c if unicodedata.category(c)[0] in "LNM" or unicodedata.category(c) == "Co" else " "
        for c in text.casefold()
    )
    return found.split()


def parse(text: str) -> Node | None:
    """What to look for; None when there is nothing to look for."""
    parts = _split(text)[: MAX_WORDS * 2]
    words = [part for part in parts if isinstance(part, Word)]
    if any(isinstance(part, str) for part in parts):
        try:
            rest = list(reversed(parts))
            node = _either(rest)
            if not rest:
                return node
        except _NotAnExpression:
            pass
        # Operators where none can be are words like any other.
        words = [p if isinstance(p, Word) else Word(p) for p in parts if p not in ("(", ")")]
    return plain(words) if words else None


def plain(words: Iterable[Word]) -> Node:
    """All of these words."""
    kept = tuple(words)[:MAX_WORDS]
    return kept[0] if len(kept) == 1 else Both(kept)


def words_of(node: Node) -> Iterator[Word]:
    """All words that are wanted."""
    match node:
        case Word():
            yield node
        case Without():
            yield from words_of(node.wanted)
        case _:
            for part in node.parts:
                yield from words_of(part)


def is_plain(node: Node) -> bool:
    """Whether every word has to be there."""
    return isinstance(node, Word) or (
        isinstance(node, Both) and all(isinstance(part, Word) for part in node.parts)
    )


def expression(node: Node, spell: Callable[[Word], str]) -> str:
    """The expression for FTS5; `spell` says what a word is in it."""
    match node:
        case Word():
            return spell(node)
        case Without():
            return f"({expression(node.wanted, spell)} NOT {expression(node.unwanted, spell)})"
        case _:
            joint = " AND " if isinstance(node, Both) else " OR "
            return "(" + joint.join(expression(part, spell) for part in node.parts) + ")"


def quoted(text: str) -> str:
    """A string of FTS5: its tokenizer makes a phrase of it."""
    return '"' + text.replace('"', '""').replace("\0", " ") + '"'


# -- reading ------------------------------------------------------------------------------------


class _NotAnExpression(Exception):
    pass


def _split(text: str) -> list[Word | str]:
    """Words, operators and parentheses. A quote without its pair is left out."""
    found = _parts(text, _PARTS)
    if any(part in _OPERATORS for part in found):
        return found
    # Without an operator parentheses group nothing: $(cat and fmt.Errorf( are words of code.
    return _parts(text, _PLAIN_PARTS)


def _parts(text: str, pattern: re.Pattern[str]) -> list[Word | str]:
    found: list[Word | str] = []
    for phrase, star, paren, word in pattern.findall(text):
        if paren or word in _OPERATORS:
            found.append(paren or word)
        elif word:
            bare = word.rstrip("*")
            is_prefix = word.endswith("*") and bool(tokens(bare))
            found.append(Word(bare if is_prefix else word, is_prefix))
        elif phrase.strip():
            found.append(Word(" ".join(phrase.split()), bool(star)))
    return found


def _either(rest: list[Word | str]) -> Node:
    parts = [_both(rest)]
    while rest and rest[-1] == "OR":
        rest.pop()
        parts.append(_both(rest))
    return parts[0] if len(parts) == 1 else Either(tuple(parts))


def _both(rest: list[Word | str]) -> Node:
    parts = [_single(rest)]
    while rest and rest[-1] not in ("OR", ")"):
        if rest[-1] == "AND":
            rest.pop()
        elif rest[-1] == "NOT":
            rest.pop()
            wanted = parts[0] if len(parts) == 1 else Both(tuple(parts))
            parts = [Without(wanted, _single(rest))]
            continue
        parts.append(_single(rest))
    return parts[0] if len(parts) == 1 else Both(tuple(parts))


def _single(rest: list[Word | str]) -> Node:
    if not rest:
        raise _NotAnExpression
    part = rest.pop()
    if isinstance(part, Word):
        return part
    if part == "(":
        node = _either(rest)
        if not rest or rest.pop() != ")":
            raise _NotAnExpression
        return node
    raise _NotAnExpression
