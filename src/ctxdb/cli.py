"""The command line: read the arguments, call one function, print what it returns.

Data goes to standard output, everything else to standard error. Exit codes: 0 done, 1 failed with
a one-line reason, 2 wrong usage, 3 another process is writing, 130 interrupted.

Heavy imports are inside the commands, so that ``ctxdb --help`` and completion stay quick.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, Protocol

import typer

from ctxdb import __version__
from ctxdb.assets import AssetName, asset_dir
from ctxdb.config import Config, data_dir, load
from ctxdb.errors import CtxdbError, UsageError
from ctxdb.progress import progress_on

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

# SQLite's result codes for what the machine did, not what our SQL did: locked, table locked,
# read-only, I/O error, corrupt, full, cannot open, protocol, not a database.
FAILURES_OF_THE_MACHINE = {5, 6, 8, 10, 11, 13, 14, 15, 26}

DEMO_MARK = "README.txt"
DEMO_MARK_TEXT = """\
Made by `ctxdb demo`: invented transcripts in projects/, and demo.db, the database made of them.
Nothing in here is yours; delete it whenever you like.
"""

app = typer.Typer(
    name="ctxdb",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Roots = Annotated[
    list[Path] | None,
    typer.Option(
        "--root",
        metavar="DIR",
        exists=True,
        file_okay=False,
        help="Read transcripts below DIR instead of the usual places. Repeatable.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON with a stable shape.")]


class Report(Protocol):
    """What a command prints, for people or for programs."""

    def as_dict(self) -> Mapping[str, object]:
        """Return it as data."""

    def lines(self) -> Iterable[str]:
        """Return it as text."""


def main() -> None:
    """Run the command line; the only place where errors turn into messages and exit codes."""
    os.umask(0o077)  # whatever we write holds transcripts
    for stream in (sys.stdout, sys.stderr):
        # A title may be in any script, and the terminal's encoding may not: spell it out.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app()
    except CtxdbError as e:
        fail(str(e), e.exit_code)
    except OSError as e:
        fail(f"{e.filename}: {e.strerror}" if e.filename and e.strerror else str(e))
    except Exception as e:
        if _is_failure_of_the_machine(e):
            fail(f"SQLite: {e}")
        raise


def fail(reason: str, exit_code: int = 1) -> NoReturn:
    """Say in one line why nothing more happens, and leave."""
    typer.echo(f"Error: {printable(reason)}", err=True)
    sys.exit(exit_code)


def _is_failure_of_the_machine(e: Exception) -> bool:
    # By name: nobody has imported sqlite3 unless a command needed it.
    sqlite = sys.modules.get("sqlite3")
    if sqlite is None or not isinstance(e, sqlite.DatabaseError):
        return False
    error: sqlite3.DatabaseError = e
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in FAILURES_OF_THE_MACHINE


def printable(text: str) -> str:
    """Return text for one line of a terminal: what could move the cursor or hide is spelt out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def show(report: Report, *, as_json: bool) -> None:
    """Print a report to standard output."""
    if as_json:
        # ASCII only: no control character and no half of a surrogate pair gets through. JSON would
        # leave DEL alone.
        text = json.dumps(report.as_dict(), indent=2)
        typer.echo(text.replace("\x7f", "\\u007f"))
        return
    for line in report.lines():
        typer.echo(printable(line))


def _show_version(value: bool) -> None:  # noqa: FBT001
    if value:
        typer.echo(f"ctxdb {__version__}")
        raise typer.Exit


@app.callback()
def ctxdb(
    ctx: typer.Context,
    db: Annotated[
        Path | None,
        typer.Option(
            "--db",
            metavar="FILE",
            help="The database.  [env: CTXDB_DB; default: ~/.local/share/ctxdb/ctxdb.db]",
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Claude Code transcripts in one SQLite database: every line, exactly once.

    \b
    Begin with:
      ctxdb sync
      ctxdb status
      sqlite3 "$(ctxdb path)"
    """
    # CTXDB_DB is read in ctxdb.config, not here, so that `demo` can tell it from the flag.
    ctx.obj = db


@app.command()
def sync(
    ctx: typer.Context,
    root: Roots = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait if another process is writing.")
    ] = False,
    as_json: AsJson = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing unless something is wrong.")
    ] = False,
) -> None:
    """Read what is new in all transcripts into the database.

    Only complete lines count, and each counts once, whatever happens in between. Transcripts that
    Claude Code has deleted stay in the database.

    \b
    Examples:
      ctxdb sync
      ctxdb sync --root ~/.claude/projects --root /backup/laptop/projects
      ctxdb --db /tmp/try.db sync --json
    """
    from ctxdb.ingest import sync as read_new_lines

    config = load(ctx.obj, root)
    is_new = not config.db_path.exists()
    progress = progress_on(sys.stderr, quiet=quiet)
    try:
        report = read_new_lines(config, wait=wait, progress=progress)
    finally:
        progress.finish()
    if as_json or not quiet:
        show(report, as_json=as_json)
    if is_new and not quiet:
        typer.echo(
            "Note: the database keeps what it has read, also when Claude Code deletes the"
            f" transcript (by default after 30 days). It is private to you: {config.db_path}",
            err=True,
        )


@app.command()
def status(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show what is in the database and how far behind it is.

    \b
    Examples:
      ctxdb status
      ctxdb status --json
    """
    from ctxdb.status import collect

    show(collect(load(ctx.obj)), as_json=as_json)


@app.command()
def path(ctx: typer.Context) -> None:
    """Print where the database is, or would be.

    \b
    Example:
      sqlite3 "$(ctxdb path)" "select title, started_at from sessions"
    """
    typer.echo(os.fsencode(load(ctx.obj).db_path))  # bytes: a shell must get it as it is


@app.command()
def verify(ctx: typer.Context, root: Roots = None, as_json: AsJson = False) -> None:
    """Prove that every line of every transcript is accounted for.

    Reads all transcripts again and compares every row with the line that it came from. Exits 1 if
    anything differs.

    \b
    Examples:
      ctxdb verify
      ctxdb verify --json
    """
    from ctxdb.verify import verify as check

    progress = progress_on(sys.stderr)
    try:
        report = check(load(ctx.obj, root), progress, only_roots=bool(root))
    finally:
        progress.finish()
    show(report, as_json=as_json)
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def demo(
    ctx: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER",
            show_default=False,
            help="Where to put it.  [default: ~/.local/share/ctxdb/demo]",
        ),
    ] = None,
) -> None:
    """Try ctxdb on invented transcripts, in a database of their own.

    The same transcripts every time; your own are neither read nor changed.

    \b
    Example:
      ctxdb demo /tmp/ctxdb-demo
      sqlite3 /tmp/ctxdb-demo/demo.db "select name, count(*) from tool_uses group by name"
    """
    from ctxdb.demo import write_demo
    from ctxdb.ingest import sync as read_new_lines
    from ctxdb.status import collect

    if ctx.obj is not None:
        raise UsageError("the demo has a database of its own; leave --db out, or name a FOLDER")
    base = (folder or data_dir() / "demo").absolute()
    _claim_demo_folder(base)
    lines = write_demo(base / "projects")
    config = Config(db_path=base / "demo.db", roots=(str(base / "projects"),))
    progress = progress_on(sys.stderr)
    try:
        read_new_lines(config, wait=True, progress=progress)
    finally:
        progress.finish()
    typer.echo(f"Invented transcripts of {lines} lines are in {config.roots[0]}", err=True)
    show(collect(config), as_json=False)
    typer.echo(f"Look around: sqlite3 '{config.db_path}'", err=True)


def _claim_demo_folder(base: Path) -> None:
    # `ctxdb demo ~/.claude` must not mix invented transcripts into real ones.
    if base.exists() and not base.is_dir():
        raise UsageError(f"{base} is not a folder")
    if base.exists() and any(base.iterdir()) and not (base / DEMO_MARK).is_file():
        raise UsageError(f"{base} is not empty, and not a demo; name another folder")
    base.mkdir(parents=True, exist_ok=True)
    (base / DEMO_MARK).write_text(DEMO_MARK_TEXT)


@app.command()
def paths(
    name: Annotated[AssetName, typer.Argument(metavar="NAME", help="migrations or sql")],
) -> None:
    """Print the folder of SQL files that came with ctxdb.

    \b
    Example:
      sqlite-utils migrate "$(ctxdb path)" "$(ctxdb paths migrations)" --list
    """
    typer.echo(os.fsencode(asset_dir(name)))
