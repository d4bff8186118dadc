"""What commands print on the demo, for the pages that cog writes.

The demo has a fixed date and the time zone is UTC, so the output is the same on every machine and
day. A period that counts from today becomes `--since all`.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

from ctxdb.cli import main
from ctxdb.config import Config
from ctxdb.demo import write_demo
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from ctxdb.query import present

WIDTH = 100  # columns
ROWS = 4  # of a table
_PERIOD_OR_LIMIT = re.compile(r" --(?:since|until|limit) \S+")
_folder = tempfile.TemporaryDirectory(prefix="ctxdb-docs-")


@cache
def database() -> Path:
    """The demo's database."""
    folder = Path(_folder.name)
    write_demo(folder / "projects")
    config = Config(folder / "demo.db", (str(folder / "projects"),))
    sync(config, progress=NullProgress())
    return config.db_path


def printed(command: str) -> str:
    """What the command writes to standard output, on the demo."""
    words = shlex.split(command, comments=True)
    before = sys.argv, dict(os.environ), present.limit_memory
    out, told = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    try:
        os.environ |= {"TZ": "UTC", "COLUMNS": str(WIDTH), "NO_COLOR": "1", "HOME": _folder.name}
        time.tzset()
        sys.argv = ["ctxdb", "--db", str(database()), *words[1:]]
        present.limit_memory = lambda: None  # it would stay for the rest of this process
        with redirect_stdout(out), redirect_stderr(told):
            try:
                main.main()
            except SystemExit as left:
                if left.code:
                    told.seek(0)
                    raise RuntimeError(f"{command}: {told.read()}") from left
    finally:
        sys.argv, environ, present.limit_memory = before
        os.environ.clear()
        os.environ |= environ
        time.tzset()
    out.seek(0)
    return "\n".join(line.rstrip() for line in out.read().splitlines())


def shown(example: str) -> tuple[str, str]:
    """An example of `ctxdb query` as it is run for the docs, and the first rows of its answer."""
    command = _PERIOD_OR_LIMIT.sub("", example)
    if "--since" in example:
        command += " --since all"
    command += f" --limit {ROWS}"
    return command, printed(f"{command} --no-sync")
