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
from ctxdb.doctor.finding import NOTE, TODO, DoctorReport, Finding, Patient
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

# Of checks that fail, if it is not that of the function.
_OTHER_NAMES: dict[Check, str] = {
    check_archive_file: "archive",
    check_file_systems: "file_system",
    check_unknown: "unknown_keys",
}
_NAMES = {check: _OTHER_NAMES.get(check, check.__name__.removeprefix("check_")) for check in CHECKS}


def examine(patient: Patient) -> DoctorReport:
    """Run all checks."""
    if not patient.path.exists():
        raise NoDatabase(patient.path)
    report = DoctorReport(str(patient.path))
    for check in CHECKS:
        damage = [one for one in report.findings if (one.check, one.state) == ("integrity", TODO)]
        report.findings += _run(check, patient, is_damaged=bool(damage))
    return report


def _run(check: Check, patient: Patient, *, is_damaged: bool) -> Iterator[Finding]:
    try:
        yield from check(patient)
    except (CtxdbError, sqlite3.Error, OSError) as e:
        why = f"could not be checked: {' '.join(str(e).split())}"
        if is_damaged and not isinstance(e, OSError):
            # The finding before says what to do; the same error of each check says no more.
            yield Finding(_NAMES[check], NOTE, "could not be checked: the database is damaged")
        else:
            yield Finding(_NAMES[check], TODO, why)
