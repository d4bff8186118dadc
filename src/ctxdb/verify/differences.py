"""What verify has compared, and what differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from ctxdb.formatting import counted
from ctxdb.ingest.line_check import LineFindings


@dataclass(slots=True)
class VerifyReport(LineFindings):
    """What was compared, and what differs."""

    files_new: int = 0
    sessions_made_again: int = 0
    sessions_only_here: int = 0
    rows_made_again: int = 0
    not_made_again: str | None = None
    secrets_in_clear: int = 0

    def as_dict(self) -> dict[str, object]:
        """Stable names for programs."""
        return {"ok": self.ok, **asdict(self)}

    def lines(self) -> Iterator[str]:
        """What was proven, for people."""
        yield (
            f"{self.lines_read:,} lines in {self.files:,} files ="
            f" {self.stored:,} stored + {self.copies:,} copies"
            f" + {self.skipped:,} skipped + {self.bad:,} bad"
        )
        yield f"{self.rows_compared:,} rows compared with their lines"
        if self.not_made_again is not None:
            yield f"What depends on several lines was not compared: {self.not_made_again}"
        else:
            yield (
                f"{self.rows_made_again:,} rows of {self.sessions_made_again:,} sessions compared"
                " with a second database, made from the same lines"
            )
        if self.sessions_only_here:
            yield (
                f"{counted(self.sessions_only_here, 'session')} only here, in whole or in part:"
                " what was deleted or rewritten cannot be compared"
            )
        if self.files_gone:
            gone = counted(self.files_gone, "transcript")
            yield f"{gone} gone, whose rows are kept and cannot be compared"
        if self.files_changed:
            changed = counted(self.files_changed, "transcript")
            yield f"{changed} rewritten since: sync, then verify again"
        if self.files_behind or self.files_new:
            yield (
                f"{self.files_behind:,} files have grown and {self.files_new:,} have come since;"
                " what is new in them is for the next sync"
            )
        if self.files_partial:
            yield (
                f"{counted(self.files_partial, 'unfinished last line')} not counted:"
                " a line is one when its newline is there"
            )
        if self.secrets_in_clear:
            yield (
                f"{counted(self.secrets_in_clear, 'secret')} stored in clear that the rules of now"
                " would mask: run `ctxdb redact --apply`"
            )
        yield from self.shown
        if self.differences > len(self.shown):
            yield f"... and {self.differences - len(self.shown):,} more"
        if not self.ok:
            yield f"{self.differences:,} DIFFERENCES"
        elif self.files_changed:
            yield "All lines of the other files are accounted for."
        elif self.files:
            yield "All lines are accounted for."
        else:
            yield "There was nothing to compare."
