"""Ask SQLite, and hand its rows on as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.errors import UsageError
from ctxdb.query.resolve import unknown
from ctxdb.query.uncertain import Sums

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctxdb.query.build import Statement
    from ctxdb.query.guard import Guarded

    Row = tuple[object, ...]

NOTHING = "nothing is asked; give a name or SQL, `ctxdb query --list` shows names"
AT_ONCE = 500  # rows between two looks at whoever reads them


class Answer:
    """Columns, and rows that can be read once."""

    def __init__(
        self, columns: Sequence[str], rows: Iterator[Row], sums: Sums | None = None
    ) -> None:
        self.columns = columns
        self.rows = rows
        self.sums = sums or Sums(
            ()
        )  # what the rows leave out, those of columns that nobody asked for, too
        self.is_cut = False  # there are more rows than were given; known at the end


def run(guarded: Guarded, statement: Statement, cap: int) -> Answer:
    """Run it; at most `cap` rows, or as many as were asked for."""
    limit = cap if statement.limit is None else statement.limit
    with guarded.asking() as conn:
        cursor = conn.execute(statement.sql, statement.values)
        if cursor.description is None:  # a semicolon, or comments only
            raise UsageError(NOTHING)
        names = [column[0] for column in cursor.description]
    picked = _picked(names, statement.columns)
    sums = Sums(names, statement.name)

    def rows() -> Iterator[Row]:
        given = 0
        while True:
            with guarded.asking():
                # One more than wanted tells whether there are more.
                some = cursor.fetchmany(min(AT_ONCE, limit + 1 - given))
            if not some:
                return
            for row in some:
                if given == limit:
                    answer.is_cut = statement.limit is None
                    return
                given += 1
                sums.add(row)
                yield row if picked is None else tuple(row[n] for n in picked)

    chosen = names if picked is None else [names[n] for n in picked]
    answer = Answer(_distinct(chosen), rows(), sums)
    return answer


def _picked(names: list[str], wanted: Sequence[str] | None) -> list[int] | None:
    if wanted is None:
        return None
    by_lower = {name.lower(): n for n, name in reversed(list(enumerate(names)))}
    for word in wanted:
        if word.lower() not in by_lower:
            raise unknown("column", word, names, f"there are {', '.join(names)}")
    return [by_lower[word.lower()] for word in wanted]


def _distinct(names: list[str]) -> list[str]:
    """Two columns of one name would be one in JSON: the second is called name_2."""
    taken: set[str] = set()
    found = []
    for name in names:
        n, own = 2, name
        while own in taken:
            own, n = f"{name}_{n}", n + 1
        taken.add(own)
        found.append(own)
    return found
