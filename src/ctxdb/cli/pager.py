"""Show long output in a pager."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def print_paged(lines: Iterable[str]) -> None:
    """Print lines; on a terminal in a pager, if there is one."""
    pager = _pager_command()
    if pager is not None:
        try:
            _write_to(pager, lines)
        except FileNotFoundError:
            pass
        else:
            return
    for line in lines:
        sys.stdout.write(line + "\n")


def _pager_command() -> list[str] | None:
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

    # R: colours. F: quit if it fits on one screen. X: leave it on the screen.
    env = {"LESS": "FRX", **os.environ, "LESSCHARSET": "utf-8"}
    program, *_ = pager
    if os.path.basename(program) == "less" and "R" not in env["LESS"]:
        pager = [*pager, "-R"]
    with subprocess.Popen(pager, stdin=subprocess.PIPE, env=env) as process:
        # While the pager runs, Ctrl-C stops its search and must not stop this process.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            assert process.stdin is not None  # noqa: S101
            with suppress(BrokenPipeError):  # the person quit before the end
                for line in lines:
                    process.stdin.write(line.encode(errors="backslashreplace") + b"\n")
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
        finally:
            signal.signal(signal.SIGINT, before)
