"""From a parsed entry to typed records: pure functions, no database, no clock."""

from __future__ import annotations

from ctxdb.claude.entries import normalize
from ctxdb.claude.records import Call, Event, Fact, Message, Record, Result, Skip, pack, unpack

__all__ = [
    "Call",
    "Event",
    "Fact",
    "Message",
    "Record",
    "Result",
    "Skip",
    "normalize",
    "pack",
    "unpack",
]
