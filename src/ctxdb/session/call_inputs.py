"""What a tool call was given, as a person reads it: an edit is shown as a diff."""

from __future__ import annotations

import json
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.claude.stored_data import json_value, readable_input

if TYPE_CHECKING:
    from ctxdb.session.conversation import Call

SHORT_TARGET = 60  # characters of a target that every format shows completely
# Lines of the old text times lines of the new one. Above this a comparison takes too long.
MAX_PAIRS = 1_000_000


class CallInput(NamedTuple):
    """One value that a call was given."""

    name: str  # empty if the input is not an object
    text: str
    is_diff: bool = False  # the text is a diff, each line behind its sign


def inputs_of(call: Call) -> list[CallInput]:
    """What a call was given, without what its title shows already."""
    fields = json_value(call.input or "{}")
    try:
        if isinstance(fields, dict):
            rest, edits = readable_input(fields)
            found = [CallInput(name, _as_text(value)) for name, value in rest.items()]
            found = [one for one in found if not _is_title(call, one.text)]
            return found + [CallInput("change", line_diff(*edit), is_diff=True) for edit in edits]
    except RecursionError:
        pass
    return [CallInput("", call.input or "")]


def _is_title(call: Call, text: str) -> bool:
    is_line = "\n" not in text and 0 < len(call.target) < SHORT_TARGET
    return is_line and f"/{text}".endswith(f"/{call.target}")


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def line_diff(old: str, new: str) -> str:
    """All lines of both texts, each behind a sign: ``-`` removed, ``+`` added, a space for kept."""
    before, after = _lines(old), _lines(new)
    if len(before) * len(after) > MAX_PAIRS:
        return "\n".join([*(f"-{line}" for line in before), *(f"+{line}" for line in after)])
    found: list[str] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for what, start, end, new_start, new_end in matcher.get_opcodes():
        if what == "equal":
            found += (f" {line}" for line in before[start:end])
        else:
            found += (f"-{line}" for line in before[start:end])
            found += (f"+{line}" for line in after[new_start:new_end])
    return "\n".join(found)


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines
