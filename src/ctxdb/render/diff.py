"""A diff as HTML, with the words marked in which a line differs from the line it replaces."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING

from ctxdb.render.html_text import text

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LINE = 400  # characters of a line whose words are compared
MAX_PAIRS = 400  # lines of a diff whose words are compared
MIN_ALIKE = 0.3  # lines that share less are different lines: marking all their words says nothing
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


def diff(signed: str) -> str:
    """HTML of lines that each begin with their sign: ``-`` removed, ``+`` added, else kept."""
    return f'<pre class="diff">{"".join(_rows(signed.split(chr(10))))}</pre>\n'


def _rows(lines: list[str]) -> Iterator[str]:
    left = MAX_PAIRS
    at = 0
    while at < len(lines):
        if not lines[at].startswith("-"):
            yield _added(text(lines[at][1:])) if lines[at][:1] == "+" else _kept(lines[at])
            at += 1
            continue
        removed = _run(lines, at, "-")
        added = _run(lines, at + len(removed), "+")
        at += len(removed) + len(added)
        pairs = [
            _words(old[1:], new[1:]) if old and new and nth < left else None
            for nth, (old, new) in enumerate(zip_longest(removed, added, fillvalue=""))
        ]
        left -= len(pairs)
        for line, pair in zip(removed, pairs, strict=False):
            yield f'<del><span class="sign">-</span>{pair[0] if pair else text(line[1:])}\n</del>'
        for line, pair in zip(added, pairs, strict=False):
            yield _added(pair[1] if pair else text(line[1:]))


def _run(lines: list[str], at: int, sign: str) -> list[str]:
    end = at
    while end < len(lines) and lines[end].startswith(sign):
        end += 1
    return lines[at:end]


def _added(inside: str) -> str:
    return f'<ins><span class="sign">+</span>{inside}\n</ins>'


def _kept(line: str) -> str:
    return f'<span class="kept"><span class="sign"> </span>{text(line[1:])}\n</span>'


def _words(old: str, new: str) -> tuple[str, str] | None:
    """Both lines with the words marked that differ, or None if they have too little in common."""
    if max(len(old), len(new)) > MAX_LINE:
        return None
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < MIN_ALIKE:
        return None
    was, now = "", ""
    for what, start, end, new_start, new_end in matcher.get_opcodes():
        gone, come = "".join(before[start:end]), "".join(after[new_start:new_end])
        if what == "equal":
            was += text(gone)
            now += text(come)
        else:
            was += f"<b>{text(gone)}</b>" if gone else ""
            now += f"<b>{text(come)}</b>" if come else ""
    return was, now
