"""Cut a few words out of a text around what was found, and mark what was found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ctxdb.query.search_words import Word

SEARCHED_CHARS = 2_000_000  # of a text
MATCHES = 300  # of one word that are compared with each other
LEAD = 0.3  # share of the snippet that is before the first match
_LETTER = r"[^\W_]"
_GAP = r"[\W_]{1,40}"


class Span(NamedTuple):
    """Where a word was found in a text."""

    begin: int
    end: int
    word: int  # number of the word in the search


class Piece(NamedTuple):
    """A part of a snippet."""

    text: str
    is_match: bool


class Snippet(NamedTuple):
    """Pieces in order, and how many different words of the search are in them."""

    pieces: tuple[Piece, ...]
    words: int


def snippet(text: str, words: Sequence[Word], size: int) -> Snippet | None:
    """Return about `size` characters of the text where most of the words are; None without any."""
    text = text[:SEARCHED_CHARS]
    spans = _spans(text, words, _lower)
    if not spans and not text.isascii():
        # The index ignores accents, and so does this second try.
        spans = _spans(text, words, lambda one: _lower(_unaccented(one)))
    if not spans:
        return None
    first, last, distinct = _best(spans, size)
    start, end = _window(text, spans[first].begin, spans[last].end, size)
    pieces: list[Piece] = []
    at = start
    for begin, stop, _ in spans[first:]:
        if begin >= end:
            break
        if begin < at:
            continue
        _add(pieces, text[at:begin], is_match=False)
        _add(pieces, text[begin : min(stop, end)], is_match=True)
        at = min(stop, end)
    _add(pieces, text[at:end], is_match=False)
    return Snippet(_trimmed(pieces, before=start > 0, after=end < len(text)), distinct)


def beginning(text: str, size: int) -> Snippet:
    """Return the beginning of a text in which nothing can be marked."""
    head = " ".join(text[: size * 2].split())
    return Snippet((Piece(head[:size] + ("…" if len(head) > size else ""), False),), 0)


def _patterns(word: Word, text: str) -> Iterator[re.Pattern[str]]:
    """Return patterns that find a word in lower case, the strictest first."""
    parts = re.findall(rf"{_LETTER}+", text)
    exact = re.escape(text)
    # What is before the word is checked after a match: a pattern that begins with letters is ten
    # times as fast as one that begins with a condition.
    if parts and not word.is_run:
        end = "" if word.is_prefix else rf"(?!{_LETTER})"
        yield re.compile(exact + end)
        if [text] != parts:
            yield re.compile(_GAP.join(map(re.escape, parts)) + end)
    yield re.compile(exact)


def _spans(text: str, words: Sequence[Word], fold: Callable[[str], str]) -> list[Span]:
    """Return where the words are: to the letter, else by their parts, else in longer words."""
    low = fold(text)
    if len(low) != len(text):
        return []
    found: list[Span] = []
    for number, word in enumerate(words):
        *strict, loose = _patterns(word, fold(word.text))
        for pattern in (*strict, loose):
            here: list[Span] = []
            for match in pattern.finditer(low):
                start = match.start()
                if pattern is not loose and start and _is_letter(low[start - 1], low[start]):
                    continue
                here.append(Span(start, match.end(), number))
                if len(here) >= MATCHES:
                    break
            if here:
                found += here
                break
    return sorted(found)


def _is_letter(before: str, first: str) -> bool:
    return before.isalnum() and first.isalnum()


def _lower(text: str) -> str:
    low = text.lower()
    # A few letters become two characters, which would move all places after them.
    return low if len(low) == len(text) else "".join(c.lower()[:1] for c in text)


class _Best(NamedTuple):
    first: int  # the first and last match, as positions in the list of spans
    last: int
    words: int  # different words in it


def _best(spans: list[Span], size: int) -> _Best:
    """Return the window with the most different words in it."""
    best = _Best(0, 0, 0)
    room = int(size * (1 - LEAD))
    for first, begin in enumerate(spans):
        seen: set[int] = set()
        last = first
        for nth in range(first, len(spans)):
            span = spans[nth]
            if span.end - begin.begin > room and nth > first:
                break
            seen.add(span.word)
            last = nth
        if len(seen) > best.words:
            best = _Best(first, last, len(seen))
    return best


def _window(text: str, begin: int, stop: int, size: int) -> tuple[int, int]:
    stop = min(stop, begin + size)
    lead = min(int(size * LEAD), max(size - (stop - begin), 0))
    start = max(begin - lead, 0)
    if start > 0:
        # Begin with a whole word, if one begins soon.
        blank = next((n for n in range(start, begin) if text[n].isspace()), None)
        if blank is not None and blank - start < 16:
            start = blank
    end = min(max(start + size, stop), len(text))
    if end < len(text):
        blank = next((n for n in range(end, stop, -1) if text[n - 1].isspace()), None)
        if blank is not None and end - blank < 16:
            end = blank
    return start, end


def _add(pieces: list[Piece], text: str, *, is_match: bool) -> None:
    if not text:
        return
    # White space becomes one space. A space at the edge of a piece stays: it separates two pieces.
    flat = re.sub(r"\s+", " ", text)
    pieces.append(Piece(flat, is_match))


def _trimmed(pieces: list[Piece], *, before: bool, after: bool) -> tuple[Piece, ...]:
    """Remove white space at both ends; add an ellipsis where the text goes on."""
    if pieces:
        pieces[0] = pieces[0]._replace(text=pieces[0].text.lstrip())
        pieces[-1] = pieces[-1]._replace(text=pieces[-1].text.rstrip())
    if before:
        pieces.insert(0, Piece("…", False))
    if after:
        pieces.append(Piece("…", False))
    return tuple(piece for piece in pieces if piece.text)


def _unaccented(text: str) -> str:
    """Return the letters without their accents, one character for each."""
    import unicodedata

    def bare(c: str) -> str:
        letter, *marks = list(unicodedata.normalize("NFD", c))
        return letter if any(map(unicodedata.combining, marks[:1])) else c

    return "".join(c if c < "\u0080" else bare(c) for c in text)
