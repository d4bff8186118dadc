"""Rows of messages: how a placed line becomes one, and all that hangs on it."""

from __future__ import annotations

import sqlite3
from operator import attrgetter
from typing import Any

from ctxdb.claude import Call, Result
from ctxdb.settle import agents, requests
from ctxdb.settle.calls import ToolJoin, located
from ctxdb.settle.snapshots import project_of
from ctxdb.store.chunk import Placed, Touched, owner_flags

# What the line alone decides; records have attributes of the same names.
SAID_BY_LINE = (
    "uuid",
    "type",
    "subtype",
    "kind",
    "timestamp",
    "model",
    "api_message_id",
    "request_id",
    "stop_reason",
    "text",
    "thinking",
    "is_sidechain",
    "cwd",
    "git_branch",
    "data",
    "block_keys",
)
MESSAGE_COLUMNS = (  # after id, source_file_id and turn_id: see line_values
    "session_id",
    "agent_id",
    "parent_uuid",
    "version",
    "owner_flags",
    "byte_start",
    "byte_length",
    *SAID_BY_LINE,
    "line_hash",
    "nth",
)
_INSERT_MESSAGE = (
    f"INSERT INTO messages (id, source_file_id, turn_id, {', '.join(MESSAGE_COLUMNS)})"
    f" VALUES ({', '.join('?' * (3 + len(MESSAGE_COLUMNS)))})"
)
_UPDATE_MESSAGE = (
    "UPDATE messages SET source_file_id = ?, turn_id = ?,"
    f" {', '.join(f'{column} = ?' for column in MESSAGE_COLUMNS)} WHERE id = ?"
)


_said_by_line = attrgetter("start", "length", *SAID_BY_LINE)


def line_values(placed: Placed) -> tuple[Any, ...]:
    """The values of MESSAGE_COLUMNS."""
    rec = placed.rec
    return (
        placed.session_id,
        placed.agent_id,
        placed.parent_uuid,
        rec.version or None,
        owner_flags(rec, placed.session_id, placed.file),
        *_said_by_line(rec),
        rec.line_hash,
        placed.nth,
    )


class MessageRows:
    """Writes messages with their tool calls and results, usage, mentions and facts of agents."""

    def __init__(self, conn: sqlite3.Connection, touched: Touched) -> None:
        self.conn = conn
        self.touched = touched
        (last,) = conn.execute("SELECT max(id) FROM messages").fetchone()
        self.next_id = (last or 0) + 1
        (last,) = conn.execute("SELECT max(id) FROM tool_uses").fetchone()
        self.tools = ToolJoin(conn, (last or 0) + 1, touched)
        self.filled: list[Placed] = []  # lines that fill a row
        self.replaced: set[int] = set()  # rows that have changed hands

    def number(self, items: list[Placed]) -> None:
        """Give new messages their ids, in reading order."""
        for n, item in enumerate(items, self.next_id):
            item.id = n
        self.next_id += len(items)

    def insert(self, items: list[Placed]) -> None:
        """New rows, and their full text in the same transaction."""
        if not items:
            return
        self.filled += items
        self.conn.executemany(
            _INSERT_MESSAGE,
            [(item.id, item.file.id, item.turn_id, *line_values(item)) for item in items],
        )
        self.conn.execute(
            "INSERT INTO messages_fts (rowid, text, thinking) SELECT id, text, thinking"
            " FROM messages WHERE id >= ?",
            (items[0].id,),
        )

    def insert_parts(self, items: list[Placed]) -> None:
        """What hangs on new messages."""
        self._join_tools(items)
        requests.add_new(self.conn, items, self.touched)

    def update(self, item: Placed) -> None:
        """Fill an existing row, and all that hangs on it, from another line."""
        self.leave(item.id)
        values = (item.file.id, item.turn_id, *line_values(item))
        self.conn.execute(_UPDATE_MESSAGE, (*values, item.id))
        self.filled.append(item)
        self.replaced.add(item.id)
        requests.drop_lines(self.conn, item.id, self.touched)
        agents.drop_facts(self.conn, item.id, self.touched, (item.session_id, item.id))
        self.conn.execute("DELETE FROM files_touched WHERE message_id = ?", (item.id,))
        self._join_tools([item])
        requests.add_lines(self.conn, requests.line_rows(item), self.touched)

    def leave(self, message_id: int) -> None:
        """Note what a message belonged to, before it changes hands or goes."""
        turn_id, session_id, agent_id = self.conn.execute(
            "SELECT turn_id, session_id, agent_id FROM messages WHERE id = ?", (message_id,)
        ).fetchone()
        if turn_id is not None:
            self.touched.turns.add(turn_id)
        if session_id is not None and agent_id is not None:
            self.touched.agents.add((session_id, agent_id))
        self.touched.tellings.update(
            tool_use_id
            for (tool_use_id,) in self.conn.execute(
                "SELECT tool_use_id FROM _tellings WHERE message_id = ?1 UNION"
                " SELECT o.tool_use_id FROM tool_uses t JOIN _tellings o"
                "  ON o.tool_use_id = t.tool_use_id"
                "  WHERE t.message_id = ?1 OR t.result_message_id = ?1",
                (message_id,),
            )
        )

    def _join_tools(self, items: list[Placed]) -> None:
        speaking: list[tuple[Placed, Call | None, Result | None]] = []
        for item in items:
            rec = item.rec
            speaking += [(item, call, None) for call in rec.calls or ()]
            speaking += [(item, None, result) for result in rec.results or ()]
            if rec.mentions:
                self.mention(item, rec.mentions)
            if rec.facts:
                agents.add_facts(self.conn, item.session_id, rec.facts, item.id, self.touched)
            if item.agent_id is not None and item.session_id is not None:
                self.touched.agents.add((item.session_id, item.agent_id))
        self.join(speaking)

    def join(self, speaking: list[tuple[Placed, Call | None, Result | None]]) -> None:
        """Join calls and results with each other and with what is stored."""
        ids = {call.tool_use_id for _, call, _ in speaking if call is not None}
        ids.update(result.tool_use_id for _, _, result in speaking if result is not None)
        self.tools.load(ids)
        for item, call, result in speaking:
            if call is not None:
                self.tools.add_call(call, item)
            if result is not None:
                self.tools.add_result(result, item)
        self.tools.write()

    def mention(self, item: Placed, paths: list[str]) -> None:
        """Files that a person has named."""
        project = project_of(self.conn, item.session_id)
        for path in paths:
            self.conn.execute(
                "INSERT INTO files_touched (session_id, agent_id, turn_id, path, operation,"
                " succeeded, timestamp, message_id, project_id, relative_path)"
                " VALUES (?, ?, ?, ?, 'mention', 1, ?, ?, ?, ?)",
                (
                    item.session_id,
                    item.agent_id,
                    item.turn_id,
                    path,
                    item.rec.timestamp,
                    item.id,
                    *located(path, project),
                ),
            )
