"""The list of checks, in the order in which they are reported. To add a check, add a function.

A check that fails itself (because the database is damaged, say) becomes a finding: the others run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator

from ctxdb.doctor.archive_checks import check_archive_file, check_only_here
from ctxdb.doctor.content_checks import check_clock, check_masking, check_prices, check_unknown
from ctxdb.doctor.daemon_checks import check_daemon, check_retention
from ctxdb.doctor.database_checks import (
    check_full_text,
    check_integrity,
    check_kept,
    check_meanings,
    check_values,
)
from ctxdb.doctor.finding import TODO, DoctorReport, Finding, Patient
from ctxdb.doctor.machine_checks import check_permissions, check_sqlite
from ctxdb.doctor.place_checks import (
    check_disk_space,
    check_event_limits,
    check_file_systems,
    check_roots,
)
from ctxdb.errors import CtxdbError, NoDatabase

Check = Callable[[Patient], Iterable[Finding]]

CHECKS: tuple[Check, ...] = (
    check_roots,
    check_permissions,
    check_file_systems,
    check_disk_space,
    check_integrity,
    check_full_text,
    check_values,
    check_meanings,
    check_archive_file,
    check_only_here,
    check_retention,
    check_daemon,
    check_event_limits,
    check_clock,
    check_unknown,
    check_prices,
    check_masking,
    check_kept,
    check_sqlite,
)


def examine(patient: Patient) -> DoctorReport:
    """Run all checks."""
    if not patient.path.exists():
        raise NoDatabase(patient.path)
    report = DoctorReport(str(patient.path))
    for check in CHECKS:
        report.findings += _run(check, patient)
    return report


def _run(check: Check, patient: Patient) -> Iterator[Finding]:
    name = check.__name__.removeprefix("check_")
    try:
        yield from check(patient)
    except (CtxdbError, sqlite3.Error, OSError) as e:
        yield Finding(name, TODO, f"could not be checked: {' '.join(str(e).split())}")
