"""What a sum does not know, in one line to stand under it.

Every summed view counts the requests that it could not price and those whose output count is only
a lower bound. A number that leaves something out must say so where it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

UNPRICED = "requests_unpriced"
NOT_FINAL = "requests_not_final"
LEFT_OUT = (UNPRICED, NOT_FINAL)  # the columns that count what a sum does not know


class Sums:
    """Adds up what the rows of an answer leave out."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._places = {name: columns.index(name) for name in LEFT_OUT if name in columns}
        self._sums = dict.fromkeys(LEFT_OUT, 0)

    def add(self, row: Sequence[Any]) -> None:
        """Count one row."""
        for name, place in self._places.items():
            if isinstance(row[place], int):
                self._sums[name] += row[place]

    def in_words(self) -> str | None:
        """One line on what the rows leave out, or None when they are certain."""
        return _in_words(self._sums[UNPRICED], self._sums[NOT_FINAL])


def _in_words(unpriced: int, not_final: int) -> str | None:
    said = []
    if unpriced:
        said.append(
            f"{_requests(unpriced)} of a model without a price {_is_are(unpriced)} not in the cost"
            " (see `ctxdb prices missing`)"
        )
    if not_final:
        said.append(
            f"the output of {_requests(not_final)} is a lower bound, because the transcript never"
            " got the final count"
        )
    if not said:
        return None
    return f"Uncertain: {'; '.join(said)}."


def _requests(number: int) -> str:
    return f"{number:,} request{'' if number == 1 else 's'}"


def _is_are(number: int) -> str:
    return "is" if number == 1 else "are"
