"""The code blocks of README.md and docs/*.md, and which of them are to be run.

A block that is not run has a comment before it: `<!-- not run: the reason -->`. What cog writes
between `[[[cog` and `[[[end]]]` is compared by `make lint`; it needs no run here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

CHECKOUT = Path(__file__).resolve().parents[1]
PAGES = (CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md")))
SHELL = ("sh", "console")
_NOT_RUN = re.compile(r"<!--\s*not run:\s*(\S.*?)\s*-->\s*\Z", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One block of code."""

    page: str
    line: int
    language: str
    text: str
    is_fenced: bool
    is_generated: bool  # by cog
    not_run: str  # the reason

    @property
    def where(self) -> str:
        """Page and line."""
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """The commands of a shell block, without the `$` of a console."""
        whole = self.text.replace("\\\n", "")
        lines = [line.strip() for line in whole.splitlines()]
        if self.language == "console":
            return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return [line for line in lines if line and not line.startswith("#")]


def blocks_of(page: Path) -> list[Block]:
    """All blocks of a page, in order."""
    found = []
    is_generated = False
    before = ""
    for token in MarkdownIt("commonmark", {"html": True}).parse(page.read_text()):
        if token.type == "html_block":
            before = token.content
            if "[[[cog" in before:
                is_generated = True
            if "[[[end]]]" in before:
                is_generated = False
        elif token.type in ("fence", "code_block"):
            reason = _NOT_RUN.search(before)
            first, _ = token.map or (0, 0)
            found.append(
                Block(
                    page.name,
                    first + 1,
                    token.info.strip(),
                    token.content,
                    is_fenced=token.type == "fence",
                    is_generated=is_generated,
                    not_run=reason[1] if reason else "",
                )
            )
            before = ""
        elif token.content:
            before = ""
    return found
