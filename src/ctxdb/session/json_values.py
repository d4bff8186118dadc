"""Parse JSON that came from a transcript, which may be invalid or too deep."""

from __future__ import annotations

import json
from typing import Any


def json_value(text: str | bytes | None) -> Any:
    """The value, or None if the text cannot be parsed."""
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return None


def json_object(text: str | bytes | None) -> dict[str, Any]:
    """The object, or an empty one if the text is anything else."""
    found = json_value(text)
    return found if isinstance(found, dict) else {}
