"""Lay an answer out as a table that fits where it is printed.

On a terminal the columns share its width. Numbers keep theirs, long texts are shortened first. If
that is not enough, the words of the headings go over several lines. If that is not enough either,
columns are left out, and the caller is told which: first empty ones and those whose value the
question already gives, then details, then the others from the right. The places in the header of
the view say which columns are details, and which stay (`ctxdb.store.sql_files`). Columns that were
asked for by name stay as long as their texts can be shortened further.

A single row of many columns is a list, one column a line. In a pipe nothing has to fit, and only
very long texts are cut.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.escape import clip, clip_path, printable, width
from ctxdb.query.cells import display_by_name, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ctxdb.store.sql_files import Display

    Row = Sequence[object]

# Widths are in columns of a terminal.
GAP = "  "
LONGEST = 100  # a text in a pipe
SHORTEST = 18  # a text, before headings are broken or columns left out
LONG_NAMES = {"model": 26}  # claude-haiku-4-5-20251001 and its like differ at the end
NARROWEST = 5  # a text, before a column is left out that was asked for
WIDE_SHORTEST, WIDE_SHARE = 22, 5  # about and outcome: 22 and a fifth of the page if both have room
WIDE_NARROWEST = 15  # so that both have room
LIST_COLUMNS = 5  # a single row of this many columns is a list
TOTAL = "total"
LEAST_ROWS_FOR_TOTAL = 2
LIST_LINES = 12  # of one text in a list
# Ranks: the higher, the sooner a column is left out.
ALWAYS, WIDE, USUAL, DETAIL, EMPTY = range(5)
_PATH = re.compile(r"/[^/\s]+/\S+")  # /home/ada/app.py; /clear is a command
BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


class Page(NamedTuple):
    """Where a table is printed."""

    width: int | None = None  # None: a pipe
    is_colored: bool = False
    known: frozenset[str] = frozenset()  # columns whose value the question gives
    is_chosen: bool = False  # the columns were asked for by name


class Table(NamedTuple):
    """The lines, and the columns that had no room."""

    lines: list[str]
    left_out: list[str]


class _Column:
    """One column: its heading, its cells as text, and how wide they may be."""

    def __init__(
        self, name: str, display: Display, values: Sequence[object], *, short: bool
    ) -> None:
        self.name = name
        self.kind = display.kind
        self.place = display.place
        self.is_number = _is_numeric(values)
        self.cells = [shown(value, self.kind, short=short) for value in values]
        self.heading = [printable(name)]
        self.heading_width = width(printable(name))
        self.widest = max(map(width, self.cells), default=0)
        self.can_shrink = not self.is_number and self.kind not in ("time", "id")
        self.width = max(self.widest, self.heading_width)
        self.keeps = self.usually_keeps = LONG_NAMES.get(name, SHORTEST)

    @property
    def shortest(self) -> int:
        """The least width of its cells."""
        return min(self.widest, self.keeps) if self.can_shrink else self.widest

    @property
    def least(self) -> int:
        """The least width of cells and heading."""
        return max(self.shortest, self.heading_width)

    def rank(self, page: Page) -> int:
        """Return how soon it is left out, before `about` and `outcome` are considered."""
        if not self.widest or self.name in page.known:
            return EMPTY
        return {"always": ALWAYS, "detail": DETAIL}.get(self.place, USUAL)

    def broken_heading(self) -> list[str]:
        """Return the words of the heading, on several lines where the cells are narrower."""
        full: list[str] = []
        line, *words = printable(self.name).split("_")
        for word in words:
            if width(line) + 1 + width(word) <= self.shortest:
                line += f"_{word}"
            else:
                full.append(f"{line}_")
                line = word
        return [*full, line]

    def break_heading(self) -> None:
        """Make it no wider than its cells and the longest word of the heading need."""
        self.heading = self.broken_heading()
        self.heading_width = max(map(width, self.heading))
        self.width = max(self.widest, self.heading_width)

    def fitted(self, text: str) -> str:
        is_path = self.kind == "path" or _PATH.fullmatch(text)
        text = (clip_path if is_path else clip)(text, self.width)
        pad = " " * (self.width - width(text))
        return pad + text if self.is_number else text + pad


def lay_out(
    names: Sequence[str],
    rows: Sequence[Row],
    page: Page,
    displays: Sequence[Display] | None = None,
    total: Row | None = None,
) -> Table:
    """Return the table's lines; without `displays` the names say how to show each column.

    `total` is a row for the end, after a second rule.
    """
    displays = displays or [display_by_name(name) for name in names]
    if len(rows) == 1 and len(names) >= LIST_COLUMNS:
        (row,) = rows
        return Table(list(_as_list(names, displays, row, page)), [])
    rows = [*rows, total] if total else rows
    by_column = list(zip(*rows, strict=True)) if rows else [() for _ in names]
    columns = [
        _Column(name, display, values, short=page.width is not None)
        for name, display, values in zip(names, displays, by_column, strict=True)
    ]
    left_out: list[str] = []
    if page.width is None:
        for column in columns:
            column.width = max(min(column.width, LONGEST), column.heading_width)
    else:
        if not (page.is_chosen and _can_narrow(columns, page.width)):
            columns = _worth_most(columns, page)
        _fit(columns, page.width)
        there = {column.name for column in columns}
        left_out = [printable(name) for name in names if name not in there | page.known]
    return Table(list(_lines(columns, len(rows), page, has_total=total is not None)), left_out)


def total_row(names: Sequence[str], rows: Sequence[Row], added: Collection[str]) -> Row | None:
    """Return a row with the sums of these columns; None if one row, or no such column, is there."""
    first, *others = names
    if len(rows) < LEAST_ROWS_FOR_TOTAL or first in added or not {*others} & {*added}:
        return None
    by_name = dict(zip(names, zip(*rows, strict=True), strict=True))
    sums = [_sum(by_name[name]) if name in added else None for name in others]
    return [TOTAL, *sums]


def _sum(values: Sequence[object]) -> float | None:
    numbers = [value for value in values if isinstance(value, int | float)]
    return sum(numbers) if numbers else None


# -- widths ----------------------------------------------------------------------------------------


def _can_narrow(columns: list[_Column], room: int) -> bool:
    """Let all texts keep less until the columns fit; False if they do not."""
    for keeps in range(SHORTEST, NARROWEST - 1, -1):
        for column in columns:
            column.keeps = keeps
        if _least(columns) <= room:
            return True
    return False


def _worth_most(columns: list[_Column], page: Page) -> list[_Column]:
    """Return the columns that there is room for; details only if all others have room."""
    room = page.width or 0
    ranks = {column: column.rank(page) for column in columns}
    for place in ("about", "outcome"):
        for column, rank in ranks.items():
            if column.place == place and rank == USUAL:
                ranks[column] = WIDE
                break
    # The first column names the row.
    first, *_ = columns
    if first.name in page.known:
        first = next((column for column, rank in ranks.items() if rank < DETAIL), first)
    answer = [column for column in columns if column is first or ranks[column] <= WIDE]
    for keeps in range(max(WIDE_SHORTEST, room // WIDE_SHARE), WIDE_NARROWEST - 1, -1):
        for column, rank in ranks.items():
            column.keeps = keeps if rank == WIDE else column.usually_keeps
        if _least(answer) <= room:
            break
    kept = [first]
    is_full = False
    for column in sorted(columns, key=ranks.__getitem__):
        if column is first:
            continue
        if ranks[column] >= DETAIL and is_full:
            break
        if _least([*kept, column]) <= room:
            kept.append(column)
        else:
            is_full = True
    return [column for column in columns if column in kept]


def _fit(columns: list[_Column], room: int) -> None:
    """Set the columns' widths."""
    if _needed(columns) > room:
        _shrink(columns, room)
    if _needed(columns) > room:
        for column in columns:
            column.break_heading()
        _shrink(columns, room)
    if len(columns) == 1:
        (only,) = columns
        only.width = min(only.width, room)


def _least(columns: list[_Column]) -> int:
    """Return how narrow the table can get with its headings broken."""
    widths = (max(column.shortest, *map(width, column.broken_heading())) for column in columns)
    return sum(widths) + _gaps(columns)


def _needed(columns: list[_Column]) -> int:
    return sum(column.width for column in columns) + _gaps(columns)


def _gaps(columns: list[_Column]) -> int:
    return len(GAP) * (len(columns) - 1)


def _shrink(columns: list[_Column], room: int) -> None:
    """Shorten the widest texts first, until the table fits or no text can be shortened further."""
    over = _needed(columns) - room
    while over > 0:
        soft = [column for column in columns if column.can_shrink and column.width > column.least]
        if not soft:
            return
        widest = max(soft, key=lambda column: column.width)
        others = [column.width for column in soft if column.width < widest.width]
        floor = max(widest.least, max(others, default=0))
        like_it = sum(column.width == widest.width for column in soft)  # they share what is taken
        taken = max(min(over, widest.width - floor) // like_it, 1)
        widest.width -= taken
        over -= taken


# -- lines -----------------------------------------------------------------------------------------


def _lines(columns: list[_Column], rows: int, page: Page, *, has_total: bool) -> Iterator[str]:
    height = max(len(column.heading) for column in columns)
    headings = ([""] * (height - len(column.heading)) + column.heading for column in columns)
    for words in zip(*headings, strict=True):
        cells = (column.fitted(word) for column, word in zip(columns, words, strict=True))
        line = GAP.join(cells).rstrip()
        yield f"{BOLD}{line}{PLAIN}" if page.is_colored else line
    rule = GAP.join("─" * column.width for column in columns)
    rule = f"{DIM}{rule}{PLAIN}" if page.is_colored else rule
    yield rule
    for n in range(rows):
        if has_total and n == rows - 1:
            yield rule
        yield GAP.join(column.fitted(column.cells[n]) for column in columns).rstrip()


def _as_list(
    names: Sequence[str], displays: Sequence[Display], row: Row, page: Page
) -> Iterator[str]:
    labels = [printable(name) for name in names]
    margin = max(map(width, labels))
    room = (page.width or margin + LONGEST + len(GAP)) - margin - len(GAP)
    for label, (kind, _), value in zip(labels, displays, row, strict=True):
        if kind in ("text", "number") and isinstance(value, str):
            first, *rest = _paragraph(value, max(room, SHORTEST))
        else:
            cut = clip_path if kind == "path" else clip
            first, rest = cut(shown(value, kind, short=False), max(room, SHORTEST)), []
        pad = " " * (margin - width(label))
        strong = f"{BOLD}{label}{PLAIN}" if page.is_colored else label
        yield f"{strong}{pad}{GAP}{first}".rstrip()
        yield from (f"{'':{margin}}{GAP}{line}".rstrip() for line in rest)


def _paragraph(text: str, room: int) -> list[str]:
    """Return a text on as many lines as it needs, at most LIST_LINES; its own lines stay lines."""
    lines: list[str] = []
    for part in text.strip().splitlines() or [""]:
        line = ""
        for word in shown(part, "text").split(" "):
            longer = f"{line} {word}" if line else word
            if line and width(longer) > room:
                lines.append(line)
                longer = word
                if len(lines) > LIST_LINES:
                    break
            line = clip(longer, room)
        if line or (lines and lines[-1]):
            lines.append(line)
        if len(lines) > LIST_LINES:
            return [*lines[: LIST_LINES - 1], clip(f"{lines[LIST_LINES - 1]} …", room)]
    return lines or [""]


def _is_numeric(values: Sequence[object]) -> bool:
    return all(isinstance(value, int | float | None) for value in values) and any(
        value is not None for value in values
    )
