"""The model writes Markdown: text and code told apart, for formats that show it.

Only what can be told line by line. A fence is a fence wherever it stands, also in a list, and one
that is never closed ends with the text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Colours and other graphics that a program printed. They are left out where text is read; any
# other escape sequence is spelt out by whoever prints it.
_GRAPHICS = re.compile(r"\x1b\[[0-9;:]*m")
_FENCE = re.compile(r"^(\s*(?:>\s*|(?:[-*+]|\d{1,9}[.)])\s+)*)(?:(`{3,})([^`]*)|(~{3,})(.*))$")


class Block(NamedTuple):
    """A stretch of text, or of code in a language."""

    text: str
    is_code: bool = False
    language: str = ""
    lead: str = ""  # of code: what stood before its fence, such as the bullet of a list


def without_graphics(text: str) -> str:
    """Leave out colours."""
    return _GRAPHICS.sub("", text) if "\x1b" in text else text


def blocks(text: str) -> list[Block]:
    """Split a text into prose and code."""
    found: list[Block] = []
    prose: list[str] = []
    lines = text.replace("\r\n", "\n").split("\n")
    at = 0
    while at < len(lines):
        fence = opens_fence(lines[at])
        if fence is None:
            prose.append(lines[at])
            at += 1
            continue
        if any(line.strip() for line in prose):
            found.append(Block("\n".join(prose).strip("\n")))
        prose = []
        code, at = _code(lines, at, fence)
        found.append(code)
    if any(line.strip() for line in prose):
        found.append(Block("\n".join(prose).strip("\n")))
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
        # Code in a list is indented as the list is.
        blank = len(line) - len(line.lstrip(" "))
        code.append(line[min(blank, indent) :])
    return Block("\n".join(code), True, language.strip()[:40], lead.strip()), at


def opens_fence(line: str) -> re.Match[str] | None:
    """Whether code begins below this line; the match ends its first part before the fence."""
    return _FENCE.match(line)


def fence_for(text: str) -> str:
    """A fence that nothing in the text closes."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    return "`" * max(3, longest + 1)
