"""Most kills leave the same bytes: a sweep looks at each state of the files once."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def state_of(folder: Path, names: str = "*") -> bytes:
    """Names, folders and every byte of the files, but for locks, which name a process."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob(names)):
        if path.is_dir():
            found.update(f"{path.relative_to(folder)}/\n".encode())
        elif path.suffix != ".lock":
            data = path.read_bytes()
            found.update(f"{path.relative_to(folder)} {len(data)}\n".encode())
            found.update(data)
    return found.digest()


class Seen:
    """The states that a sweep has met."""

    def __init__(self) -> None:
        self.states: set[bytes] = set()

    def is_new(self, *folders: Path) -> bool:
        """Whether these folders were never before as they are now."""
        state = b"".join(state_of(folder) for folder in folders)
        if state in self.states:
            return False
        self.states.add(state)
        return True
