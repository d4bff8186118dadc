"""What a dataset knows of one machine: what it has written, and what it may not write.

It is in the folder `_ctxdb` of the dataset: engines leave out names that begin with _.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ctxdb.errors import CtxdbError

FOLDER = "_ctxdb"
_SALT_BYTES = 16


@dataclass(slots=True)
class LakeState:
    """How far a machine has got."""

    level: str = ""
    database: str = ""
    seq: int = 0
    session_id: str = ""
    known: dict[str, str] = field(default_factory=dict)  # what rows depend on besides sessions
    months: dict[str, str] = field(default_factory=dict)  # by session


def state_file(folder: Path, machine: str) -> Path:
    """The file that holds the state of a machine."""
    return folder / FOLDER / f"{machine}.json"


def load_state(folder: Path, machine: str) -> LakeState:
    """The state of a machine; an empty one if it has written nothing, or the file is damaged."""
    try:
        found = json.loads(state_file(folder, machine).read_text(encoding="utf-8"))
        return LakeState(**found)
    except FileNotFoundError:
        return LakeState()
    except (ValueError, TypeError):
        return LakeState()


def save_state(folder: Path, machine: str, state: LakeState) -> None:
    """Save the state, after all files are written."""
    replace_file(state_file(folder, machine), json.dumps(asdict(state)).encode())


def salt_of(folder: Path) -> bytes:
    """The salt of a dataset; the first machine makes it."""
    path = folder / FOLDER / "salt"
    waiting = path.with_name(f"salt.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            waiting.write_text(secrets.token_hex(_SALT_BYTES), encoding="ascii")
            try:
                os.link(waiting, path)
            except FileExistsError:
                pass
            finally:
                waiting.unlink()
        return bytes.fromhex(path.read_text(encoding="ascii"))
    except OSError as e:
        raise CtxdbError(f"{path}: {e.strerror}; choose a folder that you can write to") from e
    except ValueError as e:
        raise CtxdbError(f"{path}: is not the salt of a dataset; choose another folder") from e


def forgotten_in(folder: Path) -> set[str]:
    """Hashes of the sessions that any machine has forgotten."""
    try:
        return set(os.listdir(folder / FOLDER / "forgotten"))  # noqa: PTH208
    except FileNotFoundError:
        return set()


def note_forgotten(folder: Path, hashes: set[str], undone: set[str]) -> None:
    """Tell other machines what was forgotten here."""
    there = folder / FOLDER / "forgotten"
    if hashes:
        there.mkdir(parents=True, exist_ok=True)
    for name in hashes:
        (there / name).touch()
    for name in undone:
        (there / name).unlink(missing_ok=True)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file at once: others see the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting = path.with_name(f".{path.name}.{os.getpid()}.new")
    waiting.write_bytes(data)
    waiting.replace(path)
