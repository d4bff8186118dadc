"""Which files of the other archive are taken, and which of their bytes.

What was forgotten on either machine, and what belongs to ignored projects, is not taken.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from pathlib import Path
from typing import BinaryIO

from ctxdb.archive.blank import blank
from ctxdb.archive.read import Generation
from ctxdb.archive.sources import HISTORY, TRANSCRIPT
from ctxdb.claude.side_contents import role_of
from ctxdb.claude.sidecars import INDEX_NAME, sessions_named
from ctxdb.elsewhere import split_name
from ctxdb.files.identity import pread
from ctxdb.files.walk import FoundFile
from ctxdb.ingest.gate import Gate, HistoryGate
from ctxdb.merge.machines import Machines
from ctxdb.store.tombstones import SESSION, SLUG


class Taking:
    """Decides file by file. The caller has begun a transaction, or the connection only reads."""

    def __init__(self, conn: sqlite3.Connection, machines: Machines, folder: Path) -> None:
        self.machines = machines
        self.folder = folder
        self.gate = Gate(conn)
        self.history = HistoryGate(conn)
        self.left_out: set[str] = set()  # names of files here
        # How far this machine's own files were read: the other may have copies of them.
        self.read = dict(
            conn.execute("SELECT path, \"offset\" FROM source_files WHERE machine = ''")
        )

    def place(self, file: Generation) -> tuple[str, str] | None:
        """The name and root of a file here; None if it is not needed here."""
        name, root = self.machines.place(file)
        machine, path = split_name(name)
        if not machine and self.read.get(path, -1) >= file.size:
            return None  # a file of this machine, which has read as much of it
        return name, root

    def kept(self, file: Generation, name: str, root: str, data: BinaryIO) -> BinaryIO | None:
        """What is kept of the bytes of a file; None: nothing."""
        if self._is_kept_out(file, name, root, data.fileno()):
            self.left_out.add(name)
            return None
        line_filter = self.history.line_filter if file.kind == HISTORY else None
        if line_filter is None:
            return data
        whole = pread(data.fileno(), os.fstat(data.fileno()).st_size, 0)
        out = tempfile.TemporaryFile(dir=self.folder, prefix=".ctxdb-")  # noqa: SIM115
        out.write(blank(whole, line_filter))
        out.flush()
        return out

    def _is_kept_out(self, file: Generation, name: str, root: str, fd: int) -> bool:
        tombstones = self.gate.tombstones
        if file.kind == HISTORY:
            return False
        if tombstones.keeps_out(SESSION, file.session_id):
            return True
        if file.kind == TRANSCRIPT:
            size = os.fstat(fd).st_size
            return self.gate.keeps_out(FoundFile(name, root, 0, 0, size, 0, 0), fd)
        if Path(name).name == INDEX_NAME:
            named = sessions_named(pread(fd, os.fstat(fd).st_size, 0))
            return any(tombstones.keeps_out(SESSION, one) for one in named)
        role = role_of(name, root)
        return role is not None and (
            tombstones.keeps_out(SESSION, role.session_id) or tombstones.keeps_out(SLUG, role.slug)
        )
