"""Split the Markdown that the model writes into text and code.

This works line by line. A fence counts at any indent, also in a list. A fence that is never closed
ends with the text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Colours and other text attributes that a program printed. They are removed. The code that prints
# the text makes any other escape sequence visible.
_GRAPHICS = re.compile(r"\x1b\[[0-9;:]*m")
_FENCE = re.compile(r"^(\s*(?:>\s*|(?:[-*+]|\d{1,9}[.)])\s+)*)(?:(`{3,})([^`]*)|(~{3,})(.*))$")


class Block(NamedTuple):
    """A run of text, or of code in a language."""

    text: str
    is_code: bool = False
    language: str = ""
    lead: str = ""  # of code: what came before its fence, such as the bullet of a list


def without_graphics(text: str) -> str:
    """Remove colours and other text attributes."""
    return _GRAPHICS.sub("", text) if "\x1b" in text else text


def blocks(text: str) -> list[Block]:
    """Split a text into blocks of text and of code."""
    found: list[Block] = []
    text_lines: list[str] = []
    lines = text.replace("\r\n", "\n").split("\n")
    at = 0
    while at < len(lines):
        fence = opens_fence(lines[at])
        if fence is None:
            text_lines.append(lines[at])
            at += 1
            continue
        if any(line.strip() for line in text_lines):
            found.append(Block("\n".join(text_lines).strip("\n")))
        text_lines = []
        code, at = _code(lines, at, fence)
        found.append(code)
    if any(line.strip() for line in text_lines):
        found.append(Block("\n".join(text_lines).strip("\n")))
    return found


def _code(lines: list[str], at: int, fence: re.Match[str]) -> tuple[Block, int]:
    lead, ticks, after_ticks, waves, after_waves = fence.groups()
    mark, language = (ticks, after_ticks) if ticks else (waves, after_waves)
    indent = len(lead)
    code: list[str] = []
    at += 1
    while at < len(lines):
        line = lines[at]
        bare = line.strip()
        at += 1
        if len(bare) >= len(mark) and set(bare) == {mark[0]}:
            break
        # Code in a list has the indent of the list.
        blank = len(line) - len(line.lstrip(" "))
        code.append(line[min(blank, indent) :])
    return Block("\n".join(code), True, language.strip()[:40], lead.strip()), at


def opens_fence(line: str) -> re.Match[str] | None:
    """The match if this line opens a fence; its first group is what comes before the fence."""
    return _FENCE.match(line)


def fence_for(text: str) -> str:
    """A fence that is longer than any in the text."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    return "`" * max(3, longest + 1)
