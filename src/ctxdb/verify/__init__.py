"""Proving that the database says what the transcripts say.

Twice. First line by line: each transcript is read again, every line is accounted for, and every
row says what its line says (lines.py). Then as a whole: titles, turns, owners, agents, requests and
whatever else follows from many lines are made anew, in a second database from the same bytes, and
both must say the same (again.py, compare.py). What can no longer be made anew, because its
transcripts are gone, is left out with all that hangs together with it (reach.py).

Nothing is written to the database; a sync may run meanwhile, one moment of it is read.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from ctxdb.claude.layout import is_transcript
from ctxdb.files.walk import scan, text_of
from ctxdb.store.connection import naming_damage, open_reader
from ctxdb.store.schema import refuse_newer
from ctxdb.verify.again import NoRoom, make_again, place_beside
from ctxdb.verify.compare import Comparison
from ctxdb.verify.lines import check_all_lines
from ctxdb.verify.reach import reach
from ctxdb.verify.report import VerifyReport
from ctxdb.verify.side import check_side_files

if TYPE_CHECKING:
    from ctxdb.config import Config
    from ctxdb.progress import Progress

__all__ = ["VerifyReport", "verify"]


def verify(
    config: Config, progress: Progress, *, only_roots: bool = False, again: bool = True
) -> VerifyReport:
    """Compare every transcript ever synced, or only those below the roots, with the database.

    Without `again`, only line by line.
    """
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
        read = check_all_lines(conn, config.roots if only_roots else None, report, progress)
        check_side_files(conn, report)
        report.files_new = _new_files(conn, config)
        if again:
            wanted = reach(conn, read)
            report.sessions_made_again = len(wanted.sessions)
            report.sessions_only_here = wanted.sessions_left_out
            try:
                make_again(conn, second, wanted.files, progress)
            except NoRoom as e:
                report.not_made_again = str(e)
            else:
                Comparison(conn, wanted, report).run()
        return report


def _new_files(conn: sqlite3.Connection, config: Config) -> int:
    known = {path for (path,) in conn.execute("SELECT path FROM source_files")}
    found = scan(config.roots, is_transcript)
    return sum(text_of(file.path) not in known for file in found.files)
