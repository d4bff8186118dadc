"""Names of files that are on another machine: their bytes are only in the archive.

Two machines often have the same paths. So in the archive, and wherever a file is opened, a file of
another machine goes by a name that no file here can have: below `/dev/null` there is nothing. Code
that opens such a name without asking the archive finds no file.
"""

from __future__ import annotations

import os

_NOWHERE = "/dev/null/"


def name_elsewhere(machine: str, path: str) -> str:
    """The name of a file on a machine; of this machine ("") it is its path."""
    return f"{_NOWHERE}{machine}{path}" if machine else path


def split_name(name: str) -> tuple[str, str]:
    """The machine ("" for this one) and the path there."""
    if not name.startswith(_NOWHERE):
        return "", name
    machine, slash, path = name.removeprefix(_NOWHERE).partition("/")
    return machine, slash + path


def is_elsewhere(name: str | bytes | None) -> bool:
    """Whether this is the name of a file on another machine."""
    return name is not None and os.fsdecode(name).startswith(_NOWHERE)
