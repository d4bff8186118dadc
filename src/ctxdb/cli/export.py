"""`ctxdb export`: write a session or the whole database to a file, or many sessions as a site."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from ctxdb.cli.declare import Argument, Context, Option
from ctxdb.cli.open_database import open_fresh
from ctxdb.cli.shared_options import AsJson, NoSync, Project, Since, Until
from ctxdb.config import load
from ctxdb.errors import CtxdbError, UsageError
from ctxdb.formatting import counted
from ctxdb.output import note, print_result
from ctxdb.progress import progress_on

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping

    from ctxdb.lake.dataset import LakeReport

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
    parquet: Annotated[
        Path | None,
        Option(
            "--parquet",
            metavar="DIR",
            help="Write all rows as Parquet files for DuckDB, Spark or a data lake.",
        ),
    ] = None,
    level: Annotated[
        Literal["usage", "metadata", "full"] | None,
        Option(
            "--level",
            metavar="LEVEL",
            help="With --parquet: usage, metadata or full, as for push.",
            default_text="push.level in config.toml, else metadata",
        ),
    ] = None,
    *,
    site: Annotated[
        Path | None,
        Option(
            "--site",
            metavar="DIR",
            help="Write a dashboard and all sessions as pages into DIR, to open from disk.",
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    project: Project = None,
    redact: Annotated[
        bool,
        Option(
            "--redact",
            help="Mask secrets, home folders and names of people; leave out what tools printed.",
        ),
    ] = False,
    as_json: AsJson = False,
    brief: Annotated[
        bool,
        Option("--brief", help="Leave out tool inputs and results, thinking and agents."),
    ] = False,
    force: Annotated[bool, Option("--force", help="Replace an existing file.")] = False,
    no_sync: NoSync = False,
) -> None:
    """Write a session to a file to share: Markdown, HTML or JSONL.

    HTML is one page that loads and runs nothing. JSONL has the transcript's own lines, from the
    archive if Claude Code has deleted the transcript, or made from the database if there is no
    archive. In a pipe, the session is
    written to standard output. Only you can read the file. Read it before you share it: it holds
    everything that the session held; --redact masks secrets and names.

    With --site, DIR gets a dashboard, a list and pages of all sessions, or of those that --since,
    --until and --project name. It must be new, empty or written by --site before.

    \b
    Examples:
      ctxdb export last -o session.html
      ctxdb export 8e52 --brief -o notes.md
      ctxdb export mellow-baking-lighthouse --format jsonl -o backup.jsonl
      ctxdb export --snapshot copy.sqlite
      ctxdb export --parquet dataset --level usage
      ctxdb export --site pages --project ferry --redact
    """
    names_one = session is not None or format is not None or output is not None
    narrow = {"since": since, "until": until, "project": project}
    if site is None and any(value is not None for value in narrow.values()):
        raise UsageError("--since, --until and --project belong to --site")
    if parquet is None and (level is not None or as_json):
        raise UsageError("--level and --json belong to --parquet")
    if site is not None:
        if names_one or snapshot is not None or parquet is not None:
            raise UsageError("--site writes many sessions; it takes no SESSION, --format or FILE")
        _write_site(ctx, site, narrow, redact=redact, no_sync=no_sync)
        return
    if redact and (snapshot is not None or parquet is not None):
        raise UsageError("--redact is for a session or --site")
    if parquet is not None:
        if names_one or snapshot is not None:
            raise UsageError("--parquet writes the whole database; it takes no SESSION or --format")
        _write_dataset(ctx, parquet, level, as_json=as_json, no_sync=no_sync)
        return
    if snapshot is not None:
        if names_one:
            raise UsageError(
                "--snapshot copies the whole database; it takes no SESSION or --format"
            )
        _write_snapshot(ctx, snapshot, force=force, no_sync=no_sync)
        return
    if session is None:
        raise UsageError("name a session: the beginning of its id, or last")
    wanted: Format = format or SUFFIXES.get(output.suffix.lower() if output else "", "md")
    if redact and wanted == "jsonl":
        raise UsageError("--redact is for md and html: jsonl has the lines as they are")
    _write_session(
        ctx, session, output, wanted, brief=brief, redact=redact, force=force, no_sync=no_sync
    )


def _write_session(
    ctx: Context,
    session: str,
    output: Path | None,
    wanted: Format,
    *,
    brief: bool,
    redact: bool,
    force: bool,
    no_sync: bool,
) -> None:
    with closing(open_fresh(ctx, no_sync=no_sync)) as conn:
        from ctxdb.session.find import find_session, short_id, telling_candidates

        with telling_candidates():
            session_id = find_session(conn, session)
        if output is None and sys.stdout.isatty():
            name = "".join(c for c in short_id(conn, session_id) if c.isalnum() or c == "-")
            output = Path(f"session-{name}.{wanted}")
        notes: list[str] = []
        pieces = _pieces(conn, session_id, wanted, notes, brief=brief, redact=redact)
        if output is None or str(output) == "-":
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        else:
            _write_file(output, pieces, load(ctx.db).db_path, force=force)
        for text in notes:
            note(text)


def _pieces(
    conn: sqlite3.Connection,
    session_id: str,
    wanted: Format,
    notes: list[str],
    *,
    brief: bool,
    redact: bool,
) -> Iterator[bytes]:
    """The session in pieces; what is to be said of its files is added to `notes`."""
    if wanted == "jsonl":
        from ctxdb.session.jsonl_export import SessionLines

        lines = SessionLines(conn, session_id)
        yield from lines
        gone = "is gone or changed: its lines are"
        notes += (f"{path} {gone} from the archive" for path in lines.archived)
        notes += (f"{path} {gone} made from the database" for path in lines.rebuilt)
        return
    from ctxdb.session.load import Detail, load_conversation

    detail = Detail(tools=not brief, thinking=not brief, agents=not brief)
    conversation = load_conversation(conn, session_id, detail)
    if redact:
        from ctxdb.session.redaction import Redactor, people_in

        Redactor(people_in(conn)).conversation(conversation)
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


def _write_site(
    ctx: Context, folder: Path, narrow: dict[str, str | None], *, redact: bool, no_sync: bool
) -> None:
    from ctxdb.progress import human_bytes

    try:
        from ctxdb.web.site import Wanted, write_site
    except ImportError as e:
        if e.name is None or e.name.startswith("ctxdb"):
            raise
        raise CtxdbError("--site needs an extra: pip install 'ctxdb[serve]'") from None
    open_fresh(ctx, no_sync=no_sync).close()
    wanted = Wanted(**narrow, redact=redact)
    written = write_site(load(ctx.db).db_path, folder, wanted, progress_on(sys.stderr))
    size, pages = human_bytes(written.size), counted(written.sessions, "session")
    note(f"Wrote {pages} ({size}). Open {folder / 'index.html'}")


def _write_snapshot(ctx: Context, target: Path, *, force: bool, no_sync: bool) -> None:
    from ctxdb.cli.output_file import new_file
    from ctxdb.store.database_copy import copy_database

    open_fresh(ctx, no_sync=no_sync).close()
    db_path = load(ctx.db).db_path
    with new_file(target, force=force, db_path=db_path) as waiting:
        copy_database(db_path, waiting)
    _say_written(target)


class _Written(NamedTuple):
    report: LakeReport

    def as_dict(self) -> Mapping[str, object]:
        return asdict(self.report)

    def lines(self) -> Iterator[str]:
        report = self.report
        rows = sum(report.rows.values())
        yield (
            f"Wrote {report.files:,} files ({rows:,} rows) of {report.sessions:,} changed sessions"
            f" at level {report.level} to {report.folder}"
        )


def _write_dataset(
    ctx: Context, folder: Path, level: str | None, *, as_json: bool, no_sync: bool
) -> None:
    from ctxdb.cli.push import level_of, sender_of
    from ctxdb.lake.dataset import Exporter
    from ctxdb.lake.dataset import export as write

    config = load(ctx.db)
    chosen = level_of(level, config)
    with closing(open_fresh(ctx, no_sync=no_sync)) as conn:
        who = sender_of(config, chosen)
        progress = progress_on(sys.stderr, quiet=as_json)
        exporter = Exporter(
            who.machine,
            who.person,
            who.team,
            who.level,
            who.hash_person,
            who.repositories,
            who.mask,
        )
        try:
            report = write(conn, folder.expanduser().absolute(), exporter, progress)
        finally:
            progress.finish()
    print_result(_Written(report), as_json=as_json)


def _say_written(target: Path) -> None:
    from ctxdb.progress import human_bytes

    if target.is_file():  # not a pipe or a device
        note(f"Wrote {target} ({human_bytes(target.stat().st_size)})")
