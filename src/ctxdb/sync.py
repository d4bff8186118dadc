"""Bringing the database up to date with all transcripts, as the only writer."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ctxdb.build import build, remove_unfinished
from ctxdb.ingest import Pass
from ctxdb.lock import WriterLock
from ctxdb.memory import give_back
from ctxdb.store.connection import BUSY_SECONDS, naming_damage, open_writer
from ctxdb.store.schema import prepare

if TYPE_CHECKING:
    from ctxdb.config import Config
    from ctxdb.progress import Progress
    from ctxdb.report import SyncReport

OPTIMIZE_LINES = 20_000  # read at once before SQLite looks whether its statistics are out of date


def sync(
    config: Config, *, wait: bool = False, busy: float = BUSY_SECONDS, progress: Progress
) -> SyncReport:
    """One pass over all roots, under the writer lock.

    Programs that hold SQLite's own lock, as an editor may, are waited for so many seconds.
    """
    began = time.monotonic()
    with WriterLock(config.db_path, wait=wait), naming_damage(config.db_path):
        remove_unfinished(config.db_path)
        built = build(config.db_path, config.roots, progress)
        if built is not None:
            give_back()
        with closing(open_writer(config.db_path, wait=busy)) as conn:
            prepare(conn, config.db_path)
            # Of what a building has left, little or nothing, processes that read ahead are not
            # worth their memory: forked from this one, they begin with all that this one has.
            report = Pass(conn, config.roots, progress, ahead=built is None).run()
            if built is not None:
                report = _together(built, report)
                report.seconds = round(time.monotonic() - began, 3)
            if report.lines_read > OPTIMIZE_LINES:
                _optimize(conn)
    return report


def _together(built: SyncReport, after: SyncReport) -> SyncReport:
    """What both did. To whoever asked there was nothing before, so no file has grown."""
    return replace(
        after,
        new_files=built.new_files + after.new_files,
        grown_files=0,
        lines_read=built.lines_read + after.lines_read,
        bad_lines=built.bad_lines + after.bad_lines,
        bytes_read=built.bytes_read + after.bytes_read,
    )


def _optimize(conn: sqlite3.Connection) -> None:
    with suppress(sqlite3.OperationalError):  # only advice for the planner: next time, then
        conn.execute("PRAGMA analysis_limit = 400")  # rows per index
        conn.execute("PRAGMA optimize")
