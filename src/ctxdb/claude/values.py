"""Reading values that may be of any type: the input is never trusted, and never raises."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import orjson

from ctxdb.files.parse import tame

_dumps = orjson.dumps

MAX_INT = 2**63 - 1
# Longer strings in side data are noise to a view: only their size is kept.
LONG_TEXT = 2_000
LONG_LIST = 200
BASE64_CUT = "ctxdb-cut-base64:"
_BASE64 = re.compile(r"[A-Za-z0-9+/=]{65536,}")


def text_of(value: Any) -> str | None:
    """The value if it is a non-empty string."""
    return value if type(value) is str and value else None


def time_of(value: Any) -> str | None:
    """The value if it is a time: in UTC, as Claude Code writes it, for times compare as texts."""
    if type(value) is not str or not value:
        return None
    return value if value[-1] == "Z" else _in_utc(value)


def _in_utc(text: str) -> str:
    """Other programs write `+02:00`; what names no zone, or is no time, stays as it is."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            return text
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return text
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def dict_of(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if type(value) is dict else {}


def int_of(value: Any) -> int | None:
    """The value as an integer that SQLite can hold, if it is a number."""
    if type(value) is int:
        return value if -MAX_INT <= value <= MAX_INT else None
    if type(value) is float and abs(value) < 2**63:  # false for NaN
        return int(value)
    return None


def float_of(value: Any) -> float | None:
    """The value as a float, if it is a finite number."""
    if type(value) in (int, float) and abs(value) < 1e300:
        return float(value)
    return None


def dump(value: Any) -> str:
    """JSON text; integers beyond 64 bits and other oddities fall back to their text."""
    try:
        return _dumps(value, str).decode()
    except (TypeError, ValueError, RecursionError):
        return _dumps(tame(value), str).decode()  # an object stays one


def dump_without_base64(value: Any) -> str:
    """JSON text in which long base64 strings are replaced by their length."""
    text = dump(value)
    if len(text) > 65536:
        text = _BASE64.sub(_cut, text)
    return text


def _cut(match: re.Match[str]) -> str:
    """The note in place of a run. Behind a backslash it may begin with letters of an escape."""
    run = match.group()
    kept = 5 if match.start() and match.string[match.start() - 1] == "\\" else 0
    return f"{run[:kept]}{BASE64_CUT}{len(run) - kept}"


def base64_size(data: Any) -> int | None:
    """Bytes behind a base64 string, also where the reader has cut it out already."""
    if type(data) is not str:
        return None
    if data.startswith(BASE64_CUT) and data[len(BASE64_CUT) :].isdigit():
        return int(data[len(BASE64_CUT) :]) * 3 // 4
    return len(data) * 3 // 4 - data[-2:].count("=")


def byte_length(text: str) -> int:
    """Length in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def shrink(value: Any, limit: int = LONG_TEXT) -> Any:
    """The value with long strings replaced by their size, and ends of long lists by theirs."""
    if type(value) is str:
        return value if len(value) <= limit else {"bytes": byte_length(value)}
    if type(value) is dict:
        return {key: shrink(item, limit) for key, item in value.items()}
    if type(value) is list:
        left = [shrink(item, limit) for item in value[:LONG_LIST]]
        return left if len(value) <= LONG_LIST else [*left, {"more": len(value) - LONG_LIST}]
    return value
