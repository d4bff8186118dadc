"""What a sync did, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from ctxdb.formatting import counted
from ctxdb.progress import human_bytes


@dataclass(slots=True)
class SyncReport:
    """What a sync did."""

    files: int = 0
    new_files: int = 0
    grown_files: int = 0
    rewritten_files: int = 0
    renamed_files: int = 0
    missing_files: int = 0
    unreadable_files: int = 0
    lines_read: int = 0
    bad_lines: int = 0
    bytes_read: int = 0
    side_files: int = 0  # files beside the transcripts that were read: to-dos, plans, history ...
    archived_bytes: int = 0
    from_archive: int = 0  # transcripts that were read from the archive: their sources are gone
    seconds: float = 0.0
    rebuilt: bool = False  # the database was of an earlier version and has been made again
    missing_roots: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """Stable names for programs."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """What it did, for people."""
        if not (self.files or self.missing_files or self.from_archive):
            yield "No transcripts found."
            for root in self.missing_roots:
                yield f"  {root}: no such folder"
            return
        if self.rebuilt:
            yield "The database was made by an earlier version of ctxdb; it has been made again."
        if self.lines_read:
            yield (
                f"Read {counted(self.lines_read, 'new line')} ({human_bytes(self.bytes_read)})"
                f" in {self.seconds:.1f} s; looked at {counted(self.files, 'file')}."
            )
        else:
            yield f"Nothing new in {counted(self.files, 'file')} ({self.seconds:.2f} s)."
        kinds = (
            ("new", self.new_files),
            ("grown", self.grown_files),
            ("rewritten", self.rewritten_files),
            ("renamed", self.renamed_files),
            ("gone (rows are kept)", self.missing_files),
        )
        if any(n for _, n in kinds):
            yield "Files: " + ", ".join(f"{n:,} {name}" for name, n in kinds if n) + "."
        if self.from_archive:
            read = counted(self.from_archive, "transcript")
            yield f"Read {read} from the archive."
        if self.side_files:
            what = "to-dos, plans, history, saved outputs"
            yield f"Read {counted(self.side_files, 'file')} beside the transcripts ({what})."
        if self.bad_lines:
            bad = counted(self.bad_lines, "line")
            yield f"{bad} could not be read; `ctxdb status` tells which."
        for problem in self.problems[:10]:
            yield f"Could not read {problem}"
        if len(self.problems) > 10:
            yield f"... and {len(self.problems) - 10:,} more"
