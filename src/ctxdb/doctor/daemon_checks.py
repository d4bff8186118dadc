"""Checks of the daemon, and of transcripts that are deleted before they are archived."""

from __future__ import annotations

from collections.abc import Iterator

from ctxdb import __version__
from ctxdb.daemon_health import running
from ctxdb.doctor.finding import NOTE, OK, TODO, Finding, Patient
from ctxdb.formatting import counted
from ctxdb.ingest.retention import find_at_risk


def check_daemon(patient: Patient) -> Iterator[Finding]:
    """See whether the daemon runs, and does something."""
    health = running(patient.path)
    if health is None:
        text = "not running: the database is brought up to date when you ask it something"
        yield Finding("daemon", NOTE, text, "`ctxdb daemon install` starts it now and at login")
    elif health.is_frozen:
        yield Finding("daemon", TODO, f"frozen: {health.frozen_text}")
    elif health.archive_problem:
        fix = "`ctxdb archive verify` looks closer; lines are stored all the same"
        yield Finding("daemon", TODO, health.archive_problem, fix)
    elif health.version != __version__:
        text = f"running, of version {health.version}; this is {__version__}"
        yield Finding("daemon", TODO, text, "`ctxdb daemon restart` starts this version")
    elif health.mode == "polling":
        yield Finding("daemon", NOTE, f"running, and polls: {health.mode_reason}")
    else:
        yield Finding("daemon", OK, f"running (process {health.pid})")


def check_retention(patient: Patient) -> Iterator[Finding]:
    """Count the transcripts that Claude Code deletes before they are archived."""
    found = find_at_risk(patient.config)
    period = counted(found.cleanup_days, "day")
    if found.files_at_risk:
        files = counted(found.files_at_risk, "transcript")
        text = f"{files} not archived will be deleted soon: Claude Code keeps them {period}"
        yield Finding("retention", TODO, text, found.reason)
    else:
        text = f"Claude Code keeps transcripts {period}; none is lost before it is archived"
        yield Finding("retention", OK, text)
