"""What is in the database and how far it is behind, in one screen."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from ctxdb.daemon.status_words import DaemonReport, daemon_report
from ctxdb.errors import NoDatabase
from ctxdb.formatting import counted, day_and_time
from ctxdb.lock import current_writer
from ctxdb.progress import human_bytes
from ctxdb.store.connection import naming_damage, open_reader
from ctxdb.store.schema import unknown_steps

if TYPE_CHECKING:
    from ctxdb.config import Config

COUNTED = (
    "projects",
    "sessions",
    "turns",
    "messages",
    "tool_uses",
    "files_touched",
    "agents",
    "usage",
    "events",
)
SHOWN_PROBLEMS = 8


@dataclass(slots=True)
class StatusReport:
    """The state of the database."""

    database: str
    exists: bool
    roots: list[str]
    bytes_on_disk: int = 0
    rows: dict[str, int | None] = field(default_factory=lambda: dict.fromkeys(COUNTED))
    first_at: str | None = None
    last_at: str | None = None
    files: int = 0
    files_missing: int = 0
    files_unreadable: int = 0
    bytes_behind: int = 0
    bad_lines: int = 0
    last_read_at: str | None = None
    writer_pid: int | None = None
    daemon: DaemonReport | None = None
    newer_schema: list[str] = field(default_factory=list)
    problems: list[dict[str, object]] = field(default_factory=list)
    # For people only.
    more_problems: int = 0
    mended: dict[str, int] = field(default_factory=dict)  # lines by what had to be mended

    def as_dict(self) -> dict[str, object]:
        """Stable names for programs."""
        found = asdict(self) | {"daemon": self.daemon.as_dict() if self.daemon else None}
        for name in ("more_problems", "mended"):
            del found[name]
        return found

    def lines(self) -> Iterator[str]:
        """One screen, for people."""
        if not self.exists:
            how = "`ctxdb sync` makes it"
            if self.writer_pid is not None:
                how = f"process {self.writer_pid} is making it"
            yield f"Database     {self.database}: not there yet; {how}"
            for root in self.roots:
                yield f"Transcripts  {root}"
            if self.daemon is not None and self.daemon.running:
                yield from self.daemon.lines()
            return
        yield f"Database     {self.database} ({human_bytes(self.bytes_on_disk)})"
        if self.newer_schema:
            yield f"             made by a newer ctxdb ({', '.join(self.newer_schema)}): upgrade"
        if self.first_at and self.last_at:
            first, last = (day_and_time(at)[:10] for at in (self.first_at, self.last_at))
            yield f"Period       {first} to {last}"
        names = {"tool_uses": "tool calls", "files_touched": "file touches", "usage": "requests"}
        rows = {table: n for table, n in self.rows.items() if n is not None}
        width = max((len(f"{n:,}") for n in rows.values()), default=1)
        for position, (table, n) in enumerate(rows.items()):
            lead = "Contents" if position == 0 else ""
            yield f"{lead:<12} {n:>{width},} {names.get(table, table)}"
        kept = f", {self.files_missing:,} deleted since (kept here)" if self.files_missing else ""
        yield f"Transcripts  {self.files:,} files{kept}"
        behind = human_bytes(self.bytes_behind) if self.bytes_behind else "nothing"
        yield f"Behind       {behind}; last read {day_and_time(self.last_read_at) or 'never'}"
        if self.daemon is not None:
            yield from self.daemon.lines()
        if self.writer_pid is not None and not (self.daemon and self.daemon.running):
            yield f"Writer       process {self.writer_pid} is writing now"
        if self.bad_lines or self.files_unreadable:
            yield (
                f"Problems     {self.bad_lines:,} unreadable lines,"
                f" {self.files_unreadable:,} unreadable files"
            )
        for problem in self.problems:
            place = "" if problem["byte_start"] is None else f" at byte {problem['byte_start']}"
            yield f"             {problem['reason']}: {problem['path']}{place}"
        if self.more_problems:
            yield f"             ... and {self.more_problems:,} more: `ctxdb query ingest_errors`"
        if self.mended:
            lines = counted(sum(self.mended.values()), "line")
            yield f"Mended       {lines} read after mending ({', '.join(self.mended)})"


def collect(config: Config) -> StatusReport:
    """Look at the database without changing it, and at the files by stat only."""
    report = StatusReport(str(config.db_path), exists=False, roots=list(config.roots))
    report.daemon = daemon_report(config.db_path)
    writer = current_writer(config.db_path)
    report.writer_pid = writer.pid if writer else None
    try:
        conn = open_reader(config.db_path)
    except NoDatabase:
        return report
    with naming_damage(config.db_path), closing(conn):
        report.exists = True
        for suffix in ("", "-wal"):
            path = config.db_path.with_name(config.db_path.name + suffix)
            report.bytes_on_disk += path.stat().st_size if path.exists() else 0
        report.newer_schema = unknown_steps(conn)
        if conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'messages'").fetchone():
            _look(conn, report)
            report.bytes_behind = _behind(conn, config)
    return report


def _look(conn: sqlite3.Connection, report: StatusReport) -> None:
    conn.execute("BEGIN")  # one moment for all numbers
    for table in COUNTED:
        (report.rows[table],) = conn.execute(f"SELECT count(*) FROM {table}").fetchone()
    report.first_at, report.last_at = conn.execute(
        "SELECT min(started_at), max(ended_at) FROM sessions"
    ).fetchone()
    (report.files, report.files_missing, report.files_unreadable, bad, report.last_read_at) = (
        conn.execute(
            "SELECT count(*), count(missing_since), sum(state = 'unreadable'), sum(bad_lines),"
            " max(last_read_at) FROM source_files"
        ).fetchone()
    )
    report.files_unreadable = report.files_unreadable or 0
    report.bad_lines = bad or 0
    # A line that was mended is counted as stored, with the same reason that is noted here.
    is_bad = (
        "(e.byte_start IS NULL OR EXISTS (SELECT 1 FROM line_counts c"
        " WHERE c.source_file_id = e.source_file_id AND c.outcome = 'bad' AND c.reason = e.reason))"
    )
    report.problems = [
        {"path": path, "byte_start": start, "reason": reason}
        for path, start, reason in conn.execute(
            "SELECT f.path, e.byte_start, e.reason FROM ingest_errors e JOIN source_files f"
            f" ON f.id = e.source_file_id WHERE {is_bad} ORDER BY e.id DESC LIMIT ?",
            (SHOWN_PROBLEMS,),
        )
    ]
    (found,) = conn.execute(f"SELECT count(*) FROM ingest_errors e WHERE {is_bad}").fetchone()
    report.more_problems = found - len(report.problems)
    report.mended = dict(
        conn.execute(
            f"SELECT e.reason, count(*) FROM ingest_errors e WHERE NOT {is_bad} GROUP BY 1"
            " ORDER BY 2 DESC, 1"
        )
    )
    conn.execute("COMMIT")


def _behind(conn: sqlite3.Connection, config: Config) -> int:
    """Bytes of transcripts that are not taken in, new files among them."""
    from ctxdb.files.walk import store_path
    from ctxdb.query.fresh import look

    glance = look(config)
    # Of what was found below other folders nobody looks for new files.
    looked_at = () if glance is None else tuple(store_path(root)[0] for root in config.roots)
    behind = 0 if glance is None else glance.behind
    for path, path_bytes, offset in conn.execute(
        'SELECT path, path_bytes, "offset" FROM source_files WHERE missing_since IS NULL'
        f" AND (root IS NULL OR root NOT IN ({', '.join('?' * len(looked_at))}))",
        looked_at,
    ):
        try:
            behind += max(os.stat(path_bytes or path).st_size - offset, 0)
        except OSError:
            continue  # gone or unreadable: the next sync says so
    return behind
