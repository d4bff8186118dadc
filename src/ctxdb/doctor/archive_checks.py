"""Checks of the archive, and of what has no other copy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from ctxdb.archive.archive_file import archive_path, open_archive_to_read
from ctxdb.archive.check import check_archive
from ctxdb.archive.summary import summarize
from ctxdb.doctor.finding import NOTE, OK, TODO, Finding, Patient
from ctxdb.formatting import counted
from ctxdb.ingest.from_archive import is_another_archive
from ctxdb.store.integrity import find_damage, sessions_without_bytes


def check_archive_file(patient: Patient) -> Iterator[Finding]:
    """See whether the archive is there, can be read, and has everything."""
    path = archive_path(patient.path)
    if not path.exists():
        if patient.config.archive:
            text = f"{path} does not exist: deleted transcripts could not be restored"
            yield Finding("archive", TODO, text, "`ctxdb archive add` makes it")
        else:
            text = "switched off: deleted transcripts cannot be restored"
            yield Finding("archive", NOTE, text, "`ctxdb config set archive true` turns it on")
        return
    damage = find_damage(path)
    if damage is not None:
        fix = "move it away, then `ctxdb archive add` starts a new one"
        yield Finding("archive", TODO, f"{path} is damaged ({damage})", fix)
        return
    archive = open_archive_to_read(patient.path)
    if archive is None:
        yield Finding("archive", TODO, f"{path} is empty", "`ctxdb archive add` fills it")
        return
    with closing(archive), patient.reader() as conn:
        if is_another_archive(conn, archive):
            text = f"{path} is not the archive that was there before"
            yield Finding("archive", TODO, text, "`ctxdb sync` reads what is in it, and goes on")
        checked = check_archive(archive, lambda _: None)
        if checked.damaged:
            more = f" and {len(checked.damaged) - 1:,} more" if len(checked.damaged) > 1 else ""
            fix = "`ctxdb archive verify` names them all; everything else can be restored"
            yield Finding("archive", TODO, f"{checked.damaged[0]}{more}", fix)
        behind = summarize(patient.path, conn).files_not_archived
    if behind:
        text = f"{counted(behind, 'file')} that the database has read not archived"
        yield Finding("archive", TODO, text, "`ctxdb archive add` archives what is still there")
    elif not checked.damaged:
        yield Finding("archive", OK, f"{counted(checked.files, 'file')}, every checksum is right")


def check_only_here(patient: Patient) -> Iterator[Finding]:
    """Count the sessions that no file has but the database."""
    with patient.reader() as conn:
        found = sessions_without_bytes(conn, patient.path)
    if found:
        text = f"{counted(len(found), 'session')} only in the database: no transcript, no archive"
        yield Finding("only_here", NOTE, text, "keep a copy: `ctxdb export --snapshot FILE`")
    else:
        yield Finding("only_here", OK, "every session has its transcript or archived bytes")
