"""What the lines of one file say about the sessions that they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.rows import SessionFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctxdb.rows import Message


def sessions_seen(messages: Iterable[Message]) -> list[SessionFile]:
    """One row per session that these lines of one file belong to."""
    seen: dict[str, SessionFile] = {}
    for message in messages:
        session_id = message.session_id
        if session_id is None:
            continue
        row = seen.get(session_id)
        if row is None:
            row = seen[session_id] = SessionFile(session_id)
        _see(row, message)
        if message.is_new:
            _see_own(row, message)
    return list(seen.values())


def _see(row: SessionFile, message: Message) -> None:
    """What any line says, a copied one too."""
    if message.slug:
        row.slug = message.slug
    if message.entrypoint:
        row.entrypoint = message.entrypoint
    if message.forked_session:
        row.forked_session = message.forked_session
    if message.agent_id is None:
        if message.process_session and row.process_session is None:
            row.process_session = message.process_session
        if message.type == "user":
            if row.first_user_at is None:
                row.first_user_at = message.byte_start
            row.last_user_at = message.byte_start


def _see_own(row: SessionFile, message: Message) -> None:
    """What only a line says that owns its entry."""
    if message.agent_id is None:
        row.main_lines = 1
        if row.first_cwd is None:
            row.first_cwd = message.cwd
    elif row.agent_cwd is None:
        row.agent_cwd = message.cwd
    if message.git_branch:
        row.git_branch = message.git_branch
    if message.version:
        row.version = message.version
    at = message.timestamp
    if at is not None:
        if row.first_at is None or row.last_at is None:
            row.first_at = row.last_at = at
        elif at < row.first_at:
            row.first_at = at
        elif at > row.last_at:
            row.last_at = at
