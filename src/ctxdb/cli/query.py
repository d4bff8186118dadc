"""`ctxdb query`: views, canned queries and read-only SQL."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from ctxdb.cli.declare import Argument, Context, Option
from ctxdb.cli.shared_options import AsJson, Human, Model, NoSync, Project, Session, Since, Until
from ctxdb.errors import UsageError

Format = Literal["table", "json", "jsonl", "csv", "md"]
SECONDS = 30.0  # after which a query is stopped


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
            help="A value for :NAME in the query. Repeatable.",
            complete="ctxdb.query.complete:parameters",
            completes_by_words=True,
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    project: Project = None,
    human: Human = False,
    session: Session = None,
    model: Model = None,
    limit: Annotated[
        int | None,
        Option(
            "--limit",
            "-n",
            metavar="N",
            at_least=1,
            help="At most N rows. Default: 1,000 for table and md, else a million.",
        ),
    ] = None,
    max_bytes: Annotated[
        int | None,
        Option(
            "--max-bytes",
            metavar="N",
            at_least=0,
            help="At most N bytes of output; 0: no limit. Default: 10 MB for table and md,"
            " else 100 MB.",
        ),
    ] = None,
    sort: Annotated[
        str | None,
        Option(
            "--sort",
            metavar="COLUMN",
            help="Sort by this column; -COLUMN: largest first.",
            complete="ctxdb.query.complete:sort_columns",
            completes_by_words=True,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        Option(
            "--columns",
            "-c",
            metavar="A,B,...",
            help="Only these columns, in this order.",
            complete="ctxdb.query.complete:columns",
            completes_by_words=True,
        ),
    ] = None,
    format: Annotated[  # noqa: A002
        Format,
        Option("--format", "-f", metavar="FORMAT", help="table, json, jsonl, csv or md."),
    ] = "table",
    timeout: Annotated[
        float,
        Option("--timeout", metavar="SECONDS", help="Stop after this many seconds."),
    ] = SECONDS,
    plot: Annotated[bool, Option("--plot", help="Draw a chart instead of a table.")] = False,
    list_all: Annotated[
        bool,
        Option("--list", "-l", help="List views, queries and tables; with NAME, describe it."),
    ] = False,
    raw: Annotated[
        bool,
        Option("--raw", help="Write CSV cells exactly as stored, formulas included."),
    ] = False,
    as_json: AsJson = False,
    no_sync: NoSync = False,
) -> None:
    """Answer a question: a view, a canned query or read-only SQL.

    It first reads the new lines of your transcripts, unless a daemon does. Views over time show the
    last 30 days unless you give a period. SQL can only read, and is stopped when it takes too long.
    In CSV, texts that a spreadsheet would run as a formula get a ' before them; JSON is exact.

    \b
    Examples:
      ctxdb query --list
      ctxdb query daily_usage --since 7d
      ctxdb query daily_usage --plot
      ctxdb query sessions_overview --project lantern --sort -cost_usd --limit 10
      ctxdb query tool_errors --since yesterday --columns tool,target,project
      ctxdb query usage_by_model --since 2026-08 --until 2026-08 --format csv
      ctxdb query --list file_history
      ctxdb query sessions_touching -p path src/sync.ts
      ctxdb query standup
      ctxdb query "SELECT count(*) FROM messages WHERE text LIKE :what" -p what "%tide%"
    """
    if as_json:
        format = "json"  # noqa: A001
    if list_all or not what:
        from ctxdb.query.listing import show_list

        show_list(what, format)
        return
    if not timeout > 0:
        raise UsageError("--timeout needs a number of seconds above 0")
    if limit is not None and limit >= 2**63:  # more than SQLite can count
        raise UsageError(f"--limit: {limit} is too large")
    if plot and format != "table":
        raise UsageError(f"--plot draws a chart and --format {format} writes rows: choose one")
    from ctxdb.config import load
    from ctxdb.query.execute import NOTHING
    from ctxdb.query.present import answer
    from ctxdb.query.statement import Ask, is_sql
    from ctxdb.query.subject import check_name

    text = sys.stdin.read() if what == "-" else what
    if not text.strip():
        raise UsageError(NOTHING)
    ask = Ask(
        text,
        dict(_pair(one) for one in param or ()),
        since,
        until,
        project,
        session,
        model,
        limit,
        sort,
        columns,
        "yes" if human else None,
    )
    config = load(ctx.db)
    if not no_sync:
        if not is_sql(text):
            check_name(text.replace("-", "_"), config.db_path)
        from ctxdb.query.fresh import freshen

        freshen(config, named=ctx.db is not None)
    answer(
        ask,
        config.db_path,
        format,
        seconds=timeout,
        max_bytes=max_bytes,
        plot=plot,
        raw=raw,
    )


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise UsageError(f"-p needs a name and a value: -p {text} VALUE")
    return name.lstrip(":"), value
