"""Replace secrets by `[redacted:rule]`, in texts and in parsed lines.

Nearly all lines hold no secret. So a line's bytes are first searched for all keywords at once,
which costs about 6 % of a first sync. Only a line with a keyword is looked at text by text. JSON
may spell any letter as an escape; a line with such escapes is searched after it was decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

from ctxdb.privacy.secret_rules import RULES, Rule

MASKED = re.compile(r"\[redacted:(?P<rule>[a-z0-9_-]{1,60})\]")
_MOST_DEPTH = 200  # deeper nesting is not JSON that a client writes; ctxdb cuts it elsewhere
# A user name and a password in a URL have no keyword of their own: "://" alone is on many lines.
_URL = "://"
_URL_BYTES = re.compile(rb'://[^/\s"@:]{0,80}:[^/\s"@]{3,120}@')


class Found(NamedTuple):
    """A secret in a text."""

    rule: str
    start: int
    end: int


class Masker:
    """The rules that are switched on."""

    def __init__(self, rules: Iterable[Rule] = RULES) -> None:
        self.rules = tuple(rules)
        self._patterns = [(rule, re.compile(rule.pattern)) for rule in self.rules]
        keywords = {word for rule in self.rules for word in rule.keywords}
        self._has_url_rule = _URL in keywords
        self._keywords = sorted(keywords - {_URL})

    @cached_property
    def _searcher(self) -> Any:
        from ahocorasick_rs import BytesAhoCorasick

        return BytesAhoCorasick([word.encode() for word in self._keywords])

    def may_hold_secret(self, data: bytes) -> bool:
        """Whether bytes hold a keyword of any rule."""
        if self._keywords and self._searcher.find_matches_as_indexes(data):
            return True
        return self._has_url_rule and _URL_BYTES.search(data) is not None

    def find(self, text: str) -> list[Found]:
        """The secrets in a text, in order; of those that overlap, the one that begins first."""
        found: list[Found] = []
        for rule, pattern in self._patterns:
            if any(word in text for word in rule.keywords):
                found += (_place(rule, match) for match in pattern.finditer(text))
        found.sort(key=lambda one: (one.start, -one.end))
        kept: list[Found] = []
        for one in found:
            if not kept or one.start >= kept[-1].end:
                kept.append(one)
        return kept

    def mask(self, text: str) -> str:
        """The text with every secret replaced."""
        found = self.find(text)
        if not found:
            return text
        parts: list[str] = []
        at = 0
        for one in found:
            parts += (text[at : one.start], f"[redacted:{one.rule}]")
            at = one.end
        return "".join((*parts, text[at:]))

    def mask_value(self, value: Any, depth: int = 0) -> Any:
        """A parsed JSON value with every secret replaced, in keys too."""
        if isinstance(value, str):
            return self.mask(value)
        if depth > _MOST_DEPTH:
            return value
        if isinstance(value, dict):
            return {self.mask(k): self.mask_value(v, depth + 1) for k, v in value.items()}
        if isinstance(value, list):
            return [self.mask_value(one, depth + 1) for one in value]
        return value


def _place(rule: Rule, match: re.Match[str]) -> Found:
    """The part of a match to mask: its group `secret`, or all of it."""
    for name in ("secret", "secret_2"):
        if name in match.re.groupindex and match[name] is not None:
            return Found(rule.name, *match.span(name))
    return Found(rule.name, *match.span())
