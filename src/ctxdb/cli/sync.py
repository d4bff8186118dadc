"""`ctxdb sync`: one pass over all roots."""

from __future__ import annotations

import sys
from typing import Annotated

from ctxdb.cli.common import AsJson, Roots
from ctxdb.cli.declare import Context, Option
from ctxdb.config import load
from ctxdb.errors import LockHeld
from ctxdb.output import note, show
from ctxdb.progress import progress_on


def sync(
    ctx: Context,
    root: Roots = None,
    *,
    wait: Annotated[
        bool, Option("--wait", help="Wait for another sync, or for a daemon to catch up.")
    ] = False,
    as_json: AsJson = False,
    quiet: Annotated[
        bool, Option("--quiet", "-q", help="Print nothing unless something is wrong.")
    ] = False,
) -> None:
    """Read what is new in all transcripts into the database.

    Only complete lines count, and each counts once, whatever happens in between. Transcripts that
    Claude Code has deleted stay in the database.

    \b
    Examples:
      ctxdb sync
      ctxdb sync --root ~/.claude/projects --root /backup/laptop/projects
      ctxdb --db /tmp/try.db sync --json
    """
    from ctxdb.ingest.report import SyncReport
    from ctxdb.ingest.sync import sync as read_new_lines

    config = load(ctx.db, root)
    is_new = not config.db_path.exists()
    progress = progress_on(sys.stderr, quiet=quiet)
    try:
        report = read_new_lines(
            config, wait=wait, progress=progress, say=(lambda _: None) if quiet else note
        )
    except LockHeld as e:
        if not (wait and e.is_daemon):
            raise
        # It has read what was to be read, so there is nothing to be done and nothing wrong.
        if not quiet:
            note(f"{str(e)[0].upper()}{str(e)[1:]}.")
        if as_json:
            show(SyncReport(), as_json=True)
        return
    finally:
        progress.finish()
    if as_json or not quiet:
        show(report, as_json=as_json)
    if is_new and not quiet:
        note(
            "Note: the database keeps what it has read, also when Claude Code deletes the"
            f" transcript (by default after 30 days). It is private to you: {config.db_path}"
        )
