"""Which file system a path is on, and what ctxdb cannot do on it.

inotify reports what this kernel does. On NFS, SMB, most FUSE file systems and Windows drives under
WSL it does not report a change that another machine makes, so the daemon has to poll. A file system
that two machines share must not hold the database: the processes that use a database in WAL mode
share memory, which works on one machine only.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNT_TABLE = Path("/proc/mounts")
# Types as /proc/mounts names them. FUSE may be local (ntfs-3g), but /proc/mounts does not say so.
WITHOUT_EVENTS = frozenset(
    {"9p", "afs", "autofs", "ceph", "cifs", "coda", "drvfs", "gfs", "gfs2", "glusterfs", "gpfs"}
    | {"lustre", "ncpfs", "ncp", "nfs", "nfs4", "ocfs2", "prl_fs", "smb", "smb2", "smb3", "smbfs"}
    | {"v9fs", "vboxsf", "virtiofs", "vmhgfs", "webdav"}
)
# The others that inotify cannot watch (9p, most FUSE) belong to this machine alone.
SHARED = frozenset(
    {"afs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"ocfs2", "smb2", "smb3", "smbfs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs"}
)
_OCTAL = re.compile(rb"\\([0-7]{3})")


def file_system_of(path: str, table: Path = MOUNT_TABLE) -> str:
    """The type of the file system that a path is on, or "" if that is unknown."""
    real = os.path.realpath(path)
    best, kind = "", ""
    for place, name in _mounts(table):
        below = place in (real, "/") or real.startswith(place.rstrip("/") + "/")
        if below and len(place) >= len(best):  # of two mounts on one place the later one is on top
            best, kind = place, name
    return kind


def shared_file_system_of(path: str) -> str:
    """The type of the file system that a path is on if machines share it, else ""."""
    kind = file_system_of(path)
    return kind if kind in SHARED else ""


def why_no_events(path: str, table: Path = MOUNT_TABLE) -> str | None:
    """Why inotify can miss changes below a path, or None if it cannot."""
    kind = file_system_of(path, table)
    if kind in WITHOUT_EVENTS or kind.startswith("fuse"):
        return f"{path} is on {kind}, which does not report changes made on other machines"
    return None


def _mounts(table: Path) -> list[tuple[str, str]]:
    """The mount point and the type of every mount, in the kernel's order."""
    try:
        rows = table.read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for row in rows:
        match row.split():
            case [_, place, kind, *_]:
                decoded = _OCTAL.sub(lambda octal: bytes([int(octal[1], 8)]), place)
                found.append((os.fsdecode(decoded), kind.decode("ascii", "replace")))
    return found
