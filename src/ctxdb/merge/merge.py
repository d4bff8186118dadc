"""`ctxdb merge`: takes the sessions of another machine into this database.

In this order, so that a run that is killed is completed by the next one: what was forgotten there,
the bytes, the rows without bytes, and last the rows that are read from the bytes. If only the last
step is missing, the next sync does it.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb.archive.absorb import Absorbed, absorb
from ctxdb.archive.archive_file import open_archive, open_archive_to_read
from ctxdb.archive.read import Generation, generations
from ctxdb.files.walk import text_of
from ctxdb.ingest.from_archive import (
    find_lacking,
    look_at_archive_again,
    note_archive,
    read_archived,
)
from ctxdb.ingest.masked_line import reading_of
from ctxdb.ingest.plan import utc_now
from ctxdb.ingest.report import SyncReport
from ctxdb.lock import WriterLock
from ctxdb.merge.machines import Machines, find_machines
from ctxdb.merge.other import Other, open_other
from ctxdb.merge.report import MergeReport
from ctxdb.merge.rows_only import RowCopier
from ctxdb.merge.taking import Taking
from ctxdb.merge.tombstones import find_tombstones, take_tombstones
from ctxdb.merge.user_prices import add_prices, find_prices
from ctxdb.privacy.rule_settings import masker_of
from ctxdb.redact.archived import mask_archive
from ctxdb.store.connection import naming_damage, open_reader, open_writer, write_transaction
from ctxdb.store.schema import prepare
from ctxdb.store.tombstones import SESSION, Tombstones
from ctxdb.verify.side import settle_side_files

if TYPE_CHECKING:
    from ctxdb.config import Config
    from ctxdb.progress import Progress

_MONEY = 1e12  # the view _costs has whole numbers of 10^-12 USD
_COUNTED = (
    "SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM messages),"
    " (SELECT count(*) FROM usage), (SELECT coalesce(sum(cost), 0) FROM _costs)"
)


def merge(config: Config, path: Path, progress: Progress) -> MergeReport:
    """Take everything of another database. The database of this machine is up to date."""
    began = time.monotonic()
    report = MergeReport(str(config.db_path), str(path))
    with (
        WriterLock(config.db_path),
        open_other(path, config.db_path) as other,
        naming_damage(config.db_path),
        closing(open_writer(config.db_path)) as conn,
    ):
        prepare(conn, config.db_path)
        _Merging(config, conn, other, report, progress).run()
    report.seconds = round(time.monotonic() - began, 3)
    return report


class _Merging:
    """One merge, under the writer lock."""

    def __init__(
        self,
        config: Config,
        conn: sqlite3.Connection,
        other: Other,
        report: MergeReport,
        progress: Progress,
    ) -> None:
        self.config = config
        self.conn = conn
        self.other = other
        self.report = report
        self.progress = progress
        self.now = utc_now()

    def run(self) -> None:
        conn, other, report = self.conn, self.other, self.report
        before = conn.execute(_COUNTED).fetchone()
        machines = find_machines(conn, self.config.db_path, other, may_write=True)
        report.machine = machines.other
        with write_transaction(conn):
            machines.note(conn)
        tombstones = find_tombstones(conn, other.conn)
        take_tombstones(conn, other.conn, tombstones)
        report.tombstones, report.forgotten_there = tombstones.sessions, tombstones.here
        copied = self._copy_bytes(machines)
        rows = RowCopier(conn, other, machines, copied.damaged)
        done = rows.copy_sessions(rows.find_sessions(), self.now)
        self._read_bytes()
        rows.copy_side_files(done)
        rows.copy_history(done)
        if done.are_any:
            settle_side_files(conn)
        report.sessions_without_bytes = done.sessions + done.again
        report.sessions_not_updated = done.left
        report.history, report.side_files = done.history, done.side_files
        self._mask_archive()
        new, report.prices_differing = find_prices(conn, other.conn)
        refused = add_prices(conn, new) if new else []
        report.prices = len(new) - len(refused)
        report.prices_differing += refused
        sessions, messages, requests, cost = (
            now - then for now, then in zip(conn.execute(_COUNTED).fetchone(), before, strict=True)
        )
        report.sessions, report.messages, report.requests = sessions, messages, requests
        report.cost_usd = round(cost / _MONEY, 6)

    def _copy_bytes(self, machines: Machines) -> Absorbed:
        """Copy the other archive. From then on a sync reads what is not read yet."""
        if self.other.archive is None:
            return Absorbed()
        look_at_archive_again(self.conn)
        folder = self.config.db_path.parent
        taking = Taking(self.conn, machines, folder)
        (size,) = self.other.archive.execute("SELECT sum(size) FROM files").fetchone()
        self.progress.start(size or 0, "Copying the archive")
        with closing(open_archive(self.config.db_path)) as ours:
            copied = absorb(
                *(self.other.archive, ours, folder, taking.place, taking.kept, self.now),
                self.progress.advance,
            )
        self.report.files, self.report.bytes = copied.files, copied.bytes
        self.report.files_left_out = len(taking.left_out)
        self.report.damaged = sorted(copied.damaged)
        return copied

    def _mask_archive(self) -> None:
        """Overwrite secrets in the copied bytes, if that is wanted in this archive."""
        masker = masker_of(self.config.settings)
        if self.report.files and masker is not None and self.config.settings["redact.archive"]:
            done = mask_archive(self.config.db_path, self.conn, masker, self.progress)
            self.report.problems += done.problems

    def _read_bytes(self) -> None:
        """Read what the archive has and the database lacks."""
        archive = open_archive_to_read(self.config.db_path)
        if archive is None:
            return
        done = SyncReport()
        with closing(archive):
            lacking = find_lacking(self.conn, archive)
            if lacking:
                reading = reading_of(self.conn, masker_of(self.config.settings))
                read_archived(
                    *(self.conn, self.config.db_path, archive, lacking, done, self.progress),
                    reading,
                )
        note_archive(self.conn, self.config.db_path)
        self.report.lines_read = done.lines_read
        self.report.problems = done.problems


def plan_merge(config: Config, path: Path) -> MergeReport:
    """What a merge would do. Nothing is changed."""
    report = MergeReport(str(config.db_path), str(path), is_dry_run=True)
    with (
        open_other(path, config.db_path) as other,
        closing(open_reader(config.db_path)) as conn,
    ):
        machines = find_machines(conn, config.db_path, other, may_write=False)
        report.machine = machines.other
        tombstones = find_tombstones(conn, other.conn)
        report.tombstones, report.forgotten_there = tombstones.sessions, tombstones.here
        _plan_bytes(config, conn, other, machines, report)
        kept_out = Tombstones(conn)
        here = {found for (found,) in conn.execute("SELECT id FROM sessions")}
        new = {
            found
            for (found,) in other.conn.execute("SELECT id FROM sessions")
            if found not in here and not kept_out.keeps_out(SESSION, found)
        }
        report.sessions = len(new)
        rows = RowCopier(conn, other, machines, {})
        report.sessions_without_bytes = len(rows.find_sessions() - here)
        prices, report.prices_differing = find_prices(conn, other.conn)
        report.prices = len(prices)
    return report


def _plan_bytes(
    config: Config,
    conn: sqlite3.Connection,
    other: Other,
    machines: Machines,
    report: MergeReport,
) -> None:
    if other.archive is None:
        return
    ours = open_archive_to_read(config.db_path)
    here: dict[tuple[str, int], int] = {}
    if ours is not None:
        with closing(ours):
            here = {(file.path, file.generation): file.size for file in generations(ours)}
    taking = Taking(conn, machines, config.db_path.parent)
    for file in generations(other.archive):
        more = _more_bytes(taking, file, here)
        report.files += more > 0
        report.bytes += more


def _more_bytes(taking: Taking, file: Generation, here: dict[tuple[str, int], int]) -> int:
    place = taking.place(file)
    if place is None or taking.gate.tombstones.keeps_out(SESSION, file.session_id):
        return 0
    name, _ = place
    return max(file.size - here.get((text_of(name), file.generation), 0), 0)
