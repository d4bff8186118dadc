"""Where a line says that its session ran, and which session that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ctxdb.claude.values import text_of


class LinePlace(NamedTuple):
    """What one line says; None where it says nothing."""

    session_id: str | None
    cwd: str | None


def may_say_cwd(data: bytes) -> bool:
    """Whether the bytes of a line have the key of the folder."""
    return b'"cwd"' in data


def may_say_session(data: bytes) -> bool:
    """Whether the bytes of a line have the key of the session."""
    return b'"sessionId"' in data


def place_of(entry: Mapping[str, Any]) -> LinePlace:
    """The session and the folder that a parsed line names."""
    return LinePlace(text_of(entry.get("sessionId")), text_of(entry.get("cwd")))
