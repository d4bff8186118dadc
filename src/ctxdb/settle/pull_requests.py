"""Pull requests of a session: those its tools made, and others that its pr-link entries name."""

from __future__ import annotations

import sqlite3

from ctxdb.claude.names import PULL_REQUEST_LINK
from ctxdb.claude.stored_data import PullRequest, linked_pull_request
from ctxdb.rows import GitOperation
from ctxdb.settle.turns import last_turn, last_turn_by_time
from ctxdb.store.insert import insert


def refresh_pull_requests(conn: sqlite3.Connection, sessions: set[str]) -> None:
    """Write one row for each linked pull request that no tool reports. Links are often repeated."""
    for session_id in sorted(sessions):
        made: dict[int | None, set[str | None]] = {}
        for number, url in conn.execute(
            "SELECT pr_number, pr_url FROM git_operations"
            " WHERE session_id = ? AND kind = 'pr' AND tool_id IS NOT NULL",
            (session_id,),
        ):
            made.setdefault(number, set()).add(url)
        conn.execute(
            "DELETE FROM git_operations WHERE session_id = ? AND kind = 'pr' AND tool_id IS NULL",
            (session_id,),
        )
        linked: dict[PullRequest, tuple[str, int | None]] = {}
        for data, at, file_id, start, is_there in conn.execute(
            "SELECT data, timestamp, source_file_id, byte_start, byte_length > 0 FROM events"
            # + keeps to the session's index: that of times would go over the links of all sessions.
            " WHERE session_id = ? AND type = ? ORDER BY +timestamp, byte_start",
            (session_id, PULL_REQUEST_LINK),
        ).fetchall():
            pull = linked_pull_request(data)
            if pull is None or pull in linked or _is_made(pull, made):
                continue
            if is_there:
                linked[pull] = (at, last_turn(conn, file_id, session_id, start))
            else:
                linked[pull] = (at, last_turn_by_time(conn, session_id, at))
        insert(
            conn,
            GitOperation,
            [
                GitOperation(
                    session_id=session_id,
                    turn_id=turn_id,
                    kind="pr",
                    pr_number=number,
                    pr_url=url,
                    source="link",
                    timestamp=at,
                )
                for (number, url), (at, turn_id) in linked.items()
            ],
        )


def _is_made(pull: PullRequest, made: dict[int | None, set[str | None]]) -> bool:
    """Whether a tool has reported it: by number, and by address where both have one."""
    number, url = pull
    addresses = made.get(number)
    if addresses is None:
        return False
    return url is None or None in addresses or url in addresses
