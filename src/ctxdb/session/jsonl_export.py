"""A session as JSON lines: the transcript's own bytes where they are, else what the rows tell.

The files of a session are written one after another, the main thread first, then its agents. A
file that still is what was read is copied byte for byte, up to the last line taken in. Of one that
is gone or rewritten, every entry is made again from its rows, in the transcripts' own form as far
as the database knows it, and carries ``"reconstructed": true``.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from ctxdb.files.identity import mark_of, open_regular
from ctxdb.session.objects import parsed_object
from ctxdb.session.source import Place, read_line

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

_FILES = (
    'SELECT id, path, path_bytes, "offset", mark, agent_id FROM source_files WHERE session_id = ?'
    " ORDER BY agent_id IS NOT NULL, agent_id, id"
)
_ENTRIES = """
SELECT m.source_file_id, m.byte_start, m.id, NULL FROM messages m WHERE m.source_file_id = :file
UNION ALL
SELECT c.source_file_id, c.byte_start, c.message_id, NULL FROM message_copies c
WHERE c.source_file_id = :file
UNION ALL
SELECT e.source_file_id, e.byte_start, NULL, e.data FROM events e WHERE e.source_file_id = :file
ORDER BY 1, 2
"""
_MESSAGE = (
    "SELECT uuid, parent_uuid, session_id, agent_id, type, subtype, timestamp, model,"
    " api_message_id, request_id, stop_reason, text, thinking, is_sidechain, cwd, git_branch,"
    " version, kind FROM messages WHERE id = ?"
)


class Sources:
    """The lines of a session; after reading, which files were made again."""

    def __init__(self, conn: sqlite3.Connection, session_id: str) -> None:
        self._conn = conn
        self._session_id = session_id
        self.remade: list[str] = []

    def __iter__(self) -> Iterator[bytes]:
        files = self._conn.execute(_FILES, (self._session_id,)).fetchall()
        if not files:
            yield from self._lines_among_others()
        thread = [agent_id for *_, agent_id in files]
        seen: set[bytes] = set()  # hashes of lines, where a file may be a copy of one before
        for nth, (file_id, path, path_bytes, offset, mark, agent_id) in enumerate(files):
            fd = _unchanged(path_bytes or path, offset, mark)
            lines = self._remake(file_id, path) if fd is None else _lines(fd, offset)
            if thread.count(agent_id) == 1:
                yield from lines
                continue
            if nth and thread[nth - 1] != agent_id:
                seen.clear()
            before = frozenset(seen)
            for line in lines:
                key = hashlib.blake2b(line, digest_size=16).digest()
                seen.add(key)
                if key not in before:
                    yield line

    def _lines_among_others(self) -> Iterator[bytes]:
        """A session without a file of its own: its lines in the files of others."""
        rows = self._conn.execute(
            "SELECT m.id, m.uuid, f.path, f.path_bytes, m.byte_start, m.byte_length, 0"
            " FROM messages m"
            " JOIN source_files f ON f.id = m.source_file_id WHERE m.session_id = ?"
            " ORDER BY m.source_file_id, m.byte_start",
            (self._session_id,),
        ).fetchall()
        for message_id, *place in rows:
            line = read_line(Place(*place))
            yield _dumps(self._entry(message_id)) if line is None else line + b"\n"

    def _remake(self, file_id: int, path: str) -> Iterator[bytes]:
        self.remade.append(path)
        for _, _, message_id, data in self._conn.execute(_ENTRIES, {"file": file_id}).fetchall():
            entry = parsed_object(data) if message_id is None else self._entry(message_id)
            yield _dumps(entry)

    def _entry(self, message_id: int) -> dict[str, Any]:
        row = self._conn.execute(_MESSAGE, (message_id,)).fetchone()
        (uuid, parent, session_id, agent_id, type_, subtype, timestamp, model, api_id) = row[:9]
        (request_id, stop_reason, text, thinking, sidechain, cwd, branch, version, kind) = row[9:]
        entry: dict[str, Any] = {
            "parentUuid": parent,
            "isSidechain": bool(sidechain),
            "cwd": cwd,
            "sessionId": session_id,
            "version": version,
            "gitBranch": branch,
            "type": type_,
            "uuid": uuid,
            "timestamp": timestamp,
        }
        if agent_id is not None and not agent_id.startswith("side-"):
            entry["agentId"] = agent_id
        if type_ == "assistant":
            content = self._said(message_id, text, thinking)
            body = {"id": api_id, "type": "message", "role": "assistant", "model": model}
            entry["message"] = {**body, "content": content, "stop_reason": stop_reason}
            if request_id:
                entry["requestId"] = request_id
        elif type_ == "user":
            results = self._results(message_id)
            more = [{"type": "text", "text": text}] if text and results else []
            entry["message"] = {"role": "user", "content": [*results, *more] or (text or "")}
            if kind in ("meta", "compact_summary"):
                entry["isMeta" if kind == "meta" else "isCompactSummary"] = True
        elif type_ == "attachment":
            entry["attachment"] = {"type": subtype, "content": text}
        else:
            entry |= {"subtype": subtype, "content": text}
        return entry

    def _said(
        self, message_id: int, text: str | None, thinking: str | None
    ) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = []
        if thinking:
            content.append({"type": "thinking", "thinking": thinking})
        if text:
            content.append({"type": "text", "text": text})
        for id_, name, given in self._conn.execute(
            "SELECT tool_use_id, raw_name, input FROM tool_uses WHERE message_id = ? ORDER BY id",
            (message_id,),
        ):
            content.append(
                {"type": "tool_use", "id": id_, "name": name, "input": parsed_object(given)}
            )
        return content

    def _results(self, message_id: int) -> list[dict[str, Any]]:
        rows = self._conn.execute(
            "SELECT tool_use_id, result_text, is_error FROM tool_uses WHERE result_message_id = ?"
            " ORDER BY id",
            (message_id,),
        )
        return [
            {"type": "tool_result", "tool_use_id": id_, "content": text or ""}
            | ({"is_error": True} if is_error else {})
            for id_, text, is_error in rows
        ]


def _dumps(entry: dict[str, Any]) -> bytes:
    marked = {**entry, "reconstructed": True}
    text = json.dumps(marked, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="replace") + b"\n"


def _lines(fd: int, offset: int) -> Iterator[bytes]:
    """The lines up to a place, as they are; closes the file."""
    with os.fdopen(fd, "rb") as file:
        left = offset
        while left > 0 and (line := file.readline(left)):
            yield line
            left -= len(line)


def _unchanged(path: str | bytes, offset: int, mark: bytes | None) -> int | None:
    """Open the file if it still is what was read; the caller closes it."""
    try:
        fd = open_regular(path)
    except OSError:
        return None
    try:
        if os.fstat(fd).st_size >= offset and (not offset or mark_of(fd, offset) == mark):
            return fd
    except OSError:
        pass
    os.close(fd)
    return None
