"""Versions of Claude Code."""

from __future__ import annotations

import re

NEWEST_TESTED = "2.1.280"  # its transcripts are in the tests
_NUMBERS = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})\Z")


def version_key(text: str) -> tuple[int, ...]:
    """For comparing versions; () for a text that is no version."""
    found = _NUMBERS.match(text)
    return tuple(map(int, found.groups())) if found else ()
