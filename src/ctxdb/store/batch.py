"""One batch of lines into the database, in one transaction.

New entries take the straight way: a few look-ups for the whole batch, then one executemany per
table. Entries that repeat stored ones are settled afterwards, one at a time (copies.py). At the end
everything derived that the batch has touched is made anew: turns, agents, requests, sessions.
The last statement moves each file's offset, and only from where the batch began: if anyone else has
moved it, the whole batch is rolled back.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson

from ctxdb.normalize import Event, Fact, Message, Skip
from ctxdb.store import agents, sessions, turns, usage
from ctxdb.store.copies import Copies
from ctxdb.store.events import EventRows
from ctxdb.store.model import Chunk, LineKey, Placed, SourceFile, Touched, owner_flags
from ctxdb.store.parents import Parents
from ctxdb.store.pulls import refresh_pulls
from ctxdb.store.repeats import Repeats
from ctxdb.store.tools import ToolJoin, located

_INSERT_MESSAGE = (
    "INSERT INTO messages (id, uuid, session_id, agent_id, turn_id, parent_uuid, type, subtype,"
    " kind, timestamp, model, api_message_id, request_id, stop_reason, text, thinking,"
    " is_sidechain, cwd, git_branch, version, data, source_file_id, byte_start, byte_length,"
    f" block_keys, line_hash, nth, owner_flags) VALUES ({', '.join('?' * 28)})"
)
_UPDATE_MESSAGE = (
    "UPDATE messages SET uuid = ?, session_id = ?, agent_id = ?, turn_id = ?, parent_uuid = ?,"
    " type = ?, subtype = ?, kind = ?, timestamp = ?, model = ?, api_message_id = ?,"
    " request_id = ?, stop_reason = ?, text = ?, thinking = ?, is_sidechain = ?, cwd = ?,"
    " git_branch = ?, version = ?, data = ?, source_file_id = ?, byte_start = ?, byte_length = ?,"
    " block_keys = ?, line_hash = ?, nth = ?, owner_flags = ? WHERE id = ?"
)
_COUNT_LINES = (
    "INSERT INTO line_counts VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET lines = lines + excluded.lines"
)

Reread = Callable[[sqlite3.Connection, int, int, int], Placed | None]


class OffsetMoved(Exception):
    """Another process has read on in the same file: nothing of this batch may stay."""


def _message_values(placed: Placed) -> tuple[Any, ...]:
    rec = placed.rec
    return (
        rec.uuid,
        placed.session_id,
        placed.agent_id,
        placed.turn_id,
        placed.parent_uuid,
        rec.type,
        rec.subtype,
        rec.kind,
        rec.timestamp,
        rec.model,
        rec.api_message_id,
        rec.request_id,
        rec.stop_reason,
        rec.text,
        rec.thinking,
        rec.is_sidechain,
        rec.cwd,
        rec.git_branch,
        rec.version or None,
        rec.data,
        placed.file.id,
        rec.start,
        rec.length,
        rec.block_keys,
        rec.line_hash,
        placed.nth,
        owner_flags(rec, placed.session_id, placed.file),
    )


class Batch:
    """The work of one transaction."""

    def __init__(self, conn: sqlite3.Connection, now: str, reread: Reread) -> None:
        self.conn = conn
        self.now = now
        self.touched = Touched()
        self.next_message = self._next("messages")
        self.next_turn = self._next("turns")
        self.tools = ToolJoin(conn, self._next("tool_uses"), self.touched)
        self.parents = Parents(conn)
        self.copies = Copies(conn, self.touched, self.replace, lambda *place: reread(conn, *place))
        self.filled: list[Placed] = []  # lines that fill a row of messages
        self.replaced: set[int] = set()  # rows of messages that have changed hands
        self.new_turns: list[tuple[Any, ...]] = []
        self.counts: Counter[tuple[int, LineKey]] = Counter()
        self.agent_turns: dict[tuple[str | None, str], int | None] = {}
        self.call_turns: dict[str, int | None] = {}
        self.new_facts: list[tuple[str | None, list[Fact], int | None]] = []

    def _next(self, table: str) -> int:
        (last,) = self.conn.execute(f"SELECT max(id) FROM {table}").fetchone()
        return (last or 0) + 1

    # -- the whole batch ---------------------------------------------------------------------

    def write(self, chunks: list[Chunk]) -> None:
        """Store the chunks. The caller has begun the transaction and commits it."""
        for chunk in chunks:
            self._know_session(chunk)
        placed = self._place(chunks)
        repeats = Repeats(self.conn)
        fresh, again = repeats.sort_out(placed)
        events = EventRows(self.conn, self.touched)
        events.place(chunks)
        fresh_ids = set(map(id, fresh))
        for item in fresh:
            item.id = self.next_message
            self.next_message += 1
        self._begin_turns(chunks, events, fresh_ids, {id(p.rec): p for p in placed})
        self._turns_of_agents(fresh)
        self._insert_messages(fresh)
        events.write()
        self._count_fresh(chunks, fresh, events)
        self._see(placed, fresh_ids)
        self._refresh_sessions()  # projects must be known before files are located
        events.write_snapshots()
        self._insert_parts(fresh)
        repeats.add_aliases(fresh)
        for item in again:
            self._absorb(item, repeats)
        self._finish(placed)
        self._move_offsets(chunks)

    def _know_session(self, chunk: Chunk) -> None:
        """A file that is not named by its session is of the first session that a line names."""
        file = chunk.file
        if file.session_id is not None:
            return
        for record in chunk.records:
            if record.session_id is not None:
                file.session_id = record.session_id
                break
        else:
            return
        self.conn.execute(
            "UPDATE source_files SET session_id = ? WHERE id = ?", (file.session_id, file.id)
        )
        if chunk.start > 0:
            self._adopt_earlier_lines(file)

    def _adopt_earlier_lines(self, file: SourceFile) -> None:
        who = (file.session_id, file.id)
        for table in ("messages", "events"):
            self.conn.execute(
                f"UPDATE {table} SET session_id = ? WHERE source_file_id = ?"
                " AND session_id IS NULL",
                who,
            )
        EventRows(self.conn, self.touched).adopt(file)
        for column in ("message_id", "result_message_id"):
            self.conn.execute(
                "UPDATE tool_uses SET session_id = ? WHERE session_id IS NULL AND"
                f" {column} IN (SELECT id FROM messages WHERE source_file_id = ?)",
                who,
            )
        self.conn.execute(
            "UPDATE files_touched SET session_id = ?1 WHERE session_id IS NULL AND (tool_id IN"
            " (SELECT t.id FROM tool_uses t JOIN messages m ON m.id = t.message_id"
            "  WHERE m.source_file_id = ?2)"
            " OR message_id IN (SELECT id FROM messages WHERE source_file_id = ?2))",
            who,
        )
        self.touched.retell.add(file.id)
        if file.session_id is not None:
            self.copies.recount.add((file.session_id, file.id))

    def _place(self, chunks: list[Chunk]) -> list[Placed]:
        placed: list[Placed] = []
        for chunk in chunks:
            file = chunk.file
            for record, note in zip(chunk.records, chunk.notes, strict=True):
                if type(record) is Message:
                    agent_id = record.agent_id
                    if agent_id is None and not record.nested:
                        agent_id = file.agent_id
                    session_id = record.session_id or file.session_id
                    placed.append(Placed(record, file, note, session_id, agent_id))
        skipped = [r for c in chunks for r in c.records if type(r) is Skip and r.uuid]
        self.parents.learn(placed, skipped)
        self.parents.resolve(placed)
        self.parents.name_sidechains(placed)
        return placed

    # -- turns -------------------------------------------------------------------------------

    def _begin_turns(
        self,
        chunks: list[Chunk],
        events: EventRows,
        fresh: set[int],
        by_record: dict[int, Placed],
    ) -> None:
        for chunk in chunks:
            self._begin_turns_in(chunk, events, fresh, by_record)
        self.conn.executemany(
            "INSERT INTO turns (id, session_id, kind, prompt, started_at, message_id, event_id,"
            " source_file_id, byte_start) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            self.new_turns,
        )
        self._number_turns()

    def _begin_turns_in(
        self, chunk: Chunk, events: EventRows, fresh: set[int], by_record: dict[int, Placed]
    ) -> None:
        file = chunk.file
        current: dict[str | None, int | None] = {}
        queue: turns.QueueReader | None = None

        def turn_of(session_id: str | None) -> int | None:
            if session_id not in current:
                current[session_id] = (
                    None
                    if chunk.start == 0
                    else turns.last_turn(self.conn, file.id, session_id, chunk.start)
                )
            return current[session_id]

        def reader() -> turns.QueueReader:
            if chunk.start == 0:
                return turns.QueueReader()
            return turns.read_queue(self.conn, file.id, chunk.start)

        for record in chunk.records:
            if type(record) is Message:
                item = by_record[id(record)]
                turn = record.turn
                if record.queued is not None:
                    queue = queue or reader()
                    turn = queue.attachment(record.queued)
                if id(item) not in fresh or item.agent_id is not None:
                    continue
                if turn is not None:
                    current[item.session_id] = self._new_turn(item, turn, None)
                item.turn_id = turn_of(item.session_id)
                if item.turn_id is not None:
                    self.touched.turns.add(item.turn_id)
                for call in record.calls or ():
                    self.call_turns[call.tool_use_id] = item.turn_id
            elif type(record) is Event and record.type == "queue-operation":
                queue = queue or reader()
                content = orjson.loads(record.data).get("content")
                turn = queue.operation(record.subtype, content, record.timestamp)
                row = events.row_of(record)
                if turn is not None and row is not None:
                    session_id = record.session_id or file.session_id
                    item = Placed(_AsMessage(record), file, None, session_id, None)  # type: ignore[arg-type]
                    current[session_id] = self._new_turn(item, turn, row)

    def _new_turn(self, item: Placed, turn: tuple[str, str], event_id: int | None) -> int:
        turn_id = self.next_turn
        self.next_turn += 1
        message_id = None if event_id is not None else item.id
        self.new_turns.append(
            (
                turn_id,
                item.session_id,
                *turn,
                item.rec.timestamp,
                message_id,
                event_id,
                item.file.id,
                item.rec.start,
            )
        )
        self.touched.turns.add(turn_id)
        return turn_id

    def _number_turns(self) -> None:
        """Ordinals of new turns: counted on where the session has one file, else worked out again."""
        by_session: dict[str, list[tuple[Any, ...]]] = {}
        for row in self.new_turns:
            if row[1] is not None:
                by_session.setdefault(row[1], []).append(row)
        for session_id, rows in by_session.items():
            last, files = self.conn.execute(
                "SELECT max(ordinal), count(DISTINCT source_file_id) FROM turns"
                " WHERE session_id = ?",
                (session_id,),
            ).fetchone()
            if files > 1:
                self.touched.renumber.add(session_id)
                continue
            self.conn.executemany(
                "UPDATE turns SET ordinal = ? WHERE id = ?",
                [(last + n, row[0]) for n, row in enumerate(rows, 1)],
            )

    def _turns_of_agents(self, fresh: list[Placed]) -> None:
        """An agent's lines belong to the turn of the call that started it, where that is known."""
        links: dict[tuple[str | None, str], str] = {}
        for item in fresh:
            for fact in item.rec.facts or ():
                if fact.tool_use_id and fact.source in ("progress", "result"):
                    links.setdefault((item.session_id, fact.agent_id), fact.tool_use_id)
        for item in fresh:
            if item.agent_id is None:
                continue
            key = (item.session_id, item.agent_id)
            if key not in self.agent_turns:
                self.agent_turns[key] = self._agent_turn(key, links)
            item.turn_id = self.agent_turns[key]
            for call in item.rec.calls or ():
                self.call_turns[call.tool_use_id] = item.turn_id
            if item.turn_id is not None:
                self.touched.turns.add(item.turn_id)

    def _agent_turn(
        self, key: tuple[str | None, str], links: dict[tuple[str | None, str], str]
    ) -> int | None:
        row = self.conn.execute(
            "SELECT turn_id FROM agents WHERE session_id = ? AND agent_id = ?", key
        ).fetchone()
        if row is not None:
            return int(row[0]) if row[0] is not None else None
        call = links.get(key)
        if call is None:
            row = self.conn.execute(
                "SELECT tool_use_id FROM _agent_facts WHERE session_id = ? AND agent_id = ?"
                " AND tool_use_id <> '' AND source IN ('meta', 'progress', 'result')"
                " ORDER BY source = 'meta' DESC LIMIT 1",
                key,
            ).fetchone()
            call = row[0] if row else None
        if call is None:
            return None
        if call in self.call_turns:
            return self.call_turns[call]
        row = self.conn.execute(
            "SELECT turn_id FROM tool_uses WHERE tool_use_id = ?", (call,)
        ).fetchone()
        return row[0] if row else None

    # -- rows --------------------------------------------------------------------------------

    def _insert_messages(self, fresh: list[Placed]) -> None:
        if not fresh:
            return
        self.filled += fresh
        self.conn.executemany(
            _INSERT_MESSAGE, [(item.id, *_message_values(item)) for item in fresh]
        )
        self.conn.execute(
            "INSERT INTO messages_fts (rowid, text, thinking) SELECT id, text, thinking"
            " FROM messages WHERE id >= ?",
            (fresh[0].id,),
        )

    def _insert_parts(self, fresh: list[Placed], *, replaced: bool = False) -> None:
        """What hangs on messages: tool calls and results, usage, mentions, facts of agents."""
        ids: set[str] = set()
        for item in fresh:
            rec = item.rec
            for call in rec.calls or ():
                ids.add(call.tool_use_id)
            for result in rec.results or ():
                ids.add(result.tool_use_id)
            if rec.mentions:
                self._mention(item)
            if rec.facts:
                agents.add_facts(self.conn, item.session_id, rec.facts, item.id, self.touched)
            if item.agent_id is not None and item.session_id is not None:
                self.touched.agents.add((item.session_id, item.agent_id))
        self.tools.load(ids)
        for item in fresh:
            for call in item.rec.calls or ():
                self.tools.add_call(call, item)
            for result in item.rec.results or ():
                self.tools.add_result(result, item)
        self.tools.write()
        if replaced:
            usage.add_lines(self.conn, usage.line_rows(fresh[0]), self.touched)
        else:
            usage.add_new(self.conn, fresh, self.touched)

    def _mention(self, item: Placed) -> None:
        row = self.conn.execute(
            "SELECT p.id, p.path FROM sessions s JOIN projects p ON p.id = s.project_id"
            " WHERE s.id = ?",
            (item.session_id,),
        ).fetchone()
        for path in item.rec.mentions or ():
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
                    *located(path, row),
                ),
            )

    def replace(self, item: Placed) -> None:
        """Fill an existing row of messages, and all that hangs on it, from another line."""
        if item.agent_id is not None:
            key = (item.session_id, item.agent_id)
            if key not in self.agent_turns:
                self.agent_turns[key] = self._agent_turn(key, {})
            item.turn_id = self.agent_turns[key]
        self.conn.execute(_UPDATE_MESSAGE, (*_message_values(item), item.id))
        self.filled.append(item)
        self.replaced.add(item.id)
        usage.drop_lines(self.conn, item.id, self.touched)
        agents.drop_facts(self.conn, item.id, self.touched)
        self.conn.execute("DELETE FROM files_touched WHERE message_id = ?", (item.id,))
        rec = item.rec
        turn = rec.turn if item.agent_id is None else None
        found = self.conn.execute(
            "SELECT id FROM turns WHERE message_id = ?", (item.id,)
        ).fetchone()
        if turn is not None:
            place = (item.session_id, *turn, rec.timestamp, item.file.id, rec.start)
            if found is None:
                self.conn.execute(
                    "INSERT INTO turns (session_id, kind, prompt, started_at, source_file_id,"
                    " byte_start, message_id) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (*place, item.id),
                )
            else:
                self.conn.execute(
                    "UPDATE turns SET session_id = ?, kind = ?, prompt = ?, started_at = ?,"
                    " source_file_id = ?, byte_start = ? WHERE id = ?",
                    (*place, found[0]),
                )
        elif found is not None and rec.queued is None:
            self.conn.execute("DELETE FROM turns WHERE id = ?", found)
        if rec.type == "attachment" and rec.queued is not None and found is not None:
            self.conn.execute(
                "UPDATE turns SET source_file_id = ?, byte_start = ?, session_id = ? WHERE id = ?",
                (item.file.id, rec.start, item.session_id, found[0]),
            )
        self.next_turn = self._next("turns")
        self._insert_parts([item], replaced=True)

    def _absorb(self, item: Placed, repeats: Repeats) -> None:
        found = repeats.find(item)
        if not found:
            # What it repeated in this batch has been settled otherwise: it is an entry of its own.
            item.id = self.next_message
            self.next_message += 1
            self._insert_messages([item])
            if item.rec.turn and item.agent_id is None:
                self.replace(item)
                self.touched.retell.add(item.file.id)
            else:
                self._insert_parts([item])
            outcome = "stored"
            self._see([item], {id(item)})
        else:
            for other in found[1:]:
                self.copies.merge(found[0], other)
            outcome = self.copies.absorb(item, found[0])
        if item.note is not None:
            rec = item.rec
            key = (item.file.id, rec.line_type, rec.version, outcome, item.note)
            self.conn.execute(_COUNT_LINES, (*key, 1))

    # -- what files and sessions are told -----------------------------------------------------

    def _count_fresh(self, chunks: list[Chunk], fresh: list[Placed], events: EventRows) -> None:
        counts: Counter[tuple[int, LineKey]] = Counter()
        for item in fresh:
            if item.note is not None:
                rec = item.rec
                counts[item.file.id, (rec.line_type, rec.version, "stored", item.note)] += 1
        for chunk in chunks:
            file_id = chunk.file.id
            for record, note in zip(chunk.records, chunk.notes, strict=True):
                if type(record) is Event:
                    if note is not None:
                        outcome = events.outcome_of(record)
                        key = (record.line_type, record.version, outcome, note)
                        counts[file_id, key] += 1
                elif type(record) is Skip and note is not None:
                    reason = record.reason if not note else f"{record.reason},{note}"
                    counts[file_id, (record.line_type, record.version, "skipped", reason)] += 1
            for line_key, lines in chunk.counts.items():
                counts[file_id, line_key] += lines
        self.conn.executemany(
            _COUNT_LINES, [(file_id, *key, lines) for (file_id, key), lines in counts.items()]
        )

    def _see(self, placed: list[Placed], fresh: set[int]) -> None:
        """Collect what lines tell of their session, per file."""
        seen: dict[tuple[str, int], dict[str, Any]] = {}
        for item in placed:
            rec = item.rec
            if item.session_id is None:
                continue
            key = (item.session_id, item.file.id)
            told = seen.get(key)
            if told is None:
                told = seen[key] = dict.fromkeys(_SEEN)
                told["main"] = 0
            if rec.slug:
                told["slug"] = rec.slug
            if rec.entrypoint:
                told["entrypoint"] = rec.entrypoint
            if rec.forked_session:
                told["forked_session"] = rec.forked_session
            main = item.agent_id is None
            if main and rec.process_session and told["process_session"] is None:
                told["process_session"] = rec.process_session
            if main and rec.type == "user" and item.file.agent_id is None:
                if told["first_user_at"] is None:
                    told["first_user_at"] = rec.start
                told["last_user_at"] = rec.start
            self.touched.sessions.add(item.session_id)
            if id(item) not in fresh:
                continue
            if main:
                told["main"] = 1
            if rec.cwd:
                column = "first_cwd" if main else "agent_cwd"
                if told[column] is None:
                    told[column] = rec.cwd
            if rec.git_branch:
                told["git_branch"] = rec.git_branch
            if rec.version:
                told["version"] = rec.version
            at = rec.timestamp
            if at is not None:
                if told["first_at"] is None or at < told["first_at"]:
                    told["first_at"] = at
                if told["last_at"] is None or at > told["last_at"]:
                    told["last_at"] = at
        for (session_id, file_id), told in seen.items():
            sessions.note_file(self.conn, session_id, file_id, told)
            self._may_be_first(session_id, told["first_at"])

    def _may_be_first(self, session_id: str, first_at: str | None) -> None:
        """In a session that shares entries, an earlier unshared one can change who owns them."""
        row = self.conn.execute(
            "SELECT first_unshared_at FROM sessions WHERE id = ? AND shares_entries", (session_id,)
        ).fetchone()
        if row is not None and first_at is not None and (row[0] is None or first_at < row[0]):
            self.touched.shared.add(session_id)

    def _refresh_sessions(self) -> None:
        for session_id in sorted(self.touched.sessions):
            sessions.refresh(self.conn, session_id)
        self.touched.sessions.clear()

    def _finish(self, placed: list[Placed]) -> None:
        """Make anew what the batch has touched, from the lines up to the sessions."""
        self.copies.settle()
        self.parents.write(placed, self.filled, self.replaced)
        for file_id in sorted(self.touched.retell):
            turns.retell_file(self.conn, file_id, self.touched)
        agents.refresh(self.conn, self.touched)
        usage.recompute(self.conn, self.touched.requests)
        for session_id in sorted(self.touched.renumber):
            turns.renumber(self.conn, session_id)
            self.touched.sessions.add(session_id)
        turns.end_turns(self.conn, self.touched.turns)
        self.touched.sessions.update(
            sessions.settle_summaries(self.conn, everything=bool(self.touched.retell))
        )
        self.touched.sessions.update(row[1] for row in self.new_turns if row[1] is not None)
        self._refresh_sessions()
        for session_id in sorted(self.touched.snapshots):
            sessions.locate_files(self.conn, session_id)
        refresh_pulls(self.conn, self.touched.pulls)

    def _move_offsets(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            file, stat = chunk.file, chunk.stat
            bad = sum(n for key, n in chunk.counts.items() if key[2] == "bad")
            skipped = sum(n for key, n in chunk.counts.items() if key[2] == "skipped")
            skipped += sum(
                1
                for record, note in zip(chunk.records, chunk.notes, strict=True)
                if type(record) is Skip and note is not None
            )
            changed = self.conn.execute(
                'UPDATE source_files SET "offset" = ?, lines = lines + ?, bad_lines = bad_lines + ?,'
                " skipped_lines = skipped_lines + ?, mark = ?, size = ?, dev = ?, ino = ?,"
                " mtime_ns = ?, ctime_ns = ?, state = ?, last_read_at = ?, missing_since = NULL,"
                ' attempting = NULL WHERE id = ? AND generation = ? AND "offset" = ?',
                (
                    chunk.end,
                    chunk.lines,
                    bad,
                    skipped,
                    chunk.mark,
                    stat.size,
                    stat.dev,
                    stat.ino,
                    # Only a file that was read to its end may be passed over by its stat.
                    stat.mtime_ns if chunk.at_end else 0,
                    stat.ctime_ns if chunk.at_end else 0,
                    "ok" if chunk.end >= stat.size else "partial",
                    self.now,
                    file.id,
                    file.generation,
                    chunk.start,
                ),
            ).rowcount
            if changed != 1:
                raise OffsetMoved(file.path)
            self.conn.executemany(
                "INSERT INTO ingest_errors (source_file_id, byte_start, byte_length, reason,"
                " excerpt, seen_at) VALUES (?, ?, ?, ?, ?, ?)",
                [(file.id, *error, self.now) for error in chunk.errors],
            )


_SEEN = (
    "main",
    "first_cwd",
    "agent_cwd",
    "git_branch",
    "version",
    "slug",
    "entrypoint",
    "first_at",
    "last_at",
    "first_user_at",
    "last_user_at",
    "forked_session",
    "process_session",
)


class _AsMessage:
    """The place and time of an event, where a turn begins."""

    __slots__ = ("start", "timestamp")

    def __init__(self, event: Event) -> None:
        self.start = event.start
        self.timestamp = event.timestamp
