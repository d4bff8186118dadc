"""The straight way of chunks that were made ready: take their rows over, and put in the ids.

`known_files` says which of them must go the general way after all, because the database has
something to do with them: the same entries, threads, calls or events.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from ctxdb.normalize import Call, Fact, Message, Result
from ctxdb.store import agents, model_names, sessions, tally
from ctxdb.store.batch import Batch
from ctxdb.store.events import EVENT_COLUMNS, EventRows
from ctxdb.store.model import Chunk, Placed, Ready, SourceFile
from ctxdb.store.replays import Thread, threads_of
from ctxdb.store.scratch import READY_COLUMNS
from ctxdb.store.tools import (
    INSERT_FILE,
    INSERT_GIT,
    TOOL_COLUMNS,
    located,
    projects_of,
)
from ctxdb.store.usage import KNOWN_ARE_LEFT, LINE_COLUMNS, USAGE_COLUMNS

# Rows of so many batches stand beside the database before a commit, each in a place of its own:
# SQLite opens no image in the place of one that is part of the open transaction (3.40 still does).
# More places would be fewer commits, and 5 MB of memory each.
PLACES = 2


def _columns(names: tuple[str, ...]) -> str:
    return ", ".join(f"r.{name}" for name in names)


_FILE = "LEFT JOIN temp.files f ON f.task = r.file"
_TURN = "LEFT JOIN temp.slots s ON s.slot = r.slot"
# What is taken over: the rows at a place, by the number of the last message, call or event before.
_TAKE_MESSAGES = (
    f"INSERT INTO messages (id, source_file_id, turn_id, {', '.join(READY_COLUMNS)})"
    f" SELECT r.rowid + :messages, f.id, s.turn_id, {_columns(READY_COLUMNS)}"
    f" FROM {{ready}}.messages r {_FILE} {_TURN}"
)
_TAKE_TOOLS = (
    f"INSERT INTO tool_uses (id, message_id, result_message_id, turn_id, {', '.join(TOOL_COLUMNS)})"
    " SELECT r.rowid + :tools, r.message + :messages, r.result_message + :messages, s.turn_id,"
    f" {_columns(TOOL_COLUMNS)} FROM {{ready}}.tools r {_TURN}"
)
_TAKE_EVENTS = (
    f"INSERT INTO events (id, source_file_id, {', '.join(EVENT_COLUMNS)})"
    f" SELECT r.rowid + :events, f.id, {_columns(EVENT_COLUMNS)} FROM {{ready}}.events r {_FILE}"
)
_TAKE_LINES = (
    f"INSERT INTO _usage_lines (message_id, {', '.join(LINE_COLUMNS)})"
    f" SELECT r.message + :messages, {_columns(LINE_COLUMNS)} FROM {{ready}}.lines r"
)
_TAKE_USAGE = (
    f"INSERT INTO usage (turn_id, {', '.join(USAGE_COLUMNS)})"
    f" SELECT s.turn_id, {_columns(USAGE_COLUMNS)} FROM {{ready}}.usage r {_TURN}"
)
_INDEX_MESSAGES = (
    "INSERT INTO messages_fts (rowid, text, thinking)"
    " SELECT r.rowid + :messages, r.text, r.thinking FROM {ready}.messages r"
)
_INDEX_TOOLS = (
    "INSERT INTO tool_uses_fts (rowid, target, input, result_text)"
    " SELECT r.rowid + :tools, r.target, r.input, r.result_text FROM {ready}.tools r"
)


def prepare(conn: sqlite3.Connection, files: dict[int, int]) -> None:
    """Make room beside the database for the rows of a batch; files are those of the tasks."""
    for place in range(PLACES):
        conn.execute(f"ATTACH ':memory:' AS {_name(place)}")
    conn.execute("CREATE TEMP TABLE slots (slot INTEGER PRIMARY KEY, turn_id INTEGER)")
    conn.execute("CREATE TEMP TABLE files (task INTEGER PRIMARY KEY, id INTEGER)")
    conn.executemany("INSERT INTO temp.files VALUES (?, ?)", list(files.items()))


def let_go(conn: sqlite3.Connection) -> None:
    """Give that room back."""
    conn.execute("DROP TABLE temp.slots")
    conn.execute("DROP TABLE temp.files")
    for place in range(PLACES):
        conn.execute(f"DETACH {_name(place)}")


def _name(place: int) -> str:
    return f"ready{place}"


class Image(NamedTuple):
    """The rows of a batch, as a database."""

    rows: bytes | memoryview
    chunks: int  # of which they are


class StraightBatch(Batch):
    """A batch of chunks whose rows were made ready."""

    def take(self, chunks: list[Chunk], image: Image, place: int) -> list[Chunk]:
        """Store chunks whose rows are in an image, which may hold others that nobody wants.

        Gives back those that must go the general way. The caller has begun the transaction, in
        which nobody has looked at this place yet, and commits it.
        """
        self.ready = _name(place)
        self.conn.deserialize(image.rows, name=self.ready)
        # It is in memory as it is: SQLite need not hold its pages a second time.
        self.conn.execute(f"PRAGMA {self.ready}.cache_size = 8")
        known = known_files(self.conn, chunks, self.ready)
        wanted = [chunk for chunk in chunks if chunk.file.id not in known]
        self.where = ""
        if len(wanted) < image.chunks:
            numbers = [chunk.ready.number for chunk in wanted if chunk.ready is not None]
            self.where = f" WHERE r.chunk IN ({', '.join(map(str, numbers))})"
        self.write(wanted)
        return [chunk for chunk in chunks if chunk.file.id in known]

    def write(self, chunks: list[Chunk]) -> None:
        """Store chunks whose rows have been brought along."""
        self._prepare()
        conn, touched = self.conn, self.touched
        (last,) = conn.execute("SELECT max(id) FROM events").fetchone()
        self.before = {
            "messages": self.rows.next_id - 1,
            "tools": self.rows.tools.next_id - 1,
            "events": last or 0,
        }
        parts = [_Part(chunk, chunk.ready) for chunk in chunks if chunk.ready is not None]
        tally.note_errors(conn, chunks, self.now)
        events = EventRows(conn, touched)
        for part in parts:
            part.chunk.counts = Counter(dict(part.ready.counts))
            self._know_session(part.chunk, events)
            self._know_agent(part.chunk.file)
            events.add_ready(part.chunk, part.ready, self.before["events"])
        self.parents.learn([], [], [part.ready for part in parts])
        self._begin_turns(parts)
        self._take(_TAKE_MESSAGES)
        self._take(_INDEX_MESSAGES)
        events.write()
        self._take(_TAKE_EVENTS)
        tally.count_new(conn, chunks)
        tally.see(conn, [(part.chunk.file.id, part.ready.told) for part in parts], touched)
        # Before files are located, sessions that are new must have their project.
        sessions.know_projects(conn, touched.sessions)
        events.write_snapshots()
        self._take_tools(parts)
        self._take_usage(parts)
        self._take_rest(parts)
        self.copies.settle()
        open_ends = [
            (self.before["messages"] + n, uuid)
            for part in parts
            for n, uuid in part.ready.open_parents
        ]
        self._finish(self._found(), open_ends)
        tally.move_offsets(conn, chunks, self.now)

    def _take(self, sql: str) -> None:
        self.conn.execute(sql.format(ready=self.ready) + self.where, self.before)

    def _begin_turns(self, parts: list[_Part]) -> None:
        """Turns that begin in the batch; then the turn that each slot stands for."""
        for part in parts:
            self._begin_turns_of(part)
        self.begin.write()
        by_chunk: dict[int, list[tuple[str, int]]] = {}
        for chunk, call, slot in self.conn.execute(
            f"SELECT r.chunk, r.tool_use_id, r.slot FROM {self.ready}.tools r{self.where}"
        ):
            by_chunk.setdefault(chunk, []).append((call, slot))
        for part in parts:
            part.calls = by_chunk.get(part.number, [])
            speakers = part.speakers
            part.calls += [(c[0], speakers[n][-1]) for n, c, _ in part.ready.loose if c is not None]
            self.begin.of_calls.update(
                (call, part.turns[slot]) for call, slot in part.calls if slot in part.turns
            )
            for session_id, agent_id, call in part.ready.links:
                self.begin.links.setdefault((session_id, agent_id), call)
        # Main threads first: agents belong to the turns of the calls that started them.
        for part in parts:
            self._place_agents(part)
        self.conn.execute("DELETE FROM temp.slots")
        self.conn.executemany(
            "INSERT INTO temp.slots VALUES (?, ?)",
            [slot for part in parts for slot in part.turns.items() if slot[0]],
        )

    def _begin_turns_of(self, part: _Part) -> None:
        chunk, ready, begin = part.chunk, part.ready, self.begin
        current = begin.current.setdefault(chunk.file.id, {})
        before = {
            what[0]: current[what[0]] if what[0] in current else begin.before(chunk, what[0])
            for _, what in ready.slots
            if len(what) == 2 and what[1] is None
        }
        new: list[int] = []
        for session_id, kind, prompt, at, message, event, start in ready.turns:
            message_id = self.before["messages"] + message if message is not None else None
            event_id = self.before["events"] + event if event is not None else None
            place = (at, message_id, event_id, chunk.file.id, start)
            new.append(begin.new_turn(session_id, (kind, prompt), place))
            current[session_id] = new[-1]
        for slot, what in ready.slots:
            if len(what) == 1:
                part.turns[slot] = new[what[0] - 1]
            elif what[1] is None:
                part.turns[slot] = before[what[0]]

    def _place_agents(self, part: _Part) -> None:
        """The turns of agents, once all calls of the batch have theirs."""
        of_agents = {slot for slot, what in part.ready.slots if len(what) == 2 and what[1]}
        for slot, what in part.ready.slots:
            if slot in of_agents:
                part.turns[slot] = self.begin.of_agent(*what)
        if of_agents:
            self.begin.of_calls.update(
                (call, part.turns[slot]) for call, slot in part.calls if slot in of_agents
            )

    def _take_tools(self, parts: list[_Part]) -> None:
        """Calls with their results, and the files and git operations they show."""
        self._take(_TAKE_TOOLS)
        self._take(_INDEX_TOOLS)
        (last,) = self.conn.execute("SELECT max(id) FROM tool_uses").fetchone()
        self.rows.tools.next_id = self.rows.tools.first_new = (last or 0) + 1
        files: list[tuple[Any, ...]] = []
        git: list[tuple[Any, ...]] = []
        before = self.before["tools"]
        for part in parts:
            turns = part.turns
            files += [(before + row[0], turns[row[1] or 0], *row[2:]) for row in part.ready.files]
            git += [(before + row[0], turns[row[1] or 0], *row[2:]) for row in part.ready.git]
        projects = projects_of(self.conn, {row[3] for row in files})
        self.conn.executemany(
            INSERT_FILE, [(*row, *located(row[5], projects.get(row[3]))) for row in files]
        )
        self.conn.executemany(INSERT_GIT, git)

    def _take_usage(self, parts: list[_Part]) -> None:
        """What the messages tell of requests; those that others tell of too are summed up later."""
        requests = self.touched.requests
        for part in parts:
            requests.update(part.ready.unsure)
        where, values = self.where or " WHERE true", {}
        requests.update(
            key
            for (key,) in self.conn.execute(
                f"SELECT r.request_key FROM {self.ready}.usage r CROSS JOIN _usage_lines l"
                f" ON l.api_message_id = r.api_message_id{self.where}"
            )
        )
        if requests:
            where += " AND r.request_key NOT IN (SELECT value FROM json_each(:unsure))"
            values = {"unsure": orjson.dumps(sorted(requests)).decode()}
        take = _TAKE_USAGE.format(ready=self.ready)
        taken = self.conn.execute(f"{take}{where} {KNOWN_ARE_LEFT}", values).rowcount
        sure = f"FROM {self.ready}.usage r{where}"
        if taken < self.conn.execute(f"SELECT count(*) {sure}", values).fetchone()[0]:
            requests.update(k for (k,) in self.conn.execute(f"SELECT r.request_key {sure}", values))
        self._take(_TAKE_LINES)
        models = self.conn.execute(f"SELECT DISTINCT r.model FROM {self.ready}.lines r{self.where}")
        model_names.know(self.conn, [model for (model,) in models])

    def _take_rest(self, parts: list[_Part]) -> None:
        """All else that hangs on the messages."""
        loose: list[tuple[Placed, Call | None, Result | None]] = []
        touched = self.touched
        for part in parts:
            ready = part.ready
            touched.calls.update(ready.starting)
            touched.pulls.update(ready.pulls)
            touched.agents.update((s, a) for s, a in ready.threads if a is not None)
            for n, path in ready.mentions:
                self.rows.mention(self._item(part, n), [path])
            for n, facts in ready.facts:
                item = self._item(part, n)
                said = [Fact._make(fact) for fact in facts]
                agents.add_facts(self.conn, item.session_id, said, item.id, touched)
            for n, call, result in ready.loose:
                loose.append(
                    (
                        self._item(part, n),
                        Call._make(call) if call is not None else None,
                        Result._make(result) if result is not None else None,
                    )
                )
        self.rows.join(loose)

    def _item(self, part: _Part, n: int) -> Placed:
        """Who says something, as far as it takes to write what is said."""
        _, uuid, session_id, agent_id, at, slot = part.speakers[n]
        rec = Message(0, 0, "", "", uuid, None, None, None, at, False, None, None, False,
                      "", None, "", 0)  # fmt: skip
        file, turn_id = part.chunk.file, part.turns[slot]
        return Placed(rec, file, "", session_id, agent_id, self.before["messages"] + n, turn_id)

    def _found(self) -> list[tuple[int, str]]:
        """Messages that have waited for a parent which has come."""
        return (
            self.parents.waiting_for(set())
            + self.conn.execute(
                f"SELECT o.message_id, o.parent_uuid FROM {self.ready}.messages r"
                f" CROSS JOIN _orphans o ON o.parent_uuid = r.uuid{self.where}"
            ).fetchall()
        )


class _Part:
    """A chunk of a batch."""

    def __init__(self, chunk: Chunk, ready: Ready) -> None:
        self.chunk = chunk
        self.ready = ready
        self.number = ready.number
        self.turns: dict[int, int | None] = {0: None}  # by slot
        self.calls: list[tuple[str, int]] = []  # call, slot
        self.speakers = {row[0]: row for row in ready.speakers}


def known_files(conn: sqlite3.Connection, chunks: list[Chunk], ready: str) -> set[int]:
    """Files whose chunks, the rows of which are in `ready`, have to do with what is stored."""
    files = {chunk.ready.number: chunk.file.id for chunk in chunks if chunk.ready is not None}
    known = {
        files[n]
        for (n,) in conn.execute(
            f"SELECT r.chunk FROM {ready}.messages r CROSS JOIN messages m ON m.uuid = r.uuid"
            f" UNION SELECT r.chunk FROM {ready}.messages r CROSS JOIN message_copies c"
            "  ON c.uuid = r.uuid"
            f" UNION SELECT r.chunk FROM {ready}.messages r CROSS JOIN _aliases a"
            "  ON a.uuid = r.uuid"
            f" UNION SELECT r.chunk FROM {ready}.tools r CROSS JOIN tool_uses t"
            "  ON t.tool_use_id = r.tool_use_id"
            f" UNION SELECT r.chunk FROM {ready}.events r CROSS JOIN events e"
            "  ON e.line_hash = r.line_hash"
            "  WHERE e.file_session = r.file_session AND e.nth = r.nth"
        )
        if n in files
    }
    named = [(chunk.file, _threads(chunk)) for chunk in chunks]
    threads = _known_threads(conn, named)
    known.update(file.id for file, own in named if not threads.isdisjoint(own))
    return known


def _threads(chunk: Chunk) -> set[Thread]:
    speakers = chunk.ready.threads if chunk.ready is not None else ()
    return threads_of(speakers, in_main_file=chunk.file.agent_id is None)


def _json(values: Iterable[Any]) -> str:
    return orjson.dumps(list(values)).decode()


def _known_threads(
    conn: sqlite3.Connection, named: list[tuple[SourceFile, set[Thread]]]
) -> set[Thread]:
    """Threads of which another file holds lines: replays can be among them."""
    asked = _json({session_id for _, threads in named for session_id, _ in threads})
    own: dict[str | None, set[int]] = {}  # the files of the batch that name a session
    for file, threads in named:
        for session_id, _ in threads:
            own.setdefault(session_id, set()).add(file.id)
    found: set[Thread] = set()
    known: set[str] = set()
    for session_id, file_id, agent_id in conn.execute(
        "SELECT s.session_id, s.source_file_id, f.agent_id FROM json_each(?) j"
        " CROSS JOIN _session_files s ON s.session_id = j.value"
        " JOIN source_files f ON f.id = s.source_file_id",
        (asked,),
    ):
        known.add(session_id)
        if agent_id is None and own[session_id] != {file_id}:
            found.add((session_id, None))
    pairs = [
        (session_id, agent_id, file.id)
        for file, threads in named
        for session_id, agent_id in threads
        if agent_id is not None and session_id in known
    ]
    found.update(
        conn.execute(
            "SELECT json_extract(j.value, '$[0]'), json_extract(j.value, '$[1]')"
            " FROM json_each(?) j WHERE EXISTS (SELECT 1 FROM messages m"
            "  WHERE m.session_id = json_extract(j.value, '$[0]')"
            "   AND m.agent_id = json_extract(j.value, '$[1]')"
            "   AND m.source_file_id <> json_extract(j.value, '$[2]'))",
            (_json(pairs),),
        )
    )
    copied = {
        session_id
        for (session_id,) in conn.execute(
            "SELECT DISTINCT c.session_id FROM json_each(?) j CROSS JOIN message_copies c"
            " ON c.session_id = j.value",
            (_json(known),),
        )
    }
    found.update(t for _, threads in named for t in threads if t[0] in copied)
    return found
