"""Where events cannot be had: file systems whose changes come from another machine.

inotify tells of what this kernel does. On NFS, SMB and most FUSE file systems, and on Windows
drives under WSL, a change made elsewhere is never told of; there only looking helps.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

# As /proc/mounts names them. FUSE may be local (ntfs-3g), but nothing says that it is.
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
        parts = row.split()
        if len(parts) >= 3:
            place = _OCTAL.sub(lambda m: bytes([int(m[1], 8)]), parts[1])
            found.append((os.fsdecode(place), parts[2].decode("ascii", "replace")))
    return found


def file_system_of(path: str, table: Path = Path("/proc/mounts")) -> str:
    """The type of the file system that a path is on; empty where that cannot be told."""
    real = os.path.realpath(path)
    best, kind = "", ""
    for place, name in _mounts(table):
        below = place in (real, "/") or real.startswith(place.rstrip("/") + "/")
        if below and len(place) >= len(best):  # the later of two mounts on one place is on top
            best, kind = place, name
    return kind


def why_no_events(path: str, table: Path = Path("/proc/mounts")) -> str | None:
    """Why changes below a path can be missed by events; None when they cannot."""
    kind = file_system_of(path, table)
    if kind in FOREIGN or kind.startswith("fuse"):
        return f"{path} is on {kind}, which does not tell of changes made elsewhere"
    return None
