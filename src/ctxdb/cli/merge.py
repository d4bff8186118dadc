"""`ctxdb merge`: take the sessions of another machine into this database."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from ctxdb.cli.declare import Argument, Context, Option
from ctxdb.cli.shared_options import AsJson, ClaudeDirs, Roots
from ctxdb.config import load
from ctxdb.errors import NoDatabase
from ctxdb.output import print_result
from ctxdb.progress import progress_on


def merge(
    ctx: Context,
    other: Annotated[Path, Argument("OTHER.db", help="The database of the other machine.")],
    root: Roots = None,
    claude_dir: ClaudeDirs = None,
    *,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show what would be added, and change nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Take the sessions of your other machine into this database.

    Copy OTHER.db and OTHER.db.archive from there, for example with `ctxdb backup`. Both databases
    must be of the same version of ctxdb. OTHER.db is only read. All its bytes are then in this
    archive, so it can be deleted. Merging again adds only what is new.

    What was forgotten on one of the machines stays out. Sessions that are here and were forgotten
    there are named.

    \b
    Examples:
      ctxdb merge /media/usb/laptop/ctxdb.db --dry-run
      ctxdb merge /media/usb/laptop/ctxdb.db
    """
    config = load(ctx.db, root, claude_dirs=claude_dir)
    from ctxdb.merge.merge import merge as take
    from ctxdb.merge.merge import plan_merge

    if dry_run:
        if not config.db_path.exists():
            raise NoDatabase(config.db_path)
        print_result(plan_merge(config, other), as_json=as_json)
        return
    from ctxdb.ingest.sync import sync

    progress = progress_on(sys.stderr, quiet=as_json)
    try:
        sync(config, progress=progress)
        result = take(config, other, progress)
    finally:
        progress.finish()
    print_result(result, as_json=as_json)
