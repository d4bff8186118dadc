"""`ctxdb status`, `ctxdb path` and `ctxdb paths`: what is there, and where."""

from __future__ import annotations

import os
from typing import Annotated

from ctxdb.assets import AssetName, asset_dir
from ctxdb.cli.common import AsJson
from ctxdb.cli.declare import Argument, Context
from ctxdb.config import load
from ctxdb.output import say_bytes, show


def status(ctx: Context, *, as_json: AsJson = False) -> None:
    """Show what is in the database and how far behind it is.

    \b
    Examples:
      ctxdb status
      ctxdb status --json
    """
    from ctxdb.cli.status_report import collect

    show(collect(load(ctx.db)), as_json=as_json)


def path(ctx: Context) -> None:
    """Print where the database is, or would be.

    \b
    Example:
      sqlite3 "$(ctxdb path)" "select title, started_at from sessions"
    """
    say_bytes(os.fsencode(load(ctx.db).db_path))


def paths(
    ctx: Context,  # noqa: ARG001
    name: Annotated[AssetName, Argument("NAME", help="migrations or sql")],
) -> None:
    """Print the folder of SQL files that came with ctxdb.

    \b
    Example:
      sqlite-utils migrate "$(ctxdb path)" "$(ctxdb paths migrations)" --list
    """
    say_bytes(os.fsencode(asset_dir(name)))
