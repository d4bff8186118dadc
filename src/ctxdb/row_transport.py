"""Rows as plain tuples, to carry them from one process to another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, NamedTuple

from ctxdb.columns import cached
from ctxdb.rows import AgentFact, ToolUse, UsageLine

_PARTS: dict[str, type[Any]] = {
    "calls": ToolUse,
    "results": ToolUse,
    "usage": UsageLine,
    "facts": AgentFact,
}


class _Shape(NamedTuple):
    """How a kind of row is packed."""

    values: Callable[[Any], tuple[Any, ...]]
    parts: tuple[str, ...]  # fields that hold lists of other rows


@cached
def _shape(kind: type[Any]) -> _Shape:
    names = [f.name for f in fields(kind)]
    return _Shape(attrgetter(*names), tuple(name for name in _PARTS if name in names))


def pack_all(rows: list[Any], kind: type[Any]) -> list[tuple[Any, ...]]:
    """Rows as tuples that marshal can carry; the parts of a row are packed with it."""
    values, parts = _shape(kind)
    if not parts:
        return [*map(values, rows)]
    packed = []
    for row in rows:
        kept = [(name, part) for name in parts if (part := getattr(row, name)) is not None]
        for name, part in kept:
            setattr(row, name, pack_all(part, _PARTS[name]))
        packed.append(values(row))
        for name, part in kept:
            setattr(row, name, part)
    return packed


def unpack_all(packed: list[tuple[Any, ...]], kind: type[Any]) -> list[Any]:
    """What `pack_all` was given."""
    _, parts = _shape(kind)
    rows = [kind(*values) for values in packed]
    for name in parts:
        make = _PARTS[name]
        for row in rows:
            if (part := getattr(row, name)) is not None:
                setattr(row, name, [make(*values) for values in part])
    return rows
