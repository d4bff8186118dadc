"""`ctxdb query`: views, canned queries and read-only SQL."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Literal

from ctxdb.commands.declare import Argument, Context, Option
from ctxdb.commands.output import note, say
from ctxdb.config import load
from ctxdb.errors import UsageError
from ctxdb.query.build import Ask, Statement, build
from ctxdb.query.guard import SECONDS, Guarded, limit_memory
from ctxdb.query.run import Answer, run

if TYPE_CHECKING:
    from ctxdb.query.table import Page

Format = Literal["table", "json", "jsonl", "csv", "md"]
SCREEN_ROWS = 1000  # of a table, unless --limit says otherwise
MOST_ROWS = 1_000_000  # of everything else


def query(
    ctx: Context,
    what: Annotated[
        str,
        Argument(
            "NAME|SQL",
            help="A view, a canned query, a table, or SQL in quotes; - reads SQL from"
            " standard input.",
            complete="ctxdb.query.complete:names",
        ),
    ] = "",
    *,
    param: Annotated[
        list[str] | None,
        Option(
            "-p",
            "--param",
            metavar="NAME VALUE",
            is_pair=True,
            help="A value for :NAME in the query. Repeatable.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        Option(
            "--since",
            metavar="WHEN",
            help="From then on, in local time: 7d, 24h, yesterday, 'last week', 2026-08-01,"
            " 2026-08, all.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        Option("--until", metavar="WHEN", help="Up to and including then: yesterday, 2026-08."),
    ] = None,
    project: Annotated[
        str | None,
        Option(
            "--project",
            metavar="NAME",
            help="Only this project: its name, its folder (. is this one), or a part of the path.",
            complete="ctxdb.query.complete:projects",
        ),
    ] = None,
    session: Annotated[
        str | None,
        Option(
            "--session",
            metavar="ID",
            help="Only this session: the beginning of its id, or last.",
            complete="ctxdb.query.complete:sessions",
        ),
    ] = None,
    model: Annotated[
        str | None,
        Option("--model", metavar="NAME", help="Only models with this in their name: opus."),
    ] = None,
    limit: Annotated[
        int | None,
        Option("--limit", "-n", metavar="N", at_least=1, help="At most N rows."),
    ] = None,
    sort: Annotated[
        str | None,
        Option("--sort", metavar="COLUMN", help="By this column; -COLUMN: largest first."),
    ] = None,
    columns: Annotated[
        str | None,
        Option("--columns", "-c", metavar="A,B,...", help="Only these columns, in this order."),
    ] = None,
    format: Annotated[  # noqa: A002
        Format,
        Option("--format", "-f", metavar="FORMAT", help="table, json, jsonl, csv or md."),
    ] = "table",
    timeout: Annotated[
        float,
        Option("--timeout", metavar="SECONDS", help="Give up after so long."),
    ] = SECONDS,
    plot: Annotated[bool, Option("--plot", help="Draw a chart instead of a table.")] = False,
    list_all: Annotated[
        bool,
        Option("--list", "-l", help="List views and queries; with NAME, describe that one."),
    ] = False,
    raw: Annotated[
        bool,
        Option("--raw", help="CSV cells exactly as stored: no guard against formulas in them."),
    ] = False,
    no_sync: Annotated[bool, Option("--no-sync", help="Do not take in first what is new.")] = False,
) -> None:
    """Answer a question from the database: a view, a canned query or read-only SQL.

    Takes in first what is new in your transcripts, unless a daemon does. Views over time show the
    last 30 days unless told otherwise. SQL can only read, and is stopped when it takes too long.
    In CSV, texts that a spreadsheet would compute get a ' before them; JSON is exact.

    \b
    Examples:
      ctxdb query --list
      ctxdb query daily_usage --since 7d
      ctxdb query daily_usage --plot
      ctxdb query sessions_overview --project . --sort -cost_usd --limit 10
      ctxdb query tool_errors --since yesterday --columns tool,target,project
      ctxdb query usage_by_model --since 2026-08 --until 2026-08 --format csv
      ctxdb query --list file_history
      ctxdb query "SELECT count(*) FROM messages WHERE text LIKE :what" -p what "%tide%"
    """
    if list_all or not what:
        _list(what, format)
        return
    ask = Ask(
        sys.stdin.read() if what == "-" else what,
        dict(_pair(one) for one in param or ()),
        since,
        until,
        project,
        session,
        model,
        limit,
        sort,
        columns,
    )
    if not timeout > 0:
        raise UsageError("--timeout wants a number of seconds above 0")
    config = load(ctx.db)
    if not no_sync:
        from ctxdb.query.fresh import freshen

        freshen(config, named=ctx.db is not None)
    limit_memory()
    guarded = Guarded(config.db_path, seconds=timeout, hard=True)
    try:
        with guarded.asking() as conn:
            statement = build(ask, conn)
        is_screen = plot or format in ("table", "md")
        answer = run(guarded, statement, SCREEN_ROWS if is_screen and not plot else MOST_ROWS)
        _write(answer, statement, format, plot=plot, raw=raw)
    finally:
        guarded.close()


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise UsageError(f"-p wants a name and a value: -p {text} VALUE")
    return name.lstrip(":"), value


def _write(answer: Answer, statement: Statement, format_: Format, *, plot: bool, raw: bool) -> None:
    write = sys.stdout.write
    if plot:
        from ctxdb.query.plot import draw

        for line in draw(answer.columns, list(answer.rows), _page().columns):
            say(line)
    elif format_ == "table":
        _write_table(answer)
    else:
        from ctxdb.query import formats

        if format_ == "csv":
            formats.write_csv(answer.columns, answer.rows, write, raw=raw)
        elif format_ == "json":
            formats.write_json(answer.columns, answer.rows, write)
        elif format_ == "jsonl":
            formats.write_jsonl(answer.columns, answer.rows, write)
        else:
            formats.write_markdown(answer.columns, answer.rows, write)
    if statement.note:
        note(statement.note)
    if answer.is_cut:
        note("Truncated: there are more rows; --limit N shows N of them.")


def _write_table(answer: Answer) -> None:
    from ctxdb.query.table import lay_out

    rows = list(answer.rows)
    if not rows:
        note("No rows.")
        return
    made = lay_out(answer.columns, rows, _page())
    for line in made.lines:
        say(line)
    if made.left_out:
        note(f"No room for: {', '.join(made.left_out)}. --columns chooses, --format json has all.")


def _page() -> Page:
    from ctxdb.query.table import Page

    if os.environ.get("COLUMNS", "").isdecimal() and int(os.environ["COLUMNS"]) > 0:
        columns: int | None = int(os.environ["COLUMNS"])
    else:
        try:
            columns = os.get_terminal_size(sys.stdout.fileno()).columns or None
        except (OSError, ValueError):
            columns = None
    is_colored = (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "dumb") != "dumb"
    )
    return Page(columns, is_colored)


def _list(name: str, format_: Format) -> None:
    from ctxdb.query.listing import describe, everything

    answer = Answer(*everything()) if not name else None
    if answer is not None:
        _write(answer, Statement("", "", {}), format_, plot=False, raw=False)
        return
    for line in describe(name):
        say(line)
