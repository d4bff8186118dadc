"""How long Claude Code keeps transcripts: one key of its settings, and nothing else of them."""

from __future__ import annotations

import os
from collections.abc import Iterable

import orjson

from ctxdb.files.identity import open_regular, pread

SETTINGS_NAME = "settings.json"  # in the folder that holds `projects`
CLEANUP_KEY = "cleanupPeriodDays"
DEFAULT_DAYS = 30
MAX_BYTES = 4 << 20
MAX_DAYS = 365_000  # some people write a very large number to keep everything


def cleanup_days(claude_dirs: Iterable[str]) -> int:
    """After how many days Claude Code deletes a transcript; the least if the folders differ."""
    return min(map(_days_of, claude_dirs), default=DEFAULT_DAYS)


def _days_of(folder: str) -> int:
    try:
        fd = open_regular(os.path.join(folder, SETTINGS_NAME))
    except OSError:
        return DEFAULT_DAYS
    try:
        found = orjson.loads(pread(fd, MAX_BYTES, 0))
    except (OSError, orjson.JSONDecodeError):
        return DEFAULT_DAYS
    finally:
        os.close(fd)
    days = found.get(CLEANUP_KEY) if isinstance(found, dict) else None
    if isinstance(days, bool) or not isinstance(days, int | float) or not 0 <= days < float("inf"):
        return DEFAULT_DAYS
    return min(int(days), MAX_DAYS)
