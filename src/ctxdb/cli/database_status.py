"""Find out what is in the database and how many bytes of transcripts it lacks."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from ctxdb.archive.archive_file import archive_path
from ctxdb.archive.summary import ArchiveSummary, summarize
from ctxdb.daemon.status_words import DaemonReport, daemon_report
from ctxdb.errors import NoDatabase
from ctxdb.formatting import counted, day_and_time
from ctxdb.ingest.retention import Retention, find_at_risk
from ctxdb.lock import current_writer
from ctxdb.progress import human_bytes
from ctxdb.store.connection import naming_damage, open_reader
from ctxdb.store.erase_pages import is_unerased
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
    "todos",
    "plans",
    "history",
)
SHOWN_PROBLEMS = 8


@dataclass(slots=True)
class DatabaseStatus:
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
    side_files: int = 0  # files beside the transcripts that were read: to-dos, plans, history ...
    side_files_unreadable: int = 0
    secrets_masked: int = 0  # as lines were read
    masking: bool = True  # secrets of new lines are masked
    unerased: bool = False  # text that was masked or removed is still in the file
    ignored_sessions: int = 0  # that were stored before their project was ignored
    last_read_at: str | None = None
    writer_pid: int | None = None
    daemon: DaemonReport | None = None
    archive: ArchiveSummary | None = None
    retention: Retention | None = None
    newer_schema: list[str] = field(default_factory=list)
    problems: list[dict[str, object]] = field(default_factory=list)
    # These are for people only, and not in as_dict().
    more_problems: int = 0
    more_side_problems: int = 0
    repaired: dict[str, int] = field(default_factory=dict)  # lines by what had to be repaired

    def as_dict(self) -> dict[str, object]:
        """Return it as data with stable names."""
        found = asdict(self) | {
            "daemon": self.daemon.as_dict() if self.daemon else None,
            "archive": self.archive.as_dict() if self.archive else None,
            "retention": self.retention.as_dict() if self.retention else None,
        }
        for name in ("more_problems", "more_side_problems", "repaired"):
            del found[name]
        return found

    def lines(self) -> Iterator[str]:
        """Return it as lines of text."""
        if not self.exists:
            how = "`ctxdb sync` makes it"
            if self.writer_pid is not None:
                how = f"process {self.writer_pid} is making it"
            yield f"Database     {self.database}: does not exist yet; {how}"
            for root in self.roots:
                yield f"Transcripts  {root}"
            if self.daemon is not None and self.daemon.running:
                yield from self.daemon.lines()
            if self.retention is not None:
                yield from self.retention.lines()
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
        if self.side_files:
            yield f"Beside them  {self.side_files:,} files (to-dos, plans, history, saved outputs)"
        yield f"Masking      {self._masking()}"
        behind = human_bytes(self.bytes_behind) if self.bytes_behind else "nothing"
        yield f"Behind       {behind}; last read {day_and_time(self.last_read_at) or 'never'}"
        if self.archive is not None:
            yield self.archive.line
        if self.daemon is not None:
            yield from self.daemon.lines()
        if self.writer_pid is not None and not (self.daemon and self.daemon.running):
            yield f"Writer       process {self.writer_pid} is writing now"
        if self.retention is not None:
            yield from self.retention.lines()
        if self.ignored_sessions:
            yield f"Ignored      {_of_ignored_projects(self.ignored_sessions)}"
        yield from self._problem_lines()

    def _masking(self) -> str:
        """What is masked where."""
        masked = f"{counted(self.secrets_masked, 'secret')} masked in the database"
        if not self.masking:
            masked = f"off (redact.enabled = false): new secrets are stored as they are; {masked}"
        if self.unerased:
            masked += "; old text is not yet erased: `ctxdb sync` does it"
        if self.archive is None or not self.archive.exists:
            return masked
        return f"{masked}; in the archive {self.archive.secrets_line}"

    def _problem_lines(self) -> Iterator[str]:
        if self.bad_lines or self.files_unreadable or self.side_files_unreadable:
            beside = ""
            if self.side_files_unreadable:
                beside = f", {self.side_files_unreadable:,} beside the transcripts"
            yield (
                f"Problems     {self.bad_lines:,} unreadable lines,"
                f" {self.files_unreadable:,} unreadable files{beside}"
            )
        for problem in self.problems:
            place = "" if problem["byte_start"] is None else f" at byte {problem['byte_start']}"
            yield f"             {problem['reason']}: {problem['path']}{place}"
        if self.more_problems:
            yield f"             ... and {self.more_problems:,} more: `ctxdb query ingest_errors`"
        if self.more_side_problems:
            yield f"             ... and {self.more_side_problems:,} more beside the transcripts"
        if self.repaired:
            lines = counted(sum(self.repaired.values()), "line")
            yield f"Repaired     {lines} had to be repaired ({', '.join(self.repaired)})"


def _of_ignored_projects(count: int) -> str:
    how = "stored from before; `ctxdb forget --project NAME` removes"
    if count == 1:
        return f"1 session of an ignored project is {how} it"
    return f"{count:,} sessions of ignored projects are {how} them"


def _ignored_sessions(conn: sqlite3.Connection, config: Config) -> int:
    """Sessions that were stored before their project was ignored."""
    from ctxdb.ingest.gate import Folders
    from ctxdb.rules.ignoring import Ignore
    from ctxdb.store.tombstones import Tombstones

    folders = Folders(Ignore(config.settings["ignore"]), Tombstones(conn))
    return sum(
        sessions
        for path, sessions in conn.execute(
            "SELECT p.path, count(*) FROM projects p JOIN sessions s ON s.project_id = p.id"
            " GROUP BY p.id"
        )
        if folders.are_ignored(path)
    )


def read_status(config: Config) -> DatabaseStatus:
    """Read the state of the database, and compare it with the sizes of the transcripts."""
    status = DatabaseStatus(str(config.db_path), exists=False, roots=list(config.roots))
    status.masking = bool(config.settings["redact.enabled"])
    status.daemon = daemon_report(config.db_path)
    status.retention = find_at_risk(config)
    writer = current_writer(config.db_path)
    status.writer_pid = writer.pid if writer else None
    try:
        conn = open_reader(config.db_path)
    except NoDatabase:
        return status
    with naming_damage(config.db_path), closing(conn):
        status.exists = True
        for suffix in ("", "-wal"):
            path = config.db_path.with_name(config.db_path.name + suffix)
            status.bytes_on_disk += path.stat().st_size if path.exists() else 0
        status.newer_schema = unknown_steps(conn)
        if conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'messages'").fetchone():
            _read_tables(conn, status)
            if config.archive or archive_path(config.db_path).exists():
                status.archive = summarize(config.db_path, conn)
            status.bytes_behind = _bytes_behind(conn, config)
            status.ignored_sessions = _ignored_sessions(conn, config)
    return status


def _read_tables(conn: sqlite3.Connection, status: DatabaseStatus) -> None:
    conn.execute("BEGIN")  # so that all numbers are from one moment
    for table in COUNTED:
        (status.rows[table],) = conn.execute(f"SELECT count(*) FROM {table}").fetchone()
    status.first_at, status.last_at = conn.execute(
        "SELECT min(started_at), max(ended_at) FROM sessions"
    ).fetchone()
    (status.files, status.files_missing, status.files_unreadable, bad, status.last_read_at) = (
        conn.execute(
            "SELECT count(*), count(missing_since), sum(state = 'unreadable'), sum(bad_lines),"
            " max(last_read_at) FROM source_files"
        ).fetchone()
    )
    status.files_unreadable = status.files_unreadable or 0
    status.bad_lines = bad or 0
    # A repaired line counts as stored. Its reason is in ingest_errors too, but is not an error.
    is_bad = (
        "(e.byte_start IS NULL OR EXISTS (SELECT 1 FROM line_counts c"
        " WHERE c.source_file_id = e.source_file_id AND c.outcome = 'bad' AND c.reason = e.reason))"
    )
    status.problems = [
        {"path": path, "byte_start": start, "reason": reason}
        for path, start, reason in conn.execute(
            "SELECT f.path, e.byte_start, e.reason FROM ingest_errors e JOIN source_files f"
            f" ON f.id = e.source_file_id WHERE {is_bad} ORDER BY e.id DESC LIMIT ?",
            (SHOWN_PROBLEMS,),
        )
    ]
    (found,) = conn.execute(f"SELECT count(*) FROM ingest_errors e WHERE {is_bad}").fetchone()
    status.more_problems = found - len(status.problems)
    _read_side_files(conn, status)
    if conn.execute("SELECT 1 FROM sqlite_master WHERE name = '_masked'").fetchone():
        (status.secrets_masked,) = conn.execute("SELECT count(*) FROM _masked").fetchone()
    status.unerased = is_unerased(conn)
    if conn.execute("SELECT 1 FROM sqlite_master WHERE name = '_forgotten'").fetchone():
        sql = "SELECT EXISTS (SELECT 1 FROM _forgotten WHERE erased_at IS NULL)"
        status.unerased |= bool(conn.execute(sql).fetchone()[0])
    status.repaired = dict(
        conn.execute(
            f"SELECT e.reason, count(*) FROM ingest_errors e WHERE NOT {is_bad} GROUP BY 1"
            " ORDER BY 2 DESC, 1"
        )
    )
    conn.execute("COMMIT")


def _read_side_files(conn: sqlite3.Connection, status: DatabaseStatus) -> None:
    """Files beside the transcripts, and what is wrong with them."""
    (status.side_files, unreadable) = conn.execute(
        "SELECT sum(read_at IS NOT NULL AND state <> 'unreadable'), count(problem) FROM _side_files"
    ).fetchone()
    status.side_files, status.side_files_unreadable = status.side_files or 0, unreadable
    shown = conn.execute(
        "SELECT path, problem FROM _side_files WHERE problem IS NOT NULL"
        " ORDER BY read_at DESC, path LIMIT ?",
        (SHOWN_PROBLEMS,),
    ).fetchall()
    status.problems += [
        {"path": path, "byte_start": None, "reason": problem} for path, problem in shown
    ]
    status.more_side_problems = unreadable - len(shown)


def _bytes_behind(conn: sqlite3.Connection, config: Config) -> int:
    """Bytes of transcripts that are not read yet, those of new files too."""
    from ctxdb.files.walk import store_path
    from ctxdb.ingest.gate import Gate
    from ctxdb.query.fresh import look

    glance = look(config)
    # Below other roots new files are not looked for, but known files may have grown.
    looked_at: tuple[str, ...] = ()
    if glance is not None:
        looked_at = tuple(path for path, _ in map(store_path, config.roots))
    behind = 0 if glance is None else glance.behind
    gate = Gate(conn, config.settings["ignore"])
    for file_id, path, path_bytes, offset in conn.execute(
        'SELECT f.id, f.path, b.path_bytes, f."offset" FROM source_files f JOIN _file_marks b'
        " ON b.source_file_id = f.id WHERE f.missing_since IS NULL"
        f" AND (b.root IS NULL OR b.root NOT IN ({', '.join('?' * len(looked_at))}))",
        looked_at,
    ):
        try:
            left = os.stat(path_bytes or path).st_size - offset
        except OSError:
            continue  # gone or unreadable: the next sync reports it
        if left > 0 and not gate.reads_no_more_of(os.fsdecode(path_bytes or path), file_id):
            behind += left
    return behind
