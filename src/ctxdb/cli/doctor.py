"""`ctxdb doctor`: check everything, with advice."""

from __future__ import annotations

import sys

from ctxdb.cli.declare import Context
from ctxdb.cli.shared_options import AsJson
from ctxdb.config import load
from ctxdb.output import print_result
from ctxdb.progress import progress_on


def doctor(ctx: Context, *, as_json: AsJson = False) -> int:
    """Check the database, the archive and the machine, with advice.

    Reads every page of the database and every checksum of the archive, and compares the full text
    with the rows. Exits 1 if something needs doing; each line says what.

    \b
    Examples:
      ctxdb doctor
      ctxdb doctor --json
    """
    from ctxdb.doctor.checks import examine
    from ctxdb.doctor.finding import Patient

    progress = progress_on(sys.stderr, quiet=as_json)
    try:
        report = examine(Patient(load(ctx.db), progress))
    finally:
        progress.finish()
    print_result(report, as_json=as_json)
    return 0 if report.ok else 1
