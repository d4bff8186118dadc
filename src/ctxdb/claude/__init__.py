"""Everything that is specific to Claude Code's files: names, entries, blocks, tools, sidecars.

The names below are loaded when they are first asked for. The check for new lines before a query
needs only `layout`, and loading the rest takes 30 ms.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "entries" if name == "normalize" else "records"
    return getattr(import_module(f"{__name__}.{module}"), name)
