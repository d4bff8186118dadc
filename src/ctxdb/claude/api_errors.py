"""What the text of a failed request says: `API Error: 529 {"type":"error","error":{...}}`."""

from __future__ import annotations

import re

_LOOKED_AT = 4_000  # characters; the rest of a longer text is the answer of a proxy
_STATUS = re.compile(r"API Error:?\s*\(?(\d{3})\b")
_KIND = re.compile(r"\b([a-z]+(?:_[a-z]+)*_error)\b")
_GENERAL = "api_error"  # also the type of the object around the kind in some answers


def error_in_text(text: str | None) -> dict[str, int | str] | None:
    """Status and kind that the text of a failure names; None if it is not the text of one."""
    if text is None or not text.lstrip().startswith("API Error"):
        return None
    text = text[:_LOOKED_AT]
    found: dict[str, int | str] = {}
    if status := _STATUS.search(text):
        found["status"] = int(status[1])
    kinds = _KIND.findall(text)
    if kinds:
        found["kind"] = next((kind for kind in kinds if kind != _GENERAL), _GENERAL)
    return found
