"""`ctxdb demo`: write invented transcripts and make a database from them."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

from ctxdb.cli.declare import Argument, Context
from ctxdb.config import Config, data_dir
from ctxdb.errors import UsageError
from ctxdb.output import note, print_result
from ctxdb.progress import progress_on

DEMO_MARK = "README.txt"
DEMO_MARK_TEXT = """\
Made by `ctxdb demo` on {today}: invented transcripts in projects/, and demo.db, the database made
from them. Nothing in this folder is yours. You can delete it at any time.
"""


def demo(
    ctx: Context,
    folder: Annotated[
        Path | None,
        Argument("FOLDER", help="Where to put it.", default_text="~/.local/share/ctxdb/demo"),
    ] = None,
) -> None:
    """Try ctxdb on invented transcripts, in a separate database.

    It always has the same four projects, with sessions up to yesterday. If you run it on another
    day, it is made again. Your own transcripts are neither read nor changed.

    \b
    Example:
      ctxdb demo /tmp/ctxdb-demo
      ctxdb --db /tmp/ctxdb-demo/demo.db query sessions_overview
      sqlite3 /tmp/ctxdb-demo/demo.db "select name, count(*) from tool_uses group by name"
    """
    if ctx.db is not None:
        raise UsageError("the demo makes its own database; leave out --db, or name a FOLDER")
    db_path = make_demo(folder)
    note("Try these:")
    for question in ("query daily_usage", "query standup", "search queue", "show last"):
        note(f"  {program_name()} --db {shlex.quote(str(db_path))} {question}")


def make_demo(folder: Path | None = None) -> Path:
    """Make the demo and show what it has; returns its database."""
    from ctxdb.cli.database_status import read_status
    from ctxdb.demo import write_demo
    from ctxdb.ingest.sync import sync as read_new_lines

    base = (folder or data_dir() / "demo").absolute()
    today = datetime.now(UTC).date()
    _claim_demo_folder(base, today)
    lines = write_demo(base / "projects", today=today)
    config = Config(db_path=base / "demo.db", roots=(str(base / "projects"),))
    progress = progress_on(sys.stderr)
    try:
        read_new_lines(config, wait=True, progress=progress, say=note)
    finally:
        progress.finish()
    note(f"Invented transcripts of {lines} lines are in {base / 'projects'}")
    print_result(read_status(config), as_json=False)
    return config.db_path


def program_name() -> str:
    """The command that runs this program."""
    if shutil.which("ctxdb"):
        return "ctxdb"
    if Path(sys.argv[0]).suffix == ".py":  # python -m
        beside = Path(sys.executable).parent / "ctxdb"
        if beside.exists():
            return shlex.quote(os.path.relpath(beside))
        return f"{shlex.quote(sys.executable)} -m ctxdb"
    return shlex.quote(sys.argv[0])


def _claim_demo_folder(base: Path, today: date) -> None:
    # `ctxdb demo ~/.claude` must not mix invented transcripts into real ones.
    if base.exists() and not base.is_dir():
        raise UsageError(f"{base} is not a folder")
    if base.exists() and any(base.iterdir()) and not (base / DEMO_MARK).is_file():
        raise UsageError(f"{base} is not empty, and not a demo; name another folder")
    base.mkdir(parents=True, exist_ok=True)
    mark, text = base / DEMO_MARK, DEMO_MARK_TEXT.format(today=today)
    if mark.is_file() and mark.read_text() != text:
        shutil.rmtree(base / "projects", ignore_errors=True)
        for old in base.glob("demo.db*"):
            old.unlink()
    mark.write_text(text)
