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
from ctxdb.store.connection import naming_damage, open_reader
from ctxdb.store.schema import refuse_newer
from ctxdb.verify.again import NoRoom, make_again, place_beside
from ctxdb.verify.compare import Comparison
from ctxdb.verify.differences import VerifyReport
from ctxdb.verify.lines import check_all_lines
from ctxdb.verify.reach import reach
from ctxdb.verify.side import check_side_files

if TYPE_CHECKING:
    from ctxdb.config import Config
    from ctxdb.progress import Progress

__all__ = ["VerifyReport", "verify"]


def verify(
    config: Config, progress: Progress, *, only_roots: bool = False, again: bool = True
) -> VerifyReport:
    """Compare every transcript ever synced, or only those below the roots, with the database.

    Without `again`, only the first step is done.
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
