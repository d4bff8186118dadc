"""`ctxdb backup`: a second copy of database and archive, and back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from ctxdb.cli.declare import Argument, Context, Option
from ctxdb.cli.shared_options import AsJson
from ctxdb.config import load
from ctxdb.errors import UsageError
from ctxdb.output import print_result
from ctxdb.progress import progress_on


def backup(
    ctx: Context,
    folder: Annotated[Path, Argument("DIR", help="The folder of the backup.")],
    *,
    verify: Annotated[
        bool, Option("--verify", help="Check the backup that is in DIR; make none.")
    ] = False,
    restore: Annotated[
        bool, Option("--restore", help="Put the backup in DIR in the place of the database.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Copy database and archive to a folder, while a daemon writes.

    The database is copied whole, as of one moment. Of the archive only what is new is copied. If a
    backup is interrupted, the last one stays as it was.

    With --restore, what is there now is moved into a folder beside it, and nothing is deleted. Stop
    the daemon first. The next sync reads what has come since.

    \b
    Examples:
      ctxdb backup /tmp/ctxdb-backup
      ctxdb backup --verify /tmp/ctxdb-backup
      ctxdb backup --restore /tmp/ctxdb-backup
    """
    from ctxdb.ingest.plan import utc_now

    if verify and restore:
        raise UsageError("--verify and --restore are two things; --restore verifies first")
    config = load(ctx.db)
    folder = Path(folder).expanduser().absolute()
    progress = progress_on(sys.stderr)
    try:
        if verify:
            from ctxdb.backup.check import check_backup

            checked = check_backup(folder, progress)
            progress.finish()
            print_result(checked, as_json=as_json)
            return 0 if checked.ok else 1
        if restore:
            from ctxdb.backup.put_back import put_back

            stamp = "".join(c for c in utc_now() if c.isalnum())
            done = put_back(folder, config.db_path, stamp, progress)
            progress.finish()
            print_result(done, as_json=as_json)
            return 0
        from ctxdb.backup.make import make_backup

        report = make_backup(config.db_path, folder, utc_now(), progress)
        progress.finish()
        print_result(report, as_json=as_json)
        return 1 if report.problems else 0
    finally:
        progress.finish()
