"""Who pushes what, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctxdb.team.machine import Machine


@dataclass(frozen=True, slots=True)
class Sender:
    """Who pushes what."""

    machine: Machine
    person: str
    team: str | None
    level: str
    hash_person: bool = False
    repositories: Mapping[str, str] = field(default_factory=dict)  # as config.toml names them
    mask: Callable[[str], str] = str


@dataclass(slots=True)
class PushReport:
    """What was done, or would be done."""

    server: str
    machine: str
    level: str
    sessions: int = 0  # sent
    rows: dict[str, int] = field(default_factory=dict)  # sent, by table
    removed: int = 0  # sessions that this machine no longer has
    forgotten: int = 0  # sessions that were forgotten here and are removed there
    rejected: int = 0  # sessions that were forgotten on some machine, and so are not sent
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)
