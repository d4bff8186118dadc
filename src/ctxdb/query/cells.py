"""Show one value to a person: money, tokens, times, paths and ids, each in its own way.

The header of a view or query says of what kind each column is (`ctxdb.store.sql_files`). Tables and
SQL that a person writes have no header: there the name of the column decides, by the rules of the
schema (``*_usd``, ``*_tokens``, ``*_at``). A value that does not fit its kind is shown as it is.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from ctxdb.escape import one_line
from ctxdb.formatting import amount, day_and_time, duration, money
from ctxdb.store.sql_files import Display

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctxdb.store.sql_files import ColumnKind, Place

SHORT_ID_CHARS = 8  # enough to tell sessions apart; --session and `ctxdb show` take them
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


# -- columns without a header ----------------------------------------------------------------------

# The first pattern that matches the whole name decides. Any other column is text.
_KINDS_BY_NAME: tuple[tuple[ColumnKind, str], ...] = (
    ("money", r".*_usd(_.*)?"),
    ("tokens", r"tokens(_.*)?|.*_tokens|input|output"),
    ("bytes", r"bytes|.*_bytes|size"),
    ("seconds", r"seconds|.*_seconds"),
    ("share", r"share|.*_share|.*_rate"),
    ("time", r"timestamp|.*_at|.*_since"),
    ("path", r"path|.*_path|cwd|file|folder"),
    # Numbers that nothing is computed with: they have no separators.
    ("id", r"id|.*_id|session|.*_number|uuid|ordinal|year|status|exit_code|byte_start"),
)
_PLACES_BY_NAME: tuple[tuple[Place, str], ...] = (
    ("always", r"session_id|cost_usd|total_tokens"),
    ("detail", r".*_id|.*_key|uuid|ordinal|byte_start|relative_path|requests_(unpriced|not_final)"),
    ("about", r"title|prompt|text|command|target|path"),
)


def display_by_name(column: str) -> Display:
    """Return how to show a column that no header describes."""
    name = column.lower()
    kinds = (kind for kind, pattern in _KINDS_BY_NAME if re.fullmatch(pattern, name))
    places = (place for place, pattern in _PLACES_BY_NAME if re.fullmatch(pattern, name))
    return Display(next(kinds, "text"), next(places, "usual"))


def displays_for(names: Sequence[str], declared: Mapping[str, Display]) -> list[Display]:
    """Return how to show each column: as its header declares, else by its name."""
    return [declared.get(name) or display_by_name(name) for name in names]


# -- values ----------------------------------------------------------------------------------------


def shown(value: object, kind: ColumnKind, *, short: bool = True) -> str:
    """Return a value as text for one cell of a table; with `short`, a UUID is cut."""
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return _number(value, kind)
    if isinstance(value, bytes):
        return f"<{len(value):,} bytes>"
    text = str(value)
    if kind == "time" or (len(text) in (20, 24) and _STAMP.fullmatch(text)):
        return one_line(_local(text))
    if kind == "id" and short and _UUID.fullmatch(text):
        return text[:SHORT_ID_CHARS]
    return one_line(text)


def _number(value: float, kind: ColumnKind) -> str:
    if not math.isfinite(value):  # SQLite reads 9e999 as infinity
        return str(value)
    if kind == "money":
        return money(value)
    if kind == "tokens":
        return amount(value)
    if kind == "bytes":
        from ctxdb.progress import human_bytes

        return human_bytes(int(value)) if value >= 0 else str(value)
    if kind == "seconds":
        return duration(value)
    if kind == "share" and -1 <= value <= 1:
        return f"{value:.1%}"
    if isinstance(value, float):
        is_whole = value.is_integer() or abs(value) >= 1e4  # 312960.5 minutes, not 3.13e+05
        return f"{value:,.0f}" if is_whole and abs(value) < 1e15 else f"{value:,.4g}"
    return str(value) if kind == "id" else f"{value:,}"


def _local(text: str) -> str:
    """Return a UTC timestamp as local time; any other text as it is."""
    return day_and_time(text) or text if _STAMP.fullmatch(text) else text
