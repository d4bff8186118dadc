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
    "sync": "ctxdb.commands.sync:sync",
    "query": "ctxdb.commands.query:query",
    "search": "ctxdb.commands.search:search",
    "show": "ctxdb.commands.show:show",
    "export": "ctxdb.commands.export:export",
    "watch": "ctxdb.commands.daemon:watch",
    "daemon start": "ctxdb.commands.daemon:start",
    "daemon stop": "ctxdb.commands.daemon:stop",
    "daemon restart": "ctxdb.commands.daemon:restart",
    "daemon status": "ctxdb.commands.daemon:status",
    "daemon install": "ctxdb.commands.daemon:install",
    "daemon uninstall": "ctxdb.commands.daemon:uninstall",
    "daemon logs": "ctxdb.commands.daemon:logs",
    "status": "ctxdb.commands.basics:status",
    "path": "ctxdb.commands.basics:path",
    "verify": "ctxdb.commands.verify:verify",
    "demo": "ctxdb.commands.demo:demo",
    "paths": "ctxdb.commands.basics:paths",
}
GROUPS = {  # what --help says of a group
    "daemon": """Keep the database up to date all the time, in the background.

    \b
    Examples:
      ctxdb daemon start
      ctxdb daemon status
    """,
}
# Asked all day, so read without Typer, whose import takes as long as their answer.
EVERYDAY = frozenset({"watch", "status", "path", "query", "search", "show", "export"})
PAIR_FLAGS = frozenset({"-p", "--param"})


def load(where: str) -> Callable[..., int | None]:
    """Import what "module:function" names."""
    module, _, name = where.partition(":")
    found: Callable[..., int | None] = getattr(import_module(module), name)
    return found
