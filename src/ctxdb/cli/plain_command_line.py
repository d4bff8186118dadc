"""Read a plain command line by the commands' own declarations, without Typer.

Importing Typer takes as long as answering an everyday question. So a command line that is plain
(known flags, values of the right type, nothing missing) is read here; anything else, `--help` and
every mistake included, is None: Typer reads it again and says what is wrong.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin

from ctxdb.cli import COMMANDS, EVERYDAY, PAIR_FLAGS, load
from ctxdb.cli.declare import Argument, Context, Option, Parameter, join_pairs, parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Call(NamedTuple):
    """A command and what to give it."""

    command: Callable[..., int | None]
    ctx: Context
    arguments: dict[str, Any]


class _NotPlain(Exception):
    """Typer's to read."""


def plain_call(words: list[str]) -> Call | None:
    """Return the call that a plain command line means, None if it is not plain."""
    db: Path | None = None
    rest = list(words)
    while rest and rest[0].startswith("--db"):
        flag, sign, value = rest.pop(0).partition("=")
        if flag != "--db" or not (sign or rest):
            return None
        db = Path(value if sign else rest.pop(0))
    if not rest or rest[0] not in EVERYDAY or rest[0] not in COMMANDS:
        return None
    command = load(COMMANDS[rest[0]])
    try:
        return Call(command, Context(db), _read(join_pairs(rest[1:], PAIR_FLAGS), command))
    except _NotPlain:
        return None


def _read(words: list[str], command: Callable[..., int | None]) -> dict[str, Any]:
    declared = parameters(command)
    by_flag = {
        flag: one for one in declared if isinstance(one.says, Option) for flag in one.says.flags
    }
    places = [one for one in declared if isinstance(one.says, Argument)]
    found: dict[str, Any] = {}
    loose: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            loose += rest
        elif word.startswith("-") and word != "-":
            _take_option(word, rest, by_flag, found)
        else:
            loose.append(word)
    _place(loose, places, found)
    for one in declared:
        if one.name not in found:
            if one.is_required:
                raise _NotPlain
            found[one.name] = one.default
    return found


def _take_option(
    word: str, rest: Iterator[str], by_flag: dict[str, Parameter], found: dict[str, Any]
) -> None:
    flag, sign, text = word.partition("=") if word.startswith("--") else (word, "", "")
    one = by_flag.get(flag)
    if one is None:
        raise _NotPlain
    if one.type is bool:
        if sign:
            raise _NotPlain
        found[one.name] = True
        return
    value = text if sign else next(rest, None)
    if value is None:
        raise _NotPlain
    converted = _convert(value, one)
    if one.is_list:
        found.setdefault(one.name, []).append(converted)
    else:
        found[one.name] = converted


def _place(loose: list[str], places: list[Parameter], found: dict[str, Any]) -> None:
    for one in places:
        if one.is_list:
            if loose:
                found[one.name] = [_convert(word, one) for word in loose]
            return
        if loose:
            found[one.name] = _convert(loose.pop(0), one)
    if loose:
        raise _NotPlain


def _convert(text: str, one: Parameter) -> Any:
    says = one.says
    if get_origin(one.type) is Literal:
        if text not in get_args(one.type):
            raise _NotPlain
        return text
    if one.type in (int, float):
        try:
            number = one.type(text)
        except ValueError:
            raise _NotPlain from None
        least = says.at_least if isinstance(says, Option) else None
        if number != number or (least is not None and number < least):  # noqa: PLR0124
            raise _NotPlain
        return number
    if isinstance(says, Option) and says.is_folder and not os.path.isdir(text):
        raise _NotPlain
    return Path(text) if one.type is Path else text
