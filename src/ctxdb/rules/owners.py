"""Which line owns an entry that several lines repeat, and by what an entry is known.

The owner's line fills the row in messages; every other line is a row in message_copies. The order
follows from the lines alone, never from the order in which they were read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ctxdb.rows import Message, MessageCopy

WRAPPED, FORKED, FOREIGN, BACKGROUND = 8, 4, 2, 1  # what counts against a line as the owner


def is_uuid(text: str) -> bool:
    """Other ids repeat between sessions, so they are unique within their session only."""
    return len(text) == 36 and text[8] == text[13] == text[18] == text[23] == "-"


def entry_key(uuid: str, session_id: str | None) -> str:
    """What an entry is known by."""
    return uuid if is_uuid(uuid) else f"{session_id}|{uuid}"


def line_key(file_session: str | None, line_hash: int | None, nth: int | None) -> str:
    """What an entry without uuid is known by: its file's session, its bytes, equal ones before."""
    return f"line {file_session} {line_hash} {nth}"


def owner_flags(message: Message) -> int:
    """What counts against a line as the owner of its entry."""
    flags = 0 if message.session_id == message.file_session else FOREIGN
    if message.is_wrapped:
        flags |= WRAPPED
    if message.forked_from or message.forked_session:
        flags |= FORKED
    if message.is_background:
        flags |= BACKGROUND
    return flags


class LineRank(NamedTuple):
    """What of the order of owners the line itself decides; the smallest owns the entry.

    An agent's own file comes before an agent_progress line that wraps the same entry; then a line
    without forkedFrom; a line in its own session's file; the earliest; one that is not of a
    background session; one with more blocks.
    """

    flags: int
    timestamp: str
    background: int
    fewer_blocks: int


def line_rank(place: Message | MessageCopy) -> LineRank:
    """The rank of a line among the lines of its entry."""
    blocks = place.block_keys.count(" ") if place.block_keys else 0
    flags = place.owner_flags
    return LineRank(flags & ~BACKGROUND, place.timestamp or "~", flags & BACKGROUND, -blocks)


class SessionRank(NamedTuple):
    """The order of sessions that share entries: the smallest owns them.

    A session whose earliest unshared entry is earlier comes first, one with none before it.
    """

    has_unshared: bool
    first_unshared_at: str
    session_id: str


def session_rank(session_id: str | None, first_unshared_at: str | None) -> SessionRank:
    """The rank of a session."""
    return SessionRank(first_unshared_at is not None, first_unshared_at or "", session_id or "")


class FileRank(NamedTuple):
    """The order of files that hold an entry: main transcripts first, then by path.

    Of files with one path, that of this machine comes first.
    """

    is_agents: bool
    path: str
    machine: str = ""
