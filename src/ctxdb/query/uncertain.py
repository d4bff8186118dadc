"""What a sum does not know, in one line to stand under it.

Every summed view counts the requests that it could not price and those whose output count is only
a lower bound. A number that leaves something out must say so where it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctxdb.formatting import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

UNPRICED = "requests_unpriced"
NOT_FINAL = "requests_not_final"
LEFT_OUT = (UNPRICED, NOT_FINAL)  # the columns that count what a sum does not know
# Rows of these share requests: commits and files those of a turn, reasons those they both hold for.
# Added up, a request would count as often as it is there.
SHARING = frozenset({"commits", "cost_of_file", "usage_audit"})


class Sums:
    """Adds up what the rows of an answer leave out; of a name in SHARING, counts such rows."""

    def __init__(self, columns: Sequence[str], name: str = "") -> None:
        self._places = {one: columns.index(one) for one in LEFT_OUT if one in columns}
        self._sums = dict.fromkeys(LEFT_OUT, 0)
        self._is_shared = name in SHARING

    def add(self, row: Sequence[Any]) -> None:
        """Count one row."""
        for name, place in self._places.items():
            if isinstance(row[place], int):
                self._sums[name] += bool(row[place]) if self._is_shared else row[place]

    def in_words(self) -> str | None:
        """One line on what the rows leave out, or None when they are certain."""
        unpriced, not_final = self._sums[UNPRICED], self._sums[NOT_FINAL]
        said = []
        if unpriced:
            said.append(
                f"{self._requests(unpriced)} of a model without a price"
                f" {'is' if unpriced == 1 and not self._is_shared else 'are'} not in the cost"
                " (see `ctxdb prices missing`)"
            )
        if not_final:
            said.append(
                f"the output of {self._requests(not_final)} is a lower bound, because the"
                " transcript never got the final count"
            )
        return f"Uncertain: {'; '.join(said)}." if said else None

    def _requests(self, number: int) -> str:
        if self._is_shared:
            return f"requests in {counted(number, 'row')}"
        return counted(number, "request")
