"""Parse one line of bytes into JSON objects, without ever raising.

The common case is ``orjson.loads`` and a type check. orjson is stricter than the program that
writes transcripts, so a line that it refuses is tried in other ways, one after another:

1. without padding: NUL blocks that a crash left before or after the record, a byte order mark;
2. with U+FFFD for bytes that are not UTF-8;
3. with U+FFFD for halves of surrogate pairs, which JavaScript writes when it cuts an emoji in two;
4. by the standard library's parser, which accepts raw control characters, NaN and Infinity (they
   become null), and several objects on one line, each with its exact place;
5. if all fails, the result is a ``Bad`` with a short, stable reason.

Numbers: integers that do not fit 64 bits become floats (orjson does that from 2**64 on), and
numbers too large for a float become null. orjson lets two things through that could only be found
by going over every line a second time: integers from 2**63 to 2**64 - 1, which sqlite3 cannot bind,
and nesting of 250 to 1024 levels, which ``orjson.dumps`` refuses. A caller that meets one of them
calls ``tame``.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

import orjson

MAX_DEPTH = 250  # orjson.dumps stops at 254 levels, and callers wrap what they store
MAX_GLUED = 1000  # objects on one line; 6 lines with two were seen in 154,007
BIG_LINE_BYTES = 1 << 20  # for longer lines the memory is estimated before they are parsed
MAX_PARSED_BYTES = 128 << 20  # 16 MiB of empty lists would be 360 MB of Python objects

_INT64_MIN = -(2**63)
_INT64_MAX = 2**63 - 1
_FFFD = "\ufffd"
_BOM = b"\xef\xbb\xbf"
_PADDING = b"\x00 \t\r\n\x0b\x0c"
_BETWEEN = re.compile("[\x00 \t\r\n\x0b\x0c\ufeff]*")
_SURROGATES = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_ESCAPE_BYTES = 6
_BACKSLASH = 0x5C
_CONTROL = re.compile(rb"[\x00-\x1f]")
# A string that is not closed matches to the end of the line: else each quote in it would be tried.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)

# Notes in the order they are reported.
_NOTES = (
    "nul_padded",
    "bom",
    "invalid_utf8",
    "control_chars",
    "surrogates",
    "nan",
    "glued",
    "trailing",  # something after the last whole object that is no object
)

_loads = orjson.loads


@dataclass(slots=True)
class Parsed:
    """The objects of a line: one, or several that were glued together."""

    objects: list[tuple[int, int, dict[str, Any]]]  # start within the line, length, object
    note: str = ""  # what had to be repaired, comma-joined; '' for nearly every line


@dataclass(slots=True)
class Bad:
    """A line from which nothing can be read."""

    # not_json, not_object, torn (begins like an object, is not whole), too_deep, nul_only,
    # too_many_values, too_many_objects
    reason: str


def parse_plain(data: bytes) -> dict[str, Any] | None:
    """The object of an ordinary line; None for a line that needs `parse`."""
    if len(data) > BIG_LINE_BYTES and _too_heavy(data):
        return None
    try:
        value = _loads(data)
    except ValueError:
        return None
    return value if type(value) is dict else None


def parse(data: bytes) -> Parsed | Bad | None:
    """Parse one line without its newline. None for a blank line. Never raises.

    Every string in the result can be encoded as UTF-8.
    """
    size = len(data)
    if size > BIG_LINE_BYTES and _too_heavy(data):
        return Bad("too_many_values")
    try:
        value = _loads(data)
    except ValueError:
        return _mend(data)
    if type(value) is dict:
        return Parsed([(0, size, value)])
    return Bad("not_object")


def tame(value: Any) -> Any:
    """A copy that sqlite3 can bind, ``orjson.dumps`` can write and pickle can carry.

    Integers beyond 64 bits become floats, NaN and Infinity become None, lone surrogates become
    U+FFFD, and values deeper than MAX_DEPTH levels become None.
    """
    return _tame(value, 1, set())


def _mend(data: bytes) -> Parsed | Bad | None:
    notes: set[str] = set()
    start, end = _trim(data, notes)
    if start == end:
        return Bad("nul_only") if b"\x00" in data else None
    body = data[start:end]
    # If the whole line is one object, its bytes are repaired and orjson reads them: the standard
    # library needs four times the memory, which matters for a line of 16 MiB.
    clean = _as_utf8(body)
    if clean is not body:
        notes.add("invalid_utf8")
    value = _try(clean) if len(clean) < len(data) or clean is not body else None
    if value is None and (mended := _without_lone_surrogates(clean)) is not None:
        value = _try(mended)
        if value is not None:
            notes.add("surrogates")
    if value is None:
        return _take_apart(body, start, notes)
    if type(value) is not dict:
        return Bad("not_object")
    value = _tame(value, 1, notes)
    if "too_deep" in notes:
        return Bad("too_deep")
    return Parsed([(start, end - start, value)], _joined(notes))


def without_nul(value: Any) -> Any:
    """The value with U+2400, the symbol for NUL, in place of every NUL in its texts.

    SQLite's LIKE, length() and instr() stop at a NUL, and so do many tools.
    """
    kind = type(value)
    if kind is str:
        return value.replace("\0", "\u2400") if "\0" in value else value
    if kind is dict:
        return {without_nul(key): without_nul(item) for key, item in value.items()}
    if kind is list:
        return [without_nul(item) for item in value]
    return value


def _try(data: bytes | bytearray) -> Any:
    try:
        return _loads(data)
    except ValueError:
        return None


def _trim(data: bytes, notes: set[str]) -> tuple[int, int]:
    """The range of ``data`` without NULs, white space and byte order mark at its ends."""
    end = len(data.rstrip(_PADDING))
    start = end - len(data[:end].lstrip(_PADDING))
    if data.startswith(_BOM, start):
        notes.add("bom")
        start += len(_BOM)
        start = end - len(data[start:end].lstrip(_PADDING))
    if b"\x00" in data[:start] or b"\x00" in data[end:]:
        notes.add("nul_padded")
    return start, end


def _as_utf8(data: bytes) -> bytes:
    """The same bytes if they are UTF-8, else a copy with U+FFFD in place of what is not."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace").encode()
    return data


def _without_lone_surrogates(data: bytes) -> bytearray | None:
    r"""Put ``\ufffd`` in place of every half of a surrogate pair; None if there is none."""
    mended: bytearray | None = None
    high = -1  # offset of a first half whose second half has not come yet
    for match in _SURROGATE_ESCAPE.finditer(data):
        at = match.start()
        slashes = at
        while slashes and data[slashes - 1] == _BACKSLASH:
            slashes -= 1
        if (at - slashes) % 2:
            continue  # the backslash is itself escaped
        second = data[at + 3] in b"cdefCDEF"
        if second and high >= 0 and at == high + _ESCAPE_BYTES:
            high = -1
            continue
        for lone in (high, at if second else -1):
            if lone >= 0:
                mended = bytearray(data) if mended is None else mended
                mended[lone : lone + _ESCAPE_BYTES] = b"\\ufffd"
        high = -1 if second else at
    if high >= 0:
        mended = bytearray(data) if mended is None else mended
        mended[high : high + _ESCAPE_BYTES] = b"\\ufffd"
    return mended


def _take_apart(body: bytes, offset: int, notes: set[str]) -> Parsed | Bad:
    """Read as many whole objects as ``body`` begins with, by the standard library's rules."""
    # Not replace: surrogateescape can be undone, so that places can be given in bytes.
    text = body.decode("utf-8", "surrogateescape")
    decoder = _decoder(notes)
    objects: list[tuple[int, int, dict[str, Any]]] = []
    at = 0
    while at < len(text):
        try:
            value, end = decoder.raw_decode(text, at)
            if type(value) is not dict:
                if not objects:
                    return Bad("not_object" if end == len(text) else "not_json")
                break
            value = _tame(value, 1, notes)
        except RecursionError:
            return Bad("too_deep")
        except ValueError:
            break
        if "too_deep" in notes:
            return Bad("too_deep")
        if len(objects) == MAX_GLUED:
            return Bad("too_many_objects")
        length = _byte_length(text[at:end])
        objects.append((offset, length, value))
        at_next = _skip(text, end)
        offset += length + _byte_length(text[end:at_next])
        at = at_next
    if not objects:
        return Bad("torn" if text.startswith("{") else "not_json")
    if at < len(text):
        notes.add("trailing")
    if len(objects) > 1:
        notes.add("glued")
    if _CONTROL.search(body):
        notes.add("control_chars")
    if "invalid_utf8" in notes:
        notes.discard("surrogates")  # they are the bad bytes, as surrogateescape writes them
    return Parsed(objects, _joined(notes))


def _decoder(notes: set[str]) -> json.JSONDecoder:
    def constant(_: str) -> None:
        notes.add("nan")

    # strict=False accepts raw control characters inside strings. Integers are read by _integer
    # because int() refuses more than 4300 digits.
    return json.JSONDecoder(strict=False, parse_constant=constant, parse_int=_integer)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= 20 else float(digits)  # 19 digits and a sign


def _tame(value: Any, depth: int, notes: set[str]) -> Any:
    kind = type(value)
    if kind is str:
        return _plain(value, notes)
    if kind is dict or kind is list:
        if depth > MAX_DEPTH:
            notes.add("too_deep")
            return None
        depth += 1
        if kind is list:
            items = []
            for item in value:
                items.append(_tame(item, depth, notes))  # noqa: PERF401  one frame per level, not two
            return items
        fields = {}
        for key, item in value.items():
            fields[_plain(key, notes)] = _tame(item, depth, notes)
        return fields
    if kind is int and not _INT64_MIN <= value <= _INT64_MAX:
        try:
            return float(value)
        except OverflowError:
            return None
    if kind is float and not math.isfinite(value):
        notes.add("nan")
        return None
    return value


def _plain(text: str, notes: set[str]) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        notes.add("surrogates")
        return _SURROGATES.sub(_FFFD, text)
    return text


def _skip(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return between.end() if between else at


def _byte_length(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _joined(notes: set[str]) -> str:
    return ",".join(note for note in _NOTES if note in notes)


def _too_heavy(data: bytes) -> bool:
    """True when the parsed line would take more than MAX_PARSED_BYTES, without its text."""
    if _weight(data) <= MAX_PARSED_BYTES:
        return False
    # Punctuation inside strings is only text: count what is between them.
    weight = at = 0
    for string in _STRING.finditer(data):
        weight += _weight(data[at : string.start()])
        if weight > MAX_PARSED_BYTES:
            return True
        at = string.end()
    return weight + _weight(data[at:]) > MAX_PARSED_BYTES


def _weight(data: bytes) -> int:
    # In bytes on Python 3.11: a dict with a key, a list, a short string with its slot in a list.
    return 232 * data.count(b"{") + 64 * data.count(b"[") + 72 * data.count(b",")
