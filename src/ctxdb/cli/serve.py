"""`ctxdb serve`: the database in a browser."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

from ctxdb.cli.declare import Context, Option
from ctxdb.cli.shared_options import NoSync
from ctxdb.config import load
from ctxdb.errors import CtxdbError, NoDatabase, UsageError
from ctxdb.output import note, say

if TYPE_CHECKING:
    from pathlib import Path

MOST_PORT = 65535


def serve(
    ctx: Context,
    *,
    port: Annotated[
        int | None,
        Option(
            "--port",
            metavar="N",
            at_least=0,
            help="Listen on this port; 0: any free one. Default: the last one, or the next free.",
        ),
    ] = None,
    open_browser: Annotated[
        bool,
        Option("--open/--no-open", help="Open a browser, or do not.", default_text="--open"),
    ] = True,
    no_token: Annotated[
        bool,
        Option(
            "--no-token", help="Let every user of this machine in: only if you are alone on it."
        ),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        Option(
            "--allow-host",
            metavar="NAME",
            help="Also answer to this host name, for a forwarded port. Repeatable.",
        ),
    ] = None,
    allow_download: Annotated[
        bool, Option("--allow-download", help="Allow to download the whole database.")
    ] = False,
    print_metadata: Annotated[
        bool,
        Option("--print-metadata", help="Print metadata.json for a Datasette 0.65 elsewhere."),
    ] = False,
    print_config: Annotated[
        bool,
        Option("--print-config", help="Print datasette.json for a Datasette 1.0 elsewhere."),
    ] = False,
    no_sync: NoSync = False,
) -> None:
    """Browse costs, sessions, files and SQL in a web browser.

    It opens a browser on a page that only you can open. It listens on this machine only, and only
    reads. New lines of your transcripts are read while it runs. Ctrl-C stops it.

    \b
    Examples:
      ctxdb serve
      ctxdb serve --no-open --port 8400
      ctxdb serve --print-metadata
    """
    if port is not None and port > MOST_PORT:
        raise UsageError(f"--port: {port} is too large; ports go up to {MOST_PORT}")
    if print_metadata or print_config:
        _print_settings(load(ctx.db).db_path, is_1_0=print_config)
        return
    try:
        from ctxdb.web.server import Wishes
        from ctxdb.web.server import serve as run
        from ctxdb.web.watching import watching
    except ImportError as e:
        if e.name is None or e.name.startswith("ctxdb"):
            raise
        raise CtxdbError("the web interface needs an extra: pip install 'ctxdb[serve]'") from None
    config = load(ctx.db)
    if not no_sync:
        from ctxdb.query.fresh import freshen

        freshen(config, named=ctx.db is not None)
    if not config.db_path.exists():
        raise NoDatabase(config.db_path)
    wishes = Wishes(
        port=port,
        open_browser=open_browser,
        token=not no_token,
        hosts=tuple(allow_host or ()),
        download=allow_download,
    )
    with nullcontext() if no_sync else watching(config):
        run(config.db_path, wishes, note)


def _print_settings(db_path: Path, *, is_1_0: bool) -> None:
    """Print what the plugin tells Datasette, for one that does not have the plugin."""
    import json

    from ctxdb.web import adapter_065, adapter_1
    from ctxdb.web.facts import read_facts

    if not db_path.exists():
        raise NoDatabase(db_path)
    adapter = adapter_1 if is_1_0 else adapter_065
    if not is_1_0:  # its metadata has no place for settings
        options = adapter_065.options()
        note(f"Start it so: datasette {db_path.name} --metadata metadata.json {options}")
    say(json.dumps(adapter.printed(read_facts(db_path), db_path.stem), indent=2))
