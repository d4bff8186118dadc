"""What a value looks like to a person: money, tokens, times, paths, each in its own way.

Which of these a column holds, its name says; that is a rule of the schema (``*_usd``, ``*_tokens``,
``*_at``). A value that does not fit its column's name is shown as it is.
"""

from __future__ import annotations

import math
import re
from typing import Literal

from ctxdb.escape import one_line
from ctxdb.formatting import amount, day_and_time, duration, money

Kind = Literal["money", "tokens", "bytes", "seconds", "share", "time", "path", "id", "plain"]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_PATHS = ("path", "cwd", "file", "folder", "repo_path", "relative_path", "result_path")
# Numbers in these tell things apart; nobody adds them up.
_NAMES_OF_THINGS = ("id", "uuid", "session", "ordinal", "year", "status", "exit_code", "byte_start")
SHORT_ID = 8  # what tells sessions apart, and what --session and show take


def kind_of(column: str) -> Kind:
    """What a column of that name holds."""
    name = column.lower()
    if name.endswith("_usd") or "_usd_" in name:
        return "money"
    if name in ("tokens", "input", "output") or name.endswith(("_tokens", "tokens_per_minute")):
        return "tokens"
    if name.startswith("tokens_"):
        return "tokens"
    if name.endswith("_bytes") or name in ("bytes", "size", "bytes_behind"):
        return "bytes"
    if name == "seconds" or name.endswith("_seconds"):
        return "seconds"
    if name.endswith(("_rate", "_share")) or name in ("share", "read_from_cache"):
        return "share"
    if name.endswith(("_at", "_since")) or name in ("timestamp", "last_active", "last_touched"):
        return "time"
    if name in _PATHS or name.endswith("_path"):
        return "path"
    if name.endswith(("_id", "_number")) or name in _NAMES_OF_THINGS:
        return "id"
    return "plain"


def shown(value: object, kind: Kind, *, short: bool = True) -> str:
    """Return a value for one cell of a table; `short` where room is scarce."""
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
        return text[:SHORT_ID]
    return one_line(text)


def _number(value: float, kind: Kind) -> str:
    if not math.isfinite(value):  # SQLite makes it of 9e999
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
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:,.4g}"
    return str(value) if kind == "id" else f"{value:,}"


def _local(text: str) -> str:
    """A UTC timestamp as the clock on the wall showed it; anything else as it is."""
    return day_and_time(text) or text if _STAMP.fullmatch(text) else text
