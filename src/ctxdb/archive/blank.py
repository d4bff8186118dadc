"""Lines of a file that are not kept: blanks of the same length are archived in their place.

So every other byte is where it was. history.jsonl has the prompts of all sessions, also of those
that were forgotten and of ignored projects.
"""

from __future__ import annotations

from collections.abc import Callable

LeftOut = Callable[[bytes], bool]  # whether a line must not be kept


def blank(data: bytes, is_left_out: LeftOut) -> bytes:
    """The same bytes with blanks in place of the lines that are left out."""
    lines = data.split(b"\n")
    return b"\n".join(b" " * len(one) if one and is_left_out(one) else one for one in lines)


def is_blanked(archived: bytes, source: bytes) -> bool:
    """Whether archived bytes are these, but for lines that are blank."""
    if archived == source:
        return True
    ours, theirs = archived.split(b"\n"), source.split(b"\n")
    return len(ours) == len(theirs) and all(
        one == other or (len(one) == len(other) and not one.strip())
        for one, other in zip(ours, theirs, strict=True)
    )
