"""Which file systems send no events for changes that are made on another machine.

inotify reports what this kernel does. On NFS, SMB and most FUSE file systems, and on Windows drives
under WSL, a change made elsewhere is never reported. There only looking helps.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

# Names as in /proc/mounts. FUSE may be local (ntfs-3g), but there is no way to tell.
FOREIGN = frozenset(
    {"9p", "afs", "autofs", "ceph", "cifs", "coda", "drvfs", "gfs", "gfs2", "glusterfs", "gpfs"}
    | {"lustre", "ncpfs", "ncp", "nfs", "nfs4", "ocfs2", "prl_fs", "smb", "smb2", "smb3", "smbfs"}
    | {"v9fs", "vboxsf", "virtiofs", "vmhgfs", "webdav"}
)
_OCTAL = re.compile(rb"\\([0-7]{3})")


def _mounts(table: Path) -> list[tuple[str, str]]:
    """(mount point, type) of every mount, as the kernel lists them."""
    try:
        rows = table.read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for row in rows:
        with suppress(ValueError):  # a row of fewer fields
            _device, place, kind, *_options = row.split()
            place = _OCTAL.sub(lambda match: bytes([int(match[1], 8)]), place)
            found.append((os.fsdecode(place), kind.decode("ascii", "replace")))
    return found


def file_system_of(path: str, table: Path = Path("/proc/mounts")) -> str:
    """The type of the file system that a path is on; empty if that is not known."""
    real = os.path.realpath(path)
    best, kind = "", ""
    for place, name in _mounts(table):
        below = place in (real, "/") or real.startswith(place.rstrip("/") + "/")
        if below and len(place) >= len(best):  # of two mounts on one place the later one counts
            best, kind = place, name
    return kind


def why_no_events(path: str, table: Path = Path("/proc/mounts")) -> str | None:
    """Why events can miss changes below a path; None when they cannot."""
    kind = file_system_of(path, table)
    if kind in FOREIGN or kind.startswith("fuse"):
        return f"{path} is on {kind}, which does not report changes made elsewhere"
    return None
