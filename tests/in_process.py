"""The command line in this process, for tests to which it is no matter where it runs."""

from __future__ import annotations

import resource
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import typer.main
from typer.testing import CliRunner

from ctxdb.cli.main import main
from world import Done, World

if TYPE_CHECKING:
    from pathlib import Path

get_command = cache(typer.main.get_command)  # typer makes it for each command


def run_here(*args: str | Path) -> Done:
    """Like `run_ctxdb`, in half the time."""
    with CliRunner().isolation() as (stdout, stderr, _), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["ctxdb", *map(str, args)])
        patch.setattr(typer.main, "get_command", get_command)
        before = resource.getrlimit(resource.RLIMIT_AS)
        try:
            main()
            code = 0
        except SystemExit as left:
            code = int(left.code or 0)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)  # `ctxdb query` limits it
        said = (stdout.getvalue(), stderr.getvalue())
    return Done(code, *(text.decode(errors="surrogateescape") for text in said))


class Here(World):
    """A world whose commands run in this process."""

    def cli(self, *args: str | Path, **more: Any) -> Done:
        if more:
            return super().cli(*args, **more)
        roots = ["--root", self.root] if "sync" in args or "verify" in args else []
        return run_here("--db", self.db, *args, *roots)
