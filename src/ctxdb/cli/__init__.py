"""The commands: one function each, in the order in which ``ctxdb --help`` lists them.

By name only: a command's module is imported when the command is run, or when its help is wanted.
A name of two words is a command of a group.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS = {
    "sync": "ctxdb.cli.sync:sync",
    "query": "ctxdb.cli.query:query",
    "search": "ctxdb.cli.search:search",
    "show": "ctxdb.cli.show:show",
    "export": "ctxdb.cli.export:export",
    "watch": "ctxdb.cli.daemon:watch",
    "daemon start": "ctxdb.cli.daemon:start",
    "daemon stop": "ctxdb.cli.daemon:stop",
    "daemon restart": "ctxdb.cli.daemon:restart",
    "daemon status": "ctxdb.cli.daemon:status",
    "daemon install": "ctxdb.cli.daemon:install",
    "daemon uninstall": "ctxdb.cli.daemon:uninstall",
    "daemon logs": "ctxdb.cli.daemon:logs",
    "prices list": "ctxdb.cli.prices:list_",
    "prices add": "ctxdb.cli.prices:add",
    "prices remove": "ctxdb.cli.prices:remove",
    "prices reset": "ctxdb.cli.prices:reset",
    "prices import": "ctxdb.cli.prices:import_",
    "prices export": "ctxdb.cli.prices:export",
    "prices missing": "ctxdb.cli.prices:missing",
    "status": "ctxdb.cli.status:status",
    "path": "ctxdb.cli.status:path",
    "verify": "ctxdb.cli.verify:verify",
    "demo": "ctxdb.cli.demo:demo",
    "paths": "ctxdb.cli.status:paths",
}
GROUPS = {  # what --help says of a group
    "daemon": """Keep the database up to date all the time, in the background.

    \b
    Examples:
      ctxdb daemon start
      ctxdb daemon status
    """,
    "prices": """See and change what a million tokens cost. Alone, it lists the prices.

    \b
    Examples:
      ctxdb prices --model opus
      ctxdb prices missing
      ctxdb prices add kimi-k3 --input 0.6 --output 2.5 --cache-read 0.15
    """,
}
DEFAULTS = {"prices": "list"}  # what a group does when it is not told
# Asked all day, so read without Typer, whose import takes as long as their answer.
EVERYDAY = frozenset({"sync", "watch", "status", "path", "query", "search", "show", "export"})
PAIR_FLAGS = frozenset({"-p", "--param"})


def load(where: str) -> Callable[..., int | None]:
    """Import what "module:function" names."""
    module, _, name = where.partition(":")
    found: Callable[..., int | None] = getattr(import_module(module), name)
    return found


def spelt_out(words: list[str]) -> list[str]:
    """Say which command of a group is meant where only options follow its name."""
    place = 0
    while place < len(words) and words[place].startswith("-"):
        place += 2 if words[place] == "--db" else 1
    if place >= len(words) or words[place] not in DEFAULTS:
        return words
    rest = words[place + 1 :]
    if rest and (not rest[0].startswith("-") or rest[0] in ("-h", "--help")):
        return words
    return [*words[: place + 1], DEFAULTS[words[place]], *rest]
