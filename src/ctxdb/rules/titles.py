"""What to call a session, in one line."""

from __future__ import annotations

MAX_TITLE = 120  # characters: a line of a wide terminal


def one_line(text: str) -> str:
    """The text in one line of at most MAX_TITLE characters, cut where a word ends."""
    line = " ".join(text.split(None, MAX_TITLE)[:MAX_TITLE])
    if len(line) <= MAX_TITLE:
        return line
    cut = line.rfind(" ", 0, MAX_TITLE + 1)
    return line[: cut if cut > 0 else MAX_TITLE]


def first_line(text: str) -> str:
    """The first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
