"""Outputs of tools that were too large for their line, put in place of the line's preview."""

from __future__ import annotations

import os
import re
import sqlite3
import zlib
from typing import NamedTuple

from ctxdb.claude.layout import is_uuid
from ctxdb.claude.side_contents import RESULTS_FOLDER
from ctxdb.columns import insert_sql, values_of
from ctxdb.rows import GitOperation, ToolUse
from ctxdb.rules.calls import git_operations
from ctxdb.settle.calls import GIT_REPORTED
from ctxdb.settle.pull_requests import refresh_pull_requests
from ctxdb.store.changes import stamp
from ctxdb.store.insert import insert, load

MAX_TEXT_BYTES = 1 << 20  # of an output that is stored; the rest is left out
# Results whose text is the preview in their line: the file is not read yet, or was not there.
_WAITING = (
    "SELECT t.id, t.result_path, m.session_id, coalesce(b.path_bytes, f.path), b.root"
    " FROM tool_uses t JOIN messages m ON m.id = t.result_message_id"
    " JOIN source_files f ON f.id = m.source_file_id JOIN _file_marks b ON b.source_file_id = f.id"
    " LEFT JOIN _tool_results r ON r.tool_id = t.id"
    " WHERE t.result_path IS NOT NULL AND r.line_text IS NULL"
)


class SavedOutput(NamedTuple):
    """Where the output of a call is looked for: nowhere but in its own session's folder."""

    tool_id: int
    root: str
    folders: tuple[str, str, str]  # below the root: project, session, tool-results
    name: str

    @property
    def folder(self) -> str:
        """The folder it is in."""
        project, session, results = self.folders
        return f"{self.root.rstrip(os.sep)}/{project}/{session}/{results}"

    @property
    def path(self) -> str:
        """The file."""
        return f"{self.folder}/{self.name}"


def waiting_outputs(conn: sqlite3.Connection) -> list[SavedOutput]:
    """Results that name a file which was not read yet."""
    found = []
    for tool_id, named, session_id, path, root in conn.execute(_WAITING):
        place = place_of_output(os.fsdecode(path), root, session_id, named)
        if place is not None:
            found.append(SavedOutput(tool_id, root, *place))
    return found


def place_of_output(
    transcript: str, root: str | None, session_id: str | None, named: str
) -> tuple[tuple[str, str, str], str] | None:
    """Folders below the root, and the name; None when there is no such place.

    Only the base name of the path that the line names is used: a transcript must not make ctxdb
    read any other file.
    """
    name = re.split(r"[/\\]", named)[-1]
    if not root or not session_id or not is_uuid(session_id):
        return None
    if name in ("", ".", "..") or "\0" in name:
        return None
    top = root.rstrip(os.sep) + os.sep
    project, slash, _ = transcript.removeprefix(top).partition(os.sep)
    if not transcript.startswith(top) or not slash or project in (".", ".."):
        return None
    return (project, session_id, RESULTS_FOLDER), name


def pack_output(data: bytes) -> bytes:
    """An output as it is kept: at most MAX_TEXT_BYTES of it, compressed."""
    return zlib.compress(data[:MAX_TEXT_BYTES])


def unpack(packed: bytes) -> str:
    """The text of an output. A character that was cut in two at the end is left out."""
    data = zlib.decompress(packed)
    if len(data) == MAX_TEXT_BYTES:
        data = data.decode("utf-8", "ignore").encode() if _ends_torn(data) else data
    return data.decode("utf-8", "replace").replace("\0", "\u2400")


def _ends_torn(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError as e:
        return e.end == len(data) and e.start > len(data) - 4
    return False


def put_output(conn: sqlite3.Connection, tool_id: int, packed: bytes, size: int) -> None:
    """Put the whole output in place of the preview."""
    for tool in load(conn, ToolUse, "WHERE t.id = ?", (tool_id,)):
        text = unpack(packed)
        conn.execute(
            "UPDATE tool_uses SET result_text = ?, result_bytes = ? WHERE id = ?",
            (text, size, tool_id),
        )
        stamp(conn, [tool.session_id])
        tool.line_text = tool.result_text or ""
        conn.execute(
            insert_sql(ToolUse, "_tool_results", verb="INSERT OR REPLACE"),
            values_of(ToolUse, "_tool_results")(tool),
        )
        tool.result_text = text
        reported = conn.execute(GIT_REPORTED, (tool_id,)).fetchall()
        conn.execute("DELETE FROM git_operations WHERE tool_id = ?", (tool_id,))
        insert(conn, GitOperation, git_operations(tool, reported))
        if tool.session_id is not None:
            refresh_pull_requests(conn, {tool.session_id})
