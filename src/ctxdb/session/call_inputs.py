"""What an edit changes, line by line: easier to read than the old text and then the new one."""

from __future__ import annotations

from difflib import SequenceMatcher

# Lines of one times lines of the other: beyond this a comparison is not worth its time.
MAX_PAIRS = 1_000_000


def diff(old: str, new: str) -> str:
    """All lines of both, each behind a sign: ``-`` taken out, ``+`` put in, a space for neither."""
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
