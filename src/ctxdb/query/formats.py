"""Write an answer as JSON, JSON Lines, CSV or Markdown.

JSON is exact: every character that is not plain ASCII is escaped, so nothing in it can control a
terminal, and a parser gives back the stored value. People and spreadsheets read CSV and Markdown:
there, characters that control a terminal are spelt out, and a text that a spreadsheet would take
for a formula gets a quote before it.

A row is written whole or not at all. Where the limit of bytes is reached the rows end, and what was
written is still valid JSON, CSV or Markdown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.escape import one_line, safe
from ctxdb.output import ByteLimit
from ctxdb.query.cells import display_by_name, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ctxdb.store.sql_files import ColumnKind, Display

    Row = Sequence[object]
    Write = Callable[[str], object]

# How a formula begins, also in the wide letters of Japanese spreadsheets.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
INFINITE = float("inf")
_IN_MARKDOWN = str.maketrans(
    {
        "\\": "\\\\",
        "|": "\\|",
        "`": "\\`",
        "*": "\\*",
        "[": "\\[",
        "]": "\\]",
        "<": "&lt;",
        ">": "&gt;",
        "&": "&amp;",
    }
)


def write_json(
    columns: Sequence[str], rows: Iterable[Row], write: Write, limit: ByteLimit | None = None
) -> None:
    """Write one array of objects."""
    limit = limit or ByteLimit()
    limit.reserve("[\n]\n")
    write("[")
    end = "]\n"
    for text in limit.within(_json_items(columns, rows)):
        write(text)
        end = "\n]\n"
    write(end)


def _json_items(columns: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    between = "\n"
    for row in rows:
        yield f"{between}{_object(columns, row)}"
        between = ",\n"


def write_jsonl(
    columns: Sequence[str], rows: Iterable[Row], write: Write, limit: ByteLimit | None = None
) -> None:
    """Write one object a line."""
    for text in (limit or ByteLimit()).within(f"{_object(columns, row)}\n" for row in rows):
        write(text)


def _object(columns: Sequence[str], row: Row) -> str:
    import json

    found = {name: _for_json(value) for name, value in zip(columns, row, strict=True)}
    # json does not escape DEL.
    return json.dumps(found).replace("\x7f", "\\u007f")


def _for_json(value: object) -> object:
    if isinstance(value, bytes):
        from base64 import b64encode

        return {"$base64": True, "encoded": b64encode(value).decode()}  # as Datasette writes it
    if isinstance(value, float) and value in (INFINITE, -INFINITE):
        return str(value)  # JSON has no infinity
    return value


def write_csv(
    columns: Sequence[str],
    rows: Iterable[Row],
    write: Write,
    limit: ByteLimit | None = None,
    *,
    raw: bool = False,
) -> None:
    """Write comma separated values, quoted where needed; with `raw`, cells are as stored."""
    for text in (limit or ByteLimit()).within(_csv_lines(columns, rows, raw=raw)):
        write(text)


class _Echo:
    """A file for csv.writer, which returns what the file's `write` returns."""

    def write(self, text: str) -> str:
        return text


def _csv_lines(columns: Sequence[str], rows: Iterable[Row], *, raw: bool) -> Iterator[str]:
    import csv

    line = csv.writer(_Echo(), lineterminator="\n").writerow
    yield line([name if raw else csv_text(name) for name in columns])
    for row in rows:
        yield line([_for_csv(value, raw=raw) for value in row])


def _for_csv(value: object, *, raw: bool) -> object:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str):
        return value if raw else csv_text(value)
    return value


def csv_text(text: str) -> str:
    """Return a text that no spreadsheet computes and that does not control a terminal."""
    text = safe(text)
    return f"'{text}" if text.startswith(FORMULA) else text


def write_markdown(
    columns: Sequence[str],
    rows: Iterable[Row],
    write: Write,
    limit: ByteLimit | None = None,
    *,
    displays: Sequence[Display] | None = None,
) -> None:
    """Write a table for a document: values as people write them, and no markup in them."""
    for text in (limit or ByteLimit()).within(_markdown_lines(columns, rows, displays)):
        write(text)


def _markdown_lines(
    columns: Sequence[str], rows: Iterable[Row], displays: Sequence[Display] | None
) -> Iterator[str]:
    kinds = [display.kind for display in displays or map(display_by_name, columns)]
    yield f"| {' | '.join(markdown_text(name) for name in columns)} |\n"
    rest = iter(rows)
    first = next(rest, None)
    marks = ["---:" if isinstance(value, int | float) else "---" for value in first or columns]
    yield f"| {' | '.join(marks)} |\n"
    if first is None:
        return
    yield _markdown_row(first, kinds)
    for row in rest:
        yield _markdown_row(row, kinds)


def _markdown_row(row: Row, kinds: Sequence[ColumnKind]) -> str:
    cells = (
        markdown_text(shown(value, kind, short=False))
        for value, kind in zip(row, kinds, strict=True)
    )
    return f"| {' | '.join(cells)} |\n"


def markdown_text(text: str) -> str:
    """Return text for one cell of a Markdown table."""
    return one_line(text).translate(_IN_MARKDOWN)
