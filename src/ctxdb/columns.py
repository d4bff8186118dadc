"""How a row class declares its columns, and the SQL that is generated from them.

`column` declares a column of the row's own table, or of the bookkeeping table beside it (a table
whose name begins with _). Fields declared with `working` are in no table. The row classes are in
rows.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


def cached(function: Callable[P, T]) -> Callable[P, T]:
    """Remember the results; as functools.cache, but for functions of classes too."""
    return cast("Callable[P, T]", cache(function))


CALL, RESULT = "call", "result"  # the two lines that a row of tool_uses comes from


# How private a column is: what a team may be sent. Each level includes those before it.
USAGE = "usage"  # numbers, times, models, ids and hashes
METADATA = "metadata"  # names, paths, tools, statuses
FULL = "full"  # what a person or a model wrote: prompts, replies, commands, inputs, results
LEVELS = (USAGE, METADATA, FULL)


def column(
    default: Any = None, *, table: str = "", said_by: str = "", level: str | None = None
) -> Any:
    """A column of the row's own table, or of another one; of a tool call, who says it.

    `level` is how private it is. A column without a level never leaves the machine.
    """
    return field(default=default, metadata={"table": table, "said_by": said_by, "level": level})


def working(default: Any = None, *, said_by: str = "") -> Any:
    """A field that is in no table."""
    return field(default=default, metadata={"table": None, "said_by": said_by})


@dataclass(slots=True, eq=False)
class Row:
    """A row of one table, or of one table and the bookkeeping table beside it."""

    table: ClassVar[str]
    key: ClassVar[str] = "id"
    beside: ClassVar[str] = ""  # the bookkeeping table
    beside_key: ClassVar[str] = ""  # its column that holds the key


@cached
def columns(kind: type[Row], table: str = "") -> tuple[str, ...]:
    """The columns of a table that a kind of row fills, in order; of its own table by default."""
    wanted = (table, "") if table in ("", kind.table) else (table,)
    return tuple(f.name for f in fields(kind) if f.metadata["table"] in wanted)


@cached
def all_columns(kind: type[Row]) -> tuple[str, ...]:
    """The columns of both tables."""
    return tuple(f.name for f in fields(kind) if f.metadata["table"] is not None)


@cached
def said_by(kind: type[Row], who: str) -> tuple[str, ...]:
    """The fields that one of the two lines of a call says, working ones included."""
    return tuple(f.name for f in fields(kind) if f.metadata.get("said_by") == who)


@cached
def levels(kind: type[Row]) -> dict[str, str]:
    """The columns of a row's own table that have a level, with their levels."""
    return {f.name: level for f in fields(kind) if (level := f.metadata.get("level"))}


@cached
def values_of(
    kind: type[Row], table: str = "", left_out: tuple[str, ...] = ()
) -> Callable[[Any], tuple[Any, ...]]:
    """A function that gives the values of `columns` of a row, but for those left out."""
    names = tuple(name for name in columns(kind, table) if name not in left_out)
    if table and table != kind.table:
        names = (kind.key, *names)
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda row: (get(row),)


@cached
def insert_sql(
    kind: type[Row], table: str = "", left_out: tuple[str, ...] = (), *, verb: str = "INSERT"
) -> str:
    """The statement that inserts `values_of` a row."""
    names = tuple(name for name in columns(kind, table) if name not in left_out)
    if table and table != kind.table:
        names = (kind.beside_key, *names)
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"{verb} INTO {table or kind.table} ({quoted}) VALUES ({', '.join('?' * len(names))})"


@cached
def update_sql(kind: type[Row]) -> str:
    """The statement that writes a row's own table again: `values_of`, then the key."""
    names = ", ".join(f'"{name}" = ?' for name in columns(kind))
    return f'UPDATE {kind.table} SET {names} WHERE "{kind.key}" = ?'


@cached
def select_sql(kind: type[Row], alias: str = "t", beside: str = "b") -> str:
    """What to select for `load`: the columns of both tables, under two aliases."""
    parts = [
        f'{beside if f.metadata["table"] else alias}."{f.name}"'
        for f in fields(kind)
        if f.metadata["table"] is not None
    ]
    return ", ".join(parts)


def from_sql(kind: type[Row], alias: str = "t", beside: str = "b") -> str:
    """The tables to select from: the row's own, joined with the bookkeeping table."""
    joined = f' LEFT JOIN {kind.beside} {beside} ON {beside}."{kind.beside_key}" = {alias}.id'
    return f"{kind.table} {alias}" + (joined if kind.beside else "")


@cached
def loader(kind: type[Any]) -> Callable[[tuple[Any, ...]], Any]:
    """A function that makes a row of what `select_sql` selects."""
    names = all_columns(kind)
    stored = [f.name for f in fields(kind)]
    if tuple(stored[: len(names)]) != names:
        raise TypeError(f"{kind.__name__}: columns must come before working fields")
    return lambda values: kind(*values)


def copy_fields(to: Row, source: Row, names: tuple[str, ...]) -> None:
    """Copy some fields of a row into another row."""
    for name in names:
        setattr(to, name, getattr(source, name))
