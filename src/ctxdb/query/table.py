"""A table that fits where it is printed.

On a terminal the columns share its width: numbers keep theirs, long texts give way first, then the
words of the headings go over several lines, and at last columns are left out, which is said: empty
ones and those that the question itself names, then keys and details, then from the right, but not
the cost, the session, and what a row is about. Columns that were asked for by name stay, and their
texts give way further. One row of many columns is shown as a list. In a
pipe nothing has to fit, and only very long texts are cut.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.escape import clip, clip_path, printable, width
from ctxdb.query.cells import kind_of, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctxdb.query.cells import Kind

GAP = "  "
LONGEST = 100  # columns of a text in a pipe
SHORTEST = 18  # what a text keeps before headings are broken or columns left out
NARROWEST = 5  # what it keeps before a column is left out that was asked for
LIST_COLUMNS = 5  # from here on a single row is a list
LIST_LINES = 12  # of one text in it
# Worth more than their neighbours.
KEPT = frozenset(
    {
        "cost_usd",
        "operation",
        "rate_limited_at",
        "read_from_cache",
        "saved_usd",
        "session_id",
        "sha",
        "total_tokens",
    }
)
# What a row is about, and what came of it: the first of each, without which the rest says little.
ABOUT = frozenset(
    {"command", "path", "prompt", "question", "subject", "target", "task", "text", "title"}
)
OUTCOME = frozenset({"answer", "message", "reason", "target", "what"})
ABOUT_SHORTEST, ABOUT_SHARE = 22, 5  # columns they keep at least; and a fifth of the page
# Keys, counts that a line below the table tells of, what another column says as well, small change.
MINOR = re.compile(
    r".*_id|uuid|.*_key|byte_start|weekday_number|requests_unpriced|.*_not_final|.*_is_final"
    r"|relative_path|is_copy|succeeded|ordinal|block_start_local|first_\w+_at|cache_write_\w+_tokens|web_search_requests"
)
USUAL, DETAIL, EMPTY = 2, 3, 4  # ranks: the higher, the sooner it is left out
BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


class Page(NamedTuple):
    """Where a table is printed."""

    columns: int | None = None  # None: a pipe
    is_colored: bool = False
    known: frozenset[str] = frozenset()  # columns of which the question says what is in them
    is_chosen: bool = False  # the columns were asked for by name


class Table(NamedTuple):
    """Lines, and the columns that found no room."""

    lines: list[str]
    left_out: list[str]


class _Column:
    """One column: its heading, its cells as text, and how wide they may be."""

    def __init__(self, name: str, values: Sequence[object], *, short: bool) -> None:
        self.name = name
        self.kind: Kind = kind_of(name)
        self.is_number = _is_numeric(values)
        self.cells = [shown(value, self.kind, short=short) for value in values]
        self.heading = [printable(name)]
        self.widest = max(map(width, self.cells), default=0)
        self.can_shrink = not self.is_number and self.kind not in ("time", "id")
        self.columns = max(self.widest, width(self.heading[0]))
        self.keeps = SHORTEST

    @property
    def shortest(self) -> int:
        """What its cells need at least."""
        return min(self.widest, self.keeps) if self.can_shrink else self.widest

    @property
    def least(self) -> int:
        """What it needs at least, its heading included."""
        return max(self.shortest, *map(width, self.heading))

    @property
    def rank(self) -> int:
        """How readily it is left out."""
        if not self.widest:
            return EMPTY
        if self.name in KEPT:
            return 0
        return DETAIL if MINOR.fullmatch(self.name) else USUAL

    def broken(self) -> list[str]:
        """The words of the heading one below the other where the cells are narrower."""
        lines: list[str] = []
        for word in printable(self.name).split("_"):
            if lines and width(lines[-1]) + 1 + width(word) <= self.shortest:
                lines[-1] += f"_{word}"
            else:
                if lines:
                    lines[-1] += "_"
                lines.append(word)
        return lines

    def break_heading(self) -> None:
        """Give the cells' width back to others."""
        self.heading = self.broken()
        self.columns = max(self.widest, *map(width, self.heading))

    def fitted(self, text: str) -> str:
        cut = clip_path if self.kind == "path" else clip
        text = cut(text, self.columns)
        pad = " " * (self.columns - width(text))
        return pad + text if self.is_number else text + pad


def lay_out(names: Sequence[str], rows: Sequence[Sequence[object]], page: Page) -> Table:
    """Return the table's lines."""
    if len(rows) == 1 and len(names) >= LIST_COLUMNS:
        return Table(list(_as_list(names, rows[0], page)), [])
    by_column = list(zip(*rows, strict=True)) if rows else [() for _ in names]
    is_short = page.columns is not None
    columns = [
        _Column(name, values, short=is_short) for name, values in zip(names, by_column, strict=True)
    ]
    left_out: list[str] = []
    if page.columns is None:
        for column in columns:
            column.columns = max(min(column.columns, LONGEST), width(column.heading[0]))
    else:
        if not (page.is_chosen and _can_narrow(columns, page.columns)):
            columns = _worth_most(columns, page)
        _fit(columns, page.columns)
        there = {column.name for column in columns}
        left_out = [printable(name) for name in names if name not in there | page.known]
    return Table(list(_lines(columns, len(rows), page)), left_out)


def _can_narrow(columns: list[_Column], room: int) -> bool:
    """Let texts give way as far as all columns need it; False where that is not enough."""
    for keeps in range(SHORTEST, NARROWEST - 1, -1):
        for column in columns:
            column.keeps = keeps
        if _least(columns) <= room:
            return True
    return False


def _worth_most(columns: list[_Column], page: Page) -> list[_Column]:
    """The columns there is room for: the worthiest, and details only if all others are there."""
    room = page.columns or 0
    ranks = [EMPTY if column.name in page.known else column.rank for column in columns]
    for group in (ABOUT, OUTCOME):
        for n, column in enumerate(columns):
            if column.name in group and ranks[n] == USUAL:
                ranks[n] = 1
                column.keeps = max(ABOUT_SHORTEST, room // ABOUT_SHARE)
                break
    # What stands first names the row.
    first = 0
    if columns[0].name in page.known:
        first = next((n for n, rank in enumerate(ranks) if rank < DETAIL), 0)
    kept = [first]
    is_full = False
    for n in sorted(range(len(columns)), key=ranks.__getitem__):
        if n == first:
            continue
        if ranks[n] >= DETAIL and is_full:
            break
        if _least([columns[one] for one in (*kept, n)]) <= room:
            kept.append(n)
        else:
            is_full = True
    return [columns[n] for n in sorted(kept)]


def _fit(columns: list[_Column], room: int) -> None:
    """Set the columns' widths."""
    if _needed(columns) > room:
        _shrink(columns, room)
    if _needed(columns) > room:
        for column in columns:
            column.break_heading()
        _shrink(columns, room)
    if len(columns) == 1:
        columns[0].columns = min(columns[0].columns, room)


def _least(columns: list[_Column]) -> int:
    """How narrow the table can get with its headings broken."""
    return sum(max(column.shortest, *map(width, column.broken())) for column in columns) + len(
        GAP
    ) * (len(columns) - 1)


def _needed(columns: list[_Column]) -> int:
    return sum(column.columns for column in columns) + len(GAP) * (len(columns) - 1)


def _shrink(columns: list[_Column], room: int) -> None:
    """Take from the widest texts first until it fits, or nothing more can be taken."""
    over = _needed(columns) - room
    while over > 0:
        soft = [column for column in columns if column.can_shrink and column.columns > column.least]
        if not soft:
            return
        widest = max(soft, key=lambda column: column.columns)
        others = [column.columns for column in soft if column.columns < widest.columns]
        floor = max(widest.least, max(others, default=0))
        taken = min(over, max(widest.columns - floor, 1))
        widest.columns -= taken
        over -= taken


def _lines(columns: list[_Column], rows: int, page: Page) -> Iterator[str]:
    height = max(len(column.heading) for column in columns)
    for n in range(height):
        cells = []
        for column in columns:
            above = height - len(column.heading)
            cells.append(column.fitted(column.heading[n - above] if n >= above else ""))
        line = GAP.join(cells).rstrip()
        yield f"{BOLD}{line}{PLAIN}" if page.is_colored else line
    rule = GAP.join("─" * column.columns for column in columns)
    yield f"{DIM}{rule}{PLAIN}" if page.is_colored else rule
    for n in range(rows):
        yield GAP.join(column.fitted(column.cells[n]) for column in columns).rstrip()


def _as_list(names: Sequence[str], row: Sequence[object], page: Page) -> Iterator[str]:
    labels = [printable(name) for name in names]
    margin = max(map(width, labels))
    room = (page.columns or margin + LONGEST + len(GAP)) - margin - len(GAP)
    for name, label, value in zip(names, labels, row, strict=True):
        kind = kind_of(name)
        if kind == "plain" and isinstance(value, str):
            first, *rest = _paragraph(value, max(room, SHORTEST))
        else:
            cut = clip_path if kind == "path" else clip
            first, rest = cut(shown(value, kind, short=False), max(room, SHORTEST)), []
        pad = " " * (margin - width(label))
        strong = f"{BOLD}{label}{PLAIN}" if page.is_colored else label
        yield f"{strong}{pad}{GAP}{first}".rstrip()
        yield from (f"{'':{margin}}{GAP}{line}".rstrip() for line in rest)


def _paragraph(text: str, room: int) -> list[str]:
    """A text over as many lines as it needs, up to a point; its own lines stay lines."""
    lines: list[str] = []
    for part in text.strip().splitlines() or [""]:
        line = ""
        for word in shown(part, "plain").split(" "):
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
    some = False
    for value in values:
        if value is None:
            continue
        if not isinstance(value, int | float):
            return False
        some = True
    return some
