"""Everything specific to Claude Code: folders, entries, blocks, tools, side files. Pure.

`read_entry` is loaded when it is first asked for: the check for new lines before a query needs only
`layout`, and loading the rest takes 30 ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctxdb.claude.entries import read_entry

__all__ = ["read_entry"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ctxdb.claude import entries

    return getattr(entries, name)
