"""Escape text for HTML: for an element or for an attribute in double quotes."""

from __future__ import annotations

from ctxdb.escape import safe

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


def text(value: str) -> str:
    """The text, inert: no markup, and characters that hide or turn text are shown as escapes."""
    return safe(value).translate(_ESCAPES)
