"""Read values that may be of any type. No input makes these functions raise."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import orjson

from ctxdb.files.parse import tame

_dumps = orjson.dumps

MAX_INT = 2**63 - 1
# Of longer strings in side data only the size is kept: no view shows them.
LONG_TEXT = 2_000
LONG_LIST = 200
BASE64_CUT = "ctxdb-cut-base64:"
_BASE64 = re.compile(r"[A-Za-z0-9+/=]{65536,}")


def text_of(value: Any) -> str | None:
    """The value if it is a non-empty string."""
    return value if type(value) is str and value else None


def time_of(value: Any) -> str | None:
    """The value if it is a time, in UTC as Claude Code writes it: so texts compare as times."""
    if type(value) is not str or not value:
        return None
    return value if value[-1] == "Z" else _in_utc(value)


def _in_utc(text: str) -> str:
    """The time in UTC. Other programs write `+02:00`. Anything else stays as it is."""
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
    """The value as JSON. What orjson refuses, such as integers beyond 64 bits, is changed."""
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
    """The note that replaces a run of base64. After a backslash, the letters of an escape stay."""
    run = match.group()
    kept = 5 if match.start() and match.string[match.start() - 1] == "\\" else 0
    return f"{run[:kept]}{BASE64_CUT}{len(run) - kept}"


def base64_size(data: Any) -> int | None:
    """How many bytes a base64 string encodes, also if it was cut out when the line was read."""
    if type(data) is not str:
        return None
    if data.startswith(BASE64_CUT) and data[len(BASE64_CUT) :].isdigit():
        return int(data[len(BASE64_CUT) :]) * 3 // 4
    return len(data) * 3 // 4 - data[-2:].count("=")


def byte_length(text: str) -> int:
    """The length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def shrink(value: Any, limit: int = LONG_TEXT) -> Any:
    """The value with the size in place of each long string, and of the rest of each long list."""
    if type(value) is str:
        return value if len(value) <= limit else {"bytes": byte_length(value)}
    if type(value) is dict:
        return {key: shrink(item, limit) for key, item in value.items()}
    if type(value) is list:
        left = [shrink(item, limit) for item in value[:LONG_LIST]]
        return left if len(value) <= LONG_LIST else [*left, {"more": len(value) - LONG_LIST}]
    return value
