"""When the daemon adds to the archive and makes it smaller: only while no line waits.

New bytes are added a moment after their lines were stored. When no line has come for a while, the
unfinished last lines of quiet files are added too, and then another process merges and seals
(`archive/seal_process.py`). That process is killed as soon as a line comes or the daemon ends.
"""

from __future__ import annotations

import math
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb.archive import seal_process
from ctxdb.archive.add import QUIET_SECONDS
from ctxdb.archive.archive_file import open_archive_to_read
from ctxdb.archive.seal import has_work
from ctxdb.ingest.archiving import archive_new
from ctxdb.ingest.plan import utc_now

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.archive.add import Added
    from ctxdb.privacy.masking import Masker

PAUSE_SECONDS = 2.0  # at least, between two times: a few lines then make one frame
PAUSE_SHARE = 1 / 10  # of a core, at most
CALM_SECONDS = 0.5  # without a line, before it adds: the next line would have to wait for that
MOST_WAIT_SECONDS = 10.0  # while lines keep coming
RETRY_SECONDS = 60.0  # after the archive could not be written
MOST_BYTES = 8 << 20  # added at a time: lines that come meanwhile wait for well under a second
IDLE_SECONDS = QUIET_SECONDS + 30.0  # without a line, before the archive is made smaller
SEAL_QUIET_SECONDS = 600.0  # a project is sealed when nothing has come of it for so long
KILL_SECONDS = 5.0  # for a killed process to be gone


@dataclass(slots=True)
class Archiver:
    """Keeps the archive beside the database."""

    db_path: Path | None = None  # None: the archive is switched off
    masker: Masker | None = None  # what is overwritten; None: the exact bytes are kept
    is_wanted: bool = True
    not_before: float = 0.0
    calm_at: float = 0.0
    waits_since: float | None = None  # when the first line came that is not archived
    idle_seconds: float = IDLE_SECONDS
    seal_seconds: float = SEAL_QUIET_SECONDS
    tidy_at: float = math.inf  # when to look whether it can be made smaller
    sealing: subprocess.Popen[bytes] | None = None

    # -- adding --------------------------------------------------------------------------------

    def lines_came(self, now: float) -> None:
        """Note that lines were stored: add them when no more come for a moment."""
        self.is_wanted = True
        if self.waits_since is None:
            self.waits_since = now
        self.calm_at = min(now + CALM_SECONDS, self.waits_since + MOST_WAIT_SECONDS)

    def is_due(self, now: float) -> bool:
        """Whether to add now."""
        return self.db_path is not None and self.is_wanted and now >= self._add_at

    @property
    def _add_at(self) -> float:
        return max(self.not_before, self.calm_at)

    def add(self, conn: sqlite3.Connection) -> Added | None:
        """Add a bounded part of what is new."""
        if self.db_path is None:
            return None
        self.stop_sealing()  # one process at a time writes the archive
        self.not_before = time.monotonic() + RETRY_SECONDS  # if it fails
        began = time.monotonic()
        added = archive_new(self.db_path, conn, utc_now(), self.masker, most_bytes=MOST_BYTES)
        self.is_wanted = not added.is_complete
        self.waits_since = None
        ended = time.monotonic()
        self.not_before = ended + max(PAUSE_SECONDS, (ended - began) / PAUSE_SHARE)
        self.tidy_at = ended + self.idle_seconds
        return added

    # -- making it smaller ---------------------------------------------------------------------

    @property
    def next_at(self) -> float:
        """When there is something to do next, if no line comes."""
        if self.db_path is None:
            return math.inf
        return min(self._add_at if self.is_wanted else math.inf, self.tidy_at)

    def is_idle(self, now: float) -> bool:
        """Whether no line has come for so long that the archive can be made smaller."""
        return self.db_path is not None and not self.is_wanted and now >= self.tidy_at

    def tidy(self, conn: sqlite3.Connection) -> Added | None:
        """Add the unfinished last lines of quiet files, and begin to seal if there is anything."""
        if self.db_path is None:
            return None
        self.tidy_at = time.monotonic() + self.seal_seconds
        if self.sealing is not None:
            return None  # it still runs
        added = archive_new(self.db_path, conn, utc_now(), self.masker)
        quiet = seal_process.quiet_since(QUIET_SECONDS)
        archive = open_archive_to_read(self.db_path)
        if archive is None:
            return added
        with closing(archive):
            sealed_since = seal_process.quiet_since(self.seal_seconds)
            can_seal = has_work(archive, merge_quiet=quiet, seal_quiet=sealed_since)
            is_later = has_work(archive, merge_quiet=quiet, seal_quiet=utc_now())
        if can_seal:
            self.sealing = seal_process.start(self.db_path, QUIET_SECONDS, self.seal_seconds)
        elif not is_later:
            self.tidy_at = math.inf  # until lines come
        return added

    def stop_sealing(self) -> None:
        """End the process that seals, at once; what it has not finished is done another time."""
        child, self.sealing = self.sealing, None
        if child is not None:
            child.kill()
            child.wait(KILL_SECONDS)
            _close(child)

    def failure_of_sealing(self) -> str | None:
        """Why the process that seals has failed, once."""
        child = self.sealing
        if child is None or child.poll() is None:
            return None
        self.sealing = None
        text = b"" if child.stderr is None else child.stderr.read(1000)
        _close(child)
        if not child.returncode:
            return None
        *_, last = ["", *text.decode(errors="replace").strip().splitlines()]
        return last or f"exit code {child.returncode}"


def _close(child: subprocess.Popen[bytes]) -> None:
    if child.stderr is not None:
        child.stderr.close()
