"""When the daemon reads the files beside the transcripts: to-dos, plans, history, saved outputs.

They change together with transcripts, so they are looked at after new lines were stored. Between
that, four stats show whether a file came, went or history.jsonl grew; and now and then all are
looked at. Folders like ~/.claude hold much that changes all the time and is not read, so they are
not watched for events.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxdb.claude.side_contents import FOLDERS, HISTORY_NAME
from ctxdb.ingest.masked_line import SHIPPED, reading_of
from ctxdb.ingest.plan import utc_now
from ctxdb.ingest.side_files import SideReport, read_side_files

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.ingest.masked_line import StarsOf
    from ctxdb.privacy.masking import Masker

PAUSE_SECONDS = 0.5  # at least, between two looks
PAUSE_SHARE = 1 / 50  # of a core, at most

Look = list[tuple[int, int] | None]


@dataclass(slots=True)
class Beside:
    """Reads the files beside the transcripts when there may be something new."""

    claude_dirs: Sequence[str] = ()
    masker: Masker | None = SHIPPED
    stars: StarsOf | None = None
    is_wanted: bool = True
    not_before: float = 0.0
    seen: Look = field(default_factory=list)

    def look(self) -> None:
        """Notice new and removed files, and a history.jsonl that has grown."""
        now = [
            _stat(os.path.join(top, name))
            for top in self.claude_dirs
            for name in (*FOLDERS, HISTORY_NAME)
        ]
        if now != self.seen:
            self.seen = now
            self.is_wanted = True

    def is_due(self, now: float) -> bool:
        """Whether to read now."""
        return self.is_wanted and now >= self.not_before

    def read(self, conn: sqlite3.Connection) -> SideReport:
        """Read what is new."""
        began = time.monotonic()
        reading = reading_of(conn, self.masker, self.stars)
        report = read_side_files(conn, self.claude_dirs, utc_now(), reading)
        self.is_wanted = False
        ended = time.monotonic()
        self.not_before = ended + max(PAUSE_SECONDS, (ended - began) / PAUSE_SHARE)
        return report


def _stat(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size
