"""Say in one line what a sum leaves out.

Every view that adds up costs counts the requests that have no price, and those whose output count
is only a lower bound. Where a sum is read, the line below it tells how many there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctxdb.formatting import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

UNPRICED = "requests_unpriced"
NOT_FINAL = "requests_not_final"
LEFT_OUT = (UNPRICED, NOT_FINAL)  # the columns that count what a sum leaves out


class LeftOut:
    """Counts the requests that the sums in the rows of an answer leave out.

    With `is_shared`, rows have requests in common (the commits of a turn): a request must not be
    counted once for each row, so rows with such requests are counted instead.
    """

    def __init__(self, columns: Sequence[str] = (), *, is_shared: bool = False) -> None:
        self._positions = {name: columns.index(name) for name in LEFT_OUT if name in columns}
        self._counts = dict.fromkeys(LEFT_OUT, 0)
        self.is_shared = is_shared

    def add(self, row: Sequence[Any]) -> None:
        """Count one row."""
        for name, position in self._positions.items():
            requests = row[position]
            if isinstance(requests, int):
                self._counts[name] += bool(requests) if self.is_shared else requests

    def in_words(self) -> str | None:
        """Return one line on what the rows leave out, or None if they leave nothing out."""
        unpriced, not_final = self._counts[UNPRICED], self._counts[NOT_FINAL]
        parts = []
        if unpriced:
            parts.append(
                f"{self._requests(unpriced)} of a model without a price"
                f" {'is' if unpriced == 1 and not self.is_shared else 'are'} not in the cost"
                " (see `ctxdb prices missing`)"
            )
        if not_final:
            parts.append(
                f"the output of {self._requests(not_final)} is a lower bound, because the"
                " transcript never got the final count"
            )
        return f"Uncertain: {'; '.join(parts)}." if parts else None

    def _requests(self, number: int) -> str:
        if self.is_shared:
            return f"requests in {counted(number, 'row')}"
        return counted(number, "request")
