"""Transcripts that Claude Code will delete before they are archived.

Claude Code deletes a transcript when it was last written so many days ago (`cleanupPeriodDays`). A
running daemon archives each line within seconds. Without one, or with the archive switched off, the
exact bytes of a transcript can be lost. Its rows stay.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ctxdb.archive.archive_file import open_archive_to_read
from ctxdb.claude.client_settings import cleanup_days
from ctxdb.claude.layout import is_transcript
from ctxdb.daemon_health import running
from ctxdb.errors import CtxdbError
from ctxdb.files.walk import scan, text_of
from ctxdb.formatting import counted, day_and_time
from ctxdb.ingest.gate import is_kept_out
from ctxdb.progress import human_bytes
from ctxdb.store.connection import open_reader
from ctxdb.store.tombstones import FILE, Tombstones

if TYPE_CHECKING:
    from ctxdb.config import Config

WARN_DAYS = 7  # before a transcript is deleted
DAY_SECONDS = 86_400
_RECENT_SECONDS = 300  # a daemon needs a moment for what was just written


@dataclass(slots=True)
class Retention:
    """What will be lost, and why."""

    cleanup_days: int  # after which Claude Code deletes a transcript
    files_at_risk: int = 0  # deleted within a week, and not archived to their end
    bytes_at_risk: int = 0
    first_at: str | None = None  # when the first of them is deleted
    reason: str | None = None  # why they are not archived, and what to do

    def as_dict(self) -> dict[str, object]:
        """Stable names for programs."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """The same for people; nothing if nothing is at risk."""
        if not self.files_at_risk:
            return
        files = counted(self.files_at_risk, "transcript")
        size = human_bytes(self.bytes_at_risk)
        day = day_and_time(self.first_at)[:10]
        yield (
            f"At risk      {files} ({size} not archived): Claude Code deletes transcripts after"
            f" {counted(self.cleanup_days, 'day')}, the first of these from {day} on"
        )
        yield f"             {self.reason}"


def find_at_risk(config: Config, now: float | None = None) -> Retention:
    """Compare the transcripts that will be deleted soon with what is archived of them."""
    now = time.time() if now is None else now
    days = cleanup_days(config.claude_dirs)
    found = Retention(days)
    reason = _reason(config)
    if reason is None:
        return found
    archived = _archived_sizes(config)
    tombstones = _tombstones(config)
    first = float("inf")
    for file in scan(config.roots, is_transcript).files:
        written = file.mtime_ns / 1e9
        deleted_at = written + days * DAY_SECONDS
        missing = file.size - archived.get(text_of(file.path), 0)
        if missing <= 0 or deleted_at - now > WARN_DAYS * DAY_SECONDS:
            continue
        if now - written < _RECENT_SECONDS and days:
            continue
        if tombstones is not None and is_kept_out(tombstones, file):
            continue  # as its owner wants it
        found.files_at_risk += 1
        found.bytes_at_risk += missing
        first = min(first, deleted_at)
    if found.files_at_risk:
        found.reason = reason
        at = datetime.fromtimestamp(max(first, 0.0), UTC).isoformat(timespec="milliseconds")
        found.first_at = at.replace("+00:00", "Z")
    return found


def _reason(config: Config) -> str | None:
    """Why transcripts are not archived as they are written, and what to do; None if they are."""
    if not config.archive:
        return "the archive is switched off; `ctxdb config set archive true` turns it on"
    daemon = running(config.db_path)
    if daemon is None:
        return "no daemon runs: `ctxdb sync` archives them now, `ctxdb daemon install` always"
    if daemon.is_frozen:
        return f"the daemon is frozen: {daemon.frozen_text}"
    if not daemon.archive:
        return "the daemon was started with --no-archive; `ctxdb daemon restart` archives them"
    return daemon.archive_problem or None


def _tombstones(config: Config) -> Tombstones | None:
    """What is kept out; None if that cannot be read."""
    if not config.db_path.exists():
        return None
    try:
        with closing(open_reader(config.db_path)) as conn:
            found = Tombstones(conn)
            found.hash_of(FILE, "")  # reads the key, while the database is open
            return found
    except (CtxdbError, sqlite3.Error):
        return None


def _archived_sizes(config: Config) -> dict[str, int]:
    """How many bytes of each file are archived; an archive that cannot be read has none."""
    try:
        archive = open_archive_to_read(config.db_path)
        if archive is None:
            return {}
        with closing(archive):
            sizes = archive.execute("SELECT path, size FROM files ORDER BY generation")
            return dict(sizes.fetchall())
    except (CtxdbError, sqlite3.Error):
        return {}
