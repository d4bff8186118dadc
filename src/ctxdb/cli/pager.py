"""What `search`, `show` and `export` share: a fresh database to read from, and a pager."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from ctxdb.cli.declare import Context, Option
from ctxdb.config import load
from ctxdb.errors import CtxdbError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

NoSync = Annotated[bool, Option("--no-sync", help="Answer from what is in the database now.")]


def open_fresh(ctx: Context, *, no_sync: bool) -> sqlite3.Connection:
    """Take in what is new, then open the database for reading."""
    from ctxdb.store.connection import open_reader

    config = load(ctx.db)
    if not no_sync:
        from ctxdb.query.fresh import freshen

        freshen(config, named=ctx.db is not None)
    conn = open_reader(config.db_path)
    if not conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'messages'").fetchone():
        conn.close()
        raise CtxdbError(f"{config.db_path}: nothing is in it yet; `ctxdb sync` fills it")
    return conn


def page(lines: Iterable[str]) -> None:
    """Print lines; on a terminal in a pager, if there is one."""
    pager = _pager()
    if pager is not None:
        try:
            _write_to(pager, lines)
        except FileNotFoundError:
            pass
        else:
            return
    for line in lines:
        sys.stdout.write(line + "\n")


def _pager() -> list[str] | None:
    if not sys.stdout.isatty() or not sys.stdin.isatty() or os.environ.get("TERM") == "dumb":
        return None
    wanted = os.environ.get("CTXDB_PAGER", os.environ.get("PAGER"))
    if wanted is None:
        return ["less"]
    import shlex

    with suppress(ValueError):
        words = shlex.split(wanted)
        return words if words and words != ["cat"] else None
    return None


def _write_to(pager: list[str], lines: Iterable[str]) -> None:
    import signal
    import subprocess

    # R: colours. F: quit where it fits on one screen. X: leave it on the screen.
    env = {"LESS": "FRX", **os.environ, "LESSCHARSET": "utf-8"}
    if os.path.basename(pager[0]) == "less" and "R" not in env["LESS"]:
        pager = [*pager, "-R"]
    with subprocess.Popen(pager, stdin=subprocess.PIPE, env=env) as process:
        # Ctrl-C is the pager's while it runs: it stops its own search, and we stay.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            assert process.stdin is not None  # noqa: S101
            with suppress(BrokenPipeError):  # quit before the end
                for line in lines:
                    process.stdin.write(line.encode(errors="backslashreplace") + b"\n")
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
        finally:
            signal.signal(signal.SIGINT, before)
