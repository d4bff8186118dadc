"""`ctxdb statusline`: one line about cost and limits, for the status line of Claude Code."""

from __future__ import annotations

import os
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from ctxdb.cli.declare import Context
from ctxdb.errors import CtxdbError

if TYPE_CHECKING:
    from datetime import datetime

    from ctxdb.config import Config
    from ctxdb.statusline.client_input import ClientInput
    from ctxdb.statusline.numbers import Numbers

MOST_INPUT = 1 << 20  # bytes; the client writes about 1 kB


def statusline(ctx: Context) -> None:
    """Print cost and limits, for the status line of Claude Code.

    Claude Code gives a JSON object on standard input. The line has the cost of this session and of
    today, the 5-hour window with the time left, and how full the context is. It always prints one
    line and exits 0. The setting `statusline` in config.toml changes the format.

    \b
    Examples:
      ctxdb agent install --statusline
      echo '{"cost": {"total_cost_usd": 1.5}}' | ctxdb statusline
    """
    import sqlite3
    from datetime import UTC, datetime

    from ctxdb.statusline.client_input import ClientInput, read_input
    from ctxdb.statusline.line import FORMAT, status_line

    client = ClientInput()
    with suppress(OSError, ValueError):
        client = read_input(sys.stdin.buffer.read(MOST_INPUT))
    now = datetime.now(UTC)
    known = None
    template = FORMAT
    with suppress(CtxdbError, sqlite3.Error, OSError):
        from ctxdb.config import load, statusline_format

        template = statusline_format() or FORMAT
        known = _known(load(ctx.db), client, now)
    print(status_line(template, client, known, now), flush=True)  # noqa: T201
    with suppress(CtxdbError, sqlite3.Error, OSError):
        _read_tail(ctx, client)
    # Everything is written. Taking the interpreter down would take 8 ms of the 80 that this may.
    os._exit(0)


def _read_tail(ctx: Context, client: ClientInput) -> None:
    from ctxdb.config import load

    config = load(ctx.db)
    if client.transcript_path is not None and config.db_path.exists():
        from ctxdb.statusline.read_tail import read_tail_in_background

        read_tail_in_background(config, client.transcript_path)


def _known(config: Config, client: ClientInput, now: datetime) -> Numbers | None:
    from ctxdb.statusline.numbers import numbers_of
    from ctxdb.store.connection import open_reader

    if not config.db_path.exists():
        return None
    with closing(open_reader(config.db_path)) as conn:
        return numbers_of(conn, client.session_id, now)
