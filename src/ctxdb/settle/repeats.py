"""Which lines of a batch repeat an entry that is stored, or that the batch itself brings."""

from __future__ import annotations

import sqlite3

import orjson

from ctxdb.settle.replays import SeenReplays, StoredReplays, thread_of
from ctxdb.store.chunk import Placed, entry_key, is_uuid, line_key
from ctxdb.store.lookup import look_up


class Repeats:
    """Looks entries up by uuid, by forkedFrom, by the blocks of a replay and by the line itself."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self.replays = StoredReplays(conn)

    def sort_out(self, placed: list[Placed]) -> tuple[list[Placed], list[Placed]]:
        """(new entries, lines that repeat one)."""
        known = self._known(placed)
        replayed = self._replay_candidates(placed)
        self._count_equal_lines([item for item in placed if item.rec.uuid is None])
        fresh: list[Placed] = []
        again: list[Placed] = []
        for item in placed:
            rec = item.rec
            uuid = rec.uuid
            if uuid is None:
                key = line_key(item.file.session_id, rec.line_hash, item.nth)
            else:
                key = uuid if is_uuid(uuid) else entry_key(uuid, item.session_id)
            repeated = key in known
            known.add(key)
            if rec.forked_from is not None:
                key = entry_key(rec.forked_from, rec.forked_session)
                repeated = repeated or key in known
                known.add(key)
            if rec.block_keys and rec.timestamp is not None:
                thread = thread_of(item.agent_id)
                said = (item.session_id, rec.timestamp, rec.type, thread, rec.api_message_id)
                if replayed.add(said, rec.block_keys):
                    repeated = True
            if repeated:
                again.append(item)
            else:
                item.fresh = True
                fresh.append(item)
        return fresh, again

    def _known(self, placed: list[Placed]) -> set[str]:
        wanted = {item.rec.uuid for item in placed}
        forked = [item.rec for item in placed if item.rec.forked_from]
        wanted.update(rec.forked_from for rec in forked)
        wanted.discard(None)
        keys: set[str] = set()
        for uuid, session_id in look_up(
            self.conn,
            sorted(w for w in wanted if w),
            "SELECT m.uuid, m.session_id FROM j CROSS JOIN messages m ON m.uuid = j.value"
            " UNION ALL SELECT c.uuid, c.session_id FROM j"
            "  CROSS JOIN message_copies c ON c.uuid = j.value",
        ):
            keys.add(entry_key(uuid, session_id))
        for item in placed:
            if item.rec.uuid is not None and not is_uuid(item.rec.uuid):
                wanted.add(entry_key(item.rec.uuid, item.session_id))
        wanted.update(entry_key(rec.forked_from or "", rec.forked_session) for rec in forked)
        keys.update(
            alias
            for (alias,) in look_up(
                self.conn,
                sorted(w for w in wanted if w),
                "SELECT a.uuid FROM j CROSS JOIN _aliases a ON a.uuid = j.value",
            )
        )
        hashes = [item.rec.line_hash for item in placed if item.rec.uuid is None]
        if hashes:
            for line in self.conn.execute(
                "SELECT f.session_id, m.line_hash, m.nth FROM json_each(?) j CROSS JOIN messages m"
                " ON m.line_hash = j.value JOIN source_files f ON f.id = m.source_file_id",
                (orjson.dumps(hashes).decode(),),
            ):
                keys.add(line_key(*line))
        return keys

    def _replay_candidates(self, placed: list[Placed]) -> SeenReplays:
        found = SeenReplays()
        sessions = {item.session_id for item in placed}
        known = {
            session_id
            for (session_id,) in self.conn.execute(
                "SELECT DISTINCT s.session_id FROM json_each(?) j"
                " CROSS JOIN _session_files s ON s.session_id = j.value",
                (orjson.dumps([s for s in sessions if s is not None]).decode(),),
            )
        }
        known.add(None)
        times = {p.rec.timestamp for p in placed if p.rec.block_keys and p.session_id in known}
        times.discard(None)
        for session_id, agent_id, kind, at, api_id, keys in self.conn.execute(
            "SELECT m.session_id, m.agent_id, m.type, m.timestamp, m.api_message_id, m.block_keys"
            " FROM json_each(?1) j CROSS JOIN messages m ON m.timestamp = j.value"
            " WHERE m.block_keys IS NOT NULL"
            " UNION ALL SELECT c.session_id, m.agent_id, m.type, c.timestamp, m.api_message_id,"
            "  c.block_keys FROM json_each(?1) j CROSS JOIN message_copies c"
            "  ON c.timestamp = j.value JOIN messages m ON m.id = c.message_id"
            " WHERE c.block_keys IS NOT NULL",
            (orjson.dumps(sorted(t for t in times if t)).decode(),),
        ):
            found.add((session_id, at, kind, thread_of(agent_id), api_id), keys)
        return found

    def _count_equal_lines(self, items: list[Placed]) -> None:
        """How many equal lines came before each entry without uuid in its file."""
        counted: dict[tuple[int, int | None], int] = {}
        for item in items:
            key = (item.file.id, item.rec.line_hash)
            if key not in counted:
                (before,) = self.conn.execute(
                    "SELECT (SELECT count(*) FROM messages WHERE line_hash = ?1"
                    "  AND source_file_id = ?2 AND byte_start < ?3 AND byte_length > 0)"
                    " + (SELECT count(*) FROM message_copies WHERE line_hash = ?1"
                    "  AND source_file_id = ?2 AND byte_start < ?3)",
                    (item.rec.line_hash, item.file.id, item.rec.start),
                ).fetchone()
                counted[key] = before
            item.nth = counted[key]
            counted[key] += 1

    def find(self, item: Placed) -> list[int]:
        """Rows that this line is another place of; more than one when it shows them to be one."""
        rec = item.rec
        found: set[int] = set()
        for uuid, session_id in (
            (rec.uuid, item.session_id),
            (rec.forked_from, rec.forked_session),
        ):
            if uuid is not None:
                found.update(
                    message_id
                    for (message_id,) in self.conn.execute(
                        "SELECT id FROM messages WHERE uuid = ?1 AND (?3 OR session_id IS ?2)"
                        " UNION SELECT message_id FROM message_copies WHERE uuid = ?1"
                        "  AND (?3 OR session_id IS ?2)"
                        " UNION SELECT message_id FROM _aliases WHERE uuid = ?4",
                        (uuid, session_id, is_uuid(uuid), entry_key(uuid, session_id)),
                    )
                )
        if rec.uuid is None:
            found.update(
                message_id
                for (message_id,) in self.conn.execute(
                    "SELECT m.id FROM messages m JOIN source_files f ON f.id = m.source_file_id"
                    " WHERE m.line_hash = ? AND m.nth IS ? AND f.session_id IS ?",
                    (rec.line_hash, item.nth, item.file.session_id),
                )
            )
        if rec.block_keys and rec.timestamp is not None:
            moment = (item.session_id, rec.timestamp)
            found |= self.replays.find(
                moment, rec.type, item.agent_id, rec.api_message_id, rec.block_keys
            )
        return sorted(found)

    def add_aliases(self, items: list[Placed]) -> None:
        """Remember the uuids that forked lines name, in case the originals come later."""
        self.conn.executemany(
            "INSERT OR IGNORE INTO _aliases VALUES (?, ?)",
            [
                (entry_key(item.rec.forked_from, item.rec.forked_session), item.id)
                for item in items
                if item.rec.forked_from
            ],
        )
