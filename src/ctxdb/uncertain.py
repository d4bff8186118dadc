"""What a sum does not know, in one line to stand under it.

Every summed view counts the requests that it could not price and those whose output count is only
a lower bound. A number that leaves something out must say so where it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

UNPRICED = "requests_unpriced"
NOT_FINAL = "requests_not_final"


def uncertain(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str | None:
    """One line on what the rows leave out, or None when they are certain."""
    places = {name: columns.index(name) for name in (UNPRICED, NOT_FINAL) if name in columns}
    if not places:
        return None
    sums = dict.fromkeys((UNPRICED, NOT_FINAL), 0)
    for row in rows:
        for name, place in places.items():
            if isinstance(row[place], int):
                sums[name] += row[place]
    said = []
    if unpriced := sums[UNPRICED]:
        said.append(
            f"{_requests(unpriced)} of a model without a price {_is_are(unpriced)} not in the cost"
            " (see `ctxdb prices missing`)"
        )
    if not_final := sums[NOT_FINAL]:
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
