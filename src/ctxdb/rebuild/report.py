"""What a rebuild did, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from ctxdb.formatting import counted
from ctxdb.rebuild.changes import Changes

_COLUMNS_SHOWN = 4


@dataclass(slots=True)
class RebuildReport:
    """What was done, and what differs."""

    database: str
    is_swapped: bool = False  # false with --check
    kept: str | None = None  # the old database
    damage: str | None = None  # what is wrong with the old file
    salvaged_rows: int | None = None  # rows that could be read of a damaged file
    lost_tombstones: bool = False  # which sessions were forgotten could not all be read
    transcripts: int = 0
    lines_read: int = 0
    from_archive: int = 0  # transcripts that were read from the archive
    carried_sessions: int = 0  # whose bytes exist nowhere
    carried_history: int = 0  # lines of history.jsonl that exist nowhere
    meanings_before: int = 0
    meanings_after: int = 0
    seconds: float = 0.0
    changes: Changes = field(default_factory=Changes)
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """Stable names for programs."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Say it for people."""
        if self.damage is not None:
            yield f"The database was damaged ({self.damage})."
            if self.salvaged_rows is not None:
                yield f"{counted(self.salvaged_rows, 'row')} of it could be read."
            if self.lost_tombstones:
                why = "a session that you forgot is back if its transcript is still there"
                yield f"Not all of what was forgotten could be read: {why}."
        archived = f", {self.from_archive:,} of them from the archive" if self.from_archive else ""
        yield (
            f"Derived all rows again from {counted(self.transcripts, 'transcript')}{archived}"
            f" ({counted(self.lines_read, 'line')}) in {self.seconds:.1f} s."
        )
        if self.carried_sessions:
            carried = counted(self.carried_sessions, "session")
            why = "no bytes are left of them, or of sessions that they share lines with"
            yield f"{carried} carried over as stored: {why}."
        if self.carried_history:
            prompts = counted(self.carried_history, "prompt")
            yield f"{prompts} of history.jsonl carried over as stored."
        yield from self._differences()
        for problem in self.problems[:10]:
            yield f"Could not read {problem}"
        if not self.is_swapped:
            yield "Only compared: the database is as it was."
        elif self.kept is not None:
            yield f"The old database is kept: {self.kept} (`ctxdb rebuild --drop-old` deletes it)."

    def _differences(self) -> Iterator[str]:
        changes = self.changes
        tables = [one for one in changes.tables if one.differs and not one.table.startswith("_")]
        if not tables:
            yield "All rows are the same as before."
        for one in tables:
            parts = [
                f"{n:,} {what}"
                for n, what in (
                    (one.new, "new"),
                    (one.back, "back"),
                    (one.gone, "gone"),
                    (one.changed, "changed"),
                )
                if n
            ]
            names = sorted(one.columns, key=lambda name: -one.columns[name])[:_COLUMNS_SHOWN]
            where = f" (in {', '.join(names)})" if one.changed and names else ""
            rows = f"{one.before:,} rows, now {one.after:,}"
            yield f"  {one.table}: {rows}: {', '.join(parts)}{where}"
        if changes.tokens_before != changes.tokens_after:
            yield f"  tokens: {changes.tokens_before:,}, now {changes.tokens_after:,}"
        before, after = changes.cost_before_usd, changes.cost_after_usd
        if before is not None and after is not None and round(before, 2) != round(after, 2):
            yield f"  cost: {before:,.2f} USD, now {after:,.2f} USD"
        yield from self._reasons()

    def _reasons(self) -> Iterator[str]:
        changes = self.changes
        is_ill = self.damage is not None
        is_other = self.meanings_before != self.meanings_after and not is_ill
        if changes.total("new"):
            yield "new: from lines that the old database had not read."
        if back := changes.total("back"):
            why = (
                "this version of ctxdb derives them from lines that were read before"
                if is_other
                else f"they had been {'lost' if is_ill else 'deleted by hand'},"
                " and their lines are still there"
            )
            yield f"back: {counted(back, 'row')}: {why}."
        if changes.total("gone"):
            yield "gone: no line says them."
        if changes.total("changed"):
            done = "damaged" if is_ill else "edited"
            why = "this version reads them differently" if is_other else f"they had been {done}"
            yield f"changed: {why}, or follow from rows that differ."
