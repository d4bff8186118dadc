"""The Typer app, made from the commands' own declarations.

It parses command lines that are not plain, prints help, reports mistakes and completes for shells.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable  # Typer reads annotations
from pathlib import Path
from typing import Annotated, Any

import typer

from ctxdb import __version__
from ctxdb.cli import COMMANDS, GROUPS, load
from ctxdb.cli.declare import Argument, Context, Option, Parameter, parameters


def _new_app(name: str, **more: Any) -> typer.Typer:
    return typer.Typer(
        name=name,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **more,
    )


app = _new_app("ctxdb")


def _show_version(value: bool) -> None:  # noqa: FBT001
    if value:
        typer.echo(f"ctxdb {__version__}")
        raise typer.Exit


@app.callback()
def ctxdb(
    ctx: typer.Context,
    db: Annotated[
        Path | None,
        typer.Option(
            "--db",
            metavar="FILE",
            help="The database.  [env: CTXDB_DB; default: ~/.local/share/ctxdb/ctxdb.db]",
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Claude Code transcripts in one SQLite database: every line, exactly once.

    \b
    Begin with:
      ctxdb sync
      ctxdb query --list
      ctxdb search connection refused
      sqlite3 "$(ctxdb path)"
    """
    # ctxdb.config reads CTXDB_DB, not Typer, so that `demo` can tell it from the flag.
    ctx.obj = Context(db)


def _completer(where: str, *, with_words: bool) -> Callable[..., Iterable[Any]]:
    """A function for Typer, which reads its annotations: completions for what is typed so far."""

    def complete(incomplete: str) -> list[Any]:
        found: Any = load(where)
        return list(found(incomplete))

    def complete_with_words(incomplete: str) -> list[Any]:
        found: Any = load(where)
        # The context has no values yet while an option waits for its own; the shell's words are
        # in one of these.
        line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
        return list(found(incomplete, line.split()))

    return complete_with_words if with_words else complete


def _for_typer(one: Parameter) -> inspect.Parameter:
    declared = one.declared
    default_text = declared.default_text
    if not default_text and isinstance(declared, Option) and one.default not in (None, False, ""):
        default_text = str(one.default)
    more: dict[str, Any] = {
        "metavar": declared.metavar,
        "help": f"{declared.help}  [default: {default_text}]" if default_text else declared.help,
        "show_default": False,
    }
    if declared.complete:
        with_words = isinstance(declared, Option) and declared.completes_by_words
        more["autocompletion"] = _completer(declared.complete, with_words=with_words)
    made: Any
    if isinstance(declared, Argument):
        made = typer.Argument(**more)
    else:
        if declared.is_folder:
            more |= {"exists": True, "file_okay": False}
        made = typer.Option(*declared.flags, min=declared.at_least, **more)
    return inspect.Parameter(
        one.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if one.is_required else one.default,
        annotation=Annotated[one.annotation, made],
    )


def typer_command(command: Callable[..., int | None]) -> Callable[..., None]:
    """Make a Typer command from a command function."""

    def run(ctx: typer.Context, **arguments: Any) -> None:
        code = command(ctx.obj, **arguments)
        if code:
            raise typer.Exit(code)

    first = inspect.Parameter(
        "ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    taken = [first, *(_for_typer(one) for one in parameters(command))]
    run.__doc__ = command.__doc__
    run.__annotations__ = {one.name: one.annotation for one in taken}
    run.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    return run


def _register() -> None:
    groups: dict[str, typer.Typer] = {}
    for name, where in COMMANDS.items():
        group, _, own = name.rpartition(" ")
        if group and group not in groups:
            groups[group] = _new_app(group, help=GROUPS[group], add_completion=False)
            app.add_typer(groups[group])
        groups.get(group, app).command(own)(typer_command(load(where)))


_register()
