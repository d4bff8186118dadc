"""Checks of the machine: who can read the files, and which SQLite there is."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator

from ctxdb.archive.archive_file import archive_path
from ctxdb.doctor.finding import NOTE, OK, TODO, Finding, Patient
from ctxdb.errors import CtxdbError
from ctxdb.lock import lock_path, refuse_unsafe
from ctxdb.rebuild.swap import kept_path
from ctxdb.store.connection import SIDE_FILES

# Two connections that write or checkpoint at the same moment can damage the file. Fixed in 3.51.3,
# and in 3.50.7.
FIXED = (3, 51, 3)
ALSO_FIXED = (3, 50, 7)


def check_permissions(patient: Patient) -> Iterator[Finding]:
    """See that only its owner can read the database and the files beside it."""
    path = patient.path
    try:
        refuse_unsafe(path)
    except CtxdbError as e:
        yield Finding("permissions", TODO, str(e))
        return
    names = [path.with_name(path.name + suffix) for suffix in SIDE_FILES]
    names += [lock_path(path), archive_path(path), kept_path(path)]
    open_files = []
    for one in names:
        try:
            mode = stat.S_IMODE(one.lstat().st_mode)
        except OSError:
            continue
        if mode & 0o077:
            open_files.append(one)
    if open_files:
        text = f"other users can read {', '.join(map(str, open_files))}"
        fix = "chmod go-rwx " + " ".join(str(one) for one in open_files)
        yield Finding("permissions", TODO, text, fix)
    elif not os.access(path, os.W_OK):
        yield Finding("permissions", TODO, f"{path} cannot be written to", f"chmod u+w {path}")
    else:
        yield Finding("permissions", OK, "only you can read the files")


def check_sqlite(_patient: Patient) -> Iterator[Finding]:
    """Name the version, and the bug that it has."""
    found = sqlite3.sqlite_version_info
    is_fixed = found >= FIXED or ALSO_FIXED <= found < (3, 51)
    name = f"SQLite {sqlite3.sqlite_version}"
    if is_fixed:
        yield Finding("sqlite", OK, name)
        return
    text = (
        f"{name} can damage a database to which two programs write at once; ctxdb uses one writer"
    )
    fix = "do not edit the database while a daemon or a sync writes, or update SQLite to 3.51.3"
    yield Finding("sqlite", NOTE, text, fix)
