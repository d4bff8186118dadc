"""Merging and sealing in a process of its own, so that the daemon never waits for it.

The daemon kills the process as soon as a line comes or it is told to stop. What is sealed by then
stays sealed; the rest is done another time. It runs at the lowest priority, on one core.

    python -m ctxdb.archive.seal_process DATABASE SECONDS_QUIET_TO_MERGE SECONDS_QUIET_TO_SEAL
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

from ctxdb.archive.archive_file import archive_path, open_archive
from ctxdb.archive.merge import merge_frames
from ctxdb.archive.seal import seal_projects
from ctxdb.errors import CtxdbError

NICE = 19
FAILED = 1


def start(db_path: Path, merge_seconds: float, seal_seconds: float) -> subprocess.Popen[bytes]:
    """Start the process; its stderr says in one line why it failed."""
    words = [sys.executable, "-P", "-m", __name__, str(db_path)]
    return subprocess.Popen(
        [*words, str(merge_seconds), str(seal_seconds)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def quiet_since(seconds: float) -> str:
    """The time so many seconds ago, as the archive writes times."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - seconds))


def main() -> int:
    """Merge and seal until all is done or the daemon has ended."""
    _, name, merge_seconds, seal_seconds = sys.argv
    daemon = os.getppid()
    with suppress(OSError):
        os.nice(NICE)
    os.umask(0o077)
    db_path = Path(name)

    def is_orphan() -> bool:
        return os.getppid() != daemon  # another process may write the archive now

    if is_orphan() or not archive_path(db_path).exists():
        return 0
    try:
        with closing(open_archive(db_path)) as conn:
            merge_frames(
                conn, quiet_since=quiet_since(float(merge_seconds)), is_time_to_stop=is_orphan
            )
            seal_projects(
                conn,
                quiet_since(0),
                quiet_since=quiet_since(float(seal_seconds)),
                is_time_to_stop=is_orphan,
            )
    except (CtxdbError, OSError, sqlite3.Error) as e:
        sys.stderr.write(f"{e}\n")
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
