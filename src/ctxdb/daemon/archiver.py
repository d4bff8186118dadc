"""When the daemon adds to the archive: after new lines were stored, while no line waits."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb.ingest.archiving import archive_new
from ctxdb.ingest.plan import utc_now

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.archive.add import Added

PAUSE_SECONDS = 2.0  # at least, between two times: a few lines then make one frame
PAUSE_SHARE = 1 / 10  # of a core, at most
RETRY_SECONDS = 60.0  # after the archive could not be written
MOST_BYTES = 8 << 20  # added at a time: lines that come meanwhile wait for well under a second


@dataclass(slots=True)
class Archiver:
    """Adds what the database has read to the archive beside it."""

    db_path: Path | None = None  # None: the archive is switched off
    is_wanted: bool = True
    not_before: float = 0.0

    def is_due(self, now: float) -> bool:
        """Whether to add now."""
        return self.db_path is not None and self.is_wanted and now >= self.not_before

    def add(self, conn: sqlite3.Connection) -> Added | None:
        """Add a bounded part of what is new."""
        if self.db_path is None:
            return None
        self.not_before = time.monotonic() + RETRY_SECONDS  # if it fails
        began = time.monotonic()
        added = archive_new(self.db_path, conn, utc_now(), most_bytes=MOST_BYTES)
        self.is_wanted = not added.is_complete
        ended = time.monotonic()
        self.not_before = ended + max(PAUSE_SECONDS, (ended - began) / PAUSE_SHARE)
        return added
