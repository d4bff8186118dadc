"""Show rows of a view as a table: each cell by its kind, with links to what it names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from ctxdb.escape import printable
from ctxdb.query.cells import display_by_name
from ctxdb.web import units
from ctxdb.web.templating import when

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctxdb.store.sql_files import ColumnKind, Display
    from ctxdb.web.links import Links
    from ctxdb.web.page import Question
    from ctxdb.web.reading import Rows

MOST_CHARACTERS = 300  # of a text in a cell
FITS = 8  # columns that most screens show at once
SHORT = 32  # characters that stay in one line
NUMBERS: frozenset[str] = frozenset({"number", "money", "tokens", "bytes", "seconds", "share"})
_UNITS: dict[str, Callable[[Any], str]] = {
    "money": units.money,
    "tokens": units.tokens,
    "bytes": units.size,
    "seconds": units.duration,
    "share": units.share,
}


@dataclass(frozen=True, slots=True)
class Cell:
    """What is shown in a place of a table."""

    html: Markup
    is_number: bool = False
    is_short: bool = False  # kept in one line


@dataclass(frozen=True, slots=True)
class Column:
    """A column and its heading."""

    name: str
    kind: ColumnKind
    words: str = ""  # what it means
    url: str = ""  # sorts by it

    @property
    def is_number(self) -> bool:
        """Whether it is aligned to the right."""
        return self.kind in NUMBERS

    @property
    def heading(self) -> str:
        """Its name, as words."""
        return self.name.replace("_usd", "").replace("_", " ").capitalize()


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]


def table(
    question: Question,
    rows: Rows,
    *,
    words: dict[str, str] | None = None,
    sort_url: Callable[[str], str] | None = None,
    leave_out: frozenset[str] = frozenset(),
    is_money_first: bool = False,
) -> Table:
    """Rows as a table. With `is_money_first`, costs come before the other numbers."""
    displays = dict(zip(rows.columns, rows.displays, strict=False))
    kept = [name for name in rows.columns if name not in leave_out]
    if is_money_first and len(kept) > FITS:
        kept = _money_first(kept, {name: _display(name, displays).kind for name in kept})
    columns = [
        Column(
            name,
            _display(name, displays).kind,
            (words or {}).get(name, ""),
            sort_url(name) if sort_url else "",
        )
        for name in kept
    ]
    make = partial(cell, links=question.links, now=question.now)
    shown = [[make(one.name, one.kind, row[one.name]) for one in columns] for row in rows]
    return Table(columns, shown)


def _money_first(names: list[str], kinds: dict[str, ColumnKind]) -> list[str]:
    """The columns with costs at the place of the first number, where no screen cuts them off."""
    at = next((n for n, name in enumerate(names) if kinds[name] in NUMBERS), 0)
    rest = names[at:]
    return [
        *names[:at],
        *(name for name in rest if kinds[name] == "money"),
        *(name for name in rest if kinds[name] != "money"),
    ]


def _display(name: str, displays: dict[str, Display]) -> Display:
    return displays.get(name) or display_by_name(name)


def cell(name: str, kind: ColumnKind, value: Any, *, links: Links, now: Any) -> Cell:
    """A value by its kind."""
    if value is None:
        return Cell(Markup(""), kind in NUMBERS, is_short=True)
    if isinstance(value, bytes):
        return Cell(Markup("{} bytes").format(len(value)))
    if kind in NUMBERS and isinstance(value, int | float):
        text = _UNITS.get(kind, units.count if isinstance(value, int) else _plain)(value)
        return Cell(Markup("{}").format(text), is_number=True)
    text = str(value)
    if kind == "time":
        return Cell(when(text, now) or Markup("{}").format(text), is_short=True)
    if url := url_of(name, text, links):
        shown = text[:8] if kind == "id" else _short(text, kind)
        linked = Markup('<a href="{}" title="{}">{}</a>').format(url, _clean(text), shown)
        return Cell(linked, is_short=len(shown) <= SHORT)
    return Cell(Markup("{}").format(_short(text, kind)), is_short=len(text) <= SHORT)


def url_of(name: str, value: str, links: Links) -> str:
    """The page of what a column names; empty if it has none."""
    if not value:
        return ""
    match name:
        case "session_id" | "parent_session_id" | "root_session_id":
            return links.session(value)
        case "path":
            return links.file(value)
        case "project":
            return links.project(value)
        case "model":
            return links.model(value)
        case "sha":
            return links.page("commit", sha=value)
        case "pr_number":
            return links.page("pr", number=value)
        case "tool":
            return links.table("tool_uses", name=value, _sort_desc="id")
        case _:
            return ""


def _plain(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def _short(text: str, kind: str) -> str:
    if kind == "path":
        return units.short_path(_clean(text))
    clean = _clean(" ".join(text[: MOST_CHARACTERS * 2].split()))
    return clean if len(clean) <= MOST_CHARACTERS else clean[:MOST_CHARACTERS] + "…"


def _clean(text: str) -> str:
    """Without characters that cannot be shown, or that turn the text around."""
    return printable(text)
