"""`ctxdb export`: write a session, or a copy of the whole database, to a file."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ctxdb.cli.declare import Argument, Context, Option
from ctxdb.cli.open_database import open_fresh
from ctxdb.cli.shared_options import NoSync
from ctxdb.config import load
from ctxdb.errors import UsageError
from ctxdb.output import note

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

Format = Literal["md", "html", "jsonl"]
SUFFIXES: dict[str, Format] = {
    ".md": "md",
    ".markdown": "md",
    ".html": "html",
    ".htm": "html",
    ".jsonl": "jsonl",
}


def export(
    ctx: Context,
    session: Annotated[
        str | None,
        Argument(
            "SESSION",
            help="The beginning of its id, its slug, or last.",
            complete="ctxdb.query.complete:sessions",
        ),
    ] = None,
    format: Annotated[  # noqa: A002
        Format | None,
        Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="md, html or jsonl.",
            default_text="from the name of FILE, else md",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="Where to write it; - is standard output."),
    ] = None,
    snapshot: Annotated[
        Path | None,
        Option("--snapshot", metavar="FILE", help="Write a copy of the whole database."),
    ] = None,
    *,
    brief: Annotated[
        bool,
        Option("--brief", help="Leave out tool inputs and results, thinking and agents."),
    ] = False,
    force: Annotated[bool, Option("--force", help="Replace an existing file.")] = False,
    no_sync: NoSync = False,
) -> None:
    """Write a session to a file to share: Markdown, HTML or JSONL.

    HTML is one page that loads and runs nothing. JSONL has the transcript's own lines, or lines
    made from the database if Claude Code has deleted the transcript. In a pipe, the session is
    written to standard output. Only you can read the file. Read it before you share it: it holds
    everything that the session held.

    \b
    Examples:
      ctxdb export last -o session.html
      ctxdb export 8e52 --brief -o notes.md
      ctxdb export mellow-baking-lighthouse --format jsonl -o backup.jsonl
      ctxdb export --snapshot copy.sqlite
    """
    if snapshot is not None:
        if session is not None or format is not None or output is not None:
            raise UsageError(
                "--snapshot copies the whole database; it takes no SESSION or --format"
            )
        _write_snapshot(ctx, snapshot, force=force, no_sync=no_sync)
        return
    if session is None:
        raise UsageError("name a session: the beginning of its id, or last")
    wanted: Format = format or SUFFIXES.get(output.suffix.lower() if output else "", "md")
    with closing(open_fresh(ctx, no_sync=no_sync)) as conn:
        from ctxdb.session.find import find_session, short_id, telling_candidates

        with telling_candidates():
            session_id = find_session(conn, session)
        if output is None and sys.stdout.isatty():
            name = "".join(c for c in short_id(conn, session_id) if c.isalnum() or c == "-")
            output = Path(f"session-{name}.{wanted}")
        rebuilt: list[str] = []
        pieces = _pieces(conn, session_id, wanted, rebuilt, brief=brief)
        if output is None or str(output) == "-":
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        else:
            _write_file(output, pieces, load(ctx.db).db_path, force=force)
        for path in rebuilt:
            note(f"{path} is gone or changed: its lines are made from the database")


def _pieces(
    conn: sqlite3.Connection,
    session_id: str,
    wanted: Format,
    rebuilt: list[str],
    *,
    brief: bool,
) -> Iterator[bytes]:
    """The session in pieces; files whose lines had to be rebuilt are added to `rebuilt`."""
    if wanted == "jsonl":
        from ctxdb.session.jsonl_export import SessionLines

        lines = SessionLines(conn, session_id)
        yield from lines
        rebuilt += lines.rebuilt
        return
    from ctxdb.session.load import Detail, load_conversation

    detail = Detail(tools=not brief, thinking=not brief, agents=not brief)
    conversation = load_conversation(conn, session_id, detail)
    if wanted == "html":
        from ctxdb.session.html_format import html_page

        for piece in html_page(conversation):
            yield piece.encode(errors="replace")
    else:
        from ctxdb.session.markdown_format import markdown

        for line in markdown(conversation):
            yield line.encode(errors="replace") + b"\n"


def _write_file(target: Path, pieces: Iterator[bytes], db_path: Path, *, force: bool) -> None:
    from ctxdb.cli.output_file import writing

    with writing(target, force=force, db_path=db_path) as file:
        for piece in pieces:
            file.write(piece)
    _say_written(target)


def _write_snapshot(ctx: Context, target: Path, *, force: bool, no_sync: bool) -> None:
    from ctxdb.cli.output_file import new_file
    from ctxdb.store.database_copy import copy_database

    open_fresh(ctx, no_sync=no_sync).close()
    db_path = load(ctx.db).db_path
    with new_file(target, force=force, db_path=db_path) as waiting:
        copy_database(db_path, waiting)
    _say_written(target)


def _say_written(target: Path) -> None:
    from ctxdb.progress import human_bytes

    if target.is_file():  # not a pipe or a device
        note(f"Wrote {target} ({human_bytes(target.stat().st_size)})")
