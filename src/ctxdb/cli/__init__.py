"""The list of commands, in the order of ``ctxdb --help``.

A command's module is imported only when the command is run, or when its help is shown. A name of
two words is a command of a group.
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
    "mcp": "ctxdb.cli.mcp:mcp",
    "agent install": "ctxdb.cli.agent:install",
    "agent uninstall": "ctxdb.cli.agent:uninstall",
    "statusline": "ctxdb.cli.statusline:statusline",
    "status": "ctxdb.cli.status:status",
    "path": "ctxdb.cli.status:path",
    "verify": "ctxdb.cli.verify:verify",
    "demo": "ctxdb.cli.demo:demo",
    "paths": "ctxdb.cli.status:paths",
}
GROUPS = {  # the help of each group
    "agent": """Teach Claude Code to ask its own history.

    \b
    Example:
      ctxdb agent install
    """,
    "daemon": """Keep the database up to date all the time, in the background.

    \b
    Examples:
      ctxdb daemon start
      ctxdb daemon status
    """,
    "prices": """List and change the prices of tokens. `ctxdb prices` alone lists them.

    \b
    Examples:
      ctxdb prices --model opus
      ctxdb prices missing
      ctxdb prices add kimi-k3 --input 0.6 --output 2.5 --cache-read 0.15
    """,
}
DEFAULTS = {"prices": "list"}  # the command of a group that is named alone
# Used all day, so their command lines are parsed without Typer: its import would take as long as
# the answer.
EVERYDAY = frozenset(
    {"sync", "watch", "status", "path", "query", "search", "show", "export", "statusline"}
)
PAIR_FLAGS = frozenset({"-p", "--param"})  # these take a name and a value


def load(where: str) -> Callable[..., int | None]:
    """Import the function that "module:function" names."""
    module, _, name = where.partition(":")
    found: Callable[..., int | None] = getattr(import_module(module), name)
    return found


def with_default_command(words: list[str]) -> list[str]:
    """Add the default command of a group if only options follow the name of the group."""
    place = 0
    while place < len(words) and words[place].startswith("-"):
        place += 2 if words[place] == "--db" else 1
    before, rest = words[:place], words[place:]
    match rest:
        case [group, ("-h" | "--help"), *_]:
            return words
        case [group, *options] if group in DEFAULTS:
            if not options or options[0].startswith("-"):
                return [*before, group, DEFAULTS[group], *options]
    return words
