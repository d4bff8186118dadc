"""Which lines of a batch repeat an entry that is stored, or that the batch itself brings."""

from __future__ import annotations

import sqlite3

from ctxdb.rows import Message
from ctxdb.rules.owners import entry_key, is_uuid, line_key
from ctxdb.rules.replays import SeenReplays, thread_of
from ctxdb.settle.stored_replays import StoredReplays
from ctxdb.settle.stored_uuids import StoredUuids
from ctxdb.store.lookup import look_up

Said = tuple[str | None, ...]


def _said(message: Message) -> Said | None:
    """What a line and its replay have in common; None for a line that cannot be a replay."""
    if not message.block_keys or message.timestamp is None:
        return None
    return (
        message.session_id,
        message.timestamp,
        message.type,
        thread_of(message.agent_id),
        message.api_message_id,
    )


def _are_all_new(messages: list[Message], said: list[Said | None]) -> bool:
    """Whether no two of these lines can be one entry, told by comparing sets: the usual case."""
    uuids = {message.uuid for message in messages}
    moments = [moment for moment in said if moment is not None]
    return (
        len(uuids) == len(messages)
        and len(set(moments)) == len(moments)
        and all(uuid is not None and is_uuid(uuid) for uuid in uuids)
        and all(message.forked_from is None for message in messages)
    )


class Repeats:
    """Looks entries up by uuid, by forkedFrom, by the blocks of a replay and by the line itself."""

    def __init__(self, conn: sqlite3.Connection, uuids: StoredUuids) -> None:
        self.conn = conn
        self.uuids = uuids
        self.replays = StoredReplays(conn)

    def sort_out(self, messages: list[Message]) -> list[Message]:
        """The lines that repeat an entry. Those that do not keep `is_new`."""
        known = self._known(messages)
        self.uuids.messages.add(message.uuid for message in messages)
        replayed = self._replay_candidates(messages)
        self._count_equal_lines([message for message in messages if message.uuid is None])
        said = [_said(message) for message in messages]
        if _are_all_new(messages, said) and not known and not replayed.seen:
            return []
        repeated: list[Message] = []
        for message, moment in zip(messages, said, strict=True):
            uuid = message.uuid
            if uuid is None:
                key = line_key(message.file_session, message.line_hash, message.nth)
            else:
                key = entry_key(uuid, message.session_id)
            is_repeat = key in known
            known.add(key)
            if message.forked_from is not None:
                key = entry_key(message.forked_from, message.forked_session)
                is_repeat = is_repeat or key in known
                known.add(key)
            if moment is not None and replayed.add(moment, message.block_keys or ""):
                is_repeat = True
            if is_repeat:
                message.is_new = False
                repeated.append(message)
        return repeated

    def _known(self, messages: list[Message]) -> set[str]:
        forked = [message for message in messages if message.forked_from]
        wanted = {message.uuid for message in messages}
        wanted.update(message.forked_from for message in forked)
        wanted.discard(None)
        keys = {
            entry_key(uuid, session_id)
            for uuid, session_id in look_up(
                self.conn,
                self.uuids.messages.possible(wanted),
                "SELECT m.uuid, m.session_id FROM j CROSS JOIN messages m ON m.uuid = j.value"
                " UNION ALL SELECT c.uuid, c.session_id FROM j"
                "  CROSS JOIN message_copies c ON c.uuid = j.value",
            )
        }
        if self._has_aliases():
            wanted.update(
                entry_key(message.uuid, message.session_id)
                for message in messages
                if message.uuid is not None
            )
            wanted.update(entry_key(one.forked_from or "", one.forked_session) for one in forked)
            keys.update(
                alias
                for (alias,) in look_up(
                    self.conn,
                    wanted,
                    "SELECT a.uuid FROM j CROSS JOIN _aliases a ON a.uuid = j.value",
                )
            )
        hashes = [message.line_hash for message in messages if message.uuid is None]
        if hashes:
            for file_session, line_hash, nth in look_up(
                self.conn,
                hashes,
                "SELECT f.session_id, b.line_hash, b.nth FROM j CROSS JOIN _message_lines b"
                " ON b.line_hash = j.value JOIN messages m ON m.id = b.message_id"
                " JOIN source_files f ON f.id = m.source_file_id",
            ):
                keys.add(line_key(file_session, line_hash, nth))
        return keys

    def _has_aliases(self) -> bool:
        return self.conn.execute("SELECT 1 FROM _aliases LIMIT 1").fetchone() is not None

    def _replay_candidates(self, messages: list[Message]) -> SeenReplays:
        found = SeenReplays()
        sessions = {message.session_id for message in messages}
        known: set[str | None] = {
            session_id
            for (session_id,) in look_up(
                self.conn,
                sessions - {None},
                "SELECT DISTINCT s.session_id FROM j"
                " CROSS JOIN _session_files s ON s.session_id = j.value",
            )
        }
        known.add(None)
        times = {m.timestamp for m in messages if m.block_keys and m.session_id in known}
        times.discard(None)
        if not times:
            return found
        for session_id, agent_id, kind, at, api_id, keys in look_up(
            self.conn,
            times,
            "SELECT m.session_id, m.agent_id, m.type, m.timestamp, m.api_message_id, b.block_keys"
            " FROM j CROSS JOIN messages m ON m.timestamp = j.value"
            " JOIN _message_lines b ON b.message_id = m.id WHERE b.block_keys IS NOT NULL"
            " UNION ALL SELECT c.session_id, m.agent_id, m.type, b.timestamp, m.api_message_id,"
            "  b.block_keys FROM j CROSS JOIN _copy_lines b ON b.timestamp = j.value"
            "  JOIN message_copies c ON c.id = b.copy_id JOIN messages m ON m.id = c.message_id"
            " WHERE b.block_keys IS NOT NULL",
        ):
            found.add((session_id, at, kind, thread_of(agent_id), api_id), keys)
        return found

    def _count_equal_lines(self, messages: list[Message]) -> None:
        """How many equal lines came before each entry without uuid in its file."""
        counted: dict[tuple[int, int | None], int] = {}
        for message in messages:
            key = (message.source_file_id, message.line_hash)
            if key not in counted:
                (counted[key],) = self.conn.execute(
                    "SELECT (SELECT count(*) FROM _message_lines b JOIN messages m"
                    "  ON m.id = b.message_id WHERE b.line_hash = ?1"
                    "  AND m.source_file_id = ?2 AND m.byte_start < ?3 AND m.byte_length > 0)"
                    " + (SELECT count(*) FROM _copy_lines b JOIN message_copies c"
                    "  ON c.id = b.copy_id WHERE b.line_hash = ?1"
                    "  AND c.source_file_id = ?2 AND c.byte_start < ?3)",
                    (message.line_hash, message.source_file_id, message.byte_start),
                ).fetchone()
            message.nth = counted[key]
            counted[key] += 1

    def find(self, message: Message) -> list[int]:
        """Rows that this line is another place of; more than one when it shows them to be one."""
        found: set[int] = set()
        for uuid, session_id in (
            (message.uuid, message.session_id),
            (message.forked_from, message.forked_session),
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
        if message.uuid is None:
            found.update(
                message_id
                for (message_id,) in self.conn.execute(
                    "SELECT m.id FROM _message_lines b JOIN messages m ON m.id = b.message_id"
                    " JOIN source_files f ON f.id = m.source_file_id"
                    " WHERE b.line_hash = ? AND b.nth IS ? AND f.session_id IS ?",
                    (message.line_hash, message.nth, message.file_session),
                )
            )
        if message.block_keys and message.timestamp is not None:
            found |= self.replays.find(message)
        return sorted(found)

    def add_aliases(self, messages: list[Message]) -> None:
        """Remember the uuids that forked lines name, in case the originals come later."""
        named = [
            (entry_key(message.forked_from, message.forked_session), message.id)
            for message in messages
            if message.forked_from
        ]
        if named:
            self.conn.executemany("INSERT OR IGNORE INTO _aliases VALUES (?, ?)", named)
