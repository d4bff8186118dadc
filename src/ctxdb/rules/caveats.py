"""Which request a caveat belongs to.

Claude Code writes a caveat before a command that runs on its own machine. In time and in meaning it
is part of that command, which comes next and names the caveat as its parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Child(NamedTuple):
    """A line that names a parent; lines compare in reading order."""

    file_rank: int
    byte_start: int
    message_id: int
    parent_uuid: str
    uuid: str | None
    turn_id: int | None


def turns_of_caveats(caveats: Iterable[str], children: Iterable[Child]) -> Mapping[str, int | None]:
    """The turn of each caveat, by uuid: that of the first line which names it as its parent.

    None while there is no such line. The line may be a caveat itself, which precedes another.
    """
    first: dict[str, Child] = {}
    for child in children:
        known = first.get(child.parent_uuid)
        if known is None or child < known:
            first[child.parent_uuid] = child
    found: dict[str, int | None] = {}
    wanted = set(caveats)
    for caveat in wanted:
        path = [caveat]
        turn_id: int | None = None
        while (child := first.get(path[-1])) is not None:  # type: ignore[assignment]
            uuid = child.uuid
            if uuid is None or uuid not in wanted:
                turn_id = child.turn_id
                break
            if uuid in found:
                turn_id = found[uuid]
                break
            if uuid in path:
                break  # a loop in damaged data
            path.append(uuid)
        found.update(dict.fromkeys(path, turn_id))
    return found
