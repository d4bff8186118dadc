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
    "serve": "ctxdb.cli.serve:serve",
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
    "archive status": "ctxdb.cli.archive:status",
    "archive verify": "ctxdb.cli.archive:verify",
    "archive add": "ctxdb.cli.archive:add",
    "restore": "ctxdb.cli.restore:restore",
    "redact": "ctxdb.cli.redact:redact",
    "backup": "ctxdb.cli.backup:backup",
    "rebuild": "ctxdb.cli.rebuild:rebuild",
    "merge": "ctxdb.cli.merge:merge",
    "forget": "ctxdb.cli.forget:forget",
    "push": "ctxdb.cli.push:push",
    "mcp": "ctxdb.cli.mcp:mcp",
    "agent install": "ctxdb.cli.agent:install",
    "agent uninstall": "ctxdb.cli.agent:uninstall",
    "statusline": "ctxdb.cli.statusline:statusline",
    "config list": "ctxdb.cli.config:list_",
    "config set": "ctxdb.cli.config:set_",
    "config unset": "ctxdb.cli.config:unset",
    "config path": "ctxdb.cli.config:path_",
    "status": "ctxdb.cli.status:status",
    "path": "ctxdb.cli.status:path",
    "verify": "ctxdb.cli.verify:verify",
    "doctor": "ctxdb.cli.doctor:doctor",
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
    "archive": """The exact bytes of every transcript, beside the database.

    \b
    Examples:
      ctxdb archive status
      ctxdb archive verify
    """,
    "config": """Show and change the settings. `ctxdb config` alone lists them.

    \b
    Examples:
      ctxdb config
      ctxdb config set archive false
    """,
    "prices": """List and change the prices of tokens. `ctxdb prices` alone lists them.

    \b
    Examples:
      ctxdb prices --model opus
      ctxdb prices missing
      ctxdb prices add kimi-k3 --input 0.6 --output 2.5 --cache-read 0.15
    """,
}
DEFAULTS = {"prices": "list", "config": "list"}  # the command of a group that is named alone
# Used all day, so their command lines are parsed without Typer: its import would take as long as
# the answer.
EVERYDAY = frozenset(
    {"sync", "watch", "status", "path", "query", "search", "show", "export", "push", "statusline"}
)
# What people type for a command that has another name.
GUESSED = {
    "cost": "ctxdb query usage_by_project",
    "costs": "ctxdb query usage_by_project",
    "dashboard": "ctxdb serve",
    "delete": "ctxdb forget",
    "find": "ctxdb search TEXT",
    "grep": "ctxdb search TEXT",
    "help": "ctxdb --help, or ctxdb COMMAND --help",
    "history": "ctxdb query prompts",
    "import": "ctxdb sync --root DIR",
    "install": "ctxdb daemon install, or ctxdb agent install",
    "list": "ctxdb query --list",
    "logs": "ctxdb daemon logs",
    "ls": "ctxdb query sessions_overview",
    "models": "ctxdb query usage_by_model",
    "open": "ctxdb serve",
    "projects": "ctxdb query projects_overview",
    "remove": "ctxdb forget",
    "resume": "ctxdb search TEXT (each hit shows how to resume it), or ctxdb restore SESSION",
    "schema": "ctxdb query schema_docs",
    "sessions": "ctxdb query sessions_overview",
    "start": "ctxdb daemon start",
    "stats": "ctxdb query overview",
    "stop": "ctxdb daemon stop",
    "tail": "ctxdb watch",
    "today": "ctxdb query daily_usage --since today",
    "tui": "ctxdb serve",
    "ui": "ctxdb serve",
    "uninstall": "ctxdb daemon uninstall, or ctxdb agent uninstall",
    "update": "ctxdb sync",
    "upgrade": "ctxdb sync",
    "usage": "ctxdb query daily_usage",
    "version": "ctxdb --version",
    "views": "ctxdb query --list",
    "web": "ctxdb serve",
}
PAIR_FLAGS = frozenset({"-p", "--param"})  # these take a name and a value


def load(where: str) -> Callable[..., int | None]:
    """Import the function that "module:function" names."""
    module, _, name = where.partition(":")
    found: Callable[..., int | None] = getattr(import_module(module), name)
    return found


def refuse_unknown_command(words: list[str]) -> None:
    """Raise UsageError for a word that is no command, with the command that does it."""
    place = _place_of_command(words)
    if place >= len(words) or words[place].startswith("-"):
        return
    word = words[place]
    known = {name.partition(" ")[0] for name in COMMANDS}
    if word in known:
        return
    from ctxdb.errors import UsageError
    from ctxdb.query.resolve import nearest
    from ctxdb.store import sql_files

    if word in GUESSED:
        raise UsageError(f"there is no command {word!r}; use {GUESSED[word]}")
    if sql_files.find(word.replace("-", "_")):
        raise UsageError(f"there is no command {word!r}; use ctxdb query {word}")
    near = [f"ctxdb {name}" for name in nearest(word, known, 2)]
    hint = f"did you mean {' or '.join(near)}?" if near else "`ctxdb --help` lists all"
    raise UsageError(f"there is no command {word!r}; {hint}")


def _place_of_command(words: list[str]) -> int:
    place = 0
    while place < len(words) and words[place].startswith("-"):
        place += 2 if words[place] == "--db" else 1
    return place


def with_default_command(words: list[str]) -> list[str]:
    """Add the default command of a group if only options follow the name of the group."""
    place = _place_of_command(words)
    before, rest = words[:place], words[place:]
    match rest:
        case [group, ("-h" | "--help"), *_]:
            return words
        case [group, *options] if group in DEFAULTS:
            if not options or options[0].startswith("-"):
                return [*before, group, DEFAULTS[group], *options]
    return words
