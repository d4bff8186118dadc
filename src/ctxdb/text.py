"""Text from transcripts made fit for a terminal: it is shown, it steers nothing."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return text for one line of a terminal: what could move the cursor or hide is spelt out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
