"""How a command says what it takes, without the weight of the library that parses it.

A command is a plain function. Its first parameter is a Context, and every other one is annotated
with an Option or an Argument; the docstring is its help::

    def search(
        ctx: Context,
        words: Annotated[list[str], Argument("TEXT", help="What to look for.")],
        limit: Annotated[int, Option("--limit", "-n", metavar="N", at_least=1)] = 20,
        *,
        errors: Annotated[bool, Option("--errors", help="Failed calls only.")] = False,
    ) -> int | None:

``typer_app`` makes a Typer command of it, ``plain_call`` reads a plain command line without Typer.
Types: str, int, float, Path, a Literal, bool for flags, any of them ``| None``, and lists of
them. What it returns is the exit code, None meaning 0.
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

Command = "Callable[..., int | None]"


class Context(NamedTuple):
    """What was said before the command's name."""

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
        default_text: str = "",
    ) -> None:
        """Declare it.

        is_folder: a folder that must be there.
        complete: "module:function" that gives a shell what could stand here. default_text: what
        --help says of the default, where the default itself does not say it.
        """
        self.flags = flags
        self.help = help
        self.metavar = metavar
        self.at_least = at_least
        self.is_folder = is_folder
        self.complete = complete
        self.default_text = default_text


class Argument:
    """A parameter without flags, by its place."""

    def __init__(
        self,
        metavar: str,
        *,
        help: str = "",  # noqa: A002
        complete: str = "",
        default_text: str = "",
    ) -> None:
        """Declare it; the words mean what they mean for an Option."""
        self.metavar = metavar
        self.help = help
        self.complete = complete
        self.default_text = default_text


class Parameter(NamedTuple):
    """One parameter of a command, as declared."""

    name: str
    says: Option | Argument
    annotation: Any  # the type as it was written, `| None` and list included
    type: Any  # of one value
    is_list: bool
    is_required: bool
    default: Any = None


def parameters(command: Callable[..., object]) -> list[Parameter]:
    """What a command takes besides the Context, in order."""
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
        annotation, says = get_args(hints[name])
        one, is_list = _value_type(annotation)
        required = name not in defaults
        found.append(Parameter(name, says, annotation, one, is_list, required, defaults.get(name)))
    return found


def _value_type(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) in (Union, types.UnionType):
        (annotation,) = [part for part in get_args(annotation) if part is not types.NoneType]
    if get_origin(annotation) is list:
        return get_args(annotation)[0], True
    return annotation, False


def join_pairs(words: list[str], pair_flags: frozenset[str]) -> list[str]:
    """Write `-p NAME VALUE` as `-p NAME=VALUE`: neither parser takes two values repeatedly."""
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
