"""Read a price list from a CSV file with the columns of the one that comes with ctxdb."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from ctxdb.errors import CtxdbError
from ctxdb.prices.price import MULTIPLIERS, BadPrice, Price, overlapping, read_price
from ctxdb.store.shipped_prices import COLUMNS

OPTIONAL = {*MULTIPLIERS, "source", "confidence", "note"}
MOST_BYTES = 16 << 20  # a price list is a few kilobytes
_FORMULA = ("'=", "'+", "'-", "'@")


class CsvRow(NamedTuple):
    """A price and its row in the file."""

    row: int
    price: Price
    is_shipped: bool  # in an export: it came with ctxdb, and may overlap with one of the user's


def read_csv(path: Path) -> list[CsvRow]:
    """The prices of a file. Raises CtxdbError for the first mistake in it."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as e:
        raise CtxdbError(f"{path}: {e.strerror}") from e
    if len(data) > MOST_BYTES:
        raise CtxdbError(f"{path}: too large for a price list")
    try:
        lines = data.decode("utf-8-sig").splitlines(keepends=True)
    except UnicodeDecodeError as e:
        row = data[: e.start].count(b"\n") + 1
        raise CtxdbError(f"{path}: row {row}: not UTF-8") from e
    parsed = csv.reader(lines, strict=True)
    rows: list[CsvRow] = []
    row = 0
    try:
        header = [name.strip() for name in next(parsed, [])]
        row = 1
        _check_header(header)
        for row, cells in enumerate(parsed, 2):
            if any(cell.strip() for cell in cells):
                rows.append(_csv_row(row, header, cells))
    except BadPrice as e:
        raise CtxdbError(f"{path}: row {row}: {e}") from e
    except csv.Error as e:
        raise CtxdbError(f"{path}: row {row + 1}: {e}") from e
    _check_dates(path, rows)
    return rows


def _check_header(header: list[str]) -> None:
    if not header:
        raise BadPrice("the file is empty")
    for name in header:
        if name not in COLUMNS and name != "origin":
            raise BadPrice(f"unknown column {name[:40]!r}")
        if header.count(name) > 1:
            raise BadPrice(f"column {name} is there twice")
    for name in COLUMNS:
        if name not in header and name not in OPTIONAL:
            raise BadPrice(f"no column {name}")


def _csv_row(row: int, header: list[str], cells: list[str]) -> CsvRow:
    if len(cells) != len(header):
        raise BadPrice(f"{len(cells)} cells under {len(header)} columns")
    named = dict(zip(header, cells, strict=True))
    origin = named.pop("origin", "")  # not a column of Price: an imported price is the user's
    price = read_price(
        # `ctxdb prices export` writes a ' before a text that a spreadsheet would run as a formula.
        {name: cell[1:] if cell.startswith(_FORMULA) else cell for name, cell in named.items()}
    )
    return CsvRow(row, price, origin.strip() == "shipped")


def _check_dates(path: Path, rows: list[CsvRow]) -> None:
    for is_shipped in (False, True):
        if found := overlapping(one.price for one in rows if one.is_shipped == is_shipped):
            _, later = found
            first, second = sorted(one.row for one in rows if any(one.price is p for p in found))
            why = f"dates overlap with row {first}: {later.label()}"
            raise CtxdbError(f"{path}: row {second}: {why}")
