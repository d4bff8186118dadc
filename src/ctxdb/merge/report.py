"""What a merge did, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from ctxdb.formatting import counted
from ctxdb.progress import human_bytes

_SHOWN = 10


@dataclass(slots=True)
class MergeReport:
    """What was done, or would be."""

    database: str
    other: str
    machine: str = ""  # as source_files.machine says it
    is_dry_run: bool = False
    files: int = 0  # with bytes that were not here
    bytes: int = 0
    lines_read: int = 0
    sessions: int = 0  # more than before
    messages: int = 0
    requests: int = 0
    cost_usd: float = 0.0
    sessions_without_bytes: int = 0  # of the new sessions, copied as rows
    sessions_not_updated: list[str] = field(default_factory=list)  # grown there, without bytes
    history: int = 0  # prompts of history.jsonl, copied as rows
    side_files: int = 0  # to-dos, plans and saved outputs, copied as rows
    files_left_out: int = 0  # of forgotten sessions and ignored projects
    tombstones: int = 0  # sessions that were forgotten there and stay out from now on
    forgotten_there: list[str] = field(default_factory=list)  # sessions that are here
    prices: int = 0  # of the user, added
    prices_differing: list[str] = field(default_factory=list)  # models
    damaged: list[str] = field(default_factory=list)  # files of the other archive
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, object]:
        """Stable names for programs."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Say it for people."""
        files = f"{counted(self.files, 'file')} ({human_bytes(self.bytes)})"
        if self.is_dry_run:
            yield f"Would copy {files} and {counted(self.sessions, 'new session')}."
        elif not (self.files or self.sessions or self.messages or self.history or self.side_files):
            yield f"Nothing new in {self.other}."
        else:
            yield (
                f"Added {counted(self.sessions, 'session')}, {counted(self.messages, 'message')},"
                f" {counted(self.requests, 'request')} ({self.cost_usd:,.2f} USD) from {files}"
                f" in {self.seconds:.1f} s."
            )
        if self.sessions_without_bytes:
            sessions = counted(self.sessions_without_bytes, "session")
            yield f"{sessions} copied as rows: no bytes are left, or of sessions linked with them."
        if self.history or self.side_files:
            prompts = counted(self.history, "prompt")
            beside = counted(self.side_files, "to-do list, plan or output")
            yield f"Copied as rows, because no bytes are left: {prompts}, {beside}."
        if self.files_left_out:
            left = counted(self.files_left_out, "file")
            yield f"Left out {left} of forgotten sessions or ignored projects."
        if self.tombstones:
            yield f"{counted(self.tombstones, 'session')} forgotten there will stay out here too."
        yield from _named(
            self.forgotten_there,
            "Forgotten there and still here (`ctxdb forget --session ID` removes it here too)",
        )
        yield from _named(
            self.sessions_not_updated, "Longer there, without bytes, and linked: left as it is"
        )
        if self.prices:
            yield f"Added {counted(self.prices, 'price')} that you set there."
        yield from _named(self.prices_differing, "Prices differ; those of this database are kept")
        yield from _named(self.damaged, "Damaged in the other archive; its rows were copied")
        yield from _named(self.problems, "Could not read")


def _named(names: list[str], what: str) -> Iterator[str]:
    for name in names[:_SHOWN]:
        yield f"{what}: {name}"
    if len(names) > _SHOWN:
        yield f"{what}: {len(names) - _SHOWN:,} more"
