"""The command line as Typer sees it, made from the commands' own declarations.

It parses what is not plain, prints help and mistakes, and completes for shells.
"""

from __future__ import annotations

import inspect
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
    # CTXDB_DB is read in ctxdb.config, not here, so that `demo` can tell it from the flag.
    ctx.obj = Context(db)


def _completer(where: str) -> Callable[[str], Iterable[Any]]:
    def complete(incomplete: str) -> list[Any]:  # Typer reads this annotation
        found: Any = load(where)
        return list(found(incomplete))

    return complete


def _for_typer(one: Parameter) -> inspect.Parameter:
    says = one.says
    more: dict[str, Any] = {"metavar": says.metavar, "help": says.help, "show_default": False}
    if says.default_text:
        more["help"] = f"{says.help}  [default: {says.default_text}]"
    elif isinstance(says, Option) and one.default not in (None, False, ""):
        more["help"] = f"{says.help}  [default: {one.default}]"
    if says.complete:
        more["autocompletion"] = _completer(says.complete)
    made: Any
    if isinstance(says, Argument):
        made = typer.Argument(**more)
    else:
        if says.is_folder:
            more |= {"exists": True, "file_okay": False}
        made = typer.Option(*says.flags, min=says.at_least, **more)
    return inspect.Parameter(
        one.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if one.is_required else one.default,
        annotation=Annotated[one.annotation, made],
    )


def typer_command(command: Callable[..., int | None]) -> Callable[..., None]:
    """Make a command that Typer understands of one of ours."""

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
