"""`ctxdb verify`: check that every line is accounted for."""

from __future__ import annotations

import signal
import sys

from ctxdb.cli.declare import Context
from ctxdb.cli.shared_options import AsJson, Roots
from ctxdb.config import load
from ctxdb.output import print_result
from ctxdb.progress import progress_on


def verify(ctx: Context, root: Roots = None, *, as_json: AsJson = False) -> int:
    """Check that every line of every transcript is accounted for.

    Reads all transcripts again and compares every row with the line that it came from. Then makes a
    second database from the same lines, beside the first one, and compares both: titles, turns,
    agents, requests, full text. Exits 1 if anything differs.

    \b
    Examples:
      ctxdb verify
      ctxdb verify --json
    """
    from ctxdb.verify import verify as check

    # So that no second database is left if the process is stopped or its terminal is closed.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    progress = progress_on(sys.stderr)
    try:
        result = check(load(ctx.db, root), progress, only_roots=bool(root))
    finally:
        progress.finish()
    print_result(result, as_json=as_json)
    return 0 if result.ok else 1
