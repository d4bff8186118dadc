"""What a value looks like to a person: money, tokens, times, paths, each in its own way.

Which of these a column holds, its name says; that is a rule of the schema (``*_usd``, ``*_tokens``,
``*_at``). A value that does not fit its column's name is shown as it is.
"""

from __future__ import annotations

import math
import re
from typing import Literal

from ctxdb.text import one_line

Kind = Literal["money", "tokens", "bytes", "seconds", "share", "time", "path", "id", "plain"]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_PATHS = ("path", "cwd", "file", "folder", "repo_path", "relative_path", "result_path")
# Numbers in these tell things apart; nobody adds them up.
_NAMES_OF_THINGS = ("id", "uuid", "session", "ordinal", "year", "status", "exit_code", "byte_start")
SHORT_ID = 8  # what tells sessions apart, and what --session and show take
EXACT_BELOW = 10_000  # tokens up to here are shown as they are


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
        return one_line(local_time(text))
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


def money(value: float) -> str:
    """$3.41, $1,204, and enough digits of what is less than a cent."""
    sign = "-" if value < 0 else ""
    size = abs(value)
    if size >= 1000:
        return f"{sign}${size:,.0f}"
    if size >= 0.01 or size == 0:
        return f"{sign}${size:.2f}"
    return f"{sign}${size:.4f}" if size >= 0.0001 else f"{sign}<$0.0001"


def amount(value: float) -> str:
    """9,876, 12.3k, 1.2M, 4.5G."""
    if abs(value) < EXACT_BELOW:
        return f"{value:,.0f}"
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * 0.9995:
            scaled = value / size
            return f"{scaled:.1f}{unit}" if abs(scaled) < 99.95 else f"{scaled:,.0f}{unit}"
    return f"{value:,.0f}"


def duration(seconds: float) -> str:
    """0.4s, 12s, 3m 20s, 1h 05m, 2d 03h."""
    if seconds < 0 or seconds != seconds or seconds == float("inf"):  # noqa: PLR0124
        return str(seconds)
    if seconds < 10:
        return f"{seconds:.1f}s" if seconds != int(seconds) else f"{int(seconds)}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02}h"


def local_time(text: str) -> str:
    """A UTC timestamp as the clock on the wall showed it; anything else as it is."""
    if not _STAMP.fullmatch(text):
        return text
    from datetime import datetime

    try:
        # Python 3.11 and later read the Z.
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return text
