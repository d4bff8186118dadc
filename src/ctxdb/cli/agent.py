"""`ctxdb agent`: give Claude Code a skill, the MCP server and a status line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ctxdb.cli.declare import Context, Option
from ctxdb.cli.shared_options import AsJson
from ctxdb.output import say

if TYPE_CHECKING:
    from ctxdb.agent.install import Place

InProject = Annotated[
    bool, Option("--project", help="For the project in this folder instead of for you.")
]


def _place(*, project: bool) -> Place:
    from ctxdb.agent.install import project_place, user_place

    return project_place(Path.cwd()) if project else user_place(os.environ)


def _print(done: list[str], *, as_json: bool) -> None:
    if as_json:
        import json

        say(json.dumps({"done": done}))
        return
    for line in done:
        say(line)


def install(
    _ctx: Context,
    *,
    project: InProject = False,
    statusline: Annotated[
        bool, Option("--statusline", help="Also set the status line, unless there is one.")
    ] = False,
    print_: Annotated[
        bool, Option("--print", help="Print the skill and the MCP settings; change nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Install a skill and the MCP server for Claude Code.

    With them, it can ask its own history. Only files and settings that ctxdb wrote are changed.
    `ctxdb agent uninstall` takes them away.

    \b
    Examples:
      ctxdb agent install
      ctxdb agent install --statusline
      ctxdb agent install --project
      ctxdb agent install --print
    """
    from ctxdb.agent import install as agent

    if print_:
        say(agent.SKILL.read_text(encoding="utf-8"))
        say((agent.PLUGIN / ".mcp.json").read_text(encoding="utf-8"))
        return
    _print(agent.install(_place(project=project), statusline=statusline), as_json=as_json)


def uninstall(_ctx: Context, *, project: InProject = False, as_json: AsJson = False) -> None:
    """Take away what `ctxdb agent install` has put there.

    \b
    Example:
      ctxdb agent uninstall
    """
    from ctxdb.agent import install as agent

    _print(agent.uninstall(_place(project=project)), as_json=as_json)
