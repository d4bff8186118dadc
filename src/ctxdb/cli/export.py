"""`ctxdb export`: a session as a file for others, or the whole database as a clean copy."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ctxdb.cli.declare import Argument, Context, Option
from ctxdb.cli.reading_session import NoSync, open_fresh
from ctxdb.config import load
from ctxdb.errors import UsageError
from ctxdb.output import note

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from ctxdb.session.json_lines import Sources

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
            default_text="by the name of FILE, else md",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="Where to write it; - is standard output."),
    ] = None,
    snapshot: Annotated[
        Path | None,
        Option("--snapshot", metavar="FILE", help="Write the whole database as a clean copy."),
    ] = None,
    *,
    brief: Annotated[
        bool,
        Option("--brief", help="Without inputs and results of tools, thinking and agents' words."),
    ] = False,
    force: Annotated[bool, Option("--force", help="Replace a file that is there.")] = False,
    no_sync: NoSync = False,
) -> None:
    """Write a session to a file that others can read: Markdown, HTML or JSONL.

    HTML is one page that needs nothing else, and loads and runs nothing. JSONL is the transcript's
    own lines, or what the database knows of them where Claude Code has deleted it. Files are
    readable by you alone; look through them before you pass them on: they hold what the session
    held. In a pipe it is written to standard output.

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
        raise UsageError("which session? Give the beginning of its id, or last")
    wanted: Format = format or SUFFIXES.get(output.suffix.lower() if output else "", "md")
    with closing(open_fresh(ctx, no_sync=no_sync)) as conn:
        from ctxdb.session.find import find_session, short_id, telling_candidates

        with telling_candidates():
            session_id = find_session(conn, session)
        if output is None and sys.stdout.isatty():
            name = "".join(c for c in short_id(conn, session_id) if c.isalnum() or c == "-")
            output = Path(f"session-{name}.{wanted}")
        sources: list[Sources] = []
        pieces = _pieces(conn, session_id, wanted, sources, brief=brief)
        if output is None or str(output) == "-":
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        else:
            _write_file(output, pieces, load(ctx.db).db_path, force=force)
        for one in sources:
            for path in one.remade:
                note(f"{path} is gone or changed: its lines are made from the database")


def _pieces(
    conn: sqlite3.Connection,
    session_id: str,
    wanted: Format,
    sources: list[Sources],
    *,
    brief: bool,
) -> Iterator[bytes]:
    if wanted == "jsonl":
        from ctxdb.session.json_lines import Sources

        sources.append(Sources(conn, session_id))
        yield from sources[0]
        return
    from ctxdb.session.load import Wish
    from ctxdb.session.load import load as read

    reading = read(conn, session_id, Wish(not brief, not brief, not brief))
    if wanted == "html":
        from ctxdb.session.page import html_page

        for piece in html_page(reading):
            yield piece.encode(errors="replace")
    else:
        from ctxdb.session.markdown import markdown

        for line in markdown(reading):
            yield line.encode(errors="replace") + b"\n"


def _write_file(target: Path, pieces: Iterator[bytes], db_path: Path, *, force: bool) -> None:
    from ctxdb.session.new_file import writing

    with writing(target, force=force, db_path=db_path) as file:
        for piece in pieces:
            file.write(piece)
    _say_written(target)


def _write_snapshot(ctx: Context, target: Path, *, force: bool, no_sync: bool) -> None:
    from ctxdb.session.new_file import new_file
    from ctxdb.session.snapshot import write_snapshot

    open_fresh(ctx, no_sync=no_sync).close()
    db_path = load(ctx.db).db_path
    with new_file(target, force=force, db_path=db_path) as waiting:
        write_snapshot(db_path, waiting)
    _say_written(target)


def _say_written(target: Path) -> None:
    from ctxdb.progress import human_bytes

    if target.is_file():  # what went to a pipe or a device is not there
        note(f"Wrote {target} ({human_bytes(target.stat().st_size)})")
