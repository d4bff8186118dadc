"""Declare the parameters of a command without importing the library that parses them.

A command is a plain function. Its first parameter is a Context. Each other parameter is annotated
with an Option or an Argument. The docstring is the command's help::

    def search(
        ctx: Context,
        words: Annotated[list[str], Argument("TEXT", help="What to look for.")],
        limit: Annotated[int, Option("--limit", "-n", metavar="N", at_least=1)] = 20,
        *,
        errors: Annotated[bool, Option("--errors", help="Failed calls only.")] = False,
    ) -> int | None:

``typer_app`` makes a Typer command from it. ``plain_command_line`` parses a plain command line
without Typer. The type is str, int, float, Path, a Literal, or bool for a flag; any of them may be
``| None`` or a list. The function returns the exit code; None means 0.
"""

from __future__ import annotations

import types
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Context(NamedTuple):
    """What the command line has before the command's name."""

    db: Path | None = None


class Option:
    """A parameter with flags."""

    def __init__(
        self,
        *flags: str,
        help: str = "",  # noqa: A002
        metavar: str | None = None,
        at_least: int | None = None,
        is_folder: bool = False,
        complete: str = "",
        completes_by_words: bool = False,
        default_text: str = "",
    ) -> None:
        """Declare an option.

        at_least: the smallest number allowed. is_folder: the value is a folder that must exist.
        complete: the "module:function" that returns the completions for a shell;
        completes_by_words: it is also given the words before. default_text: the default as --help
        shows it, if the default itself is not clear.
        """
        self.flags = flags
        self.help = help
        self.metavar = metavar
        self.at_least = at_least
        self.is_folder = is_folder
        self.complete = complete
        self.completes_by_words = completes_by_words
        self.default_text = default_text


class Argument:
    """A parameter without flags, known by its position."""

    def __init__(
        self,
        metavar: str,
        *,
        help: str = "",  # noqa: A002
        complete: str = "",
        default_text: str = "",
    ) -> None:
        """Declare an argument; the names mean the same as for an Option."""
        self.metavar = metavar
        self.help = help
        self.complete = complete
        self.default_text = default_text


class Parameter(NamedTuple):
    """One parameter of a command, as declared."""

    name: str
    declared: Option | Argument
    annotation: Any  # the type as written, with `| None` and list
    type: Any  # of one value
    is_list: bool
    is_required: bool
    default: Any = None


def parameters(command: Callable[..., object]) -> list[Parameter]:
    """The parameters of a command without the Context, in order."""
    hints = get_type_hints(command, include_extras=True)
    code: types.CodeType = command.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    positional = code.co_varnames[: code.co_argcount]
    given = command.__defaults__ or ()
    defaults = dict(zip(positional[len(positional) - len(given) :], given, strict=True))
    defaults |= command.__kwdefaults__ or {}
    found = []
    for name in names:
        if get_origin(hints[name]) is not Annotated:
            raise TypeError(f"{command.__name__}: {name} is neither an Option nor an Argument")
        annotation, declared = get_args(hints[name])
        one, is_list = _value_type(annotation)
        is_required, default = name not in defaults, defaults.get(name)
        found.append(Parameter(name, declared, annotation, one, is_list, is_required, default))
    return found


def _value_type(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) in (Union, types.UnionType):
        (annotation,) = [part for part in get_args(annotation) if part is not types.NoneType]
    if get_origin(annotation) is list:
        (annotation,) = get_args(annotation)
        return annotation, True
    return annotation, False


def join_pairs(words: list[str], pair_flags: frozenset[str]) -> list[str]:
    """Write `-p NAME VALUE` as `-p NAME=VALUE`: the parsers take one value per flag."""
    joined: list[str] = []
    rest = iter(words)
    for word in rest:
        joined.append(word)
        if word == "--":
            break
        if word in pair_flags:
            name = next(rest, None)
            if name is None:
                break
            value = None if "=" in name or name.startswith("-") else next(rest, None)
            joined.append(name if value is None else f"{name}={value}")
    return [*joined, *rest]
