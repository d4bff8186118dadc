"""Sidechains of version 1.0 whose root is elsewhere: found when the lines between have come.

Such a line is of the agent of its parent, and of an agent of its own if it has none. Its parent may
come later, from another file. Then the line is read again and fills its row again.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ctxdb.rows import Message
from ctxdb.store.insert import load
from ctxdb.store.lookup import first_column, look_up

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

MAX_LINES = 100_000  # of one batch that are named again: a loop in damaged data must end
_PREFIX = "side-"  # of the names that rules/parent_chain.py makes
_IN_SIDECHAINS = (
    "SELECT m.id FROM j CROSS JOIN messages m ON m.id = j.value"
    " WHERE m.is_sidechain = 1 AND m.agent_id GLOB 'side-*' ORDER BY m.id"
)
_BELOW = "SELECT id FROM messages WHERE agent_id = ? AND parent_uuid = ? AND is_sidechain = 1"


def name_again(
    conn: sqlite3.Connection,
    filled: Iterable[Message],
    hung: set[int],
    reread: Callable[[int, int, int], Message | None],
    replace: Callable[[Message], None],
) -> None:
    """Name the sidechain lines again whose parent has come after them, and all below them.

    `filled` are the lines of the batch that own their rows, `hung` the messages that have got a
    parent with it.
    """
    waiting = deque([*_named_too_early(filled), *first_column(look_up(conn, hung, _IN_SIDECHAINS))])
    for _ in range(MAX_LINES):
        if not waiting:
            return
        row = next(iter(load(conn, Message, "WHERE t.id = ?", (waiting.popleft(),))), None)
        if row is None:
            continue
        message = reread(row.source_file_id, row.byte_start, row.byte_length)
        if message is None or message.agent_id == row.agent_id:
            continue
        message.id, message.nth, message.parent_uuid = row.id, row.nth, row.parent_uuid
        replace(message)
        waiting.extend(first_column(conn.execute(_BELOW, (row.agent_id, row.uuid)).fetchall()))


def _named_too_early(filled: Iterable[Message]) -> list[int]:
    """Lines of a batch that were named before a parent in the same batch."""
    named = {message.uuid: message for message in filled if message.uuid is not None}
    found: list[int] = []
    for message in named.values():
        parent = named.get(message.parent_uuid or "")
        if parent is None or not message.is_sidechain:
            continue
        if message.agent_id is None or not message.agent_id.startswith(_PREFIX):
            continue
        of = parent.agent_id if parent.is_sidechain else f"{_PREFIX}{message.uuid}"
        if message.agent_id != of:
            found.append(message.id)
    return found
