"""Price lists as CSV, with the columns of the one that ships with ctxdb."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from ctxdb.errors import CtxdbError
from ctxdb.prices.rows import MULTIPLIERS, BadPrice, Price, overlapping, read_price
from ctxdb.store.shipped_prices import COLUMNS

OPTIONAL = {*MULTIPLIERS, "source", "confidence", "note"}
MOST_BYTES = 16 << 20  # a price list is a few kilobytes
_FORMULA = ("'=", "'+", "'-", "'@")


class Row(NamedTuple):
    """A price and where in the file it stands."""

    line: int
    price: Price
    is_shipped: bool  # in an export: one of ours, which may hold beside one of the user's


def read_csv(path: Path) -> list[Row]:
    """The prices of a file, or one line on the first thing that is wrong with it."""
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
    reader = csv.reader(lines, strict=True)
    rows: list[Row] = []
    row = 0
    try:
        header = [name.strip() for name in next(reader, [])]
        row = 1
        _check_header(header)
        for row, cells in enumerate(reader, 2):
            if any(cell.strip() for cell in cells):
                rows.append(_row(row, header, cells))
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


def _row(line: int, header: list[str], cells: list[str]) -> Row:
    if len(cells) != len(header):
        raise BadPrice(f"{len(cells)} cells under {len(header)} columns")
    named = dict(zip(header, cells, strict=True))
    origin = named.pop("origin", "")  # what is imported is the user's
    price = read_price(
        # Our own export marks what a spreadsheet would compute.
        {name: cell[1:] if cell.startswith(_FORMULA) else cell for name, cell in named.items()}
    )
    return Row(line, price, origin.strip() == "shipped")


def _check_dates(path: Path, rows: list[Row]) -> None:
    for is_shipped in (False, True):
        if found := overlapping(row.price for row in rows if row.is_shipped == is_shipped):
            one, other = sorted(row.line for row in rows if any(row.price is p for p in found))
            why = f"dates overlap with row {one}: {found[1].says()}"
            raise CtxdbError(f"{path}: row {other}: {why}")
