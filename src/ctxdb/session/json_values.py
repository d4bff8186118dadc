"""JSON from the database, which came from a transcript: it may be anything, of any depth."""

from __future__ import annotations

import json
from typing import Any


def parsed(text: str | bytes | None) -> Any:
    """The value, None where there is none to be had."""
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return None


def parsed_object(text: str | bytes | None) -> dict[str, Any]:
    """The object, an empty one for anything else."""
    found = parsed(text)
    return found if isinstance(found, dict) else {}
