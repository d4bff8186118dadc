"""What a tool call was given, as a person reads it: an edit is shown as a diff."""

from __future__ import annotations

import json
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from ctxdb.session.json_values import json_value

if TYPE_CHECKING:
    from collections.abc import Iterator

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
            found = [CallInput(name, _as_text(value)) for name, value in _without_edits(fields)]
            found = [one for one in found if not _is_title(call, one.text)]
            return found + list(_edits(fields))
    except RecursionError:
        pass
    return [CallInput("", call.input or "")]


def _is_title(call: Call, text: str) -> bool:
    is_line = "\n" not in text and 0 < len(call.target) < SHORT_TARGET
    return is_line and f"/{text}".endswith(f"/{call.target}")


def _without_edits(fields: dict[str, object]) -> Iterator[tuple[str, object]]:
    left_out = {"replace_all"} if fields.get("replace_all") is False else set()
    if _is_edit(fields):
        left_out |= {"old_string", "new_string"}
    edits = fields.get("edits")
    if isinstance(edits, list) and edits and all(map(_is_edit, edits)):
        left_out.add("edits")
    return ((name, value) for name, value in fields.items() if name not in left_out)


def _edits(fields: dict[str, object]) -> Iterator[CallInput]:
    edits = fields.get("edits")
    for one in (fields, *(edits if isinstance(edits, list) else ())):
        if _is_edit(one):
            text = line_diff(one["old_string"], one["new_string"])
            yield CallInput("change", text, is_diff=True)


def _is_edit(value: object) -> TypeGuard[dict[str, str]]:
    return (
        isinstance(value, dict)
        and isinstance(value.get("old_string"), str)
        and isinstance(value.get("new_string"), str)
    )


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
