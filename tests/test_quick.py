"""A plain command line means the same with Typer and without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer.main
from hypothesis import given
from hypothesis import strategies as st

from ctxdb import cli
from ctxdb.cli import plain_command_line, typer_app
from ctxdb.cli.declare import Argument, Context, Option, join_pairs, parameters

HEARD: list[dict[str, Any]] = []


def listen(
    ctx: Context,
    words: Annotated[list[str], Argument("WORDS", help="Anything.")],
    limit: Annotated[int, Option("--limit", "-n", metavar="N", at_least=1)] = 20,
    share: Annotated[float | None, Option("--share", metavar="X")] = None,
    style: Annotated[Literal["table", "json"], Option("--format", metavar="F")] = "table",
    param: Annotated[list[str] | None, Option("-p", "--param", metavar="NAME VALUE")] = None,
    file: Annotated[Path | None, Option("--file", metavar="FILE")] = None,
    *,
    errors: Annotated[bool, Option("--errors", "-e", help="Failed ones.")] = False,
) -> None:
    """Example: ctxdb listen."""
    HEARD.append(
        {"ctx": ctx, "words": list(words), "limit": limit, "share": share, "style": style}
        | {"param": list(param or []), "file": file, "errors": errors}
    )


PIECES = """
a b=c - -- 5 0 -n --limit --limit=3 --limit= -n5 --share 0.5 nan --format json --format=xml
-p --param name --file /x --errors -e --errors=1 --help -x --lim --db
"""
WORDS = st.lists(st.sampled_from(["", *PIECES.split()]), max_size=7)


def by_typer(words: list[str]) -> dict[str, Any] | None:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.callback()(typer_app.ctxdb)
    app.command("listen")(typer_app.typer_command(listen))
    HEARD.clear()
    group: Any = typer.main.get_command(app)
    try:
        group.main(join_pairs(words, cli.PAIR_FLAGS), standalone_mode=False)
    except Exception:  # noqa: BLE001 - its own kinds of complaint
        return None
    return HEARD[0] if HEARD else None


def by_quick(words: list[str]) -> dict[str, Any] | None:
    HEARD.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_command_line, "COMMANDS", {"listen": "listen"})
        patch.setattr(plain_command_line, "EVERYDAY", {"listen"})
        patch.setattr(plain_command_line, "load", lambda _: listen)
        command = plain_command_line.parse_plain(words)
    if command is None:
        return None
    command.run()
    return HEARD[0]


@given(WORDS, st.sampled_from([[], ["--db", "/x.db"], ["--db=/y.db"]]))
def test_what_is_read_without_typer_means_what_typer_says(
    words: list[str], before: list[str]
) -> None:
    found = by_quick([*before, "listen", *words])
    if found is not None:
        assert found == by_typer([*before, "listen", *words])


def test_the_usual_command_lines_are_plain() -> None:
    found = by_quick(
        ["listen", "a", "-n", "3", "-p", "path", "x=y", "--param", "k=v", "--errors", "--", "-b"]
    )
    assert found is not None
    assert found["words"] == ["a", "-b"]
    assert found["limit"] == 3
    assert found["param"] == ["path=x=y", "k=v"]
    assert found["errors"]


@pytest.mark.parametrize(
    "words",
    [[], ["a", "--help"], ["a", "-n", "0"], ["a", "-n", "x"], ["a", "-n"], ["a", "--format", "x"]],
)
def test_a_mistake_is_left_to_typer(words: list[str]) -> None:
    assert by_quick(["listen", *words]) is None


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_is_declared_whole(name: str) -> None:
    command = cli.load(cli.COMMANDS[name])
    assert command.__doc__
    for one in parameters(command):
        declared = one.declared
        assert declared.help, one.name
        assert isinstance(declared, Argument) or one.type is bool or declared.metavar, one.name
        if declared.complete:
            assert callable(cli.load(declared.complete))


@pytest.mark.parametrize("command", ["path", "sync", "status"])
def test_an_everyday_command_does_not_load_typer(home: Path, command: str) -> None:
    code = (
        "import sys\n"
        "from ctxdb.cli.main import main\n"
        "try:\n    main()\n"
        "finally:\n"
        "    heavy = {'typer', 'sqlite_utils', 'watchdog', 'pydantic', 'rich', 'ctypes'}\n"
        "    assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    # The first sync makes the database, which needs the migrations of sqlite_utils.
    subprocess.run([sys.executable, "-m", "ctxdb", "sync", "--quiet"], check=True)
    subprocess.run([sys.executable, "-c", code, command], check=True, stdout=subprocess.DEVNULL)
