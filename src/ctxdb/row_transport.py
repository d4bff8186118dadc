"""Rows as plain tuples, to carry them from one process to another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, NamedTuple

from ctxdb.columns import cached
from ctxdb.rows import AgentFact, ToolUse, UsageLine

Packed = tuple[list[tuple[Any, ...]], list[tuple[str, list[int], Any]]]

_PARTS: dict[str, type[Any]] = {
    "calls": ToolUse,
    "results": ToolUse,
    "usage": UsageLine,
    "facts": AgentFact,
}


class _Shape(NamedTuple):
    """How a kind of row is packed."""

    values: Callable[[Any], tuple[Any, ...]]  # all fields but those that hold other rows
    parts: tuple[str, ...]  # fields that hold lists of other rows


@cached
def _shape(kind: type[Any]) -> _Shape:
    names = [f.name for f in fields(kind)]
    parts = tuple(name for name in names if name in _PARTS)
    own = tuple(name for name in names if name not in _PARTS)
    if (*own, *parts) != tuple(names):
        raise TypeError(f"{kind.__name__}: fields that hold other rows must come last")
    return _Shape(attrgetter(*own), parts)


def pack_all(rows: list[Any], kind: type[Any]) -> Packed:
    """Rows as tuples that marshal can carry; beside them the rows that they hold, with numbers."""
    values, parts = _shape(kind)
    held = []
    for name in parts:
        numbers: list[int] = []
        inner: list[Any] = []
        for number, part in enumerate(map(attrgetter(name), rows)):
            if part:
                numbers += [number] * len(part)
                inner += part
        held.append((name, numbers, pack_all(inner, _PARTS[name])))
    return [*map(values, rows)], held


def unpack_all(packed: Packed, kind: type[Any]) -> list[Any]:
    """What `pack_all` was given; a list without rows comes back as None."""
    values, held = packed
    rows = [kind(*one) for one in values]
    for name, numbers, inner in held:
        of_row: dict[int, list[Any]] = {}
        for number, row in zip(numbers, unpack_all(inner, _PARTS[name]), strict=True):
            of_row.setdefault(number, []).append(row)
        for number, part in of_row.items():
            setattr(rows[number], name, part)
    return rows
