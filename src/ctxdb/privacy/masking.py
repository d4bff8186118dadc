r"""Find secrets in texts, and replace them by `[redacted:rule]`.

Nearly all lines hold no secret. So a line is first searched, in one pass, for all keywords,
for escapes that could spell one, and for URLs. Only a line with one of these is looked at text by
text (json_bytes.py). Keywords are ASCII, so only escapes of ASCII letters count; a line with such
escapes is searched after it was decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from ctxdb.privacy.secret_rules import RULES, Rule

MOST_SUBSETS = 200  # of the rules, kept ready
MASKED = re.compile(r"\[redacted:(?P<rule>[a-z0-9_-]{1,60})\]")
_MARK = "[redacted:"
# A user name and a password in a URL have no keyword of their own: "://" alone is on many lines.
_URL = "://"
_URL_BYTES = re.compile(rb'://[^/\s"@:]{0,80}:[^/\s"@]{3,120}@')
# Escapes that could spell a keyword: those of ASCII, and not of control characters.
_ESCAPES = re.compile(rb"\\(?:u00[2-7]|/)")
_ESCAPE_WORDS = (*(rb"\u00%d" % n for n in range(2, 8)), rb"\/")


class Found(NamedTuple):
    """A secret in a text."""

    rule: str
    start: int
    end: int


class Masker:
    """The rules that are switched on."""

    def __init__(self, rules: Iterable[Rule] = RULES) -> None:
        self.rules = tuple(rules)
        keywords = {word for rule in self.rules for word in rule.keywords}
        self._has_url_rule = _URL in keywords
        self._keywords = sorted(keywords - {_URL})

    @cached_property
    def _patterns(self) -> list[tuple[Rule, re.Pattern[str]]]:
        return [(rule, re.compile(rule.pattern)) for rule in self.rules]

    @cached_property
    def _some(self) -> dict[frozenset[str], Masker]:
        return {}

    @cached_property
    def _searcher(self) -> Any:
        # As a DFA: 2.8 ns for each byte of a transcript, 7 ns as the library would choose.
        from ahocorasick_rs import BytesAhoCorasick, Implementation

        words = [*(word.encode() for word in self._keywords), *_ESCAPE_WORDS]
        if self._has_url_rule:
            words.append(_URL.encode())
        return BytesAhoCorasick(words, implementation=Implementation.DFA)

    def _words_in(self, data: bytes) -> set[int]:
        """The numbers of all words in bytes: of keywords, then of escapes, then of URLs."""
        hits = self._searcher.find_matches_as_indexes(data, overlapping=True)
        return {number for number, _, _ in hits}

    def prepare(self) -> None:
        """Make ready what all lines need: before other processes are forked, it is made once."""
        self.may_hold_secret(b"")

    def may_hold_secret(self, data: bytes) -> bool:
        """Whether bytes hold a keyword of any rule, or escapes that could spell one."""
        if not self._searcher.find_matches_as_indexes(data):
            return False
        # One word can hide another that overlaps it, so this is the first look only.
        url = len(self._keywords) + len(_ESCAPE_WORDS)
        return min(self._words_in(data)) < url or _URL_BYTES.search(data) is not None

    def suspects(self, data: bytes) -> Masker | None:
        """Those rules that have a keyword in these bytes; None if no rule has."""
        if not self._searcher.find_matches_as_indexes(data):
            return None
        of_keywords = len(self._keywords)
        words = {self._keywords[n] for n in self._words_in(data) if n < of_keywords}
        if self._has_url_rule and _URL_BYTES.search(data):
            words.add(_URL)
        if not words:
            return None
        known = frozenset(words)
        some = self._some.get(known)
        if some is None:
            if len(self._some) >= MOST_SUBSETS:
                self._some.clear()
            rules = (rule for rule in self.rules if not known.isdisjoint(rule.keywords))
            some = self._some[known] = Masker(rules)
        return some

    def is_meant(self, data: bytes, start: int, end: int) -> bool:  # noqa: ARG002
        """Whether what was found in bytes of JSON is to be masked there."""
        return True

    def find(self, text: str) -> list[Found]:
        """The secrets in a text, in order; of those that overlap, the one that begins first."""
        found = self._find_all(text)
        if not found:
            return found
        if _MARK in text:
            found = _outside_marks(found, text)
        found.sort(key=lambda one: (one.start, -one.end))
        kept: list[Found] = []
        for one in found:
            if not kept or one.start >= kept[-1].end:
                kept.append(one)
        return kept

    def _find_all(self, text: str) -> list[Found]:
        found: list[Found] = []
        for rule, pattern in self._patterns:
            if any(word in text for word in rule.keywords):
                found += (_place(rule, match) for match in _matches(rule, pattern, text))
        return found

    def mask(self, text: str) -> str:
        """The text with every secret replaced."""
        found = self.find(text)
        if not found:
            return text
        parts: list[str] = []
        at = 0
        for one in found:
            parts += (text[at : one.start], f"{_MARK}{one.rule}]")
            at = one.end
        return "".join((*parts, text[at:]))


def has_escapes(data: bytes) -> bool:
    """Whether bytes of JSON hold escapes that could spell a keyword."""
    return _ESCAPES.search(data) is not None


def _matches(rule: Rule, pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Where a pattern matches; one of a user only near its keyword, so it cannot take long."""
    if not rule.reach:
        yield from pattern.finditer(text)
        return
    done = 0
    for word in re.finditer("|".join(map(re.escape, rule.keywords)), text):
        if word.start() < done:
            continue
        for match in pattern.finditer(
            text, max(done, word.start() - rule.reach), word.end() + rule.reach
        ):
            if match.end() > match.start():
                done = max(done, match.end())
                yield match


def _outside_marks(found: list[Found], text: str) -> list[Found]:
    """Without what begins or ends inside the mark of a secret that is masked already."""
    marks = [match.span() for match in MASKED.finditer(text)]
    return [
        one
        for one in found
        if not any(
            first < one.end and one.start < last and not (one.start < first and last < one.end)
            for first, last in marks
        )
    ]


def _place(rule: Rule, match: re.Match[str]) -> Found:
    """The part of a match to mask: its group `secret`, or all of it."""
    for name in ("secret", "secret_2"):
        if name in match.re.groupindex and match[name] is not None:
            return Found(rule.name, *match.span(name))
    return Found(rule.name, *match.span())
