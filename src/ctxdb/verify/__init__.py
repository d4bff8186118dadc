"""Prove that the database says what the transcripts say.

There are two steps. The first goes line by line: each transcript is read again, every line must be
accounted for, and every row must say what its line says (lines.py). The second compares what
follows from several lines, such as titles, turns, owners, agents and requests: a second database is
made from the same bytes, and both must hold the same rows (again.py, compare.py). Sessions whose
transcripts are gone cannot be made again, so they and all rows that depend on them are left out of
the second step (reach.py).

Nothing is written to the database. A sync may run at the same time: verify reads the state of one
moment.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from ctxdb.claude.layout import is_transcript
from ctxdb.files.walk import scan, text_of
from ctxdb.ingest.gate import Gate, without_kept_out
from ctxdb.ingest.masked_line import reading_of, stars_beside
from ctxdb.privacy.rule_settings import masker_of
from ctxdb.progress import NullProgress
from ctxdb.redact.scan import scan as find_secrets
from ctxdb.store.connection import naming_damage, open_reader
from ctxdb.store.integrity import damaged_database, find_damage
from ctxdb.store.schema import refuse_newer
from ctxdb.verify.again import NoRoom, make_again, place_beside
from ctxdb.verify.compare import Comparison
from ctxdb.verify.differences import VerifyReport
from ctxdb.verify.lines import check_all_lines
from ctxdb.verify.reach import reach
from ctxdb.verify.side import check_side_files

if TYPE_CHECKING:
    from pathlib import Path

    from ctxdb.config import Config
    from ctxdb.progress import Progress

__all__ = ["VerifyReport", "verify"]


def verify(
    config: Config, progress: Progress, *, only_roots: bool = False, again: bool = True
) -> VerifyReport:
    """Compare every transcript ever synced, or only those below the roots, with the database.

    Without `again`, only the first step is done.
    """
    _refuse_damaged(config.db_path)
    with (
        naming_damage(config.db_path),
        closing(open_reader(config.db_path)) as conn,
        place_beside(config.db_path) as second,
    ):
        refuse_newer(conn, config.db_path)
        if second.exists():
            conn.execute("ATTACH ? AS second", (f"{second.as_uri()}?mode=ro",))
        conn.execute("BEGIN")
        report = VerifyReport()
        reading = reading_of(conn, masker_of(config.settings), stars_beside(config.db_path))
        roots = config.roots if only_roots else None
        gate = Gate(conn, config.settings["ignore"])
        read = check_all_lines(conn, roots, report, progress, reading, gate)
        check_side_files(conn, report, reading)
        if reading.masker is not None:
            found = find_secrets(conn, reading.masker, NullProgress())
            report.secrets_in_clear = found.found
        report.files_new = _new_files(conn, config, gate)
        if again:
            wanted = reach(conn, read)
            report.sessions_made_again = len(wanted.sessions)
            report.sessions_only_here = wanted.sessions_left_out
            try:
                make_again(conn, second, wanted.files, progress, reading)
            except NoRoom as e:
                report.not_made_again = str(e)
            else:
                Comparison(conn, wanted, report).run()
        return report


def _refuse_damaged(path: Path) -> None:
    """Raise if SQLite cannot read all of it: what is left of it would prove nothing."""
    if path.is_file() and path.stat().st_size:
        try:
            damage = find_damage(path, everything=True)
        except sqlite3.DatabaseError:  # it cannot be opened: what reads it next says why
            return
        if damage is not None:
            open_reader(path).close()  # says so if it is no database of ctxdb at all
            raise damaged_database(path, damage)


def _new_files(conn: sqlite3.Connection, config: Config, gate: Gate) -> int:
    known = {path for (path,) in conn.execute("SELECT path FROM source_files WHERE machine = ''")}
    found = without_kept_out(conn, scan(config.roots, is_transcript))
    return sum(text_of(file.path) not in known and not gate.passes_over(file) for file in found)
