"""Parse a plain command line from the commands' own declarations, without Typer.

Importing Typer takes as long as answering an everyday question. So a command line is parsed here if
it is plain: known flags, values of the right type, nothing missing. For any other one, also for
`--help` and for every mistake, the result is None. Then Typer parses it and reports what is wrong.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin

from ctxdb.cli import COMMANDS, EVERYDAY, PAIR_FLAGS, load
from ctxdb.cli.declare import Argument, Context, Option, Parameter, join_pairs, parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class ParsedCommand(NamedTuple):
    """A command function and its arguments."""

    function: Callable[..., int | None]
    ctx: Context
    arguments: dict[str, Any]

    def run(self) -> int:
        """Run the command and return its exit code."""
        return self.function(self.ctx, **self.arguments) or 0


class _NotPlain(Exception):
    """Typer has to parse this command line."""


def parse_plain(words: list[str]) -> ParsedCommand | None:
    """Return the command that a plain command line means, or None if it is not plain."""
    rest = iter(words)
    try:
        db, name = _before_command(rest)
        if name not in EVERYDAY or name not in COMMANDS:
            return None
        function = load(COMMANDS[name])
        arguments = _arguments(join_pairs(list(rest), PAIR_FLAGS), function)
    except _NotPlain:
        return None
    return ParsedCommand(function, Context(db), arguments)


def _before_command(rest: Iterator[str]) -> tuple[Path | None, str]:
    """Take --db and the name of the command."""
    db: Path | None = None
    for word in rest:
        if not word.startswith("--db"):
            return db, word
        flag, sign, value = word.partition("=")
        if flag != "--db":
            raise _NotPlain
        db = Path(value if sign else _next(rest))
    raise _NotPlain


def _next(rest: Iterator[str]) -> str:
    word = next(rest, None)
    if word is None:
        raise _NotPlain
    return word


def _arguments(words: list[str], function: Callable[..., int | None]) -> dict[str, Any]:
    declared = parameters(function)
    by_flag = {
        flag: one
        for one in declared
        if isinstance(one.declared, Option)
        for flag in one.declared.flags
    }
    positional = [one for one in declared if isinstance(one.declared, Argument)]
    found: dict[str, Any] = {}
    without_flag: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            without_flag += rest
        elif word.startswith("-") and word != "-":
            _take_option(word, rest, by_flag, found)
        else:
            without_flag.append(word)
    _take_positional(without_flag, positional, found)
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
    value = _convert(text if sign else _next(rest), one)
    if one.is_list:
        found.setdefault(one.name, []).append(value)
    else:
        found[one.name] = value


def _take_positional(words: list[str], positional: list[Parameter], found: dict[str, Any]) -> None:
    for one in positional:
        if one.is_list:
            if words:
                found[one.name] = [_convert(word, one) for word in words]
            return
        if words:
            found[one.name] = _convert(words.pop(0), one)
    if words:
        raise _NotPlain


def _convert(text: str, one: Parameter) -> Any:
    declared = one.declared
    if get_origin(one.type) is Literal:
        if text not in get_args(one.type):
            raise _NotPlain
        return text
    if one.type in (int, float):
        try:
            number = one.type(text)
        except ValueError:
            raise _NotPlain from None
        least = declared.at_least if isinstance(declared, Option) else None
        if number != number or (least is not None and number < least):  # noqa: PLR0124 - NaN
            raise _NotPlain
        return number
    if isinstance(declared, Option) and declared.is_folder and not os.path.isdir(text):
        raise _NotPlain
    return Path(text) if one.type is Path else text
