"""The machine that a database is on: a random id in a file beside it, and the host's name.

It is not in the database: a copy of the database on another machine is another machine's.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from pathlib import Path
from typing import NamedTuple

from ctxdb.errors import CtxdbError

_ID = re.compile(r"[0-9a-f]{16,64}")
_ID_BYTES = 12


class Machine(NamedTuple):
    """A machine, as a team knows it."""

    id: str
    name: str


def machine_file(db_path: Path) -> Path:
    """The file that holds the id of the machine."""
    return db_path.with_name(f"{db_path.name}.machine")


def this_machine(db_path: Path) -> Machine:
    """The machine of a database; its id is made if there is none yet."""
    path = machine_file(db_path)
    try:
        found = _read(path) or _make(path)
    except OSError as e:
        raise CtxdbError(f"{path}: cannot be read or made: {e.strerror}") from e
    return Machine(found, socket.gethostname())


def known_machine(db_path: Path) -> str | None:
    """The id of the machine of a database; None if it has none yet. Nothing is made."""
    path = machine_file(db_path)
    try:
        return _read(path)
    except OSError as e:
        raise CtxdbError(f"{path}: cannot be read: {e.strerror}") from e


def _read(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return None
    if not _ID.fullmatch(text):
        why = "is not the id of a machine; delete it, and the next push makes a new one"
        raise CtxdbError(f"{path}: {why}")
    return text


def _make(path: Path) -> str:
    """Make an id. Of two processes that do it at once, the first one's holds."""
    waiting = path.with_name(f"{path.name}.{os.getpid()}.new")
    fd = os.open(waiting, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(f"{secrets.token_hex(_ID_BYTES)}\n")
    try:
        os.link(waiting, path)
    except FileExistsError:
        pass
    finally:
        waiting.unlink()
    return _read(path) or ""
