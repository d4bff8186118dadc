"""What a check looks at, and what it returns."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from ctxdb.store.connection import open_reader

if TYPE_CHECKING:
    from pathlib import Path

    from ctxdb.config import Config
    from ctxdb.progress import Progress

OK, NOTE, TODO = "ok", "note", "todo"  # fine; worth knowing; something needs doing


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    state: str  # OK, NOTE or TODO
    text: str
    fix: str | None = None  # what to do about it


@dataclass(frozen=True, slots=True)
class Patient:
    """What is checked."""

    config: Config
    progress: Progress

    @property
    def path(self) -> Path:
        """The database."""
        return self.config.db_path

    @contextmanager
    def reader(self) -> Iterator[sqlite3.Connection]:
        """A connection that cannot write."""
        with closing(open_reader(self.path)) as conn:
            yield conn


@dataclass(slots=True)
class DoctorReport:
    """What all checks found."""

    database: str
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing needs doing."""
        return all(one.state != TODO for one in self.findings)

    def as_dict(self) -> dict[str, object]:
        """Stable names for programs."""
        return {**asdict(self), "ok": self.ok}

    def lines(self) -> Iterator[str]:
        """What was found, for people."""
        width = max((len(one.check) for one in self.findings), default=0)
        for one in self.findings:
            yield f"{one.state:4}  {one.check:{width}}  {one.text}"
            if one.fix:
                yield f"{'':4}  {'':{width}}  → {one.fix}"
        todo = sum(one.state == TODO for one in self.findings)
        yield "" if todo else "Nothing needs doing."
        if todo:
            yield f"{todo} of {len(self.findings)} findings need doing."
