"""Turn what a person types into a search box into an expression of FTS5.

Plain words must all be there. "Several words" in quotes must be side by side. ``word*`` is the
beginning of a word. ``OR`` and ``NOT`` in capitals are operators, and parentheses group them.

The index has only runs of letters and digits. A word with other characters (``snake_case``,
``path/to/file.py``, ``foo.bar()``, ``--flag``) is searched as the phrase of its parts, and texts
that have it to the letter come first. A text that is not a valid expression is taken as plain
words: no search fails because of its syntax.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

# Scripts without spaces, or with particles joined to the word: Thai and those after it, Hangul,
# kana, Han. The index has whole runs of them as one word, so they are searched inside of words.
_RUNS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3130-\u318f\u3400-\u9fff"
    "\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff]"
)
FIRST_OF_RUNS = "\u0e00"
_PARTS = re.compile(r'"([^"]*)"(\*?)|([()])|([^\s"()]+(?:\([^\s"()]*\)[^\s"()]*)*)')
_PLAIN_PARTS = re.compile(r'"([^"]*)"(\*?)|()([^\s"]+)')  # a parenthesis is a character of a word
_OPERATORS = frozenset(("AND", "OR", "NOT"))
MAX_WORDS = 64  # of a pasted page; more words would match nothing more


@dataclass(frozen=True, slots=True)
class Word:
    """A word or a phrase."""

    text: str
    is_prefix: bool = False

    @property
    def tokens(self) -> list[str]:
        """The parts of it that are in the index."""
        return tokens(self.text)

    @property
    def is_run(self) -> bool:
        """Whether it must be searched inside of words."""
        return _RUNS.search(self.text) is not None

    @property
    def is_literal(self) -> bool:
        """Whether it has characters that are not in the index: then texts are compared too."""
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
    """Split a text as unicode61 does: into runs of letters and digits."""
    if text.isascii():
        return re.findall(r"[a-z0-9]+", text.lower())
    import unicodedata

    found = "".join(
        c if unicodedata.category(c)[0] in "LNM" or unicodedata.category(c) == "Co" else " "
        for c in text.casefold()
    )
    return found.split()


def parse(text: str) -> Node | None:
    """Return what to search for; None for nothing."""
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
        # It is not an expression, so its operators are plain words.
        words = [p if isinstance(p, Word) else Word(p) for p in parts if p not in ("(", ")")]
    return plain(words) if words else None


def plain(words: Iterable[Word]) -> Node:
    """Return the expression that all of these words match."""
    return _joined(Both, list(words)[:MAX_WORDS])


def words_of(node: Node) -> Iterator[Word]:
    """Return all words that must or may be there."""
    match node:
        case Word():
            yield node
        case Without():
            yield from words_of(node.wanted)
        case _:
            for part in node.parts:
                yield from words_of(part)


def is_plain(node: Node) -> bool:
    """Return whether every word must be there."""
    return isinstance(node, Word) or (
        isinstance(node, Both) and all(isinstance(part, Word) for part in node.parts)
    )


def expression(node: Node, spell: Callable[[Word], str]) -> str:
    """Return the expression for FTS5; `spell` turns a word into its part of it."""
    match node:
        case Word():
            return spell(node)
        case Without():
            return f"({expression(node.wanted, spell)} NOT {expression(node.unwanted, spell)})"
        case _:
            joint = " AND " if isinstance(node, Both) else " OR "
            return "(" + joint.join(expression(part, spell) for part in node.parts) + ")"


def quoted(text: str) -> str:
    """Return a string of FTS5, which its tokenizer makes a phrase of."""
    return '"' + text.replace('"', '""').replace("\0", " ") + '"'


# -- parsing ---------------------------------------------------------------------------------------


class _NotAnExpression(Exception):
    pass


def _split(text: str) -> list[Word | str]:
    """Return words, operators and parentheses. A quote without its pair is left out."""
    found = _parts(text, _PARTS)
    if any(part in _OPERATORS for part in found):
        return found
    # Without an operator, parentheses group nothing: $(cat and fmt.Errorf( are words of code.
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


def _joined(how: type[Both | Either], parts: Sequence[Node]) -> Node:
    if len(parts) == 1:
        (only,) = parts
        return only
    return how(tuple(parts))


# These take what they parse from the end of `rest`, which is in reverse order.


def _either(rest: list[Word | str]) -> Node:
    parts = [_both(rest)]
    while rest and rest[-1] == "OR":
        rest.pop()
        parts.append(_both(rest))
    return _joined(Either, parts)


def _both(rest: list[Word | str]) -> Node:
    parts = [_single(rest)]
    while rest and rest[-1] not in ("OR", ")"):
        if rest[-1] == "AND":
            rest.pop()
        elif rest[-1] == "NOT":
            rest.pop()
            parts = [Without(_joined(Both, parts), _single(rest))]
            continue
        parts.append(_single(rest))
    return _joined(Both, parts)


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
