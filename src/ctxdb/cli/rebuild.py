"""`ctxdb rebuild`: derive all rows again."""

from __future__ import annotations

import sys
from typing import Annotated

from ctxdb.cli.declare import Context, Option
from ctxdb.cli.shared_options import AsJson, ClaudeDirs, Roots
from ctxdb.config import load
from ctxdb.errors import NoDatabase, UsageError
from ctxdb.output import print_result, say
from ctxdb.progress import human_bytes, progress_on


def rebuild(
    ctx: Context,
    root: Roots = None,
    claude_dir: ClaudeDirs = None,
    *,
    check: Annotated[
        bool, Option("--check", help="Only compare: the database stays as it is.")
    ] = False,
    drop_old: Annotated[
        bool, Option("--drop-old", help="Only delete the database that was kept before.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Derive all rows again, and repair a damaged database.

    Reads all transcripts, and from the archive those that Claude Code has deleted, into a new file.
    Compares it with the old one and says what differs and why. Then puts it in place; programs that
    have the database open see the new rows. Sessions of which no bytes are left are carried over as
    they are. The old database is kept beside it.

    \b
    Examples:
      ctxdb rebuild --check
      ctxdb rebuild
      ctxdb rebuild --drop-old
    """
    config = load(ctx.db, root, claude_dirs=claude_dir)
    if drop_old:
        if check:
            raise UsageError("--drop-old and --check: choose one")
        _drop(ctx, as_json=as_json)
        return
    if not config.db_path.exists():
        raise NoDatabase(config.db_path)
    from ctxdb.ingest.sync import replace_old_database
    from ctxdb.lock import WriterLock
    from ctxdb.rebuild.rebuild import rebuild_locked

    progress = progress_on(sys.stderr, quiet=as_json)
    try:
        with WriterLock(config.db_path):
            if not check:
                replace_old_database(config, progress)
            result = rebuild_locked(config, progress, check_only=check)
    finally:
        progress.finish()
    print_result(result, as_json=as_json)


def _drop(ctx: Context, *, as_json: bool) -> None:
    from ctxdb.rebuild.swap import drop_old, kept_path

    config = load(ctx.db)
    kept = kept_path(config.db_path)
    size = drop_old(config.db_path)
    if as_json:
        from json import dumps

        say(dumps({"kept": str(kept), "dropped_bytes": size}))
    elif size:
        say(f"Deleted {kept} ({human_bytes(size)}).")
    else:
        say(f"There is no {kept}.")
