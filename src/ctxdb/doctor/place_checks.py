"""Checks of the folders: where the transcripts are, and what the database is kept on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ctxdb import mounts
from ctxdb.archive.archive_file import archive_path
from ctxdb.claude.layout import is_transcript
from ctxdb.doctor.finding import NOTE, OK, TODO, Finding, Patient
from ctxdb.files import walk
from ctxdb.formatting import counted
from ctxdb.progress import human_bytes
from ctxdb.rebuild.swap import size_of

LIMITS = Path("/proc/sys/fs/inotify")
LEAST_FREE_BYTES = 200 << 20  # then a sync may fail any time
SET_ROOTS = "`ctxdb config set roots DIR` says where they are"


def check_roots(patient: Patient) -> Iterator[Finding]:
    """See that the folders with transcripts are there and can be read."""
    roots = patient.config.roots
    there = [root for root in roots if Path(root).is_dir()]
    if not there:
        yield Finding("roots", TODO, f"there is no folder {' or '.join(roots)}", SET_ROOTS)
        return
    unreadable = [root for root in there if not os.access(root, os.R_OK | os.X_OK)]
    for root in unreadable:
        yield Finding("roots", TODO, f"{root} cannot be read", f"chmod u+rx {root}")
    for root in sorted({*roots} - {*there}):
        if patient.config.settings["roots"]:  # it was asked for by name
            yield Finding("roots", TODO, f"there is no folder {root}", SET_ROOTS)
    if unreadable:
        return
    files = len(walk.scan(tuple(there), is_transcript).files)
    if files:
        yield Finding("roots", OK, f"{counted(files, 'transcript')} in {', '.join(there)}")
    else:
        yield Finding("roots", NOTE, f"no transcript in {', '.join(there)}", SET_ROOTS)


def check_file_systems(patient: Patient) -> Iterator[Finding]:
    """See that the database is on a local disk, and whether changes of transcripts are reported."""
    kind = mounts.shared_file_system_of(str(patient.path.parent))
    if kind:
        text = f"{patient.path} is on {kind}, which machines share: its locks do not work there"
        fix = "move it to a local disk, then `ctxdb config set db FILE`"
        yield Finding("file_system", TODO, text, fix)
    reasons = [mounts.why_no_events(root) for root in patient.config.roots if Path(root).is_dir()]
    for reason in filter(None, reasons):
        fix = "the daemon looks at the files every few seconds instead"
        yield Finding("file_system", NOTE, reason, fix)
    if not kind and not any(reasons):
        yield Finding("file_system", OK, "the database and the transcripts are on local disks")


def check_disk_space(patient: Patient) -> Iterator[Finding]:
    """See that there is room to go on, and for a rebuild."""
    free = shutil.disk_usage(patient.path.parent).free
    text = f"{human_bytes(free)} free on the disk of {patient.path}"
    needed = size_of(patient.path)
    archive = archive_path(patient.path)
    kept = size_of(archive) if archive.exists() else 0
    if free < LEAST_FREE_BYTES:
        fix = "make room, or move the database: `ctxdb config set db FILE`"
        yield Finding("disk_space", TODO, text, fix)
    elif free < 2 * needed:
        fix = f"`ctxdb rebuild` needs about {human_bytes(2 * needed)}"
        yield Finding("disk_space", NOTE, text, fix)
    else:
        used = f"{human_bytes(needed)} of database, {human_bytes(kept)} of archive"
        yield Finding("disk_space", OK, f"{text}; {used}")


def check_event_limits(patient: Patient) -> Iterator[Finding]:
    """Compare the kernel's limit of watches with the folders that the daemon would watch."""
    try:
        watches = int((LIMITS / "max_user_watches").read_text())
        instances = int((LIMITS / "max_user_instances").read_text())
    except (OSError, ValueError):
        return  # not Linux
    folders = sum(1 for root in patient.config.roots if Path(root).is_dir() for _ in os.walk(root))
    if 2 * folders > watches:
        text = (
            f"{folders:,} folders to watch, and the kernel's limit is {watches:,} for all programs"
        )
        fix = "sudo sysctl fs.inotify.max_user_watches=524288; until then the daemon may poll"
        yield Finding("event_limits", TODO, text, fix)
    elif instances < 2:
        text = f"the kernel allows {counted(instances, 'inotify instance')} for all programs"
        fix = "sudo sysctl fs.inotify.max_user_instances=512; until then the daemon may poll"
        yield Finding("event_limits", TODO, text, fix)
    else:
        text = f"{counted(folders, 'folder')} to watch of {watches:,} that the kernel allows"
        yield Finding("event_limits", OK, text)
