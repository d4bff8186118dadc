"""Answers for programs and documents: JSON, JSON Lines, CSV and Markdown.

JSON is exact: every character that is not plain ASCII is escaped, so nothing in it can steer a
terminal, and a parser gives back what is stored. CSV and Markdown are read by people and by
spreadsheets: what steers a terminal is spelt out, and a text that a spreadsheet would take for a
formula gets a quote before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.escape import one_line, safe
from ctxdb.query.cells import kind_of, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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


def write_json(columns: Sequence[str], rows: Iterable[Row], write: Write) -> None:
    """One array of objects."""
    write("[")
    between = "\n"
    for row in rows:
        write(f"{between}{_object(columns, row)}")
        between = ",\n"
    write("]\n" if between == "\n" else "\n]\n")


def write_jsonl(columns: Sequence[str], rows: Iterable[Row], write: Write) -> None:
    """One object a line."""
    for row in rows:
        write(f"{_object(columns, row)}\n")


def _object(columns: Sequence[str], row: Row) -> str:
    import json

    found = {name: _for_json(value) for name, value in zip(columns, row, strict=True)}
    # JSON would leave DEL alone.
    return json.dumps(found).replace("\x7f", "\\u007f")


def _for_json(value: object) -> object:
    if isinstance(value, bytes):
        from base64 import b64encode

        return {"$base64": True, "encoded": b64encode(value).decode()}  # as Datasette writes it
    if isinstance(value, float) and value in (INFINITE, -INFINITE):
        return str(value)  # JSON has no infinity
    return value


def write_csv(
    columns: Sequence[str], rows: Iterable[Row], write: Write, *, raw: bool = False
) -> None:
    """Comma separated, quoted where needed. With `raw` cells are as they are stored."""
    import csv

    class _Out:
        def write(self, text: str) -> object:
            return write(text)

    writer = csv.writer(_Out(), lineterminator="\n")
    writer.writerow([name if raw else csv_text(name) for name in columns])
    for row in rows:
        writer.writerow([_for_csv(value, raw=raw) for value in row])


def _for_csv(value: object, *, raw: bool) -> object:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str):
        return value if raw else csv_text(value)
    return value


def csv_text(text: str) -> str:
    """A text that no spreadsheet computes and no terminal obeys."""
    text = safe(text)
    return f"'{text}" if text.startswith(FORMULA) else text


def write_markdown(columns: Sequence[str], rows: Iterable[Row], write: Write) -> None:
    """A table for a document: values as people write them, nothing in them is markup."""
    kinds = [kind_of(name) for name in columns]
    write(f"| {' | '.join(markdown_text(name) for name in columns)} |\n")
    first: list[Row] = []
    rest = iter(rows)
    for row in rest:
        first.append(row)
        break
    numeric = [isinstance(value, int | float) for value in first[0]] if first else []
    marks = ["---:" if number else "---" for number in numeric] or ["---"] * len(columns)
    write(f"| {' | '.join(marks)} |\n")
    for some in (first, rest):
        for row in some:
            cells = (
                markdown_text(shown(value, kind, short=False))
                for value, kind in zip(row, kinds, strict=True)
            )
            write(f"| {' | '.join(cells)} |\n")


def markdown_text(text: str) -> str:
    """Text for one cell of a Markdown table."""
    return one_line(text).translate(_IN_MARKDOWN)
