"""`ctxdb status`, `ctxdb path` and `ctxdb paths`: what the database holds, and where it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from ctxdb.assets import AssetName, asset_dir
from ctxdb.cli.declare import Argument, Context
from ctxdb.cli.shared_options import AsJson
from ctxdb.config import load
from ctxdb.output import print_result, say, say_bytes


def status(ctx: Context, *, as_json: AsJson = False) -> None:
    """Show what is in the database, and what is not read yet.

    \b
    Examples:
      ctxdb status
      ctxdb status --json
    """
    from ctxdb.cli.database_status import read_status

    print_result(read_status(load(ctx.db)), as_json=as_json)


def path(ctx: Context, *, as_json: AsJson = False) -> None:
    """Print the path of the database, which need not exist yet.

    \b
    Example:
      sqlite3 "$(ctxdb path)" "select title, started_at from sessions"
    """
    _print_path(load(ctx.db).db_path, as_json=as_json)


def _print_path(found: Path, *, as_json: bool) -> None:
    if as_json:
        import json

        say(json.dumps({"path": str(found)}))
    else:
        say_bytes(os.fsencode(found))


def paths(
    ctx: Context,  # noqa: ARG001
    name: Annotated[AssetName, Argument("NAME", help="migrations or sql")],
    *,
    as_json: AsJson = False,
) -> None:
    """Print the folder of SQL files that came with ctxdb.

    \b
    Example:
      sqlite-utils migrate "$(ctxdb path)" "$(ctxdb paths migrations)" --list
    """
    _print_path(asset_dir(name), as_json=as_json)
