"""tool_uses.result_data: what toolUseResult says that neither a column nor the text has."""

from __future__ import annotations

from typing import Any

from ctxdb.claude.known_keys import RESULT_DATA, TOOL_RESULTS, in_place
from ctxdb.claude.values import dump, shrink

LONG_STDERR = 16_000  # characters; of a longer one only the size is kept

# Most results have these two, but seldom say anything with them.
_SELDOM = frozenset(("stderr", "userModified"))
_KEPT = frozenset().union(*(in_place(keys, RESULT_DATA) for keys in TOOL_RESULTS.values()))
_KEPT -= _SELDOM


def result_data(detail: dict[str, Any], text: str) -> str | None:
    """JSON of what a result says besides its text; None if that is nothing."""
    kept: dict[str, Any] = {}
    if not _KEPT.isdisjoint(detail):
        kept = {
            key: shrink(value)
            for key, value in detail.items()
            if key in _KEPT and (value or type(value) is int)
        }
    stderr = detail.get("stderr")
    if stderr and type(stderr) is str and stderr.strip() not in text:
        kept["stderr"] = shrink(stderr, LONG_STDERR)
    if detail.get("userModified") is True:
        kept["userModified"] = True
    return dump(kept) if kept else None


def server_result_text(content: Any) -> str:
    """The result of a call that ran on the server: of what is encrypted, only its size and kind."""
    items = content if type(content) is list else [content]
    return "\n\n".join(part for item in items if (part := _server_part(item)))


def _server_part(item: Any) -> str:
    if type(item) is not dict:
        return "" if item is None else item if type(item) is str else dump(item)
    encrypted = {key: value for key, value in item.items() if key.startswith("encrypted")}
    said = [item[key] for key in ("title", "url", "text") if type(item.get(key)) is str]
    if encrypted:
        size = sum(len(value) if type(value) is str else 0 for value in encrypted.values())
        said.append(f"[{item.get('type') or 'result'}, {size} bytes encrypted]")
    return "\n".join(said) if said else dump(shrink(item))
