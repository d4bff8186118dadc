"""Run a statement, and pass its rows on as SQLite finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.errors import UsageError
from ctxdb.query.cells import displays_for
from ctxdb.query.resolve import unknown
from ctxdb.query.uncertain import LeftOut

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ctxdb.query.guard import Guarded
    from ctxdb.query.statement import Statement
    from ctxdb.store.sql_files import Display

    Row = tuple[object, ...]

NOTHING = "nothing to answer; give a name or SQL, `ctxdb query --list` shows names"
FETCHED_ROWS = 500  # at a time; between two fetches the clock of the query stops


class Answer:
    """Columns, and rows that can be read once."""

    def __init__(
        self,
        columns: Sequence[str],
        rows: Iterator[Row],
        displays: Sequence[Display] | None = None,
        left_out: LeftOut | None = None,
        total: Collection[str] = (),
    ) -> None:
        self.columns = columns
        self.rows = rows
        self.displays = displays  # of each column; None: by their names
        self.left_out = left_out or LeftOut()
        self.total = total  # columns that can be added up over all rows
        self.is_limited = False  # as many rows were passed on as the limit allows
        self.cut_at: int | None = None  # how many rows were passed on, if no --limit asked for that
        self.count = 0  # how many rows were passed on so far


def execute(guarded: Guarded, statement: Statement, most_rows: int) -> Answer:
    """Run it. Unless --limit is given, the answer has at most `most_rows` rows."""
    limit = most_rows if statement.limit is None else statement.limit
    with guarded.asking() as conn:
        cursor = conn.execute(statement.sql, statement.values)
        if cursor.description is None:  # a semicolon, or comments only
            raise UsageError(NOTHING)
        names = [name for name, *_ in cursor.description]
    picked = _picked(names, statement.columns)
    left_out = LeftOut(names, is_shared=statement.rows_share_requests)

    def rows() -> Iterator[Row]:
        count = 0
        while True:
            with guarded.asking():
                # One row more than the limit shows whether there are more.
                some = cursor.fetchmany(min(FETCHED_ROWS, limit + 1 - count))
            if not some:
                return
            for row in some:
                if count == limit:
                    answer.cut_at = limit if statement.limit is None else None
                    return
                count += 1
                answer.count = count
                answer.is_limited = count == limit
                left_out.add(row)
                yield row if picked is None else tuple(row[position] for position in picked)

    chosen = names if picked is None else [names[position] for position in picked]
    displays = displays_for(chosen, statement.displays)
    answer = Answer(_distinct(chosen), rows(), displays, left_out, statement.total)
    return answer


def _picked(names: list[str], wanted: Sequence[str] | None) -> list[int] | None:
    """Return the positions of the wanted columns; None for all columns."""
    if wanted is None:
        return None
    by_lower = {name.lower(): position for position, name in reversed(list(enumerate(names)))}
    for word in wanted:
        if word.lower() not in by_lower:
            raise unknown("column", word, names, f"there are {', '.join(names)}")
    return [by_lower[word.lower()] for word in wanted]


def _distinct(names: list[str]) -> list[str]:
    """Rename columns of one name, which would be one column in JSON: the second is name_2."""
    taken: set[str] = set()
    found = []
    for name in names:
        n, own = 2, name
        while own in taken:
            own, n = f"{name}_{n}", n + 1
        taken.add(own)
        found.append(own)
    return found
